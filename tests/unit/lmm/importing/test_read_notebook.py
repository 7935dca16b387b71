"""Notebooks, written as JSON by hand."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from lmm.errors import FileReadError
from lmm.importing.imported import Context, Imported
from lmm.importing.read_notebook import MAX_OUTPUT_LINES, read
from lmm.markdown import parse_markdown_text

PNG = base64.b64encode(b"\x89PNG").decode()


def notebook(*cells: dict[str, Any], **metadata: Any) -> Imported:
    """The notebook of some cells, read."""
    return read(json.dumps({"nbformat": 4, "metadata": metadata, "cells": cells}).encode(), Context("a.ipynb"))


def markdown(source: str, **more: Any) -> dict[str, Any]:
    """A text cell."""
    return {"cell_type": "markdown", "source": source, **more}


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    """A code cell with its outputs."""
    return {"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": list(outputs)}


def shown(**forms: Any) -> dict[str, Any]:
    """An output in several forms; `text_plain` is `text/plain`."""
    data = {name.replace("_", "/", 1): value for name, value in forms.items()}
    return {"output_type": "display_data", "data": data}


def test_cells_and_outputs_in_their_order() -> None:
    """Code in fences that nothing runs, outputs below them."""
    document = notebook(
        markdown("# A\n\nText"),
        code("x = 1\nx", {"output_type": "stream", "text": ["\x1b[31mone\x1b[0m\n", "two\n"]}),
        code("1/0", {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "by zero", "traceback": []}),
        {"cell_type": "raw", "source": "raw"},
        language_info={"name": "python"},
    )
    assert document.body == (
        "# A\n\nText\n\n```python\nx = 1\nx\n```\n\n```text\none\ntwo\n```\n\n"
        "```python\n1/0\n```\n\n```text\nZeroDivisionError: by zero\n```\n\n```\nraw\n```\n"
    )


def test_r_code_is_not_made_to_run() -> None:
    """Neither as a chunk, nor under another magic."""
    document = notebook(code("y <- 1"), code("%%bash\nls"), kernelspec={"language": "R"})
    assert document.body == "```R\ny <- 1\n```\n\n```bash\n%%bash\nls\n```\n"


def test_the_best_form_of_an_output_is_taken() -> None:
    """An image, a table, a formula; else the text."""
    table = "<table><tr><th>a</th></tr><tr><td>1</td></tr><tr><td>2</td></tr></table>"
    document = notebook(
        code("a", shown(image_png=PNG, text_plain="<Figure>")),
        code("b", shown(text_html=table, text_plain="a\n1")),
        code("c", shown(text_latex="$\\displaystyle x^2$", text_plain="x**2")),
        code("d", shown(text_html="<b>bold</b>", text_plain="plain")),
        code("e", shown(text_markdown="**m**")),
        code("f", shown(application_widget="?")),
    )
    assert document.body.split("\n\n")[1::2] == [
        "![](lmm-image:0)",
        "| a   |\n|-----|\n| 1   |\n| 2   |",
        "$$x^2$$",
        "```text\nplain\n```",
        "**m**",
    ]
    assert document.images[0].data == b"\x89PNG"
    assert document.notes == ("left out: outputs that only Jupyter can show (1)",)


def test_images_in_text_cells_are_taken_out() -> None:
    """Attached, or in the address; each has a number of its own."""
    attached = {"b.png": {"image/png": PNG}}
    document = notebook(
        code("a", shown(text_html=f'<table><tr><td><img src="data:image/png;base64,{PNG}">1<td>2</table>')),
        markdown(f"![b](attachment:b.png) ![c](data:image/png;base64,{PNG})", attachments=attached),
    )
    assert len(document.images) == 3
    assert "![b](lmm-image:1) ![c](lmm-image:2)" in document.body
    assert "![](lmm-image:0)" in document.body


def test_a_cell_does_not_become_metadata_or_swallow_the_next() -> None:
    """Every cell is a document of its own in Jupyter."""
    document = notebook(
        markdown("a\n\n---\nb: c\n---"), markdown("```\nopen"), markdown("# Heading\n\n---\n?: x\n---\n")
    )
    assert [block.kind for block in parse_markdown_text(document.body)].count("heading") == 1
    assert {block.kind for block in parse_markdown_text(document.body)} == {"text", "heading"}


def test_front_matter_in_the_first_cell_names_title_and_language() -> None:
    """As Quarto writes it."""
    document = notebook({"cell_type": "raw", "source": "---\ntitle: T\nlang: de\n---\n"}, markdown("a"))
    assert (document.title, document.language, document.body) == ("T", "de", "a\n")


def test_half_a_character_in_a_title_is_left_out() -> None:
    """JSON can say one; no text holds it."""
    assert notebook(markdown("a"), title="T\ud83d").title == "T"


def test_long_outputs_are_shortened_and_it_is_told() -> None:
    """A log of a training run is no text to read."""
    document = notebook(code("x", {"output_type": "stream", "text": "line\n" * 500 + "z" * 5_000}))
    assert document.body.count("line\n") == MAX_OUTPUT_LINES
    assert f"… ({501 - MAX_OUTPUT_LINES} more lines)" in document.body
    assert document.notes == (f"shortened: outputs of more than {MAX_OUTPUT_LINES} lines (1)",)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"no", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no cells"),
        (b'{"cells": 1}', "no cells"),
        (b'{"worksheets": []}', "before 2015"),
        (
            b'{"cells": [1, {}, {"cell_type": "code", "source": 3, "outputs": [1, {"data": 2}]}]}',
            "this notebook is empty",
        ),
    ],
)
def test_what_is_no_notebook_is_refused(data: bytes, told: str) -> None:
    """With what to do."""
    with pytest.raises(FileReadError, match=told):
        read(data, Context("a.ipynb"))
