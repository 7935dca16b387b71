"""What an mdBook includes is shown, from its own folder only."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm_education.books.chapters import Books
from lmm_education.books.dialects import as_shown
from lmm_education.books.rendered_text import rendered_text

CHAPTER = """# Leaves

```rust
{{#rustdoc_include ../listings/a.rs:here}}
```

```console
{{#include ../listings/out.txt:2:3}}
```

```text
{{#include ../../secret.txt}}
```
"""
READ = "# Leaves\n\n```rust\nlet leaf = 1;\n```\n\n```console\ntwo\nthree\n```"


def test_code_shows_what_it_includes(tmp_path: Path) -> None:
    """Lines and anchors of files in the book; what lies above its folder, and hidden lines, are not read."""
    files = {
        "secret.txt": "SECRET\n",
        "book/book.toml": "",
        "book/src/SUMMARY.md": "# Summary\n\n- [Leaves](a.md)\n- [Roots](b.md)\n",
        "book/src/a.md": CHAPTER,
        "book/src/b.md": "# Roots\n",
        "book/listings/a.rs": "fn main() {\n// ANCHOR: here\n# hidden\nlet leaf = 1;\n// ANCHOR_END: here\n}\n",
        "book/listings/out.txt": "one\ntwo\nthree\nfour\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert rendered_text(CHAPTER, Books().chapter(tmp_path / "book/src/a.md")) == READ


def test_prose_shows_what_it_includes(tmp_path: Path) -> None:
    """A document, or lines of it, as readers see it; not one in which metadata hide something."""
    files = {
        "book.toml": "",
        "src/SUMMARY.md": "# Summary\n\n- [Leaves](a.md)\n- [Roots](b.md)\n",
        "src/b.md": "# Roots\n",
        "README.md": "---\ntitle: Read me\n---\n\n# Leaves\n\nThey are green<!-- mostly -->.\n",
        "src/hidden.md": "A.\n\n---\ntype: solution\n---\n\nSecret.\n",
        "src/a.md": "{{#include ../README.md}}\n\nMore: {{#include ../README.md:7}}\n\n{{#include hidden.md}}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    read = rendered_text(files["src/a.md"], Books().chapter(tmp_path / "src/a.md"))
    assert read == "# Leaves\n\nThey are green.\n\nMore: They are green."


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a.qmd", "{{< include _x.qmd >}}"),
        ("a.Rmd", '```{r, child="_x.qmd"}\n```'),
        ("a.Rmd", "```{r}\n#| child: [_x.qmd]\n```"),
        ("a.Rmd", '```{r, child=c("_x.qmd", "none.Rmd")}\n```'),
    ],
)
def test_documents_show_those_that_they_include(tmp_path: Path, name: str, written: str) -> None:
    """One in the other too, but none that is its own part, has metadata (who may see that?), or lies elsewhere."""
    (tmp_path / "book").mkdir()
    (tmp_path / "_up.qmd").write_text("Secret.\n")
    (tmp_path / "book/_meta.qmd").write_text("Text.\n\n---\ntype: solution\n---\n\nSecret.\n")
    (tmp_path / "book/_all.qmd").write_text("---\ntype: solution\n---\n\nSecret.\n")
    (tmp_path / "book/_y.md").write_text("In it.\n")
    inner = "---\ntitle: X\n---\n\nLeaves.\n\n{{< include _y.md >}}\n\n{{< include _x.qmd >}}\n"
    (tmp_path / "book/_x.qmd").write_text(inner)
    others = "".join(f"{{{{< include {other}.qmd >}}}}\n\n" for other in ("../_up", "_meta", "_all"))
    text = f"# A\n\n{written}\n\n{others}"
    (tmp_path / "book" / name).write_text(text)
    read = rendered_text(text, Books().chapter(tmp_path / "book" / name))
    assert read.startswith("# A\n\nLeaves.\n\nIn it.\n\n{{< include _x.qmd >}}\n")
    assert "Secret" not in read


SNIPPETS = """# Roots

--8<-- "terms.md"

!!! note

    --8<-- "more/part.txt:here"

```python title="a.py"
--8<-- "docs/a.py:2:3"
```

--8<--
terms.md
;terms.md
--8<--

--8<-- [start:own]
Own.
--8<-- [end:own]

--8<-- "none.md"

`--8<-- "terms.md"` and ;--8<-- "terms.md"
"""
SNIPPETS_READ = """# Roots

A term.

> **Note**
>
> Here.

```python title="a.py"
two
three
```

A term.

Own.

`--8<-- "terms.md"` and ;--8<-- "terms.md\""""


def test_a_page_of_mkdocs_shows_its_snippets(tmp_path: Path) -> None:
    """Whole files, sections and lines, in text and in code; what is not there is left out."""
    files = {
        "mkdocs.yml": "site_name: Plants\nnav:\n  - docs/a.md\n",
        "terms.md": "A term.\n",
        "docs/a.md": SNIPPETS,
        "docs/a.py": "one\ntwo\nthree\nfour\n",
        "docs/more/part.txt": "# --8<-- [start:here]\nHere.\n# --8<-- [end:here]\nNot here.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert rendered_text(as_shown(SNIPPETS), Books().chapter(tmp_path / "docs/a.md")) == SNIPPETS_READ
