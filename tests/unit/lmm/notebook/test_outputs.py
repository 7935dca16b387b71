"""What the chunks of a knitted document printed is found, and sent with a question about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm import Document
from lmm.cli.main import main
from lmm.notebook.outputs import cell_outputs, printed, values_in

SOURCE = """---
title: Paper
output: github_document
---

# Data

---
?: do the numbers fit?
---
```{r a}
x <- c(1, 2, 3)
mean(x)
```

```{r b}
sd(x)
```
```{r c, echo=FALSE}
var(x)
```

There are `r length(x)` values, with mean `r mean(x)`.

```{r d}
max(x)
plot(x)
```

`r length(x)` is all. Then more.

```{r e, include=FALSE}
min(x)
```

The end.
"""
KNITTED = """---
title: Paper
---

# Data


```r
x <- c(1, 2, 3)
mean(x)
```

```
## [1] 2
```


```r
sd(x)
```

```
## [1] 1
```

```
## [1] 1.5
```

There are 3 values, with mean 2.


```r
max(x)
```

```
## [1] 3
```

```r
plot(x)
```

![](paper_files/d-1.png)

3 is all. Then more.



The end.
"""


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    """A document with the file that knitr made of it."""
    (tmp_path / "paper.Rmd").write_text(SOURCE)
    (tmp_path / "paper.md").write_text(KNITTED)
    return tmp_path / "paper.Rmd"


def test_each_chunk_has_its_own_output(paper: Path) -> None:
    """Where chunks touch, where their code is not shown, where the next paragraph has values: nothing lost or twice."""
    ran = cell_outputs(paper, paper.parent, {})
    assert ran.file == "paper.md"
    assert ran.cells["a"].endswith("```\n## [1] 2\n```")
    assert ran.cells["b"] == "```r\nsd(x)\n```\n\n```\n## [1] 1\n```\n\n```\n## [1] 1.5\n```"
    assert ran.cells["c"] == ran.cells["e"] == ""
    assert ran.cells["d"].count("```r") == 2
    assert ran.values == {"length(x)": "3", "mean(x)": "2"}
    stored = "".join(ran.cells.values())
    assert all(stored.count(code) == 1 for code in ("mean(x)", "sd(x)", "max(x)", "## [1] 2", "## [1] 1.5", "d-1.png"))


def test_outputs_after_a_changed_text_belong_to_nobody(paper: Path) -> None:
    """The chunk may be another one, too."""
    paper.write_text(
        SOURCE.replace("`r length(x)` is all. Then more.", "Something else now.\n\n```{r new}\n1\n```\n\nA.")
    )
    ran = cell_outputs(paper, paper.parent, {})
    assert {"d", "new"}.isdisjoint(ran.cells)
    assert "## [1] 1\n" in ran.cells["b"]


def test_a_question_is_sent_with_what_the_chunk_printed(paper: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The dry run says from which file; the code is not repeated."""
    assert main(["messages", "--dry-run", str(paper)]) == 0
    out = capsys.readouterr().out
    assert '<output from="a, from paper.md">\n```\n## [1] 2\n```\n</output>' in out
    assert out.count("mean(x)\n```") == 1


def test_outputs_of_older_code_and_hidden_ones_are_not_sent(paper: Path) -> None:
    """Figures are those of the output."""
    chunk = "```{r d}\nmax(x)\nplot(x)\n```"
    ((name, shown, file),) = printed(paper, chunk)
    assert (name, file) == ("d", "paper.md")
    assert shown.startswith("```\n## [1] 3\n```")
    assert shown.endswith("![](paper_files/d-1.png)")
    assert list(printed(paper, chunk.replace("max(x)", "min(x)"))) == []
    assert list(printed(paper, chunk.replace("r d", "r d, include=FALSE"))) == []
    assert list(printed(paper, chunk.replace("max(x)", "#| output: false\nmax(x)"))) == []


def test_a_reply_that_quotes_the_text_does_not_hide_the_value_in_the_knitted_file() -> None:
    """The reply is in both files, and not computed."""
    reply = '---\n~chat_:\n  - query: why?\n    ~reply: "> The slope in our data is \\x60r b\\x60 here, see."\n---\n\n'
    text = "The slope in our data is `r b` here, see."
    assert values_in(f"# S\n\n{reply}{text}\n", f"# S\n\n{reply}{text.replace('`r b`', '2.5')}\n") == {"b": "2.5"}


def test_a_header_hides_the_code_of_all_cells_that_do_not_show_it() -> None:
    """As the page does."""
    for header in (
        "execute:\n  echo: false",
        "knitr:\n  opts_chunk:\n    echo: false",
        "format:\n  html:\n    echo: false",
    ):
        cells = "```{r}\nhidden(1)\n```\n\n```{r}\n#| echo: true\nshown(1)\n```\n"
        text = f"---\ntitle: T\n{header}\n---\n\n# S\n\n---\nquery: why?\n---\n\nText.\n\n{cells}"
        (request,) = Document.from_text(text).requests()
        assert "shown(1)" in str(request)
        assert "hidden(1)" not in str(request)
