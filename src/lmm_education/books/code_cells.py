"""Code that knitr, Quarto and Jupyter run, as documents hold it: fenced, with a language and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lmm.errors import LmmError
from lmm.markdown import Span, spans, yaml_core
from lmm.markdown.units import is_opening

_HEADER = re.compile(r"\{(?P<head>[A-Za-z](?:[^{}\n]|\{[^{}\n]*\})*)\}[ \t]*(?P<argument>[^\n`]*)")
_OPTION_LINE = re.compile(r"[ \t]*(?:(?:#|//|--|%%?)\|[ \t]?|:(?=[\w-]+: ))(.*)")
_HEAD = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\((?:[^()]|\([^()]*\))*\)|[^,"'()])+""")
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")
_WORDS = {"TRUE": True, "T": True, "true": True, "FALSE": False, "F": False, "false": False}


@dataclass(frozen=True, slots=True)
class CodeCell:
    """Code to be run: its language, its label if it has one, its options (``fig.cap`` is ``fig-cap``), and the code.

    MyST's directives are written so too: the language is their name, the label what follows it.
    """

    language: str
    label: str
    options: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""

    def caption(self, of: str = "fig") -> str:
        """The caption of its figure, or of its table (``tbl``); empty if there is none."""
        value = self.options.get(f"{of}-cap", "")
        return " ".join(str(value[0] if isinstance(value, list) and value else value).split())

    @property
    def children(self) -> list[str]:
        """The documents that it includes: a list in YAML, R's ``c("a", "b")``, or one."""
        child = self.options.get("child", [])
        return [str(name) for name in child] if isinstance(child, list) else _QUOTED.findall(str(child)) or [str(child)]

    @property
    def table_label(self) -> str:
        """The label of the table with a caption that it makes: the one that `kable()` is given, else the cell's."""
        if self.argument("caption") is None and not self.options.get("tab-cap"):
            return ""
        return self.argument("label") or self.label

    def argument(self, name: str) -> str | None:
        """The text that its code gives to a function by a name, empty if it is computed; None if there is none."""
        match = re.search(rf"""\b{name}\s*=\s*(?:paste0?\(\s*)?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')?""", self.code)
        return None if match is None else str(_value(match[1] or ""))


def code_apart(text: str) -> Iterator[tuple[Span | None, str]]:
    """The pieces of a text, in order: the span of fenced code, which may lie in a list, or None, and its lines.

    >>> [(code and code.text, lines) for code, lines in code_apart("A:\\n```r\\n1\\n```\\nB")]
    [(None, 'A:\\n'), ('1', '```r\\n1\\n```\\n'), (None, 'B')]
    >>> [code for code, _ in code_apart("`<br>`{=html}\\n\\n    indented\\n")]
    [None]
    """
    at = 0
    for code in spans(text, in_list=True):
        is_fenced = code.target != "indented" if code.kind == "code_block" else code.kind == "raw" and code.attributes
        if not is_fenced:
            continue
        start, end = text.rfind("\n", 0, code.start) + 1, text.find("\n", code.end) + 1 or len(text)
        if start > at:
            yield None, text[at:start]
        yield code, text[start:end]
        at = end
    if at < len(text):
        yield None, text[at:]


def read_cell(code: Span | None) -> CodeCell | None:
    """The cell that a code block is; None if it is none that runs.

    >>> [code] = spans('```{r leaf, fig.cap="A leaf, green"}\\n#| echo: false\\nplot(1)\\n```')
    >>> cell = read_cell(code)
    >>> cell.label, cell.options, cell.code
    ('leaf', {'fig-cap': 'A leaf, green', 'echo': False}, 'plot(1)')
    """
    header = _HEADER.fullmatch(code.attributes) if code else None
    if code is None or header is None:
        return None
    language, _, head = header["head"].partition(",")
    language, _, label = language.strip().partition(" ")
    options = {"label": label.strip()} if label.strip() and "=" not in label else {}
    options |= _in_head(f"{label},{head}" if "=" in label else head)
    lines = code.text.split("\n")
    count = next((i for i, line in enumerate(lines) if not _OPTION_LINE.match(line)), len(lines))
    options |= _in_lines(lines[:count])
    label = str(options.pop("label", "")) or header["argument"].strip()
    return CodeCell(language, label, options, "\n".join(lines[count:]).strip("\n"))


def _in_head(head: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in _HEAD.findall(head):
        name, equals, value = part.partition("=")
        if equals:
            found[name.strip().replace(".", "-").replace("_", "-")] = _value(value.strip())
        elif part.strip() and not found:
            found["label"] = part.strip()
    return found


def _value(text: str) -> Any:
    is_quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if is_quoted else _WORDS.get(text, text)


def _in_lines(lines: list[str]) -> dict[str, Any]:
    """The options in lines that begin with ``#|``: YAML, or as knitr had them first, like those after the language."""
    source = "\n".join(match[1] for line in lines if (match := _OPTION_LINE.match(line)))
    first = next(iter(source.split(None, 1)), "")
    if len(first) < 2 or source[0].isspace() or first.find(":") != len(first) - 1 or "=" in first:  # as knitr tells it
        return _in_head(source)
    try:
        values = yaml_core.to_value(yaml_core.compose(source)) if source else {}
    except LmmError:
        return {}
    return {str(name).replace(".", "-"): value for name, value in values.items()} if isinstance(values, dict) else {}


# -- environments ------------------------------------------------------------------------------------


# By which labels Quarto knows them, and bookdown's chunks by their names.
_BY_LABEL = {"exr": "exercise", "sol": "solution"}


def environments(text: str) -> tuple[str, ...]:
    """What a text opens: the classes of a div, ``exercise`` and ``solution`` by Quarto's labels, or a chunk's name.

    >>> environments("::: {#exr-leaf .big}"), environments("::: solution"), environments("```{exercise}\\nWhy?\\n```")
    (('exercise', 'big'), ('solution',), ('exercise',))
    """
    bare = text.lstrip()
    if not bare.startswith(("`", "~")) and not is_opening(text):
        return ()
    opened = next(iter(spans(bare)), None)
    if opened is None or opened.start:
        return ()
    if opened.runs:
        return (opened.language,) if opened.language in _BY_LABEL.values() else ()
    kind = _BY_LABEL.get(opened.group.id.partition("-")[0])
    return ((kind,) if kind else ()) + opened.group.classes if opened.kind == "div" else ()
