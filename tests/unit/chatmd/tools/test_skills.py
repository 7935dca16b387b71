"""Skills: folders with a description, which the model reads when it needs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.chatmd.tools.file_tools import call

from chatmd import Chat
from chatmd.errors import ChatmdError, FileRefused
from lmm.errors import FileReadError

HEADER = "---\nname: {0}\ndescription: Handles\n  {0} files.\n---\n"
AGENT = """<!-- Reviews texts. -->
<config model="OpenAI/gpt-4.1"/>
<tool name="read_skill" roots="skills"/>
<system>Be brief.</system>
<user>Review <doc src="notes.md" local/></user>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("pdf", "word"):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(f"{HEADER.format(name)}\nRead forms.md.\n")
    (tmp_path / "skills/pdf/forms.md").write_text("Forms are hard.\n")
    (tmp_path / "notes.md").write_text("Of oaks.\n")
    (tmp_path / "agent.chatmd").write_text(AGENT)
    return tmp_path


def read(folder: Path, **arguments: object) -> str:
    return call("read_skill", folder, declared={"roots": ("skills",)}, **arguments)


def test_the_model_knows_names_and_descriptions_and_reads_the_rest(folder: Path) -> None:
    (offer,) = Chat.open(folder / "agent.chatmd").offers()
    (definition,) = offer.definitions
    assert definition.description.endswith("There are:\n- pdf: Handles pdf files.\n- word: Handles word files.")
    assert definition.parameters["properties"]["skill"]["enum"] == ["pdf", "word"]
    assert read(folder, skill="pdf").endswith("Read forms.md.")
    assert read(folder, skill="pdf", path="forms.md").endswith("Forms are hard.")


def test_a_skill_reads_nothing_outside_of_the_roots(folder: Path) -> None:
    with pytest.raises(FileRefused):
        read(folder, skill="pdf", path="../../notes.md")
    with pytest.raises(FileReadError, match="no such file"):
        read(folder, skill="pdf", path="others.md")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/SKILL.md").write_text(HEADER.format("elsewhere"))
    (folder / "skills/linked").symlink_to(folder / "elsewhere")
    with pytest.raises(FileRefused, match="outside"):
        read(folder, skill="pdf")


def test_what_is_no_skill_says_so(folder: Path) -> None:
    (folder / "skills/word/SKILL.md").write_text("# Word\n")
    with pytest.raises(ChatmdError, match="does not say what it is for"):
        read(folder, skill="pdf")
    for path in folder.glob("skills/*/SKILL.md"):
        path.unlink()
    with pytest.raises(ChatmdError, match="there are no skills"):
        read(folder, skill="pdf")
