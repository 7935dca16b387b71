"""What code showed is read from rendered pages, if they are of the code as it is now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmm_education.books.chapters import Books
from lmm_education.books.rendered_text import rendered_text

CHAPTER = """# Colour

```{r first, fig.width=3}
x <- c(1, 2)
mean(x)

sum(x)
```

Text.

```{r}
y + 1 > 2
```

```{r, echo=FALSE}
hidden
```
"""
READ = """# Colour

```r
x <- c(1, 2)
mean(x)
```

```
## [1] 1.5
```

```r
sum(x)
```

```
## [1] 3
```

Text.

```r
y + 1 > 2
```

```
## [1] TRUE
```"""
BOOKDOWN = """<p>Before.</p>
<div class="sourceCode" id="cb1"><pre class="sourceCode r"><code class="sourceCode r"><span id="cb1-1"><a href="#cb1-1"
 tabindex="-1"></a>x <span class="ot">&lt;-</span> <span class="fu">c</span>(<span class="dv">1</span>, 2)</span>
<span id="cb1-2"><a href="#cb1-2" tabindex="-1"></a><span class="fu">mean</span>(x)</span></code></pre></div>
<pre><code>## [1] 1.5</code></pre>
<div class="sourceCode" id="cb3"><pre class="sourceCode r"><code class="sourceCode r">sum(x)</code></pre></div>
<pre><code>## [1] 3</code></pre>
<p>Text.</p>
<div class="sourceCode" id="cb5"><pre class="sourceCode r"><code class="sourceCode r">y + 1 &gt; 2</code></pre></div>
<pre><code>## [1] TRUE</code></pre>
<p>After.</p><pre><code>## no output</code></pre>"""
QUARTO = """<div class="cell"><details class="code-fold"><summary>Code</summary>
<div class="sourceCode cell-code" id="cb1"><pre class="sourceCode r code-with-copy"><code class="sourceCode r"><span
 id="cb1-1"><a href="#cb1-1" aria-hidden="true"></a>x <span class="ot">&lt;-</span> c(1, 2)</span>
<span id="cb1-2"><a href="#cb1-2" aria-hidden="true"></a>mean(x)</span></code><button title="Copy to Clipboard"
 class="code-copy-button"><i class="bi"></i></button></pre></div></details>
<div class="cell-output cell-output-stdout">
<pre><code>## [1] 1.5</code></pre>
</div>
<div class="sourceCode cell-code" id="cb3"><pre class="sourceCode r"><code>sum(x)</code></pre></div>
<div class="cell-output cell-output-stdout"><pre><code>## [1] 3</code></pre></div></div>
<p>Text.</p>
<div class="cell"><div class="sourceCode cell-code"><pre class="sourceCode r"><code>y + 1 &gt; 2</code></pre></div>
<div class="cell-output-display"><pre><code>## [1] TRUE</code></pre></div></div>"""


@pytest.mark.parametrize(
    ("page", "chapter", "files"),
    [
        ("_book/colour.html", "01.Rmd", {"_bookdown.yml": "rmd_files: [01.Rmd]\n", "_book/colour.html": BOOKDOWN}),
        ("out/a/01.html", "a/01.qmd", {"_quarto.yml": "project: {type: book, output-dir: out}\n"
                                       "book: {chapters: [a/01.qmd]}\n", "out/a/01.html": QUARTO}),
        ("01.html", "01.Rmd", {"01.html": BOOKDOWN.replace("sourceCode r", "r")}),
    ],
)  # fmt: skip
def test_output_in_pages_is_placed_below_its_code(
    tmp_path: Path, page: str, chapter: str, files: dict[str, str]
) -> None:
    """Of the code that is in the page, while the page is not older than the chapter."""
    for name, text in {chapter: CHAPTER, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    file = tmp_path / chapter
    assert rendered_text(CHAPTER, Books().chapter(file)) == READ
    file.write_text(changed := CHAPTER.replace("sum(x)", "sum(y)"))
    os.utime(tmp_path / page)
    read = rendered_text(changed, Books().chapter(file))
    assert ("[1] TRUE" in read, "[1] 3" in read) == (True, False)
    os.utime(tmp_path / page, (1, 1))
    assert "##" not in rendered_text(CHAPTER, Books().chapter(file))
