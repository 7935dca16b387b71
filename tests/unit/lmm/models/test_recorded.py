"""Recorded replies: each request gets the first whose prompt is in its last message, and a turn comes to an end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatmd import Chat
from lmm.config import load_settings
from lmm.errors import ModelNotFound, ModelRejected
from lmm.models.chat import open_chat


def chat(folder: Path, *records: dict[str, Any], asked: str = "What of leaves?") -> Chat:
    """A chat in a folder with a file of recorded replies, in which tools can search."""
    (folder / "replies.json").write_text(json.dumps(records))
    (folder / "plants.md").write_text("The leaves are green.\n")
    tools = '<tool name="search_files"/><tool name="read_file"/>'
    text = f'<config model="Recorded/{folder / "replies.json"}"/>{tools}<user>{asked}</user>'
    (folder / "a.chatmd").write_text(text)
    return Chat.open(folder / "a.chatmd")


def called(name: str, **arguments: str) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments}]


def test_a_result_with_the_same_prompt_calls_nothing_twice(tmp_path: Path) -> None:
    search = {"prompt": "leaves", "calls": called("search_files", pattern="leaves")}
    read = {"prompt": "leaves", "calls": called("read_file", path="plants.md")}
    talk = chat(tmp_path, search, read, {"prompt": "green", "reply": "Green."})
    assert (talk.run().answer, talk.text.count("<tool_call ")) == ("Green.", 2)
    talk.say("And leaves?")  # in another turn, they are made again
    assert (talk.run().answer, talk.text.count("<tool_call ")) == ("Green.", 4)


def test_the_recorded_prompts_are_not_found(tmp_path: Path) -> None:
    talk = chat(tmp_path, {"prompt": "Where", "calls": called("search_files", pattern="brown")},
                {"prompt": "No line", "reply": "Nowhere."}, asked="Where is brown?")  # fmt: skip
    assert talk.run().answer == "Nowhere."


def test_what_has_no_reply_is_named_with_the_nearest_prompt(tmp_path: Path) -> None:
    talk = chat(tmp_path, {"prompt": "What of roots?", "reply": "Deep."}, {"prompt": "x", "reply": "y"})
    with pytest.raises(ModelRejected, match=r"to 'What of leaves\?' \(the nearest of 2 .* is 'What of roots\?'"):
        talk.run()
    search = {"prompt": "leaves", "calls": called("search_files", pattern="leaves")}
    with pytest.raises(ModelRejected, match="calls for 'leaves' were made already: record a reply to their results"):
        chat(tmp_path, search).run()


BROKEN = {
    '[{"prompt": "a", "reply": "b"}\n{"prompt": "c"}]': (2, "is not: Expecting ',' delimiter", "correct it"),
    '[{"prompt": "a", "reply": "b"},\n\n{"prompt": 1, "reply": "c"}]': (
        3,
        "record 2: Expected `str`, got `int`",
        "write",
    ),
    '[{"prompt": "a", "reply": "b"},\n{"prompt": "c"}]': (2, "record 2 has neither a reply nor calls", "add"),
    '{"prompt": "a"}': (1, "recorded replies are a list", "write"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_says_in_which_line_what_is_wrong(tmp_path: Path, text: str) -> None:
    (tmp_path / "replies.json").write_text(text)
    with pytest.raises(ModelNotFound) as refused:
        open_chat(load_settings(f'major = "Recorded/{tmp_path / "replies.json"}"').major)
    line, fact, hint = BROKEN[text]
    assert refused.value.where.endswith(f"replies.json:{line}")
    assert fact in refused.value.message
    assert refused.value.hint.startswith(hint)
