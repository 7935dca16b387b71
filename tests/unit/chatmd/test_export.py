"""A transcript exported as one file gives a model the same messages elsewhere."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from chatmd import Chat
from chatmd.errors import ChatmdError
from lmm.messages import Image, Reply, ToolCall, message_parts
from lmm.testing import ScriptedModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PROMPT = """<config model="Ollama/x"/>
<input name="what" default="{{leaf}}"/>
<import src="tools.chatmd"/>
<system>Be brief. <import src="rules.md"/></system>
<user>See {{what}} and?
<doc src="notes.md" local/><!-- no --> and <img src="a.png" local/> RAW|{{what}}|RAW</user>
"""


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A transcript whose documents have changed since, with results beside it."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "tools.chatmd").write_text('<tool name="read_file"/><tool name="import_image"/>')
    (folder / "rules.md").write_text("Quote |RAW and RAW|</system>|RAW.")
    (folder / "notes.md").write_text("\n  Leaves are RAW|green|RAW, </user> & {{what}}.\n")
    (folder / "a.png").write_bytes(PNG)
    path = folder / "p.chatmd"
    path.write_text(PROMPT)
    calls = (
        ToolCall("c1", "read_file", '{"path": "notes.md"}'),
        ToolCall("c2", "import_image", '{"path": "a.png"}'),
    )
    Chat.open(path).run(model=ScriptedModel([Reply("", "m", calls=calls), "Green."]))
    (folder / "notes.md").write_text("Roots.")
    return path


def heard(chat: Chat) -> list[object]:
    """Return everything that a model would get; adjacent texts are joined."""
    parts: list[object] = []
    for rendered in chat.render(replay=chat.path is not None and chat.path.name == "p.chatmd").messages:
        message = rendered.message
        texts = [one.data if isinstance(one, Image) else one for one in message_parts(message)]
        for part in [message.role, *texts, *message.calls, *((r.call, r.text) for r in message.results)]:
            before = parts[-1] if parts else None
            if isinstance(part, str) and isinstance(before, str) and part != message.role:
                parts[-1] = before + part
            else:
                parts.append(part)
        parts += [image.data for result in message.results for image in result.images]
    return parts


def test_elsewhere_a_model_gets_the_same(ran: Path, tmp_path: Path) -> None:
    chat = Chat.open(ran)
    text = chat.export()
    (tmp_path / "there").mkdir()
    whole = tmp_path / "there/whole.chatmd"
    whole.write_text(text)
    assert heard(Chat.open(whole)) == heard(chat)
    assert Chat.open(whole).problems() == ()
    assert [tool.name for tool in Chat.open(whole).agent.tools] == ["read_file", "import_image"]
    assert Chat.open(whole).export() == text
    assert Chat.open(whole).ask("And?", model=ScriptedModel(["So."])) == "So."


def test_a_folder_that_did_not_come_along_is_named(ran: Path, tmp_path: Path) -> None:
    shutil.copy(ran, tmp_path / "alone.chatmd")
    for name in ("tools.chatmd", "rules.md", "notes.md", "a.png"):
        shutil.copy(ran.parent / name, tmp_path / name)
    with pytest.raises(ChatmdError, match=r"the folder \.chatmd, .* is missing.*--transcript"):
        Chat.open(tmp_path / "alone.chatmd").ask("And?", model=ScriptedModel(["So."]))
