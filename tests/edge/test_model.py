"""Commands on a real server: ``LMM_TEST_MODEL_URL=http://127.0.0.1:8080/v1 pytest -m model`` (docs/models.md)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from edge.support import exchanges_of, lmm

URL = os.environ.get("LMM_TEST_MODEL_URL", "")
pytestmark = [pytest.mark.model, pytest.mark.skipif(not URL, reason="LMM_TEST_MODEL_URL names no server")]
PLANT = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 40}, "metres": {"type": "integer"}},
    "required": ["name", "metres"],
    "additionalProperties": False,
}
TEXT = "# Oak\n\nAn oak grows to 30 metres, and lives for a thousand years. Its wood is hard.\n"


@pytest.fixture(autouse=True)
def configured(folder: Path) -> None:
    """A folder whose models are the server's, with a document and a schema."""
    tiers = (f'[{tier}]\nmodel = "OpenAICompatible/gemma"\nbase_url = "{URL}"\n' for tier in ("major", "minor"))
    (folder / "config.toml").write_text("max_tokens = 40\n".join([*tiers, ""]))
    (folder / "oak.md").write_text(TEXT)
    (folder / "plant.json").write_text(json.dumps(PLANT))


def test_extract_makes_records(folder: Path) -> None:
    """By the server's grammar, whatever the model knows of plants."""
    ran = lmm("extract", "plant.json", "oak.md")
    assert ran.code == 0, ran.err
    assert set(json.loads(ran.out)) >= {"name", "metres"}


def test_messages_answers_in_the_file(folder: Path) -> None:
    """With a text of the model's own."""
    (folder / "oak.md").write_text(f"---\n?: how tall is an oak?\n---\n{TEXT}")
    ran = lmm("messages", "oak.md")
    assert ran.code == 0, ran.err
    ((prompt, reply),) = exchanges_of(folder / "oak.md")
    assert (prompt, bool(reply.strip())) == ("how tall is an oak?", True)


def test_run_ends_a_turn(folder: Path) -> None:
    """An agent without tools."""
    (folder / "a.chatmd").write_text("<user>\nHow tall is an oak?\n</user>\n")
    ran = lmm("run", "a.chatmd", "--once")
    assert ran.code == 0, ran.err
    assert "<assistant" in (folder / "a.chatmd").read_text()


def test_too_long_a_text_is_told(folder: Path) -> None:
    """In the server's figures, and the file stays as it is."""
    text = f"---\n?: why?\n---\n{'leaf ' * 20_000}\n"
    (folder / "oak.md").write_text(text)
    ran = lmm("messages", "oak.md")
    assert ran.code == 1
    assert "too long for this model" in ran.err
    assert (folder / "oak.md").read_text() == text
