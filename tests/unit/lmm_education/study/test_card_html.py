"""Markdown as Anki shows it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from strategies import documents, texts

from lmm_education.study.cards import to_html

SHOWN = {
    "a $x_1 * y_2$ *b*": "<p>a \\(x_1 * y_2\\) <em>b</em></p>",
    "$$\nx < y\n$$ {#eq:a}": "<p>\\[\nx &lt; y\n\\]</p>",
    "\\[ a & b \\]": "<p>\\[ a &amp; b \\]</p>",
    "\\(x \\in \\{0,1\\}\\), $\\{y\\}$": "<p>\\(x \\in \\{0,1\\}\\), \\(\\{y\\}\\)</p>",
    "\\begin{align}\na &= b \\\\\nc\n\\end{align}": "\\[\\begin{align}\na &amp;= b \\\\\nc\n\\end{align}\\]",
    "It costs $5 and $6.": "<p>It costs $5 and $6.</p>",
    "a \\$5$ b": "<p>a $5$ b</p>",
    "`$x$` and ``a ` $y$``": "<p><code>$x$</code> and <code>a ` $y$</code></p>",
    '```{r, fig.height=4}\nx <- "$a$"\n```': '<pre><code class="language-r">x &lt;- &quot;$a$&quot;\n</code></pre>',
    "<script>alert(1)</script>": "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
    "[x](javascript:alert(1))": "<p>[x](javascript:alert(1))</p>",
    "$</p><script>$": "<p>\\(&lt;/p&gt;&lt;script&gt;\\)</p>",
    "| a |\n|---|\n| $x$ |": "<td>\\(x\\)</td>",
}


@pytest.mark.parametrize("source", SHOWN)
def test_html(source: str) -> None:
    """Formulas for MathJax, code as it is, HTML as text."""
    assert SHOWN[source] in to_html(source)


def test_pictures_get_other_names() -> None:
    """Where they are kept."""
    assert 'src="p&quot;.png"' in to_html("![a](fig/a%20b.png)", picture=lambda path: 'p".png')
    asked: list[str] = []
    to_html("![a](a&b.png)", picture=lambda path: asked.append(path) or path)  # type: ignore[func-returns-value]
    assert asked == ["a&b.png"]


OURS = {"p", "em", "strong", "code", "pre", "a", "img", "ul", "ol", "li", "blockquote", "h", "hr", "br", "s",
        "table", "thead", "tbody", "tr", "th", "td"}  # fmt: skip


@given(documents() | texts())
def test_only_our_own_tags_come_out(source: str) -> None:
    """Whatever the text: no script, no handler, nothing that raises."""
    tags = set(re.findall(r"<\s*/?\s*([a-zA-Z]+)", to_html(source)))
    assert tags <= OURS
