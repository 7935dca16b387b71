"""Slides in LaTeX: Beamer's frames as sections, and what its overlays show, before Pandoc reads the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BEAMER = re.compile(r"^[^%\n]*\\documentclass(?:\[[^\]]*\])?\{beamer\}", re.MULTILINE)
_BEGIN = "\\begin{document}"
# Which slides of a frame show something: \only<2->, \begin{frame}<1>, \item<+->; no comparison in a formula.
_OVERLAY = re.compile(
    r"(?P<of>\\(?:begin\{\w+\*?\}|[A-Za-z]+\*?)(?:\[[^\]\n]{0,200}\])?)"
    r"<(?:[\d+.-][^<>\n{}]{0,40}|(?:beamer|handout|presentation|article|all|alert|only|visible|uncover)\b[^<>\n{}]{0,40})>"
)
_WITHOUT_GROUP = re.compile(r"\\(?:onslide|uncover|only|visible|pause)\b(?![ \t]*\{)")
_SHOWING = re.compile(r"\\(?:begin|end)\{(?:onlyenv|uncoverenv|visibleenv|actionenv|overprint)\}")
_BLOCK = re.compile(r"\\begin\{(?:block|exampleblock|alertblock)\}[ \t]*\{(?P<title>[^{}]*)\}(?:<[^<>\n]{0,40}>)?")
_END_BLOCK = re.compile(
    r"\\end\{(?:block|exampleblock|alertblock)\}"
    r"|\\(?:(?:begin|end)\{columns?\}|column(?=[ \t]*\{))(?:\[[^\]\n]{0,99}\]|[ \t]*\{[^{}\n]{0,99}\})*"
)
_COLUMNS = re.compile(r"(?<=\\begin\{tabular\}\{)[^{}\n]{1,300}\}")
_NUMBERS = re.compile(r"S(?:\[[^\]\n]{0,200}\])?")  # a column of siunitx
_OLD_FRAME = re.compile(r"\\frame[ \t]*(?=\{)")
_FRAME = re.compile(r"\\begin\{frame\}(?:[ \t]*\[[^\]\n]{0,200}\])*[ \t]*")
_TITLE = re.compile(r"\\(?P<kind>frametitle|framesubtitle)(?:\[[^\]\n]{0,200}\])?[ \t]*(?=\{)")
_SECTIONS = ("section", "subsection", "subsubsection")
_SHOWN = ("only", "uncover", "visible", "onslide", "invisible", "alert", "structure")
_MACROS = "".join(f"\\providecommand{{\\{name}}}[1]{{#1}}\\renewcommand{{\\{name}}}[1]{{#1}}\n" for name in _SHOWN) + (
    "\\providecommand{\\alt}[2]{#1 #2}\\renewcommand{\\alt}[2]{#1 #2}\n"
    "\\providecommand{\\temporal}[3]{#1 #2 #3}\\renewcommand{\\temporal}[3]{#1 #2 #3}\n"
    "\\providecommand{\\note}{}\\renewcommand{\\note}[2][]{\\begin{lmm-notes}#2\\end{lmm-notes}}\n"
)


def open_frames(text: str) -> str:
    r"""Return a LaTeX file with each frame of Beamer's as a section, with what its overlays show, and with columns of
    numbers as Pandoc knows them.

    >>> slides = r"\documentclass{beamer}\begin{document}\begin{frame}[t]{Cells}A \only<2>{b}.\end{frame}"
    >>> shown = open_frames(slides)
    >>> r"\section{Cells}" in shown, "<2>" in shown
    (True, False)
    """
    text = _COLUMNS.sub(lambda match: _NUMBERS.sub("r", match[0]), text)
    if not _BEAMER.search(text):
        return text
    used = max((level for level, name in enumerate(_SECTIONS) if f"\\{name}{{" in text), default=-1)
    heading = _SECTIONS[min(used + 1, 2)]
    for name in (*_SHOWN, "alt", "temporal"):  # shown one after the other
        text = text.replace(f"}}\\{name}<", f"}} \\{name}<").replace(f".\\{name}<", f". \\{name}<")
    text = _OVERLAY.sub(lambda match: match["of"], text)
    text = _SHOWING.sub("", _WITHOUT_GROUP.sub("", text))
    text = _END_BLOCK.sub("\n\n", _BLOCK.sub(lambda match: f"\n\n\\textbf{{{match['title']}}}\n\n", text))
    text = "".join(_without_old_frames(text))
    text = "".join(_titled(text, heading)).replace("\\end{frame}", "\n\n")
    before, begin, body = text.partition(_BEGIN)
    return f"{before}{begin}\n{_MACROS}{body}" if begin else text


def _without_old_frames(text: str) -> Iterator[str]:
    r"""Iterate over the parts of a text with ``\frame{…}`` as an environment."""
    at = 0
    for match in _OLD_FRAME.finditer(text):
        if match.start() >= at and (inner := _group(text, match.end())) is not None:
            yield f"{text[at : match.start()]}\\begin{{frame}}\n{inner}\\end{{frame}}"
            at = match.end() + len(inner) + 2
    yield text[at:]


def _titled(text: str, heading: str) -> Iterator[str]:
    """Iterate over the parts of a text with the titles of frames as headings, their subtitles as paragraphs."""
    at = 0
    for match in sorted([*_FRAME.finditer(text), *_TITLE.finditer(text)], key=lambda match: match.start()):
        if match.start() < at:
            continue
        yield text[at : match.start()]
        at, kind = match.end(), match.groupdict().get("kind")
        groups = list[str]()
        while len(groups) < (1 if kind else 2) and (inner := _group(text, at)) is not None:
            groups.append(inner)
            at += len(inner) + 2
        if groups and kind != "framesubtitle":
            yield f"\n\n\\{heading}{{{groups.pop(0)}}}\n\n"
        yield from (f"\n\n\\emph{{{group}}}\n\n" for group in groups)
    yield text[at:]


def _group(text: str, at: int) -> str | None:
    """Return the content of the group in braces that begins at a place, or None if there is none; at most 20,000
    characters."""
    if not text.startswith("{", at):
        return None
    depth, end = 0, min(len(text), at + 20_000)
    for place in range(at, end):
        char = text[place]
        if char in "{}" and text[place - 1] != "\\":
            depth += 1 if char == "{" else -1
            if not depth:
                return text[at + 1 : place]
    return None
