"""Names of files after ``@`` in a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm import Document
from lmm.errors import Place
from lmm.messages import Event, Notice
from lmm.notebook.mentions import find_mentions
from lmm.testing import ScriptedModel

FOUND = (
    *("is @moon.md right?", "“@moon.md”", "'@moon.md'", '"@moon.md"', "«@moon.md»", "„@moon.md“", "‘@moon.md’"),
    *("**@moon.md**", "*@moon.md*", "_@moon.md_", "`@moon.md`", "~~@moon.md~~", "==@moon.md=="),
    *("@moon.md's orbit", "@moon.md’s orbit", "(see @moon.md)", "(@moon.md#orbit)", "[@moon.md]", "@moon.md#orbit"),
    *("@moon.md:3", "@moon.md:3-7", "@moon.md:3:1", "@moon.md.", "@moon.md,", "@moon.md;", "@moon.md?!", "@moon.md…"),
    *("与 @moon.md，一致吗", "见@moon.md。", "（@moon.md）", "「@moon.md」"),
    *("@moon.mdと", "见@moon.md一致吗", "@moon.md：对"),
    *("@moon.md—and", "@moon.md|x", "<@moon.md>", "a,@moon.md", "see:@moon.md"),
    *("@'moon.md'", "@<moon.md>", "@`moon.md`", "@[moon.md]", "@(moon.md)", "@{moon.md}", "＠moon.md", "@moon.md§2"),
    *("-@moon.md", "+@moon.md", "@moon.md→", "\u200b@moon.md\u200b", "@moon.md-", "@moon.md & me"),
    *("@moon.md\n", "§@moon.md", "-> @moon.md"),
)  # fmt: skip
NONE = ("ann@moon.md", "a mail to ann.b@moon.md", "x/@moon.md", "@@moon.md", "a+b@moon.md")


@pytest.mark.parametrize("prompt", FOUND)
def test_a_file_is_found(prompt: str) -> None:
    """Whatever stands around its name."""
    assert [(each.kind, each.name) for each in find_mentions(prompt)] == [("file", "moon.md")]


@pytest.mark.parametrize("prompt", NONE)
def test_addresses_are_no_files(prompt: str) -> None:
    """What stands before the sign decides."""
    assert find_mentions(prompt) == ()


def test_what_is_not_sent_is_told(tmp_path: Path) -> None:
    """A name that is a file's, of a kind that cannot be read or in a folder that is not there."""
    file, told = tmp_path / "a.md", list[str]()

    def listen(event: Event, place: Place) -> None:
        told.extend([event.text] if isinstance(event, Notice) else [])

    file.write_text("# A\n\n---\n?: does @data/x and @song.mp3 fit, @ann, @app.route, @fig-leaf?\n---\nText.\n")
    Document.open(file, listener=listen).answer(model=ScriptedModel(["Yes."]))
    assert [each.split(":")[0] for each in told] == [
        "@data/x is not sent",
        "@song.mp3 is not sent",
        "@fig-leaf is not in this document.",
    ]
