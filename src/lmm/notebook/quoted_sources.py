"""Checks of quotations in documents and replies against the sources that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

from lmm.errors import LmmError
from lmm.markdown.blocks import Block, TextBlock
from lmm.markdown.quotations import Quotation, lines_of_quotation, quotations_of, verify_quotations
from lmm.notebook.chat_log import logged
from lmm.notebook.problem import Finding

_FILE = r"(?P<file>[\w./-]*\w\.[A-Za-z]{1,5})"
_REFERENCE = re.compile(
    rf"\]\((?!\w+:)<?{_FILE}[^)\s]*\)|(?<![\w/.:@-]){_FILE.replace('file', 'named')}:(?P<first>\d+)"
    r"(?:-(?P<last>\d+))?\b"
)
_NEAR = 120  # characters between a quotation and the reference to its source
_PLACES = 20  # reported occurrences of the same words in a source
_SAYS = re.compile(
    r"\b(?:you (?:write|say|wrote)|(?:your|the) (?:text|section|document|draft|sentence)|quot\w+|(?:du|Sie) schreib\w+"
    r"|(?:dein|Ihr|im|der) (?:Text|Abschnitt|Satz|Entwurf)|zitier\w*)\b[^.!?;\n“”\"]*\Z",
    re.IGNORECASE,
)


def misquotations(reply: str, shown: Sequence[str]) -> list[Quotation]:
    """Return the quotations that a reply attributes to the author, but that occur in no text sent to the model.

    >>> said = "You write “cells never divide”; better: “cells do not divide at all”."
    >>> [each.words for each in misquotations(said, ["Here cells never, ever divide."])]
    ['cells never, ever divide']
    """
    says = {each.start for each in quotations_of(reply) if _SAYS.search(reply, max(each.start - 80, 0), each.start)}
    found = verify_quotations(reply, dict(enumerate(shown))) if says else ()
    return [each for each in found if each.found != "exact" and each.start in says]


def misquotation_text(quotation: Quotation) -> str:
    """Return the message about a misquotation for the author."""
    has = f"the text has “{quotation.words}”" if quotation.words else "it is not in the text"
    return f"the reply quotes “{' '.join(quotation.text.split())}”: {has}"


def quotation_problems(blocks: Sequence[Block], read: Callable[[str], str]) -> list[Finding]:
    """Find quotations in a document and its replies that are not (or no longer) in the file they name, or not on that
    line, and references to lines that do not exist; `read` returns the text of a file, or raises an LmmError."""
    texts = [(block.line, block.content) for block in blocks if isinstance(block, TextBlock)]
    texts += [(blocks[at].line, exchange.reply) for at, exchange in logged(blocks)]
    return [problem for line, text in sorted(texts) for problem in problems_in(line, text, read)]


def problems_in(line: int, text: str, read: Callable[[str], str]) -> Iterator[Finding]:
    """Iterate over the same problems in a text that begins on `line`."""
    references = list(_REFERENCE.finditer(text))
    quotations = list(quotations_of(text)) if references else []
    ends = [*(each.start for each in quotations), len(text)]
    for quotation, (_, limit) in zip(quotations, pairwise(ends), strict=True):
        limit = max(min(limit, quotation.end + _NEAR), quotation.end)
        within = (ref for ref in references if quotation.start <= ref.start() < limit)
        if (reference := next(within, None)) is not None:
            references.remove(reference)
            yield from _problem(line + text.count("\n", 0, quotation.start), reference, read, quotation)
    for reference in references:
        if reference["first"]:
            yield from _problem(line + text.count("\n", 0, reference.start()), reference, read)


def _problem(
    line: int, reference: re.Match[str], read: Callable[[str], str], quotation: Quotation | None = None
) -> Iterator[Finding]:
    """Iterate over the problems of a reference, and of a quotation from it."""
    name = reference["file"] or reference["named"]
    said = " ".join(re.sub(r"\[\]\([^)]*\)", "", quotation.text).split()) if quotation else ""
    message = hint = ""
    try:
        text = read(name)
    except LmmError as error:
        yield Finding(line, 1, f"the quotation cannot be compared with {name}: {error.message}", error.hint, "warning")
        return
    if quotation is not None:
        (found,) = verify_quotations(f"> {quotation.text}".replace("\n", "\n> "), {1: text}) or (quotation,)
        if found.found != "exact":
            message = f"{name} does not say “{said}”"
            hint = f"it says “{found.words}”" if found.words else "compare it with the source"
        elif reference["first"]:
            first, last = int(reference["first"]), int(reference["last"] or reference["first"])
            there = list(islice(lines_of_quotation(quotation, text), _PLACES))
            if not any(first <= at <= last for at in there):
                now = ", ".join(map(str, reversed(there)))
                message = f"“{said}” is not on line {first} of {name}"
                hint = f"it is on line {now}"
    elif int(reference["first"]) > len(text.splitlines()):
        message, hint = f"{name} has no line {reference['first']}", f"it has {len(text.splitlines())} lines"
    if message:
        yield Finding(line, 1, message, hint, "warning")
