"""Documents with metadata that look like metadata and cannot be read: no model is asked, and no student sees them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from unread import BLOCKS, HEADERS

from lmm import Document
from lmm.cli.main import main
from lmm.errors import LmmError
from lmm.markdown import HeaderBlock, parse_markdown_text
from lmm.testing import ScriptedModel
from lmm_education import Course, ingest
from lmm_education.study.notes import clean_notes

_SHARED = Path(__file__).parents[3] / "shared/trials/author"
GOOD = "---\ntitle: T\n---\n\n# A\n\nLeaves are green.\n\n# B\n\n---\ntype: solution\n---\nThe answer is zebra seven.\n"


@pytest.mark.parametrize("name", HEADERS)
def test_no_request_leaves(name: str, tmp_path: Path) -> None:
    """Whatever is asked of the document: it says where, and what to do."""
    model = ScriptedModel(["No."] * 20)
    file = tmp_path / "notes.md"
    file.write_bytes(HEADERS[name].replace("?: why?", "?: why?\n=: shorter").encode())
    asking: tuple[Callable[[Document], object], ...] = (
        lambda document: document.answer(model=model),
        lambda document: document.requests(),
        lambda document: document.annotate("summary", model=model),
        lambda document: document.batch(lambda batch: None, model=model),
        lambda document: document.extract({"type": "object"}, model=model),
    )
    for ask in asking:
        document = Document.open(file)
        with pytest.raises(LmmError, match=r"notes\.md:\d+:\d+: ") as raised:
            ask(document)
        assert raised.value.hint
        assert document.text.encode() == file.read_bytes()
    assert model.seen == []


@pytest.mark.parametrize("name", [*HEADERS][::4])
def test_commands_say_so(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`lmm scan` puts no second header above, and reports an error; `lmm messages` and `lmm status` fail."""
    file = tmp_path / "notes.md"
    file.write_bytes(HEADERS[name].encode())
    before = file.read_bytes()
    assert main(["scan", str(file)]) == 1
    assert "'model'" in capsys.readouterr().out or "conflict" in name
    assert main(["messages", str(file)]) == 1
    assert main(["status", str(file)]) == 1
    is_read = isinstance(parse_markdown_text(HEADERS[name])[0], HeaderBlock)  # and may be completed
    if not is_read and "heading above" not in name and "text above" not in name:
        assert file.read_bytes() == before


@pytest.mark.parametrize("key", ["skip: true", "type: solution"])
def test_export_refuses(key: str) -> None:
    """It exports nothing, or not what is below the block."""
    for name, source in BLOCKS.items():
        block = source.replace("KEY: VALUE", key).replace("KEY:VALUE", key.replace(" ", ""))
        try:
            clean_notes(f"---\ntitle: T\n---\n\n# A\n\nText.\n\n{block}The answer is zebra seven.\n")
        except LmmError:
            continue
        pytest.fail(f"{name} is exported")


def test_what_is_stored_is_withheld_until_it_is_mended(tmp_path: Path) -> None:
    """Students see nothing of the document while its block cannot be read; when it is mended, they see it again."""
    file = tmp_path / "notes.md"
    (tmp_path / "other.md").write_text("# C\n\nRoots take up water.\n")

    def seen() -> str:
        with Course.open(tmp_path) as course:
            return " ".join(hit.text for hit in course.for_students().search("green leaves zebra water").hits)

    file.write_text(GOOD)
    ingest(tmp_path)
    assert "Leaves are green" in seen()
    assert "zebra" not in seen()
    for name, block in BLOCKS.items():
        broken = block.replace("KEY: VALUE", "type: solution").replace("KEY:VALUE", "type:solution")
        file.write_text(GOOD.replace("---\ntype: solution\n---\n", broken))
        report = ingest(tmp_path)
        assert report.failed, name
        assert all(error.hint for error in report.failed)
    assert "Leaves" not in seen()
    assert "zebra" not in seen()
    assert "Roots" in seen()
    file.write_text(GOOD)
    assert not ingest(tmp_path).failed
    assert "Leaves are green" in seen()
    assert "zebra" not in seen()


@pytest.mark.parametrize(
    "block",
    ["Type: solution", "type:solution", "type: solutions", "TYPE: Solution", "types: solution", "type: soluton",
     "type: [exercise, Solutions]", "type: exam-solution", "type: Loesung", "tpye: solution", "type: solution (draft)",
     "Skip: true", "skip:true"],
)  # fmt: skip
def test_a_near_miss_is_taken_for_what_was_meant(block: str, tmp_path: Path) -> None:
    """It is said where; nothing of it is served or exported."""
    text = GOOD.replace("type: solution", block)
    (tmp_path / "notes.md").write_text(text)
    report = ingest(tmp_path)
    assert not report.failed
    assert any("notes.md:12: " in notice and "is taken for" in notice for notice in report.notices)
    with Course.open(tmp_path) as course:
        hits = course.for_students().search("zebra seven answer").hits
    assert "zebra" not in " ".join(hit.text for hit in hits)
    assert "zebra" not in clean_notes(text).text or "kip" in block


SAYS_NOTHING = [
    "---\nkind: solution\n---", "---\nhidden: true\n---", "---\ntype: hidden\n---", "---\ntype: Klausurloesung\n---",
    "---\npublished: false\n---", "---\ntype: {solution}\n---",
    "---\ntags: [solution]\n---", "---\nlmm:\n  type: solution\n---", "---\nsolution: true\n---", "---\nskip:\n---",
    "---\nskip\n---", "<!-- type: solution -->", "**type:** solution", "{type=solution}", "- type: solution",
]  # fmt: skip


def test_what_does_not_say_who_may_read_it_is_named(tmp_path: Path) -> None:
    """Each with its line; what is no such thing is not."""
    others = "---\nkeywords: [solution]\n---\nSalt.\n\n```yaml\ntype: solution\n```\n\n- skip: to the end\n"
    text = "# A\n\n" + "".join(f"{form}\nZebra.\n\n" for form in SAYS_NOTHING)
    (tmp_path / "notes.md").write_text(text + others)
    findings = [one for one in Course.open(tmp_path).ingest().notices if "read this" in one or "is text" in one]
    lines = [1 + text[: text.index(form)].count("\n") for form in SAYS_NOTHING]
    assert len(findings) == len(SAYS_NOTHING), findings
    assert all(any(f"notes.md:{at + inside}:" in one for inside in (0, 1) for one in findings) for at in lines)
    (tmp_path / "notes.md").write_text("# A\n\n--- type: solution ---\nZebra.\n")
    (failed,) = ingest(tmp_path).failed
    assert "has something else on it" in str(failed)


@pytest.mark.parametrize("name", ["skip-colon.md", "solution-colon.md"])
def test_the_trials(name: str, tmp_path: Path) -> None:
    """The exam of next year, and its solution, are not ingested."""
    if not _SHARED.is_dir():
        pytest.skip("no shared trials")
    shutil.copy(_SHARED / name, tmp_path)
    assert ingest(tmp_path).failed


@pytest.mark.parametrize(
    ("header", "title"),
    [
        ('+++\ntitle = "Exam"\ndate = 2026-03-01\ndraft = true\n+++\n', "Exam"),
        ('{\n  "title": "Exam",\n  "date": "2026-03-01"\n}\n', "Exam"),
        ("% Exam\n% Jane Doe\n% 1 March 2024\n", "Exam"),
        ("Title: Exam\nAuthor: Jane Doe\nDate: 1 March 2024\n", "Exam"),
    ],
)
def test_headers_in_other_notations_are_left_alone(header: str, title: str, tmp_path: Path) -> None:
    """No second header is written, nor an annotation of the document; its path is its identity, its title is read."""
    file = tmp_path / "notes.md"
    file.write_text(f"{header}\nQuestion one.\n\n## Part two\n\nText.\n")
    before = file.read_bytes()
    assert main(["scan", str(file)]) == 0
    assert file.read_bytes() == before
    document = Document.open(file)
    assert document.tree.title == title
    model = ScriptedModel(["A summary."] * 20)
    document.annotate("summary", "questions", model=model)
    assert document.text.startswith(header + "\nQuestion one.\n")
    assert not any("2026" in str(ask) or "Jane" in str(ask) for ask in model.seen)
    ingest(tmp_path)
    with Course.open(tmp_path) as course:
        (stored,) = course.documents()
    assert (stored.title, stored.id) == (title, "notes.md")


def test_what_was_not_sent_stays(tmp_path: Path) -> None:
    """A block that is neither metadata nor readable is seen by the model, and accepting an edit does not delete it."""
    note = "---\nNote: the data set is not public.\nAsk the authors for it.\n"
    text = f"---\ntitle: T\n---\n\n---\n=: fix the typos\n---\n# Top\n\nIntrodution text.\n\n{note}\n# Next\n\nEnd.\n"
    model = ScriptedModel([f"<new>\n# Top\n\nIntroduction text.\n\n{note}</new>"])
    document = Document.from_text(text)
    document.answer(model=model)
    assert "the data set is not public" in str(model.seen[0])
    document.accept()
    assert "Note: the data set is not public." in document.text
