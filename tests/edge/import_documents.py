"""Random documents as Pandoc sees them, and what stays of one when it is written, imported and read again."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from edge.knit_tools import need
from hypothesis import strategies as st

from lmm.errors import ConfigError
from lmm.importing.formats import format_of
from lmm.importing.imported import Context, Imported
from lmm.importing.pandoc import find_pandoc, read

Ast = dict[str, Any]
ATTR: list[Any] = ["", [], []]
FORMULAS = (r"x^2", r"\frac{a}{b+1}", r"\sum_{i=1}^n x_i", r"\beta \leq \sqrt{2}", r"\alpha_{i,j}", r"e^{-x}",
            r"\sin x", r"\int_0^1 f(x)dx", r"\hat{\theta}", r"A \cup B", r"\mathbb{R}^n", r"f'(x)", r"\lim_{x\to 0} g",
            r"\overline{X}", r"\begin{matrix} 1 & 2 \\ 3 & 4 \end{matrix}", r"\left(\frac{1}{2}\right)^2")  # fmt: skip

# What markdown, YAML, TeX, HTML or knitr could take for more than text.
PIECES = [*"aB1.,*_`~^$#@<>&[](){}|\\!-+=:;/\"'%?é", "word", "1.", "1)", "(a)", "---", "...", "```", "$$", "<!--",
          "-->", "http://a.b", "&amp;", "x_y", "[^1]", "[@k]", "![", "](", "]:", "{#i}", "#", "###", "- a", "title:",
          "`r", "{r}", "?:", "\\alpha", "<b>", "~~~", "|a|", "+---+", ":", "%"]  # fmt: skip


def need_importer() -> None:
    """Skip the test where no Pandoc reads what `lmm import` reads; in CI fail instead."""
    need("pandoc")
    try:
        find_pandoc("pptx")
    except ConfigError as error:
        pytest.fail(str(error)) if os.environ.get("CI") == "true" else pytest.skip(str(error))


def imported(data: bytes, name: str, *, timeout: float = 60) -> Imported:
    """A file that Pandoc reads, read in this process."""
    format = format_of(name)
    program = find_pandoc(format.reader).program
    return read(data, Context(name, "", format.name, format.reader, program, timeout))


@lru_cache
def api_version() -> list[int]:
    """The version of Pandoc's own form of documents."""
    version: list[int] = json.loads(pandoc(b"", "-f", "markdown", "-t", "json"))["pandoc-api-version"]
    return version


def pandoc(text: bytes, *options: str) -> bytes:
    """Run Pandoc."""
    return subprocess.run(["pandoc", *options], input=text, capture_output=True, check=True, timeout=60).stdout


def written(blocks: list[Ast], *options: str) -> bytes:
    """A document in the format that the options name."""
    document = {"pandoc-api-version": api_version(), "meta": {}, "blocks": blocks}
    return pandoc(json.dumps(document).encode(), "-f", "json", *options)


def read_back(markdown: str) -> list[Ast]:
    """What Pandoc reads in markdown."""
    blocks: list[Ast] = json.loads(pandoc(markdown.encode(), "-f", "markdown-smart", "-t", "json"))["blocks"]
    return blocks


# -- what counts -----------------------------------------------------------------------------------------


def plain(blocks: list[Ast], *, word: bool = False) -> list[Any]:
    """Blocks as nested lists of what counts: kinds, levels, texts, formats; no widths, no identifiers.

    With `word`, without what Word documents lose: the language of code, and the number that a list starts with.
    """
    return [_block(block, word) for block in blocks]


def _block(block: Ast, word: bool) -> Any:
    kind: str = block["t"]
    content: Any = block.get("c")
    match kind:
        case "Header":
            return ["heading", content[0], inline(content[2])]
        case "Para" | "Plain":
            return ["text", inline(content)]
        case "CodeBlock":
            return ["code", [] if word else content[0][1][:1], content[1]]
        case "BulletList":
            return ["items", [plain(item, word=word) for item in content]]
        case "OrderedList":
            return ["numbered", 1 if word else content[0][0], [plain(item, word=word) for item in content[1]]]
        case "BlockQuote":
            return ["quote", plain(content, word=word)]
        case "Table":
            rows = [*content[3][1], *(row for body in content[4] for row in body[3])]
            return ["table", [[plain(cell[4], word=word) for cell in row[1]] for row in rows if _filled(row)]]
    return [kind]


def _filled(row: Any) -> bool:
    return any(cell[4] for cell in row[1])


def inline(nodes: list[Ast]) -> list[Any]:
    """Inline nodes: neighbouring texts as one, formats by their names."""
    found: list[Any] = []
    for node in nodes:
        kind: str = node["t"]
        content: Any = node.get("c")
        if kind in ("Str", "Space", "SoftBreak"):
            text = content if kind == "Str" else " "
            if found and isinstance(found[-1], str):
                found[-1] += text
            else:
                found.append(text)
        elif kind == "Code":
            found.append([kind, content[1]])
        elif kind == "Math":
            found.append([kind, "".join(content[1].split())])
        elif kind == "Link":
            found.append([kind, inline(content[1]), content[2][0]])
        else:
            found.append([kind, inline(content) if isinstance(content, list) else ""])
    return found


# -- random documents ------------------------------------------------------------------------------------


def words() -> st.SearchStrategy[list[Ast]]:
    """Some words of plain text, nasty ones among them."""
    word = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)
    return st.lists(word.map(lambda text: {"t": "Str", "c": text}), min_size=1, max_size=4).map(_spaced)


def _spaced(nodes: list[Ast]) -> list[Ast]:
    return [part for node in nodes for part in (node, {"t": "Space"})][:-1]


def _format(kind: str) -> st.SearchStrategy[Ast]:
    return st.sampled_from(["one", "two words", "C#", "a-b"]).map(
        lambda text: {"t": kind, "c": _spaced([{"t": "Str", "c": word} for word in text.split()])}
    )


def formatted(*, formulas: bool) -> st.SearchStrategy[list[Ast]]:
    """Text with formats in it, spaces between them."""
    code = st.sampled_from(["x = 1", "a*b*", "`tick`", "c|d", "<T>", "$x$"]).map(
        lambda text: {"t": "Code", "c": [ATTR, text]}
    )
    math = st.sampled_from(FORMULAS[:8]).map(lambda tex: {"t": "Math", "c": [{"t": "InlineMath"}, tex]})
    link = st.sampled_from(["https://example.org/a_b", "https://example.org/(x)?y=1&z=2"]).map(
        lambda url: {"t": "Link", "c": [ATTR, [{"t": "Str", "c": "a link"}], [url, ""]]}
    )
    kinds = [_format("Emph"), _format("Strong"), _format("Strikeout"), code, link, *([math] if formulas else [])]
    part = st.one_of(words(), *(kind.map(lambda node: [node]) for kind in kinds))
    return st.lists(part, min_size=1, max_size=4).map(
        lambda parts: [n for p in parts for n in [*p, {"t": "Space"}]][:-1]
    )


def _paragraph(*, formulas: bool) -> st.SearchStrategy[Ast]:
    return formatted(formulas=formulas).map(lambda nodes: {"t": "Para", "c": nodes})


def _code() -> st.SearchStrategy[Ast]:
    line = st.sampled_from(["def f(x):", "    return x", "", "# note", "---", "```", "$$", "a: b", "  | x |", "<!-- c"])
    lines = st.lists(line, min_size=1, max_size=5).map("\n".join).filter(lambda code: code.strip("\n") == code != "")
    return st.tuples(lines, st.sampled_from(["", "python", "r"])).map(
        lambda pair: {"t": "CodeBlock", "c": [["", [pair[1]] if pair[1] else [], []], pair[0]]}
    )


def _list(*, formulas: bool) -> st.SearchStrategy[Ast]:
    line = formatted(formulas=formulas).map(lambda nodes: [{"t": "Plain", "c": nodes}])
    inner = st.lists(line, min_size=1, max_size=2).map(lambda items: {"t": "BulletList", "c": items})
    item = st.one_of(line, st.tuples(line, inner).map(lambda pair: [*pair[0], pair[1]]))
    items = st.lists(item, min_size=1, max_size=3)
    style = [{"t": "Decimal"}, {"t": "Period"}]
    return st.one_of(
        items.map(lambda found: {"t": "BulletList", "c": found}),
        st.tuples(st.sampled_from([1, 3]), items).map(
            lambda pair: {"t": "OrderedList", "c": [[pair[0], *style], pair[1]]}
        ),
    )


def _table(*, formulas: bool) -> st.SearchStrategy[Ast]:
    def build(draw: st.DrawFn) -> Ast:
        width = draw(st.integers(1, 3))
        cell = st.one_of(st.just([]), formatted(formulas=formulas)) if width > 1 else formatted(formulas=formulas)
        rows = [[draw(cell) for _ in range(width)] for _ in range(draw(st.integers(2, 4)))]
        rows[0] = [nodes or [{"t": "Str", "c": "h"}] for nodes in rows[0]]
        columns = [[{"t": draw(st.sampled_from(["AlignLeft", "AlignRight", "AlignDefault"]))}, {"t": "ColWidthDefault"}]
                   for _ in range(width)]  # fmt: skip
        made = [
            [ATTR, [[ATTR, {"t": "AlignDefault"}, 1, 1, [{"t": "Plain", "c": n}] if n else []] for n in r]]
            for r in rows
        ]
        content = [ATTR, [None, []], columns, [ATTR, made[:1]], [[ATTR, 0, [], made[1:]]], [ATTR, []]]
        return {"t": "Table", "c": content}

    return st.composite(build)()


def documents(*, formulas: bool = True) -> st.SearchStrategy[list[Ast]]:
    """Documents of headings, paragraphs, lists, tables, code and quotations; a paragraph parts equal neighbours."""
    heading = st.tuples(st.integers(1, 6), formatted(formulas=formulas)).map(
        lambda pair: {"t": "Header", "c": [pair[0], ATTR, pair[1]]}
    )
    paragraph = _paragraph(formulas=formulas)
    quote = paragraph.map(lambda block: {"t": "BlockQuote", "c": [block]})
    kinds = [heading, paragraph, _code(), _list(formulas=formulas), _table(formulas=formulas), quote]
    return st.lists(st.one_of(*kinds), min_size=1, max_size=6).map(_parted)


def _parted(blocks: list[Ast]) -> list[Ast]:
    between = {"t": "Para", "c": [{"t": "Str", "c": "Then:"}]}
    parted: list[Ast] = []
    for block in blocks:
        if parted and block["t"] not in ("Header", "Para"):
            parted.append(between)
        parted.append(block)
    return parted


def has_formula_marks(blocks: object) -> bool:
    """Whether a document's text has the marks between which MathJax would find a formula, as we do."""
    return _MARKS.search(" ".join(_strings(blocks))) is not None


_MARKS = re.compile(r"\$\$.+\$\$|\\\(.+\\\)|\\\[.+\\\]", re.DOTALL)


def _strings(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("t") == "Str":
            yield str(node["c"])
        yield from _strings(node.get("c"))
    elif isinstance(node, list):
        for child in node:
            yield from _strings(child)
