"""`lmm scan` and `lmm ingest` say the same of a document: what is refused, and what is stored as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.cli.main import main
from lmm_education import Course

Captured = pytest.CaptureFixture[str]
HEADER = "---\ntitle: A\ndocid: a-1\n---\n\n# A\n\n"
LEFT = {
    "a.md": {
        "Text {{ site.title }}.": "{{ site.title }}",
        '--8<-- "none.md"': "none.md",
        "{{#include b.md}}": "b.md",
        '```py\n--8<-- "none.py"\n```': "none.py",
        "There are `r nrow(d)` rows.": "`r nrow(d)`",
        "{% include note.html %}": "{% include note.html %}",
        "import A from 'a'\n\nThe value is {props.x}.": "{props.x}",
    },
    "a.qmd": {"{{< var x >}}": "{{< var x >}}", "There are `r nrow(d)` rows.": "`r nrow(d)`"},
}
FILLED = {
    "a.md": [
        "Text `{{ site.title }}`.",
        "`ls r` and {x}",
        "```js\n{{ x }}\n```",
        "export const x = 5;\n\nIt is {x}.",
    ],
    "a.qmd": ["{{< pagebreak >}}", '{{< video "a.mp4" >}}', "$\\{x\\}$", "[a]{.b}"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in LEFT.items() for text in texts])
def test_what_is_not_filled_in_is_said(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its line."""
    file = tmp_path / name
    file.write_text(f"{HEADER}{text}\n")
    line = 8 + text.count("\n", 0, text.index(LEFT[name][text]))
    with Course.open(tmp_path) as course:
        notices = course.ingest(file).notices
    assert [notice.partition(": ")[0] for notice in notices] == [f"{file}:{line}"]
    assert f": {LEFT[name][text]} (" in notices[0]
    assert main(["scan", "--check", str(file)]) == 0
    assert LEFT[name][text] in capsys.readouterr().out


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FILLED.items() for text in texts])
def test_what_readers_see_is_not_mentioned(name: str, text: str, tmp_path: Path) -> None:
    """Examples in code, and what is shown."""
    (tmp_path / name).write_text(f"{HEADER}Words.\n\n{text}\n")
    with Course.open(tmp_path) as course:
        assert course.ingest().notices == []


@pytest.mark.parametrize(
    "header",
    [
        "RAG:\n  encoding_model: content",
        "RAG: {splitter: foo}",
        "RAG: {overlap: -3}",
        "RAG: {min_size: 5000}",
        "RAG: {maxsize: 3}",
        "RAG: {max_size: many}",
    ],
)
def test_scan_reports_what_ingest_refuses(header: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once, as an error."""
    file = tmp_path / "a.md"
    file.write_text(f"---\ntitle: A\ndocid: a-1\n{header}\n---\n\n# A\n\nText.\n")
    with Course.open(tmp_path) as course:
        (error,) = course.ingest().failed
    assert main(["scan", str(file)]) == 1
    assert capsys.readouterr().out.count(error.message) == 1
