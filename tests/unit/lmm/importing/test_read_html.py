"""HTML pages to markdown: the golden files, encodings, images in the page."""

from __future__ import annotations

import pytest
from golden_files import Case, read_cases

from lmm.errors import FileReadError
from lmm.importing.imported import Context, ImportedImage
from lmm.importing.read_html import read
from lmm.markdown import parse_markdown_text

HERE = Context("page.html")


@pytest.mark.parametrize("case", read_cases("import_html"), ids=str)
def test_pages_become_the_markdown_of_the_golden_files(case: Case) -> None:
    """And nothing in it is metadata, or broken."""
    body = read(case.source.encode(), HERE).body
    assert body == case.after
    assert {block.kind for block in parse_markdown_text(body)} <= {"heading", "text"}


def test_title_and_language_are_the_page_s() -> None:
    """They go into the header of the document."""
    document = read(b"<html lang=de><title>Eine\n Seite</title><p>Text", HERE)
    assert (document.title, document.language) == ("Eine Seite", "de")


def test_images_in_the_page_are_taken_out() -> None:
    """A data address becomes a file; one that is damaged goes."""
    document = read(b'<p><img src="data:image/gif;base64,R0lGODlh" alt="a"> <img src="data:text/html,x">b', HERE)
    assert document.images == (ImportedImage(b"GIF89a"),)
    assert document.body == "![a](lmm-image:0) b\n"


def test_relative_links_lead_to_the_page_s_folder() -> None:
    """If the markdown lies elsewhere; absolute addresses stay."""
    page = b'<a href="b.html?x#y">b</a> <a href="/c">c</a> <a href="https://d.org">d</a> <img src="./e.png">'
    body = read(page, Context("page.html", prefix="../in")).body
    assert body == "[b](../in/b.html?x#y) [c](/c) [d](https://d.org) ![](../in/e.png)\n"


def test_what_is_beside_the_main_part_is_told() -> None:
    """So that nobody thinks that this is all of the page."""
    page = f"<body><p>{'Beside. ' * 100}</p><main>{'Main. ' * 200}</main>"
    document = read(page.encode(), HERE)
    assert "Beside" not in document.body
    assert [*document.left_out] == ["the page outside its main part"]
    drawn = read(b"<p>Let <span class=katex><span class=katex-html aria-hidden=true>x</span></span> be.", HERE)
    assert drawn.notes == ("left out: 1 formula(s) of which the page has only a drawing",)


@pytest.mark.parametrize(
    "data",
    [
        "<p>é".encode(),
        "<p>é".encode("utf-8-sig"),
        "<p>é".encode("utf-16"),
        "<p>é".encode("cp1252"),
        '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2"><p>é'.encode("iso-8859-2"),
        "<meta charset=no-such-thing><p>é".encode(),
    ],
)
def test_encodings(data: bytes) -> None:
    """As the page says, else as it is."""
    assert read(data, HERE).body == "é\n"


def test_a_page_that_only_a_script_would_fill_is_refused() -> None:
    """With what to do."""
    with pytest.raises(FileReadError, match="print it to PDF"):
        read(b"<div id=app></div><script>app()</script>", HERE)


@pytest.mark.parametrize("page", ["<div>" * 5_000, "<b><i>" * 2_000, "<table><tr><td>" * 2_500, "<div>" * 200])
def test_pages_that_are_nested_without_end_are_refused(page: str) -> None:
    """At once: no parser is kept busy."""
    with pytest.raises(FileReadError, match="malicious"):
        read(f"{page}x".encode(), HERE)


def test_a_table_of_a_million_cells_is_refused() -> None:
    """Spans multiply."""
    page = "<table><tr>" + "<td colspan=1000 rowspan=65000>x" * 300 + "<tr>" * 1_000 + "</table>"
    with pytest.raises(FileReadError, match="cells"):
        read(page.encode(), HERE)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a" + "\xa0" * 200_000 + "b</p>", "a" + "\xa0" * 200_000 + "b"),
        ("<ul><li>a</li>" + "<i>b</i>" * 30_000 + "</ul>", "b" * 30_000),
        ("<p>" + "<b>b</b> " * 30_000 + "</p>", "**b** " * 29_999 + "**b**"),
        ("<p>" + '<a id=r href="#n">1</a> ' * 3_000 + '<ol><li id=n>x <a href="#r">b</a></ol>', "[^1]: x"),
    ],
    ids=["blanks", "items", "runs", "notes"],
)
def test_what_is_long_is_read(page: str, text: str) -> None:
    """In linear time: each took the square of it once."""
    assert text in read(page.encode(), HERE).body


TABS = """<ul role=tablist><li><button role=tab aria-controls=a>Linux</button>
<li><button role=tab aria-controls=b>Mac</button></ul>
<div role=tabpanel id=a>Use apt.</div><div role=tabpanel id=b hidden>Use brew.</div>"""
HEXO = """<figure class="highlight python"><table><tr><td class=gutter><pre>1<br>2</pre></td>
<td class=code><pre>a = 1<br>b = 2
</pre></td></tr></table></figure>"""
HUGO = """<div class=highlight><div><table><tr><td><pre><code><span>1
</span><span>2
</span></code></pre></td><td><pre><code class=language-python data-lang=python>a = 1
b = 2
</code></pre></td></tr></table></div></div>"""
VITEPRESS = """<div class=vp-code-group><div class=tabs><input type=radio><label>Linux</label><label>Mac</label></div>
<div class=blocks><div class=language-js><span class=lang>js</span><pre class=shiki><code>a</code></pre></div>
<div class=language-js><span class=lang>js</span><pre class=shiki><code>b</code></pre></div></div></div>"""
FOOTED = """<main><p>A<a id=r href="#n">1</a>.</p><section><h2>Footnotes</h2><ol><li id=n>Note.<a href="#r">b</a></ol>
</section><ul class=table-of-contents><li>Contents</ul></main>"""
GITHUB = """<table class=highlight><tr><td class=blob-num data-line-number=1><td class="blob-code js-file-line">a = 1
<tr><td class=blob-num data-line-number=2><td class="blob-code js-file-line">b = 2</table>"""


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (TABS, "**Linux**\n\nUse apt.\n\n**Mac**\n\nUse brew.\n"),
        ("<h3><button aria-expanded=false>Why?</button></h3><div class=collapse hidden>So.</div>", "### Why?\n\nSo.\n"),
        (HUGO, "```python\na = 1\nb = 2\n```\n"),
        (VITEPRESS, "**Linux**\n\n```js\na\n```\n\n**Mac**\n\n```js\nb\n```\n"),
        (FOOTED, "A[^1].\n\n[^1]: Note.\n"),
        (HEXO, "```\na = 1\nb = 2\n```\n"),
        (
            "<p>A <a name=c1 href='#s1'><sup>1</sup></a> b.<div id=n1><p><a name=s1 href='#c1'>1</a>Note.</div>",
            "A [^1] b.\n\n[^1]: Note.\n",
        ),
        (
            "<p>A<a id=r1 href='#/n1'><sup>1</sup></a><section><ol><li id=n1>Note.<a href='#/r1'>b</a></ol></section>",
            "A[^1]\n\n[^1]: Note.\n",
        ),
        (
            "<header><a href=x>Home</a></header><p><mjx-container><svg data-latex='x<3'>x</svg></mjx-container> once.",
            "$x<3$ once.\n",
        ),
        ("<p><span class=MathJax>x2</span><script type='math/tex'>x^2</script> once.", "$x^2$ once.\n"),
    ],
)
def test_what_a_click_shows_and_what_a_script_set_is_read_once(page: str, text: str) -> None:
    """Tab panels, accordions, code beside its line numbers, notes of LibreOffice and reveal.js, MathJax 2."""
    assert read(page.encode(), HERE).body == text


def test_code_with_a_row_for_each_line_is_code() -> None:
    """As on GitHub."""
    assert [line for line in read(GITHUB.encode(), HERE).body.split("\n") if line] == ["```", "a = 1", "b = 2", "```"]
