"""`lmm import` as people run it, on files that real programs wrote."""

from __future__ import annotations

import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from edge.import_documents import (
    FORMULAS,
    documents,
    has_formula_marks,
    imported,
    inline,
    need_importer,
    pandoc,
    plain,
    read_back,
    words,
    written,
)
from edge.knit_tools import need
from edge.support import lmm, run_here
from fakes import forked
from fakes.pdf_writer import PdfPage, pdf_of
from hypothesis import assume, example, given, settings, strategies as st

from lmm.errors import FileReadError, FileWriteError
from lmm.importing import import_file, read_html
from lmm.importing.elements import element, to_html
from lmm.importing.imported import Context, compose
from lmm.importing.pandoc import convert_html
from lmm.markdown import parse_markdown_text

pytestmark = [pytest.mark.knit, pytest.mark.usefixtures("forked_readers")]

SOURCE = """\
---
title: Leaves
lang: en
---

# Colour

A leaf is *green*,[^1] because $E = \\frac{hc}{\\lambda}$.

| Tree  | Months |
|:------|-------:|
| oak   |      6 |
| beech |      7 |

```python
x = 1
```

![A dot](dot.png)

[^1]: Or red.
"""
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)
BODY = """\
# Colour

A leaf is *green*,[^1] because $E = \\frac{hc}{\\lambda}$.

| Tree  | Months |
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source as Word, HTML and EPUB files, for all tests."""
    need_importer()
    folder = tmp_path_factory.mktemp("sources")
    (folder / "dot.png").write_bytes(DOT)
    for suffix in ("docx", "html", "epub"):
        options = ("--resource-path", str(folder), "--mathml", "-s", "-o", str(folder / f"leaves.{suffix}"))
        pandoc(SOURCE.encode(), "-f", "markdown", *options)
    return folder


@pytest.fixture
def made(sources: Path, tmp_path: Path) -> Path:
    """A folder of the test's own with these files."""
    shutil.copytree(sources, tmp_path, dirs_exist_ok=True)
    return tmp_path


# -- what people do --------------------------------------------------------------------------------------


def test_word_to_markdown_with_its_images_beside_it(made: Path) -> None:
    """A header, the text, the table, the formula, the footnote, the image."""
    ran = lmm("import", made / "leaves.docx")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{made / 'leaves.md'}: 1 heading, 1 table, 1 image in leaves_files\n"
    text = (made / "leaves.md").read_text()
    assert text.startswith(f"---\ntitle: Leaves\nsource: leaves.docx\nlang: en\n---\n\n{BODY}")
    assert "```\nx = 1\n```\n\n![A dot](leaves_files/image-1.png)" in text
    assert text.endswith("\n[^1]: Or red.\n")
    assert (made / "leaves_files" / "image-1.png").read_bytes() == DOT


@pytest.mark.parametrize(
    ("suffix", "data"),
    [("docx", b"<html><script>"), ("epub", b"<html><script>"), ("docx", DOT + b"\0" * 110_000_000)],
    ids=["page-docx", "page-epub", "large-docx"],
)
def test_a_picture_that_is_none_or_too_large_is_left_out(made: Path, suffix: str, data: bytes) -> None:
    """By its first bytes, and by the size of the file; its description stays."""
    with zipfile.ZipFile(made / f"leaves.{suffix}") as old, zipfile.ZipFile(made / f"a.{suffix}", "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, data if name.endswith(".png") else old.read(name))
    report = import_file(made / f"a.{suffix}")
    assert report.notes == ("left out: 1 image(s) that are too large or not pictures",)
    assert (report.images, "\n\nA dot\n" in report.text, (made / "a_files").exists()) == ((), True, False)


def test_several_files_into_a_folder(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Relative links in a page lead back to where it lies; a file that cannot be read does not stop the others."""
    (made / "out").mkdir()
    (made / "bad.pdf").write_bytes(b"no")
    (made / "leaves.epub").rename(made / "book.epub")
    names = ("leaves.html", "bad.pdf", "book.epub")
    ran = run_here(capsys, "import", *(str(made / name) for name in names), "-o", str(made / "out"))
    assert ran.code == 1
    assert "bad.pdf: this is not a PDF file" in ran.err
    page, book = ((made / "out" / name).read_text() for name in ("leaves.md", "book.md"))
    assert "$E = \\frac{hc}{\\lambda}$" in page
    assert "```python\nx = 1\n```" in page
    assert "![A dot](../dot.png)" in page
    assert "![A dot](book_files/image-1.png)" in book
    assert "[^1]: Or red." in book


def test_a_folder_that_is_named_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a slash at the end, or as the place for several files; in Python, too. As lmm export does."""
    for name in ("a.html", "b.html"):
        (tmp_path / name).write_text("<p>Text.")
    one, two = str(tmp_path / "a.html"), str(tmp_path / "b.html")
    assert run_here(capsys, "import", one, "-o", f"{tmp_path}/new/deep/").code == 0
    assert run_here(capsys, "import", one, two, "-o", f"{tmp_path}/both").code == 0
    assert import_file(one, f"{tmp_path}/python/").output == tmp_path / "python" / "a.md"
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*md")}
    assert made == {"new/deep/a.md", "both/a.md", "both/b.md", "python/a.md"}
    refused = run_here(capsys, "import", one, "-o", f"{tmp_path}/missing/x.md")
    assert (refused.code, "there is no such folder" in refused.err) == (2, True)


def test_a_missing_picture_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are there, and elsewhere, are not."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b.png").write_bytes(DOT)
    links = '<img src="a%20b.png"><img src="gone.png"><img src="sub/x.png"><img src="https://x.org/i.png">'
    (tmp_path / "in" / "a.html").write_text(f"<p>Text. {links}")
    for output, where in (([], ""), (["-o", str(tmp_path / "a.md")], "in/")):
        ran = run_here(capsys, "import", str(tmp_path / "in" / "a.html"), *output)
        assert ran.code == 0
        assert ran.out.endswith(f"a.md: not found: {where}gone.png, {where}sub/x.png (the links stay)\n")


def test_what_exists_is_not_replaced(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the markdown nor an image, unless it is asked for."""
    source, target = str(made / "leaves.docx"), made / "leaves.md"
    target.write_text("mine")
    refused = run_here(capsys, "import", source)
    assert (refused.code, target.read_text()) == (1, "mine")
    assert "--force replaces it" in refused.err
    target.unlink()
    picture = made / "leaves_files" / "image-1.png"
    picture.parent.mkdir()
    picture.write_bytes(b"mine")
    assert run_here(capsys, "import", source).code == 1
    assert picture.read_bytes() == b"mine"
    assert not target.exists()
    assert run_here(capsys, "import", source, "--force").code == 0
    assert picture.read_bytes() == DOT


def test_wrong_usage_is_told_before_anything_is_read(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and what to do."""
    docx, html = str(made / "leaves.docx"), str(made / "leaves.html")
    for options, told in (
        ((docx, html), "would become one file"),
        ((docx, html, "-o", str(made / "x.md")), "for several files, the output must be a folder"),
        ((docx, "-o", str(made / "x.Rmd")), "end its name in .md"),
        ((str(made / "x.doc"),), "save it as .docx"),
    ):
        ran = run_here(capsys, "import", *options)
        assert (ran.code, told in ran.err) == (2, True), ran.err
    assert not list(made.glob("*.md"))


OTHERS = {"odt": "odt", "rtf": "rtf", "tex": "latex", "org": "org", "rst": "rst", "adoc": "asciidoc",
          "wiki": "mediawiki", "dbk": "docbook", "pptx": "pptx"}  # fmt: skip


def test_every_format_that_pandoc_reads(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Headings, tables and text arrive from each; nothing in them is metadata."""
    for suffix, writer in OTHERS.items():
        options = ("--resource-path", str(made), "-s", "-t", writer, "-o", str(made / f"{suffix}.{suffix}"))
        pandoc(f"{SOURCE}\n# Shape\n\nLobed.\n".encode(), "-f", "markdown", *options)
    ran = run_here(capsys, "import", *(str(made / f"{suffix}.{suffix}") for suffix in OTHERS))
    assert (ran.code, ran.err) == (0, "")
    for suffix in OTHERS:
        blocks = parse_markdown_text((made / f"{suffix}.md").read_text())
        assert {block.kind for block in blocks[1:]} == {"heading", "text"}, suffix
        text = (made / f"{suffix}.md").read_text()
        assert all(word in text for word in ("# Colour", "beech", "x")), text
        assert "leaf is *green*" in text or suffix == "pptx"


def test_slides_are_sections_with_their_notes(tmp_path: Path) -> None:
    """What was to be said stands below what was shown."""
    need_importer()
    slides = "## One\n\nShown.\n\n::: notes\nSaid & *meant*.\n\nTwice.\n:::\n\n## Two\n\nShown too.\n"
    pandoc(slides.encode(), "-f", "markdown", "-t", "pptx", "-o", str(tmp_path / "a.pptx"))
    text = import_file(tmp_path / "a.pptx").text
    said = "::: notes\nSaid & *meant*.\n\nTwice.\n:::"
    two = "## Two\n\n<!-- slide 2 -->\n\nShown too.\n"
    assert text.endswith(f"## One\n\n<!-- slide 1 -->\n\nShown.\n\n{said}\n\n{two}")


def _word_file(path: Path, *paragraphs: tuple[str, str]) -> None:
    """A Word file of paragraphs in styles of their own, which it names as they are called."""
    pandoc(b"", "-f", "markdown", "-t", "docx", "-o", str(path))
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}
    made = "".join(
        f'<w:style w:type="paragraph" w:customStyle="1" w:styleId="x{name}"><w:name w:val="{name}"/></w:style>'
        for name in dict.fromkeys(name for name, _ in paragraphs)
    )
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="x{name}"/></w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'
        for name, text in paragraphs
    )
    files["word/styles.xml"] = files["word/styles.xml"].replace("</w:styles>", f"{made}</w:styles>")
    files["word/document.xml"] = re.sub("<w:body>", f"<w:body>{body}", files["word/document.xml"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def test_styles_of_publishers_are_headings_code_and_quotations(tmp_path: Path) -> None:
    """By their names; those in use that stay plain text are told."""
    need_importer()
    file = tmp_path / "a.docx"
    _word_file(
        file,
        ("ChapterTitle", "Owning"), ("HeadA", "Moves"), ("Body", "Text."), ("Code", "fn f() {"), ("CodeWide", "    1"),
        ("Code", "}"), ("Blockquote", "Said."), ("Kopf 3 &amp; 4", "Copies"), ("BoxTitle", "Boxed"),
    )  # fmt: skip
    text = "# Owning\n\n## Moves\n\nText.\n\n```\nfn f() {\n    1\n}\n```\n\n> Said.\n\n"
    report = import_file(file)
    assert report.text.endswith(f"{text}Copies\n\nBoxed\n")
    assert report.notes == (
        "read as plain text: paragraphs in the styles Kopf 3 & 4 (1), BoxTitle (1); "
        "if one is a heading, base it on 'Heading 2' in Word, or name it 'Code' or 'Quote'",
    )


def test_what_pandoc_refuses_is_told_with_its_line(tmp_path: Path) -> None:
    need_importer()
    (tmp_path / "a.org").write_text("* One\n\nText.\n\n\\(\n** Two\n")
    with pytest.raises(FileReadError, match=r"cannot read line 5, from column 2 on: unexpected"):
        import_file(tmp_path / "a.org")


# -- files that mean harm --------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A server that nobody should ask, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}", asked
        running.shutdown()


def test_nothing_is_fetched(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    """Remote images stay links."""
    address, asked = server
    page = f'<link rel=stylesheet href="{address}/a.css"><p>x <img src="{address}/b.png" srcset="{address}/c.png 2x">'
    (tmp_path / "a.html").write_text(page)
    report = import_file(tmp_path / "a.html")
    assert report.text.endswith(f"x ![]({address}/b.png)\n")
    assert asked == []


def test_pandoc_opens_nothing_that_a_file_names(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    """Neither files nor addresses: images stay links, and what would be included is left out."""
    need_importer()
    secret, (address, asked) = tmp_path / "secret.png", server
    secret.write_text("SECRET")
    tex = f"a\\input{{{secret}}}\\includegraphics{{{secret}}}\\includegraphics{{{address}/b.png}}"
    rst = f"a\n\n.. include:: {secret}\n\n.. image:: {address}/c.png\n\n.. image:: fig/d.png\n"
    (tmp_path / "out").mkdir()
    for name, text in (("a.tex", tex), ("b.rst", rst)):
        (tmp_path / name).write_text(text)
        try:
            report = import_file(tmp_path / name, tmp_path / "out")
        except FileReadError as error:
            assert "put their text into this file" in error.hint  # noqa: PT017
            continue
        assert (report.images, "SECRET" in report.text) == ((), False)
        assert "(../fig/d.png)" in report.text or name == "a.tex"
    assert asked == []


def test_pandoc_is_given_up_when_it_takes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time, and memory."""
    need_importer()
    with pytest.raises(FileReadError, match="took more than"):
        imported(b"a *b* " * 2_000_000, "a.org", timeout=0.2)
    monkeypatch.setattr("lmm.importing.pandoc._HEAP", "24m")
    with pytest.raises(MemoryError):
        imported(b"a *b* " * 500_000, "a.org")


def test_no_module_is_taken_from_the_folder_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A downloaded folder may have a selectolax.py."""
    (tmp_path / "selectolax.py").write_text("raise SystemExit('run')")
    (tmp_path / "a.html").write_text("<p>x")
    monkeypatch.chdir(tmp_path)
    assert import_file("a.html").text.endswith("\n\nx\n")


def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    """The process that reads it ends with it."""
    page = PdfPage(parts=["BT /plain 10 Tf (x) Tj ET"] * 700_000)
    (tmp_path / "a.pdf").write_bytes(pdf_of([page]))
    with pytest.raises(FileReadError, match=r"took more than 1 s\b|parts|characters|crashed"):
        import_file(tmp_path / "a.pdf", timeout=1)
    assert not (tmp_path / "a.md").exists()


def test_a_file_that_takes_too_much_memory_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so; nothing is left behind."""
    monkeypatch.setattr("lmm.importing.import_document.MEMORY", 400_000_000)
    monkeypatch.setattr("subprocess.Popen", forked.Popen)  # which has none of what others imported
    (tmp_path / "a.html").write_text("<p>x <b>y</b>" * 1_000_000)
    with pytest.raises(FileReadError, match=r"memory|crashed"):
        import_file(tmp_path / "a.html")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    """Forty megabytes of XML in forty kilobytes."""
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"<a>" + b"x" * 40_000_000 + b"</a>")
    with pytest.raises(FileReadError, match="40 MB of XML"):
        import_file(tmp_path / "a.docx")


def test_a_target_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A folder of that name, for one."""
    (tmp_path / "a.html").write_text("<p>x")
    (tmp_path / "a.md").mkdir()
    with pytest.raises(FileWriteError, match="folder"):
        import_file(tmp_path / "a.html")


# -- what comes through ----------------------------------------------------------------------------------


@settings(max_examples=12)
@given(documents())
@example([{"t": "Header", "c": [1, ["", [], []], [{"t": "Str", "c": "C#"}]]}])
def test_what_pandoc_writes_as_html_comes_back_as_it_was(blocks: list[dict[str, object]]) -> None:
    """Headings, texts and formats, lists, tables cell by cell, code, formulas: Pandoc reads the same document."""
    need("pandoc")
    assume(not has_formula_marks(blocks))
    page = written(blocks, "-s", "-t", "html", "--mathjax", "--metadata", "title=T")
    text = compose(read_html.read(page, Context("a.html")), source="a.html", name="a", folder="f")
    assert {block.kind for block in parse_markdown_text(text)[1:]} <= {"heading", "text"}
    assert plain(read_back(text)) == plain(blocks)


@settings(max_examples=12)
@given(documents(formulas=False))
def test_what_pandoc_writes_as_word_comes_back_as_it_was(blocks: list[dict[str, object]]) -> None:
    """But for the language of code and the first number of a list, which Word documents do not have as such."""
    need("pandoc")
    assume(not has_formula_marks(blocks))
    file = written(blocks, "-t", "docx", "-o", "-")
    text = compose(imported(file, "a.docx"), source="a.docx", name="a", folder="f")
    assert {block.kind for block in parse_markdown_text(text)[1:]} <= {"heading", "text"}
    assert plain(read_back(text), word=True) == plain(blocks, word=True)


@settings(max_examples=5)
@given(st.lists(words(), min_size=60, max_size=60))
def test_any_text_is_text_for_pandoc_too(texts: list[list[dict[str, str]]]) -> None:
    """Many nasty paragraphs at once, with rules between them."""
    need("pandoc")
    lines = ["".join(node.get("c", " ") for node in nodes) for nodes in texts]
    body = element("body", *(node for line in lines for node in (element("p", line), element("hr"))))
    blocks = read_back("---\ntitle: T\n---\n\n" + convert_html(to_html(body), Context("a.html")).body)
    assert [block["t"] for block in blocks] == ["Para", "HorizontalRule"] * len(lines)
    assert [inline(block["c"]) for block in blocks[::2]] == [[line] for line in lines]


def test_formulas_mean_the_same_after_word_and_html() -> None:
    """Pandoc makes the same MathML of ours as of the original."""
    need("pandoc")
    blocks = [{"t": "Para", "c": [{"t": "Math", "c": [{"t": "InlineMath"}, tex]}]} for tex in FORMULAS]
    original = _mathml("\n\n".join(f"${tex}$" for tex in FORMULAS))
    from_word = imported(written(blocks, "-t", "docx", "-o", "-"), "a.docx").body
    assert _mathml(from_word) == original
    page = re.sub(rb"<annotation.*?</annotation>", b"", written(blocks, "-t", "html", "--mathml"), flags=re.DOTALL)
    from_page = read_html.read(page, Context("a.html")).body
    assert _mathml(from_page) == original


def _mathml(markdown: str) -> list[str]:
    """What Pandoc makes of each formula."""
    page = pandoc(markdown.encode(), "-f", "markdown", "-t", "html", "--mathml").decode()
    page = re.sub(r"<annotation.*?</annotation>", "", page, flags=re.DOTALL)
    return ["".join(found.split()) for found in re.findall(r"<math.*?</math>", page, re.DOTALL)]
