"""Tables, code and formulas that are cut: where, and what is repeated around each part, so that it stays valid."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from lmm_education.ingestion.outline import Kind, is_grid

Ranges = Iterator[tuple[int, int]]
Finder = Callable[[str], Ranges]
_LINE = re.compile(r"[^\n]*(?:\n+|\Z)")
_OPENED = re.compile(
    r"(?:\$\$[ \t]*+\n?)?[ \t]*+(?:\\begin\{(?P<name>\w+\*?)\}(?:\{[^{}\n]*\}|\[[^\[\]\n]*\])*+)?[ \t]*+(?=\n|\S)"
)
_ENVIRONMENT = re.compile(r"\\(begin|end)\{")
_END_OF_ROW = re.compile(r"</tr\s*>(?:\s*</thead\s*>)?(?:\s*<tbody\b[^<>]*>)?\s*", re.IGNORECASE)


def frame(kind: Kind, text: str) -> tuple[str, str]:
    """Return what is repeated at the start and at the end of each part of a text that is cut.

    >>> frame("table", "| a   | b |\\n|-----|---|\\n| 1   | 2 |"), frame("code", "```r\\n1\\n```")
    (('| a   | b |\\n|-----|---|', ''), ('```r', '```'))
    >>> frame("equation", "$$\\n\\\\begin{aligned}\\na &= b\\n\\\\end{aligned}\\n$$ {#eq:x}")
    ('$$\\n\\\\begin{aligned}', '\\\\end{aligned}\\n$$ {#eq:x}')
    """
    if kind == "table":
        return _of_table(text)
    if kind == "equation":
        return _of_formula(text)
    if kind == "code" and text.lstrip().startswith(("`", "~")):
        return text.partition("\n")[0], text.rpartition("\n")[2]
    return "", ""


def shortened(head: str) -> str:
    """Return the header of a pipe table without the blanks and dashes that only align it.

    >>> print(shortened("| Drug    | Dose |\\n|:--------|-----:|"))
    | Drug | Dose |
    |:-|-:|
    """
    names, _, rule = head.partition("\n")
    if not rule.strip("|:- \t") and "|" in names:
        return re.sub(r"[ \t]{2,}(?=\|)|(?<=\|)[ \t]{2,}", " ", names) + "\n" + re.sub("-+", "-", rule.replace(" ", ""))
    return head


def _of_table(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if "<table" in text[:200].lower():
        first = _END_OF_ROW.search(text)
        last = max(text.lower().rfind("</tr>"), 0)
        return (
            (text[: first.end()].rstrip("\n"), text[last + 5 :].lstrip("\n"))
            if first and last > first.end()
            else ("", "")
        )
    if is_grid(text):
        head = next((at for at, line in enumerate(lines) if re.match(r"\+[=:+]+\+\s*\Z", line)), 0)
        return "\n".join(lines[: head + 1]), ""
    if lines[0].strip("- \t"):  # of one line, with a rule below
        return ("\n".join(lines[:2]), "") if len(lines) > 2 else ("", "")
    rules = [at for at, line in enumerate(lines) if not line.strip("- \t") and line.strip()]
    last = rules[-1] if len(rules) > 1 else len(lines)
    head = rules[1] if len(rules) > 2 else 0
    return "\n".join(lines[: head + 1]), "\n".join(lines[last:])


def _of_formula(text: str) -> tuple[str, str]:
    opened = _OPENED.match(text)
    name, foot = (opened["name"] if opened else ""), ""
    close = text.rfind(f"\\end{{{name}}}") if name else -1
    if opened and close >= 0 and text.find("\\begin{", opened.end()) < close:
        foot = text[close:]
        head = opened[0]
    elif text.startswith("$$"):
        head, foot = "$$", text[text.rindex("$$") :]
    else:
        return "", ""
    return head, foot


def lines(text: str) -> Ranges:
    """Iterate over the lines of a text."""
    return between(text, (match.end() for match in _LINE.finditer(text)))


def formula_lines(text: str) -> Ranges:
    """Iterate over the lines of a formula; an environment within it, such as ``cases``, is one."""
    depth, ends = 0, list[int]()
    for match in _LINE.finditer(text):
        depth += sum(1 if found[1] == "begin" else -1 for found in _ENVIRONMENT.finditer(match[0]))
        if depth <= 0:
            ends.append(match.end())
    return between(text, ends)


def rows(text: str) -> Ranges:
    """Iterate over the rows of a table without its header: lines; those of a grid end with a border."""
    if _END_OF_ROW.search(text):
        return between(text, (match.end() for match in _END_OF_ROW.finditer(text)))
    if re.search(r"^\+[-=:+]+\+[ \t]*$", text, re.MULTILINE):
        return between(text, (match.end() for match in re.finditer(r"^\+[-=:+]+\+[ \t]*(?:\n|\Z)", text, re.MULTILINE)))
    if "\n\n" in text.strip("\n"):
        return between(text, (match.end() for match in re.finditer(r"\n[ \t]*\n", text)))
    return lines(text)


def between(text: str, places: Iterable[int]) -> Ranges:
    """Iterate over the ranges between places."""
    start = 0
    for place in places:
        if place > start:
            yield start, place
            start = place
    if start < len(text):
        yield start, len(text)
