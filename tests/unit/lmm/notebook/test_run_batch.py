"""Running batch models over texts and files: settings, saving, and callers with a loop of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import talking
from fakes.section_model import SectionModel

from lmm.document import Document
from lmm.errors import ConfigError, FileReadError, FileWriteError
from lmm.notebook.generated_fields import Batch
from lmm.scan import scan_batch, scan_rag

WORDS = "word " * 60
TEXT = f"---\ntitle: T\n---\n# A\n\n{WORDS}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def shout(batch: Batch) -> None:
    """A batch model."""
    await batch.annotate("shout", lambda section, text: section.title.upper())


def test_file_and_text_give_the_same(folder: Path) -> None:
    """Annotations and a function, on a file, on a text, and on the caller's own loop."""
    (folder / "a.md").write_text(TEXT)
    (folder / "b.md").write_text(TEXT)
    assert scan_rag(folder / "a.md").changed
    assert scan_batch(shout, folder / "b.md").changed

    async def both() -> list[str]:
        one, other = Document.from_text(TEXT), Document.from_text(TEXT)
        await one.aannotate()
        await other.abatch(shout)
        return [one.text, other.text]

    assert (folder / "a.md").read_text() == talking.annotated(TEXT).text == asyncio.run(both())[0]
    assert (folder / "b.md").read_text() == talking.worked(shout, TEXT).text == asyncio.run(both())[1]
    assert "~titles_: T - A" in (folder / "a.md").read_text()
    assert "~shout_: A" in (folder / "b.md").read_text()


@pytest.mark.parametrize(
    ("header", "config", "flags", "asked"),
    [
        ("", "", {}, []),
        ("", "[RAG]\nquestions = true\n", {}, ["questions of A"]),
        ("", "[RAG]\nsummaries = true\n", {"questions": True}, ["questions of A", "summary of A"]),
        ("", "[RAG]\nsummaries = true\n", {"summary": False}, []),
        ("model:\n  RAG: [keywords]\n", "[RAG]\nquestions = true\n", {}, ["keywords of A"]),
        ("model:\n  - RAG: [questions, summary]\n", "", {}, ["questions of A", "summary of A"]),
        ("RAG:\n  questions: true\n", "[RAG]\nsummaries = true\n", {}, ["questions of A", "summary of A"]),
        ("RAG:\n  summaries: false\n", "[RAG]\nsummaries = true\n", {}, []),
    ],
    ids=str,
)
def test_which_annotations(
    folder: Path, header: str, config: str, flags: dict[str, bool | None], asked: list[str]
) -> None:
    """Configuration < header < flags; titles are made by code, also where the header lists other fields."""
    (folder / "config.toml").write_text(config)
    model = SectionModel()
    report = talking.annotated(TEXT.replace("title: T\n", f"title: T\n{header}"), flags=flags, model=model)
    assert (model.asked, report.failures) == (asked, ())
    assert "~titles_:" in report.text


def test_an_unknown_annotation_or_model_is_an_error_before_anything(folder: Path) -> None:
    """The file is not touched."""
    path = folder / "d.md"
    path.write_text(TEXT.replace("title: T", "title: T\nmodel:\n  RAG: [qestions]"))
    with pytest.raises(ConfigError, match=r"unknown annotation 'qestions'.*did you mean 'questions'"):
        scan_rag(path)
    with pytest.raises(ConfigError, match="there is no batch model 'nothing'"):
        scan_batch("nothing", path)


def test_files_that_cannot_be_read_or_written(folder: Path) -> None:
    """Known before a model is asked."""
    model = SectionModel()
    with pytest.raises(FileReadError):
        scan_rag(folder / "no.md", model=model)
    path = folder / "d.md"
    path.write_text(TEXT)
    path.chmod(0o444)
    with pytest.raises(FileWriteError, match="read-only"):
        scan_rag(path, "summary", model=model)
    assert model.asked == []


def test_titles_need_no_key(folder: Path) -> None:
    """A model that cannot be opened is opened when it is asked, and not before."""
    (folder / "config.toml").write_text('[minor]\nmodel = "OpenAI/gpt-4.1-nano"\n')
    assert talking.annotated(TEXT).failures == ()
    report = talking.annotated(TEXT, flags={"questions": True})
    assert "OpenAI/gpt-4.1-nano needs an API key" in str(report.failures[0].error)
    assert "~titles_:" in report.text


def test_a_large_document_in_reasonable_time() -> None:
    """A thousand sections, twice: the second run only looks."""
    text = "---\ntitle: T\n---\n\n" + "".join(f"# S{n}\n\nText {n}.\n\n## S{n}.1\n\nMore.\n\n" for n in range(500))
    report = talking.annotated(text)
    assert report.text.count("~titles_:") == 1000
    assert not talking.annotated(report.text).report.changed
    short = talking.annotated(report.text.replace("More.", "", 1))
    assert not short.report.changed
