"""Texts of small books as their readers see them, and what readers see where code was run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from lmm.bibliography import read_bibliography
from lmm.notebook.outputs import values_in
from lmm_education.books.chapters import BookChapter, Books
from lmm_education.books.dialects import as_shown
from lmm_education.books.rendered_text import rendered_text

BIB = """@string{x = "y"}
@article{darwin, author = "Darwin, Charles", date = {1859-11-24}, title={On the {Origin}}}
@book{two, author = {Gregor Mendel and {The Company}}, year = 1866}
@misc{many, editor = {M{\\"u}ller, A and B, C and D, E}, year = {2001}}
@manual{none, title = {{R}: A Language}}
"""
QUARTO = r"""# Leaves {#sec-leaves}

See @sec-colour, [Chapter -@sec-leaves], @fig-leaf, @fig-a, @tbl-t, @eq-e and @thm-t;
[@fig-leaf]; not @nobody or a@b.de.

Said by @darwin, [see @darwin, p. 3; @two], @many [ch. 2]
and [-@none]; not by [@unknown].

![A leaf, as in @darwin](leaf.png){#fig-leaf width=50%}

::: {#fig-both layout-ncol=2}
![One](a.png){#fig-a}

![Two](b.png){#fig-b}

Both.
:::

| a |
|---|
| 1 |

: The table {#tbl-t .striped}

$$
x = y
$$ {#eq-e}

```{r}
#| label:	fig-drawn
#| fig-cap: "Drawn, *here*"
#| echo: false
plot(1)
```

```{r setup, include=FALSE}
library(x)
```

```{python}
#| eval: false
print(1)
```

::: {.callout-tip}
## A title
Text.
:::

::: {#thm-t}
## Pythagoras
Squares.
:::

::: {.content-visible when-format="pdf"}
In print.
:::

A value `{r} 1 + x`, `r#raw`, `code @fig-leaf`, <span class="x">HTML</span>, <!-- a comment --> $a@fig-leaf$.

## Colour {#sec-colour .x}
"""
QUARTO_READ = r"""# Leaves

See Section 1.1, Chapter 1, Figure 1.1, Figure 1.2 (a), Table 1.1, Equation 1.1 and Theorem 1.1;
Figure 1.1; not @nobody or a@b.de.

Said by Darwin (1859), (see Darwin 1859, p. 3; Mendel and The Company 1866), Müller et al. (2001, ch. 2)
and (n.d.); not by [@unknown].

![Figure 1.1: A leaf, as in Darwin (1859)](leaf.png)

![Figure 1.2 (a): One](a.png)

![Figure 1.2 (b): Two](b.png)

Figure 1.2: Both.

| a |
|---|
| 1 |

Table 1.1: The table

$$
x = y \qquad (1.1)
$$

Figure 1.3: Drawn, *here*

```python
print(1)
```

> **Tip: A title**
>
> Text.

**Theorem 1.1 (Pythagoras).** Squares.

A value …, `r#raw`, `code @fig-leaf`, HTML,  $a@fig-leaf$.

## Colour"""
BOOKDOWN = r"""# Leaves {#leaves}

See Chapter \@ref(leaves), Section \@ref(their-colour), Figure \@ref(fig:leaf), Table \@ref(tab:t),
\@ref(eq:e), \@ref(thm:t), \@ref(gone).\index{leaf!green} Of `r n` leaves
`r ifelse(knitr::is_latex_output(), 'printed', 'shown')` are green [@darwin].^[See \@ref(fig:old) and \@ref(tab:named).]

(ref:cap) A caption of @darwin.

```{r leaf, echo=FALSE, fig.cap="(ref:cap)", out.width="50%"}
knitr::include_graphics(c("img/a b.png", 'img/c.png'))
```

```{r t, echo=FALSE}
knitr::kable(x, caption = "All, of \"it\"")
```

```{r old}
#| echo = FALSE,
#| fig.cap = "With commas"
knitr::include_graphics("img/old.png")
```

```{r, echo=FALSE}
knitr::kable(x, caption = "Named", label = "named")
```

```{exercise, why, name="Green"}
Why, \@ref(exr:why)?
```

\begin{equation}
x = y (\#eq:e)
\end{equation}

::: {.theorem #t name="Name"}
Squares.
:::

```{block, type='box'}
In a **box**.
```

## Their colour
"""
BOOKDOWN_READ = r"""# Leaves

See Chapter 1, Section 1.1, Figure 1.1, Table 1.1,
1.1, 1.1, \@ref(gone). Of … leaves
shown are green (Darwin 1859).^[See 1.2 and 1.2.]

![](<../img/a b.png>)

![](../img/c.png)

Figure 1.1: A caption of Darwin (1859).

Table 1.1: All, of "it"

![Figure 1.2: With commas](../img/old.png)

Table 1.2: Named

**Exercise 1.1 (Green).** Why, 1.1?

\begin{equation}
x = y \qquad (1.1)
\end{equation}

**Theorem 1.1 (Name).** Squares.

In a **box**.

## Their colour"""
MDBOOK = """# Slices

<Listing number="4-1" file-name="src/main.rs" caption="A `Vec<T>`">

```rust,ignore
# fn main() {
let s = &a[1..];
# }
```

</Listing>

<img alt="A
slice" src="img/slice.svg" class="center" style="width: 50%" /> A `Vec<T>`, a Vec<T>, a<br>b.
<dl><dt>Leaf</dt><dd>green</dd></dl><ul><li>one</li><li>two</li></ul><pre class="src"><b>c</b></pre>

```rust
{{#rustdoc_include ../listings/a.rs:here}}
```
"""
MDBOOK_READ = """# Slices

Listing 4-1: A `Vec<T>` (src/main.rs)

```rust,ignore
let s = &a[1..];
```

![A slice](img/slice.svg) A `Vec<T>`, a Vec<T>, a b.
Leaf: green
one
two
c"""
MYST = """(start)=
# Start

```{note} Mind
This, in {ref}`the start <start>` and {math}`x^2`; {cite}`darwin`.
```

See {ref}`start`, {doc}`two`, [](two.md), [](#start), [](./two.md#gone), [](gone).

```{code-cell} ipython3
1 + 1
```

!!! warning "Look"
    Twice.

    ```
    code
    ```

After.
"""
MYST_READ = """# Start

> **Note: Mind**
>
> This, in the start and $x^2$; (Darwin 1859).

See start, two, [](two.md), [](#start), [](./two.md#gone), [](gone).

```python
1 + 1
```

> **Warning: Look**
> Twice.
>
> ```
> code
> ```

After."""
BOOKS = {
    "_quarto.yml": ("book: {chapters: [b/one.qmd]}\nbibliography: [refs.bib]\n", "b/one.qmd", QUARTO, QUARTO_READ),
    "_bookdown.yml": (
        "rmd_files: [b/one.Rmd]\n",
        "b/one.Rmd",
        f"---\nbibliography: ../refs.bib\n---\n{BOOKDOWN}",
        BOOKDOWN_READ,
    ),
    "SUMMARY.md": ("- [Slices](one.md)\n- [Two](two.md)\n", "one.md", MDBOOK, MDBOOK_READ),
    "no book": (
        "",
        "one.md",
        f"---\nbibliography: refs.bib\n---\n{MYST}",
        MYST_READ,
    ),
}


@pytest.mark.parametrize("kind", BOOKS)
def test_a_chapter_reads_as_in_its_book(kind: str, tmp_path: Path) -> None:
    """References, citations, captions, callouts, code: as the tool that makes the book shows them."""
    project, file, text, expected = BOOKS[kind]
    (tmp_path / "b").mkdir()
    for name, content in {kind: project, file: text, "refs.bib": BIB, "two.md": "# Two\n"}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    body = text.partition("\n---\n")[2] if text.startswith("---") else text
    assert rendered_text(as_shown(body), Books().chapter(tmp_path / file)) == expected


FROZEN = """
::: {.cell}

:::

Text.

::: {.cell}

```{.r .cell-code}
1 + 1
```

::: {.cell-output .cell-output-stdout}

```
[1] 2
```

:::
:::

::: {.cell}
::: {.cell-output-display}
![A line](one_files/figure-html/fig-line-1.png){#fig-line}
:::
:::
"""
RUN = """```{r}
#| include: false
library(x)
```

Text, in @fig-line.

```{r}
1 + 1
```

```{r}
#| label: fig-line
#| fig-cap: A line
#| echo: false
plot(1)
```
"""
SHOWN = """Text, in Figure 1.

```r
1 + 1
```

```
[1] 2
```

![Figure 1: A line](_freeze/one/figure-html/fig-line-1.png)"""


def test_what_was_frozen_is_shown(tmp_path: Path) -> None:
    """In the place of the code that showed it; of code that has changed since, nothing is."""
    (tmp_path / "_quarto.yml").write_text("website: {sidebar: {contents: [one.qmd]}}\n")
    (tmp_path / "one.qmd").write_text(RUN)
    results = tmp_path / "_freeze/one/execute-results"
    results.mkdir(parents=True)
    (results / "html.json").write_text(json.dumps({"result": {"markdown": FROZEN}}))
    assert rendered_text(RUN, Books().chapter(tmp_path / "one.qmd")) == SHOWN
    (tmp_path / "one.qmd").write_text(changed := RUN.replace("1 + 1", "1 + 2"))
    assert "[1] 2" not in rendered_text(changed, Books().chapter(tmp_path / "one.qmd"))


def test_what_knitr_wrote_beside_is_shown(tmp_path: Path) -> None:
    """The markdown that it kept, else the pictures that it drew."""
    text = "Before.\n\n```{r a-line, fig.cap='A line'}\nplot(1)\n```\n\nAfter.\n"
    (tmp_path / "one.Rmd").write_text(text)
    figures = tmp_path / "one_files/figure-html"
    figures.mkdir(parents=True)
    (figures / "a-line-1.png").write_bytes(b"\\x89PNG")
    code = "Before.\n\n```r\nplot(1)\n```\n\n"
    drawn = f"{code}![Figure 1: A line](one_files/figure-html/a-line-1.png)\n\nAfter."
    assert rendered_text(text, Books().chapter(tmp_path / "one.Rmd")) == drawn
    knitted = (
        "Before.\n\n``` r\nplot(1)\n```\n\n    ## NULL\n\n![A line](one_files/figure-gfm/a-line-1.png)\n\nAfter.\n"
    )
    (tmp_path / "one.md").write_text(knitted)
    assert rendered_text(text, Books().chapter(tmp_path / "one.Rmd")) == knitted.strip()


def test_a_figure_of_code_that_is_not_shown_is_there_once(tmp_path: Path) -> None:
    """Also where its chunk touches the one before."""
    text = "Before.\n\n```{r a}\nplot(1)\n```\n\n---\n?: why so?\n---\n\n```{r b, echo=FALSE}\nplot(2)\n```\n\nAfter.\n"
    (tmp_path / "one.Rmd").write_text(text)
    figures = tmp_path / "one_files/figure-html"
    figures.mkdir(parents=True)
    for name in "ab":
        (figures / f"{name}-1.png").write_bytes(b"\\x89PNG")
    picture = "![](one_files/figure-html/{}-1.png)"
    knitted = f"Before.\n\n``` r\nplot(1)\n```\n\n{picture.format('a')}\n\n{picture.format('b')}\n\nAfter.\n"
    (tmp_path / "one.md").write_text(
        knitted.replace(picture.format("b"), "---\n?: why so?\n---\n\n" + picture.format("b"))
    )
    (tmp_path / "one.Rmd").write_text(text)
    text = text.replace("---\n?: why so?\n---\n\n", "")  # questions are no part of what is stored
    assert rendered_text(text, Books().chapter(tmp_path / "one.Rmd")) == knitted.strip()


def test_values_in_sentences_are_read_off_what_knitr_wrote(tmp_path: Path) -> None:
    """Where the words around them are there still; of code that showed two things, nothing is known."""
    text = "There are `r nrow(d)` rows, `r 100 * p` % of them new.\n\nOne more line: `r i`.\n\nAnother line: `r i`.\n"
    (tmp_path / "one.Rmd").write_text(text)
    (tmp_path / "one.md").write_text(
        "There are 32 rows, 12.5 % of them new.\n\nOne more line: 1.\n\nAnother line: 2.\n"
    )
    chapter = Books().chapter(tmp_path / "one.Rmd")
    assert chapter.ran.values == {"nrow(d)": "32", "100 * p": "12.5"}
    shown = rendered_text(text, chapter)
    assert shown.startswith("There are 32 rows, 12.5 % of them new.\n\nOne more line: ….")
    same = "The mean is `r mean(x)` cm.\n\nThe mean is `r mean(y)` cm.\n"
    assert values_in(same, "The mean is 3 cm.\n\nThe mean is 5 cm.\n") == {}
    assert values_in("The mean is `r mean(x)` cm.\r\n", "The mean is 3 cm.\r\n") == {"mean(x)": "3"}
    changed = text.replace("of them new", "of them old")
    (tmp_path / "one.Rmd").write_text(changed)
    assert rendered_text(changed, Books().chapter(tmp_path / "one.Rmd")).startswith(
        "There are … rows, … % of them old."
    )


def test_nothing_outside_of_the_folder_is_looked_at(tmp_path: Path) -> None:
    """Neither a bibliography, nor results, nor figures beyond a link, or where a project file says."""
    book, outside = tmp_path / "book", tmp_path / "outside"
    (outside / "execute-results").mkdir(parents=True)
    (outside / "execute-results/html.json").write_text(json.dumps({"result": {"markdown": FROZEN}}))
    (outside / "refs.bib").write_text(BIB)
    (book / "_freeze").mkdir(parents=True)
    (book / "_freeze/one").symlink_to(outside)
    (book / "linked.bib").symlink_to(outside / "refs.bib")
    (book / "_quarto.yml").write_text(
        f"project: {{output-dir: {outside}}}\nbook: {{chapters: [one.qmd]}}\n"
        f"bibliography: [linked.bib, ../outside/refs.bib, {outside}/refs.bib]\n"
    )
    (book / "one.qmd").write_text(RUN)
    chapter = Books().chapter(book / "one.qmd")
    assert (chapter.citations, chapter.ran.cells, chapter.ran.pictures) == ({}, {}, {})


def test_bibliographies_in_csl() -> None:
    """As JSON, as YAML; what is broken gives nothing."""
    text = '[{"id": "a", "author": [{"family": "Gray"}], "issued": {"date-parts": [[1858, 1]]}}, {"id": "b"}]'
    assert read_bibliography(text, "a.json") == {"a": ("Gray", "1858"), "b": ("b", "n.d.")}
    assert read_bibliography("references:\n- {id: a, author: [{literal: WHO}], issued: 1999}\n", "a.yaml") == {
        "a": ("WHO", "1999")
    }
    assert read_bibliography("[", "a.json") == {}


@given(st.text("ab @#[](){}`$\\<>!|:-=.\n", max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    """Whatever stands in it; and a text without markup is as it was."""
    rendered_text(text, BookChapter(labels={"a": "Figure 1", "fig:a": "1"}, citations={"b": ("B", "1")}))
    plain = text.translate(str.maketrans("", "", "@<{`\\:![(]>"))
    assert rendered_text(plain) == plain


def test_code_that_holds_a_fence_stays_in_its_own() -> None:
    """However long the fence in it is."""
    written = "````{r}\nx <- '\n```\n'\n````"
    assert rendered_text(written) == "````r\nx <- '\n```\n'\n````"
