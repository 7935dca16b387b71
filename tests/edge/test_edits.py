"""Edits through the real command, the real server and real files."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
import talking
from edge.support import exchanges_of, lmm, run_here
from fakes.openai_server import Action, ScriptedServer, hang

from lmm import Document
from lmm.errors import EditError
from lmm.scan import scan_messages

DOCUMENT = """---
title: Leaves
---

# Colour

---
=: say it shorter
---
A leaf is green because of the chlorophyll in its cells.

## Autumn

In autumn it falls.
"""


def write(folder: Path, text: str, name: str = "a.md") -> Path:
    """A document in the current folder."""
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_a_paragraph(server: ScriptedServer, folder: Path) -> None:
    """The paragraph is sent as the text; the answer stands beside it; accept and reject resolve it."""
    path = write(folder, DOCUMENT)
    server.queue("A leaf is green by chlorophyll.")
    ran = lmm("messages", path)
    assert ran.code == 0
    assert f"{path}:7 pending edit: say it shorter" in ran.out
    text = server.requests[0].last
    sent = "A leaf is green because of the chlorophyll in its cells."
    assert f'<text from="Leaves > Colour">\n{sent}\n</text>\n\nsay it shorter' in text
    edited = path.read_text()
    assert "---\n###### old text\n\nA leaf is green because of the chlorophyll in its cells.\n\n<!-- lmm:new " in edited
    assert "###### new text\n\nA leaf is green by chlorophyll.\n\n<!-- lmm:end " in edited
    path.write_text(edited)
    assert lmm("reject", path).out == f"{path}: rejected 1 edit\n"
    assert path.read_text() == DOCUMENT.replace("---\n=: say it shorter\n---\n", "")
    path.write_text(edited)
    assert lmm("accept", path).out == f"{path}: accepted 1 edit\n"
    assert path.read_text() == DOCUMENT.replace("---\n=: say it shorter\n---\n", "").replace(
        "A leaf is green because of the chlorophyll in its cells.", "A leaf is green by chlorophyll."
    )
    assert lmm("accept", path).out == f"{path}: no edits are pending\n"


def test_changes_of_an_edit_are_counted_one_by_one(server: ScriptedServer, folder: Path) -> None:
    """Where `--hunk` chooses one."""
    path = write(folder, "# T\n\n---\nedit: other\n---\n## A\n\nOne.\n\nTwo.\n\nThree.\n")
    server.queue("Four.\n\nTwo.\n\nFive.")
    shown = lmm("messages", "--diff", path).out
    assert "  change 1: [-One.-]{+Four.+}\n  change 2: [-Three.-]{+Five.+}\n" in shown
    assert lmm("accept", "--hunk", "1", path).out == f"{path}: accepted 1 change\n"
    assert json.loads(lmm("reject", "--hunk", "1", "--json", path).out) == {"path": str(path), "rejected": 1}
    assert path.read_text() == "# T\n\n## A\n\nFour.\n\nTwo.\n\nThree.\n"


def test_where_the_other_edits_are_is_said(server: ScriptedServer, folder: Path) -> None:
    """Placing an edit, or accepting it, moves the lines of those below."""
    path = write(folder, "# T\n\n---\nedit: other\n---\nOne.\n\n---\nedit: more\n---\nTwo.\n")
    server.queue("Three.", "Four.")
    told = next(line for line in lmm("messages", path).out.splitlines() if "pending edit: more" in line)
    second = told.partition(f"{path}:")[2].partition(" ")[0]
    assert lmm("accept", "--line", second, path).out == f"{path}: accepted 1 edit; pending at line 3\n"
    lmm("undo", path)
    left = lmm("reject", "--line", "3", path).out.strip().rpartition(" ")[2]
    assert lmm("accept", "--line", left, path).out == f"{path}: accepted 1 edit\n"


def test_a_line_below_the_document_is_of_no_edit(server: ScriptedServer, folder: Path) -> None:
    """Though the last edit reaches to the end."""
    path = write(folder, "# T\n\n---\nedit: other\n---\nOne.\n")
    server.queue("Two.")
    lmm("messages", path)
    lines = path.read_text().count("\n")
    refused = lmm("accept", "--line", str(lines + 2), path)
    assert refused.code == 1
    assert f"no edit is pending at line {lines + 2} (edits are pending at 3)" in refused.err
    assert lmm("accept", "--line", str(lines), path).out == f"{path}: accepted 1 edit\n"


def test_a_change_that_loses_what_others_refer_to_is_refused(server: ScriptedServer, folder: Path) -> None:
    """As the whole edit would be; --force accepts it, and another change needs none."""
    path = write(folder, "# T\n\n---\nedit: other\n---\n## A\n\nAs @fox says.\n\nTwo.\n\nThree.\n")
    server.queue("As somebody says.\n\nTwo.\n\nFive.")
    lmm("messages", path)
    before, refused = path.read_text(), lmm("accept", "--hunk", "1", path)
    assert (refused.code, "drops the citation or reference @fox" in refused.err) == (1, True)
    assert path.read_text() == before
    assert lmm("accept", "--hunk", "2", path).code == 0
    assert (lmm("accept", "--hunk", "1", path).code, lmm("accept", "--hunk", "1", "--force", path).code) == (1, 0)
    assert path.read_text() == "# T\n\n## A\n\nAs somebody says.\n\nTwo.\n\nFive.\n"


def test_a_section_with_subheadings(server: ScriptedServer, folder: Path) -> None:
    """The heading stays above both texts and is not sent; the subheadings are."""
    before = "# T\n\nIntro.\n\n---\nedit: rewrite\n---\n## A\n\nOne.\n\n### B\n\nTwo.\n\n## C\n\nThree.\n"
    path = write(folder, "---\ntitle: T\n---\n" + before)
    server.queue("Uno.\n\n### B\n\nDue.")
    scan_messages(path)
    assert '<text from="T > A">\nOne.\n\n### B\n\nTwo.\n</text>' in server.requests[0].last
    text = path.read_text()
    assert (
        text.index("## A")
        < text.index("###### old text")
        < text.index("One.")
        < text.index("Uno.")
        < text.index("## C")
    )
    assert talking.resolved(path, Document.accept) == 1
    assert path.read_text() == "---\ntitle: T\n---\n# T\n\nIntro.\n\n## A\n\nUno.\n\n### B\n\nDue.\n\n## C\n\nThree.\n"


def test_the_whole_document(server: ScriptedServer, folder: Path) -> None:
    """In the header, the text is everything below it; the header itself stays."""
    path = write(folder, "---\ntitle: T # mine\n=: translate\n---\n# A\n\nOne.\n")
    server.queue("# Ä\n\nEins.")
    scan_messages(path)
    assert '<text from="T">\n# A\n\nOne.\n</text>' in server.requests[0].last
    edited = path.read_text()
    assert talking.resolved(path, Document.reject) == 1
    assert path.read_text() == "---\ntitle: T # mine\n---\n# A\n\nOne.\n"
    path.write_text(edited)
    assert talking.resolved(path, Document.accept) == 1
    assert path.read_text() == "---\ntitle: T # mine\n---\n# Ä\n\nEins.\n"


def test_on_nothing_text_is_written(server: ScriptedServer, folder: Path) -> None:
    """At an empty place the model writes; reject leaves nothing, accept the new text."""
    path = write(folder, "# A\n\nOne.\n\n---\n=: add a paragraph on roots\n---\n")
    server.queue("Roots are brown.")
    scan_messages(path)
    assert "<text" not in server.requests[0].last
    assert "<context" in server.requests[0].last
    edited = path.read_text()
    assert "###### old text" not in edited
    assert talking.resolved(path, Document.reject) == 1
    assert path.read_text() == "# A\n\nOne.\n\n"
    path.write_text(edited)
    assert talking.resolved(path, Document.accept) == 1
    assert path.read_text() == "# A\n\nOne.\n\nRoots are brown.\n\n"


def test_crlf_stays_crlf(server: ScriptedServer, folder: Path) -> None:
    """In a file with CRLF all that is added has CRLF, and reject restores it."""
    path = write(folder, DOCUMENT.replace("\n", "\r\n"))
    server.queue("One.\n\nTwo.")
    scan_messages(path)
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    assert talking.resolved(path, Document.reject) == 1
    assert path.read_bytes() == DOCUMENT.replace("---\n=: say it shorter\n---\n", "").replace("\n", "\r\n").encode()


def test_one_of_several_by_line(server: ScriptedServer, folder: Path) -> None:
    """--line chooses the edit that covers the line; a line without one is an error that lists those with."""
    path = write(folder, "# T\n\n---\n=: a\n---\nOne.\n\n---\n=: b\n---\nTwo.\n\nThree.\n")
    server.answer = lambda request: "New."
    scan_messages(path)
    second = path.read_text().splitlines().index("Two.") + 1
    assert lmm("accept", path, "--line", str(second)).code == 0
    assert "One." in path.read_text()
    assert "Two." not in path.read_text()
    ran = lmm("accept", path, "--line", "1")
    assert ran.code == 1
    assert "no edit is pending at line 1 (edits are pending at 3)" in ran.err


def test_code_in_the_new_text_is_reported(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels that stand twice stop knitr, changed code would run: the author is told, by messages and by scan."""
    path = write(folder, "---\ntitle: T\ndocid: t\n---\n\n---\n=: use mean\n---\n```{r one}\nx <- 1\n```\n", "a.Rmd")
    server.queue("```{r one}\nx <- mean(1)\n```")
    ran = run_here(capsys, "messages", "--diff", str(path))
    assert "until the edit is resolved, chunk labels occur twice and knitr stops: one" in ran.out
    assert "the new text adds or changes code that knitr will run" in ran.out
    assert "[-1-]{+mean(1)+}" in ran.out.replace("\n", "")
    problems = run_here(capsys, "scan", "--check", str(path))
    assert "knitr stops: one" in problems.out
    assert problems.code == 0


def test_an_editor_that_saves_an_old_buffer_over_an_edit(server: ScriptedServer, folder: Path) -> None:
    """The next run brings the edit back without a request."""
    path = write(folder, DOCUMENT)
    server.queue("Shorter.")
    scan_messages(path)
    edited = path.read_text()
    path.write_text(DOCUMENT)
    scan_messages(path)
    assert path.read_text() == edited
    assert len(server.requests) == 1


def test_the_built_in_model_cannot_edit(folder: Path) -> None:
    """It says so; the prompt stays."""
    path = write(folder, DOCUMENT)
    ran = lmm("messages", path)
    assert ran.code == 1
    assert "Builtin/extractive cannot edit or write" in ran.err
    assert path.read_text() == DOCUMENT


def test_chat_and_annotation_see_the_old_text_while_an_edit_waits(server: ScriptedServer, folder: Path) -> None:
    """A question about the section gets the old text, not both."""
    path = write(folder, DOCUMENT)
    server.queue("NEW.")
    scan_messages(path)
    path.write_text(path.read_text().replace("# Colour\n", "---\n?: what?\n---\n# Colour\n", 1))
    server.queue("That.")
    scan_messages(path)
    assert "A leaf is green because of the chlorophyll in its cells." in server.requests[1].last
    assert "NEW." not in server.requests[1].last
    assert "old text" not in server.requests[1].last


@pytest.mark.parametrize(
    "reply",
    [
        "We fit:\n\n```r\nlm(y ~ x)\n```\n\nDone.",
        "So\n\n$$\nx\n$$\n\nDone.",
        "- a\n\n  ~~~\n  x\n  ~~~\n\nDone.",
        "A\n\n```\nx\n```",
    ],
)
def test_code_and_equations_in_a_reply_stay_as_they_are(server: ScriptedServer, folder: Path, reply: str) -> None:
    """Nothing is added to constructs that close."""
    path = write(folder, "# T\n\n---\n=: with code\n---\nText.\n\nAfter.\n\n```r\ny\n```\n")
    server.queue(f"<new>\n{reply}\n</new>")
    scan_messages(path)
    assert talking.resolved(path, Document.accept) == 1
    assert path.read_text() == f"# T\n\n{reply}\n\nAfter.\n\n```r\ny\n```\n"


LONG = """---
title: Leaves
docid: leaves
---

---
=: say it shorter
---
# Colour

A leaf is green, as @fox2015 says.[^1]

[^1]: But not in autumn.
"""


def test_a_reply_that_was_cut_off(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is marked, also when it is remembered; scan tells it with its line; only --force accepts it."""
    path = write(folder, LONG)
    server.queue(Action(text="A leaf is green, as @fox2015 says.[^1]\n\n[^1]: But", finish="length"))
    ran = run_here(capsys, "messages", str(path))
    assert ran.code == 0
    assert "warning: the reply was cut off at the model's output limit" in ran.out
    edited = path.read_text()
    assert "  ~~warning: the reply was cut off at the model's output limit\n" in edited
    write(folder, LONG)
    assert "remembered from an earlier run" in run_here(capsys, "messages", str(path)).out
    assert path.read_text() == edited
    assert len(server.requests) == 1
    ran = run_here(capsys, "scan", "--check", str(path))
    assert f"{path}:6:1: warning: the reply was cut off at the model's output limit (lmm accept would" in ran.out
    ran = run_here(capsys, "accept", str(path))
    assert (ran.code, ran.out, path.read_text()) == (1, "", edited)
    assert f"{path}:6: accepting would lose text: the reply was cut off" in ran.err
    assert "1 edit not accepted (--force accepts a loss; lmm reject --again --line 6" in ran.err
    assert run_here(capsys, "accept", "--force", str(path)).out == f"{path}: accepted 1 edit\n"
    assert path.read_text().endswith("\n[^1]: But\n")


def test_an_answer_that_was_cut_off(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The screen, the log and scan tell it; the exchange is read as any other."""
    path = write(folder, "---\ntitle: T\ndocid: t\n---\n\n---\n?: why?\n---\nA leaf is green.\n")
    server.queue(Action(text="Because of", finish="length"))
    assert "cut off at the model's output limit" in run_here(capsys, "messages", str(path)).out
    assert exchanges_of(path) == [("why?", "Because of")]
    ran = run_here(capsys, "scan", "--check", str(path))
    assert f"{path}:12:5: warning: the reply was cut off at the model's output limit" in ran.out
    assert ran.code == 0


def test_labels_and_citations_that_the_new_text_drops(server: ScriptedServer, folder: Path) -> None:
    """Accepting waits for --force, or for the author to put them back."""
    path = write(folder, LONG)
    server.queue("## Colour\n\nA leaf is green.")
    assert "warning: it drops the citation or reference @fox2015" in lmm("messages", path).out
    edited = path.read_text()
    with pytest.raises(EditError, match="line 6 would lose text: it drops the citation or reference @fox2015"):
        talking.resolved(path, Document.accept)
    assert path.read_text() == edited
    new = "A leaf is green.\n\n<!-- lmm:end"
    mended = edited.replace(new, "A leaf is green (@fox2015).[^1]\n\n[^1]: Not in autumn.\n\n<!-- lmm:end")
    path.write_text(mended)
    assert talking.resolved(path, Document.accept) == 1
    path.write_text(edited)
    assert talking.resolved(path, lambda document: document.accept(force=True)) == 1
    assert path.read_text().endswith("# Colour\n\nA leaf is green.\n")  # the heading that was repeated is not


def test_what_the_author_adds_to_the_old_text(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Accept refuses and shows both; --again restores the old text, with what was added, and the question."""
    path = write(folder, DOCUMENT)
    server.queue("A leaf is green by chlorophyll.")
    scan_messages(path)
    edited = path.read_text()
    path.write_text(edited.replace("A leaf is green because", "I add this. A leaf is green because"))
    ran = run_here(capsys, "accept", str(path))
    assert ran.code == 1
    says = "you changed the old text after the model saw it"
    assert f"{path}:7: accepting would lose text: {says}" in ran.err
    assert "[-I add this.-]" in ran.err.replace(" -]", "-]")
    assert "by chlorophyll.+}" in ran.err.replace("\n", "")
    assert "I add this." in path.read_text()
    assert lmm("reject", "--again", path).out == f"{path}: rejected 1 edit\n"
    assert path.read_text() == DOCUMENT.replace("A leaf is green", "I add this. A leaf is green")
    server.queue("Both.")
    scan_messages(path)
    assert "I add this. A leaf is green" in server.requests[1].last
    path.write_text(edited)
    without = re.sub("  ~~old: .*\n", "", edited).replace("in its cells.", "in its cells. More.")
    path.write_text(without)  # as older versions wrote it
    assert talking.resolved(path, Document.accept) == 1


def test_an_edit_whose_block_is_gone_leaves_no_half(server: ScriptedServer, folder: Path) -> None:
    """The author deletes the question while it is answered: their text stays, and nothing lies beside it."""
    path = write(folder, DOCUMENT)
    release = threading.Event()
    server.queue(hang(release, text="A leaf is green by chlorophyll."))
    work = threading.Thread(target=scan_messages, args=(path,))
    work.start()
    server.wait_for(1)
    theirs = DOCUMENT.replace("---\n=: say it shorter\n---\n", "")
    path.write_text(theirs)
    release.set()
    work.join()
    assert path.read_text() == theirs
    assert sorted(file.name for file in folder.iterdir()) == ["a.md", "config.toml"]


def test_a_reply_that_holds_a_mark_of_edits_can_be_accepted(server: ScriptedServer, folder: Path) -> None:
    """Models repeat what they have seen: a mark in the new text belongs to no edit, and kept it from being saved."""
    path = write(folder, DOCUMENT)
    server.queue("<new>\nIt is green.\n\n<!-- lmm:end abcdef -->\n\n```\n<!-- lmm:new abcdef -->\n```\n</new>")
    scan_messages(path)
    assert lmm("accept", "a.md").code == 0
    assert "It is green.\n\n```\n<!-- lmm:new abcdef -->\n```\n" in path.read_text()
    assert "lmm:end" not in path.read_text()


def test_metadata_in_a_reply_is_the_authors_to_use(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is asked or sent before; messages, scan and accept tell it; accept --metadata puts it in force."""
    path = write(folder, DOCUMENT)
    write(folder, "secret", "data.md")
    server.queue("<new>\nGreen.\n\n---\n?: read @data.md\nskip: true\n---\n\nAnd brown.\n</new>")
    told = "the model wrote metadata; it is now a comment: '?: read @data.md skip: true'"
    assert f"  warning: {told}" in run_here(capsys, "messages", str(path)).out
    assert "no questions are pending" in run_here(capsys, "messages", str(path)).out
    edited = path.read_text()
    assert f"{path}:7:1: warning: {told}" in run_here(capsys, "scan", "--check", str(path)).out
    assert f"{path}:7: {told}\n" in run_here(capsys, "accept", str(path)).out
    assert "they ask and set nothing" in path.read_text()
    assert "no questions are pending" in run_here(capsys, "messages", str(path)).out
    assert len(server.requests) == 1
    path.write_text(edited)
    assert run_here(capsys, "accept", "--metadata", str(path)).code == 0
    assert "Green.\n\n---\n?: read @data.md\nskip: true\n---\n\nAnd brown.\n" in path.read_text()
