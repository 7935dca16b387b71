"""Running batch models over texts and files: settings, saving, and callers with a loop of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fakes.section_model import SectionModel

from lmm.errors import ConfigError, FileReadError, FileWriteError
from lmm.scan import (
    BatchOptions,
    ascan_batch,
    ascan_batch_text,
    ascan_rag,
    ascan_rag_text,
    scan_batch,
    scan_batch_text,
    scan_rag,
    scan_rag_text,
)
from lmm.scan.batch import Batch

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


def test_every_form_gives_the_same(folder: Path) -> None:
    """File or text, sync or async."""
    texts = []
    for number, (on_file, on_text) in enumerate([(scan_rag, scan_rag_text)]):
        path = folder / f"{number}.md"
        path.write_text(TEXT)
        assert on_file(path).changed
        texts += [path.read_text(), on_text(TEXT).text]

    async def both() -> list[str]:
        (folder / "a.md").write_text(TEXT)
        return [(await ascan_rag(folder / "a.md")).text, (await ascan_rag_text(TEXT)).text]

    texts += asyncio.run(both())
    assert len(set(texts)) == 1
    assert "~titles: T - A" in texts[0]


def test_every_form_of_a_batch_model_gives_the_same(folder: Path) -> None:
    """A function, on a file or on a text, sync or async."""
    (folder / "a.md").write_text(TEXT)
    (folder / "b.md").write_text(TEXT)

    async def both() -> list[str]:
        return [(await ascan_batch(shout, folder / "b.md")).text, (await ascan_batch_text(shout, TEXT)).text]

    texts = [scan_batch(shout, folder / "a.md").text, scan_batch_text(shout, TEXT).text, *asyncio.run(both())]
    assert len(set(texts)) == 1
    assert "~shout: A" in texts[0]


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
    """Configuration < header < flags; titles are on where nothing says otherwise."""
    (folder / "config.toml").write_text(config)
    model = SectionModel()
    report = scan_rag_text(TEXT.replace("title: T\n", f"title: T\n{header}"), BatchOptions(fields=flags), model=model)
    assert (model.asked, report.failures) == (asked, [])
    assert ("~titles:" in report.text) is not ("model" in header)


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
        scan_rag(path, BatchOptions(fields={"summary": True}), model=model)
    assert model.asked == []


def test_titles_need_no_key(folder: Path) -> None:
    """A model that cannot be opened is opened when it is asked, and not before."""
    (folder / "config.toml").write_text('[minor]\nmodel = "OpenAI/gpt-4.1-nano"\n')
    assert scan_rag_text(TEXT).failures == []
    report = scan_rag_text(TEXT, BatchOptions(fields={"questions": True}))
    assert "OpenAI/gpt-4.1-nano needs an API key" in str(report.failures[0].error)
    assert "~titles:" in report.text


def test_a_large_document_in_reasonable_time() -> None:
    """A thousand sections, twice: the second run only looks."""
    text = "---\ntitle: T\n---\n\n" + "".join(f"# S{n}\n\nText {n}.\n\n## S{n}.1\n\nMore.\n\n" for n in range(500))
    report = scan_rag_text(text)
    assert report.text.count("~titles:") == 1000
    assert scan_rag_text(report.text).changed is False
    short = scan_rag_text(report.text.replace("More.", "", 1))
    assert short.changed is False
