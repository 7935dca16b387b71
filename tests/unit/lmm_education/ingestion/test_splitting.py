"""Tables and formulas that are cut stay tables and formulas: each part repeats what it needs."""

from __future__ import annotations

import re

import pytest

from lmm_education.config import Preparation
from lmm_education.ingestion.packing import Limits
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.ingestion.splitting import split

_ROWS = range(60)
_GRID = "+-------+-----------+\n"
TABLES = {
    "pipe": "| Drug  | Dose |\n|-------|-----:|\n" + "".join(f"| Drug{n} | {n} mg |\n" for n in _ROWS),
    "wide": f"| Drug{' ' * 150} | Dose{' ' * 80} |\n|{'-' * 156}|{'-' * 86}:|\n"
    + "".join(f"| Drug{n} | {n} mg |\n" for n in _ROWS),
    "grid": f"{_GRID}| Drug  | Dose      |\n{_GRID.replace('-', '=')}"
    + "".join(f"| Drug{n:<2}| {n} mg     |\n|       | a day     |\n{_GRID}" for n in _ROWS),
    "simple": "Drug     Dose\n-------- ----------\n" + "".join(f"Drug{n}    {n} mg\n" for n in _ROWS),
    "multiline": f"{'-' * 20}\nDrug     Dose\n-------- -----------\n"
    + "\n".join(f"Drug{n}   {n} mg\n         a day\n" for n in _ROWS)
    + f"{'-' * 20}",
    "html": "<table>\n<thead><tr><th>Drug</th><th>Dose</th></tr></thead>\n<tbody>\n"
    + "".join(f"<tr><td>Drug{n}</td>\n<td>{n} mg</td></tr>\n" for n in _ROWS)
    + "</tbody>\n</table>",
}


@pytest.mark.parametrize("kind", TABLES)
def test_each_part_of_a_table_repeats_its_header(kind: str) -> None:
    """No row is cut, none is lost."""
    text = TABLES[kind].rstrip("\n")
    parts = split(text, Limits(200, 800))
    assert len(parts) > 1
    for part in parts:
        assert "Drug" in part.text[:700].split("Drug0")[0]
        assert re.search(r"Drug\b.*Dose", part.text, re.DOTALL)
        assert len(part.text) <= 800
        rows = re.findall(r"Drug\d+", part.text)
        assert len(re.findall(r"\d+ mg", part.text)) == len(rows)
        if kind in ("grid", "multiline"):
            assert part.text.count("a day") == len(rows)
    assert [name for part in parts for name in re.findall(r"Drug\d+", part.text)] == [f"Drug{n}" for n in _ROWS]
    if kind == "html":
        assert all(part.text.endswith("</table>") and part.text.startswith("<table>") for part in parts)
    if kind == "grid":
        assert all(part.text.startswith("+--") and part.text.endswith("--+") for part in parts)


FORMULAS = {
    "aligned": "$$\n\\begin{aligned}\n{}\n\\end{aligned}\n$$ {#eq:a}",
    "align": "\\begin{align*}\n{}\n\\end{align*}",
    "display": "$$\n{}\n$$",
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_each_part_of_a_formula_is_one(kind: str) -> None:
    """An environment within it stays whole."""
    line = "x_{} &= \\begin{cases}\n1 & a \\\\\n2 & b\n\\end{cases} \\\\"
    lines = "\n".join(line.replace("{}", f"{{{n}}}") for n in _ROWS)
    text = FORMULAS[kind].replace("{}", lines, 1)
    parts = split(text, Limits(200, 600))
    assert len(parts) > 2
    for part in parts:
        assert part.text.count("\\begin{") == part.text.count("\\end{")
        assert part.text.count("\\begin{cases}") == part.text.count("\\end{cases}") == part.text.count("x_{")
        assert part.text.startswith(text.split("x_{")[0].rstrip("\n"))
        assert part.text.rstrip().endswith(text.rpartition("\\\\\n")[2].rstrip())


@pytest.mark.parametrize("kind", TABLES)
def test_students_see_the_header_with_every_row(kind: str) -> None:
    """In what is stored."""
    chunks = prepare_document(f"# Doses\n\n{TABLES[kind]}\n", docid="a", file="a.md", settings=Preparation()).chunks
    assert all("Dose" in chunk.text for chunk in chunks)
