"""Markdown as HTML: nothing that runs or loads comes out, whatever goes in."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from lmm_education.answer.answer import AnswerBlock
from lmm_education.answer.blocks import BlockStream
from lmm_education.material import Lines
from lmm_education.web.rendering import _ELEMENTS, lines_of, marked_html, title_html, to_html

TAGS = frozenset(
    re.findall(
        r"\w+",
        "p h1 h2 h3 h4 h5 h6 em strong s code pre span div a ul ol li blockquote hr br table thead tbody tr th td "
        "figure figcaption sup sub dl dt dd input",
    )
)
ATTRIBUTES = {
    "class",
    "href",
    "target",
    "rel",
    "title",
    "data-source",
    "tabindex",
    "start",
    "type",
    "checked",
    "disabled",
}
TRICKS = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "![x](http://evil/x.png)",
    "[a](data:text/html,x)", "<a href='x' onclick=y>", "$\\text{<img src=x onerror=alert(1)>}$", 
    "```\"><script>\nx\n```",
    "$\\href{javascript:alert(1)}{x}$", "$$\n\\style{position:fixed}{x}\n$$", "[x]: javascript:y\n\n[x]", "<!-- -->",
    "$\\class{\"><script>}{x}$", "[a](http://b.c 'x\" onmouseover=\"y')", "<http://a.b/\"onclick=x>", "[1]", "[1, 2]",
    "|a|b|\n|-|:-:|\n|<b>|$x$|", "- a\n  1. b", "> $$\n> x\n> $$", "\\(", "\\[", "$$", "`", "~~~", "\x00",
    "&lt;script&gt;", "![<b>](x)", "\n\n![*a* <script>](x)\n\n", "a[^1]\n\n[^1]: <img src=x>\n\n", "t\n: <b>d</b>\n",
    "- [x] <i>\n- [ ] b\n", "> [!NOTE]\n> <b>\n", "|a|\n|-|\n\nTable: <b>\n\n",
    "\\begin{align}\na &= b\n\\end{align}", "$\\newcommand{\\a}{\\b\\b}\\a$", "\n\n", " ", "\n", "**", "x", "$x^2$",
]  # fmt: skip


class Seen(HTMLParser):
    """Every element, with its attributes, that a browser would make."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.wrong: list[object] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _ELEMENTS:
            self.wrong += [pair for pair in attrs if pair[0].startswith(("on", "href", "src", "style", "class"))]
            return
        if tag not in TAGS:
            self.wrong.append(tag)
        for name, value in attrs:
            if name not in ATTRIBUTES or (name == "href" and not (value or "").startswith(("http", "mailto:", "#"))):
                self.wrong.append((tag, name, value))

    def handle_comment(self, data: str) -> None:
        self.wrong.append(data)


@given(st.lists(st.sampled_from(TRICKS) | st.text(max_size=5), max_size=8))
def test_nothing_that_runs_or_loads_comes_out(parts: list[str]) -> None:
    """Elements and attributes are those of our lists, whatever is put next to what."""
    text = "".join(parts)
    for html in (to_html(text, numbers=[1, 2]), title_html(text), marked_html(text, Lines(1, 2))):
        assert not Seen(html).wrong, html


@given(st.lists(st.sampled_from(TRICKS), max_size=8), st.integers(1, 7))
def test_a_stream_loses_nothing(parts: list[str], size: int) -> None:
    """What has ended and what is left are the text, however it is cut."""
    text, stream = "".join(parts), BlockStream()
    blocks = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(block.text for block in (*blocks, stream.rest()) if block) == text


@pytest.mark.parametrize("block", ["$$\na\n\nb\n$$\n", "\\[\na\n\nb\n\\]\n", "\\begin{align}\na\n\nb\n\\end{align}\n"])
def test_formulas_are_not_cut_at_blank_lines(block: str) -> None:
    """They are rendered when they are whole."""
    stream = BlockStream()
    assert not any(stream.feed(line) for line in block.splitlines(keepends=True))
    assert stream.feed("\n") == AnswerBlock(block + "\n")


def test_dollars_that_are_prices_stay() -> None:
    """As in Pandoc."""
    assert "<math" not in to_html("It costs $5, or $6 a piece; `$x$` is code, \\$x\\$ is not.")


@pytest.mark.parametrize("tex", [r"x \in \{0,1\}", r"\|x\|", r"a\%", "x"])
def test_formulas_may_end_with_an_escape(tex: str) -> None:
    """A backslash and a sign are one character of TeX."""
    assert to_html(f"so ${tex}$, and ${tex}$.").count("<math") == 2


def test_a_distribution_has_a_relation() -> None:
    """And no letter."""
    assert "<mi>X</mi><mo>∼</mo><mi>N</mi>" in to_html(r"$X \sim N$")


def test_formulas_of_every_kind() -> None:
    """In a line, on lines of their own, in a quote, with what would be markdown elsewhere."""
    text = "$a_b$ \\(c*d*\\) $$e$$ \\[f\\]\n\n$$\ny = x\n- z\n\n= w\n$$ {#eq:one}\n\n> $$\n> q\n> $$\n"
    html = to_html(text)
    assert html.count("<math") == 6
    assert not [part for part in ("<em>", "<ul>", "eq:one", "&gt;") if part in html]


def test_code_is_coloured_by_its_language() -> None:
    """Chunks of R Markdown too; a language that nobody knows is shown as it is."""
    assert '<span class="nf">lm</span>' in to_html("```{r, echo=FALSE}\nlm(y ~ x)\n```")
    assert "<span" not in to_html("```nosuch\na < b\n```")


def test_the_blocks_of_the_passage_are_marked() -> None:
    """All of them, as one."""
    html = marked_html("a\n\nb\n\n- c\n- d\n\ne\n", Lines(3, 5))
    assert html.count('class="passage"') == 1
    inside = html.partition('<div class="passage">')[2].partition("</div>")[0]
    assert [part in inside for part in ("<p>b</p>", "<li>d</li>", "<p>a</p>", "<p>e</p>")] == [True, True, False, False]
    assert lines_of("b\n\n- c", "a\n\nb\n\n- c\n- d\n") == Lines(3, 5)
    assert lines_of("not there", "a") is None


@pytest.mark.parametrize("opener", ["\\(", "\\[", "$$a\n\n", "\\begin{align}\n\n", "[1, ", "$a\\"])
def test_what_nothing_closes_is_looked_for_only_so_far(opener: str) -> None:
    """Each opener would be looked for to the end of the text: minutes, for a text as long as this one."""
    text, stream = opener * 5000, BlockStream()
    assert to_html(text, numbers=[1]).startswith(("<p>", "<div"))
    assert "".join(block.text for block in (stream.feed(text), stream.rest()) if block) == text


LECTURE = """- [ ] to do
- [x] done

One[^1].

[^1]: A note, *here*.

Term
:   What it is.

> [!WARNING]
> Mind.

![A *leaf*](leaf.png)

| a |
|---|
| 1 |

: The table
"""
LECTURE_HTML = """<ul class="contains-task-list">
<li class="task-list-item"><input class="task-list-item-checkbox" disabled="disabled" type="checkbox"> to do</li>
<li class="task-list-item"><input class="task-list-item-checkbox" checked="checked" disabled="disabled" \
type="checkbox"> done</li>
</ul>
<p>One<sup class="footnote">1</sup>.</p>
<dl>
<dt>Term</dt>
<dd>What it is.</dd>
</dl>
<blockquote>
<p><strong>Warning</strong><br />
Mind.</p>
</blockquote>
<figure><img src="p/leaf.png" alt="A leaf" loading="lazy"><figcaption>A <em>leaf</em></figcaption></figure>
<div class="scroll" tabindex="0"><table>
<thead>
<tr>
<th>a</th>
</tr>
</thead>
<tbody>
<tr>
<td>1</td>
</tr>
</tbody>
</table></div>
<p class="caption">The table</p>
<ol class="footnotes">
<li><p>A note, <em>here</em>.</p>
</li>
</ol>
"""


def test_what_lectures_have() -> None:
    """Tasks, footnotes, definitions, alerts, figures and captions; nothing leads to an id that another text has too."""
    assert to_html(LECTURE, picture=lambda address: f"p/{address}") == LECTURE_HTML


def test_formulas_that_end_in_a_backslash_and_a_sign() -> None:
    """The sign belongs to the formula."""
    html = to_html(r"$a\%$, $b\$$, $c\\$ and \$5.")
    assert html.count("<math") == 3
    assert "<code" not in html
    assert html.endswith("and $5.</p>\n")


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("a<br>b", "a<br />"),
        ("H<sub>2</sub>O, x<sup>2</sup>", "H<sub>2</sub>O, x<sup>2</sup>"),
        ("`<br>`", "<code>&lt;br&gt;</code>"),
        ("<sub><b></sub>", "&lt;sub&gt;&lt;b&gt;&lt;/sub&gt;"),
        ("**注意：**これは", "<strong>注意：</strong>これは"),
        ("重要**「鉤」**です", "重要<strong>「鉤」</strong>です"),
        ("**주의(!)**는", "<strong>주의(!)</strong>는"),
        ("2 * 3 * 4 は", "2 * 3 * 4 は"),
        (
            "See https://a.b/c?d=1.",
            '<a href="https://a.b/c?d=1" target="_blank" rel="noopener noreferrer">https://a.b/c?d=1</a>.',
        ),
        ("(https://a.b/c_(d))", ">https://a.b/c_(d)</a>)"),
        ("`https://a.b`", "<code>https://a.b</code>"),
        (r"$\ce{H2O}$", r'<code class="formula">\ce{H2O}</code>'),
        (r"$\SI{3}{m}$", r'<code class="formula">\SI{3}{m}</code>'),
        (r"$\arg\max_x f$", "<mo>arg</mo>"),
        (r"$\text{\foo}$", r"<mtext>\foo</mtext>"),
    ],
)
def test_what_models_write(markdown: str, expected: str) -> None:
    """Line breaks, indices, bold beside CJK punctuation, addresses; a command that is not known is no formula."""
    assert expected in to_html(markdown)
