"""What `lmm scan`, `lmm status` and `lmm ingest` say of one document as a part of its course."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge.support import run_here

import lmm_education

LEAVES = "---\ntitle: Leaves\ndocid: leaves\nmodel:\n  embedding: Builtin/wordllama\n---\n\n# Leaves\n\nGreen.\n"
ROOTS = "---\ntitle: Roots\ndocid: roots\nmodel:\n  - embedding: builtin/minilm\n---\n\n# Roots\n\nBrown.\n"
OTHER = "the embedding model Builtin/minilm does not count: the course has Builtin/wordllama"


def test_the_embedding_model_in_a_header_counts_if_the_document_begins_the_course(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In another document, all three commands say that the course has another."""
    for name, text in {"leaves.md": LEAVES, "roots.md": ROOTS}.items():
        (folder / name).write_text(text)
    assert "model Builtin" not in run_here(capsys, "scan", "leaves.md", "roots.md").out
    report = lmm_education.ingest("leaves.md")
    assert report.notices == []
    with lmm_education.Course.open() as course:
        manifest = course.status().manifest
    assert manifest is not None
    assert manifest.embedding.startswith("Builtin/wordllama")
    assert lmm_education.ingest("leaves.md").count("unchanged") == 1
    assert lmm_education.ingest("roots.md").notices == [f"roots.md: {OTHER}"]
    assert f"roots.md:4:1: warning: {OTHER} (" in run_here(capsys, "scan", "leaves.md", "roots.md").out
    assert OTHER in run_here(capsys, "status", "roots.md").out
    assert "does not count" not in run_here(capsys, "status", "leaves.md").out
    (folder / "config.toml").write_text('[embedding]\nmodel = "Builtin/minilm"\n')
    assert "the course has Builtin/minilm" in run_here(capsys, "status", "leaves.md").out


def test_material_that_would_be_knitted_into_the_notes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, unless the header has a `knit:`, or there is no such material."""
    text = "---\ntitle: A\ndocid: a\noutput: html_document\n---\n\n# A\n\nText.\n\n---\ntype: exercise\n---\nWhy?\n"
    document = folder / "a.Rmd"
    document.write_text(text + "\n---\ntype: exercise\n---\nHow?\n")
    ran = run_here(capsys, "scan", "a.Rmd")
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert ran.out.startswith(
        "a.Rmd:4:1: warning: knitted as it is, material that is not for the notes stays in them: exercise 2 ("
    )
    document.write_text(text.replace("output:", "knit: lmmarkdown::knit\noutput:"))
    assert run_here(capsys, "scan", "a.Rmd").out == "1 file: no problems\n"
    document.write_text(text.replace("type: exercise", "topic: leaves"))
    assert run_here(capsys, "scan", "a.Rmd").out == "1 file: no problems\n"
