"""What an mdBook includes is shown, from its own folder only."""

from __future__ import annotations

from pathlib import Path

from lmm.books.as_read import as_read
from lmm.books.chapters import chapter_of

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
    assert as_read(CHAPTER, chapter_of(tmp_path / "book/src/a.md")) == READ
