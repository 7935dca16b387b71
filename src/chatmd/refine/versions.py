"""Versions of the instructions in a file: where they stand, and how they fare on the same cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chatmd.errors import RefineError
from chatmd.language.nodes import BLANK, Comment, Element, Node, SyntaxTree, Text
from chatmd.language.syntax import errors_of, parse_body, write
from chatmd.language.transcript import storable
from chatmd.refine.cases import Case, CheckResult, RunOutcome
from lmm.disk.digest import digest
from lmm.messages import Usage

ROLES = ("system", "developer")
_VERSION = re.compile(r"<version(?:\s[^>]*)?>(.*?)</version>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Instructions:
    """The inside of a file's system or developer message: `start` up to `end` of its text.

    `text` is what a model is shown of it, without comments and the white space around it. With `parts`, documents
    and imports stand in it, and it is spelled as ChatMD; else it is plain text.
    """

    role: str
    text: str
    start: int
    end: int
    before: str
    after: str
    raw: bool
    parts: tuple[Element, ...] = ()


def find_instructions(document: SyntaxTree) -> Instructions:
    """The first system message of a file, else its first developer message.

    Raises:
        RefineError: there is none, or it is empty.

    >>> from chatmd.language.syntax import parse
    >>> find_instructions(parse("<system>\\nBe brief.\\n</system><user/>")).text
    'Be brief.'
    """
    fits = next((element for role in ROLES for element in document.elements if _role(element) == role), None)
    if fits is None or fits.opening is None or fits.closing is None:
        raise RefineError(
            "there is no <system> or <developer> message in this file", where=document.file or "the file",
            hint="its instructions must be in the file itself, not in an import at its top",
        )  # fmt: skip
    children = tuple(node for node in fits.children if not isinstance(node, Comment))
    parts = tuple(node for node in children if isinstance(node, Element))
    shown = write(_joined(children)) if parts else "".join(node.value for node in children if isinstance(node, Text))
    text = shown.strip(BLANK)
    if not text:
        raise RefineError("the message is empty", where=fits.span.where, hint="write a first version of it")
    at = shown.index(text)
    raw = any(isinstance(node, Text) and node.raw for node in children)
    return Instructions(
        _role(fits),
        text,
        start=fits.opening.end,
        end=fits.closing.start,
        before=shown[:at],
        after=shown[at + len(text) :],
        raw=raw,
        parts=parts,
    )


def _role(element: Element) -> str:
    return (element.get("role") or "").strip().lower() if element.tag == "msg" else element.tag


def _joined(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Nodes with texts side by side as one: a comment stood between them."""
    waiting: list[Text] = []
    for node in nodes:
        if isinstance(node, Text):
            waiting.append(node)
            continue
        if waiting:
            yield Text("".join(text.value for text in waiting), any(text.raw for text in waiting))
            waiting = []
        yield node
    if waiting:
        yield Text("".join(text.value for text in waiting), any(text.raw for text in waiting))


def with_instructions(source: str, old: Instructions, text: str) -> str:
    """The file's text with other instructions; nothing else of it changes.

    Raises:
        ValueError: the new ones cannot stand there: they lack a part that the old ones have, or add one.

    >>> from chatmd.language.syntax import parse
    >>> source = "<system>\\nBe brief.\\n</system>"
    >>> with_instructions(source, find_instructions(parse(source)), "Close with </system>.")
    '<system>RAW|\\nClose with </system>.\\n|RAW</system>'
    """
    return source[: old.start] + _inside(old, storable(text).strip(BLANK)) + source[old.end :]


def _inside(old: Instructions, text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    whole = f"{old.before}{text}{old.after}"
    if not old.parts:
        return write([Text(whole, old.raw)])
    body = parse_body(whole)
    if errors_of(body.problems):
        raise ValueError(body.problems[0].message)
    parts = [write([node]) for node in body.children if isinstance(node, Element)]
    expected = [write([part]) for part in old.parts]
    if sorted(parts) != sorted(expected):
        raise ValueError(f"it must keep {', '.join(expected)}, once each, and add no other")
    return whole


def read_versions(reply: str) -> list[str]:
    """The versions in a model's reply, each once.

    >>> read_versions("<version>\\nBe brief.\\n</version>\\n<version>Be brief.</version><version>Be kind.</version>")
    ['Be brief.', 'Be kind.']
    """
    texts = (match[1].strip(BLANK) for match in _VERSION.finditer(reply))
    return list(dict.fromkeys(text for text in texts if text))


FEWEST_TO_SPLIT = 4
_NOISE = 0.5  # points of a judge's mean score that are no difference


# -- How versions fare: compared on the same cases, some of which no proposal was made from -------------


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of one case."""

    outcome: RunOutcome
    verdicts: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether it fulfils all checks."""
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def score(self) -> float | None:
        """The mean of the judges' scores, from 0 to 10; None if nothing was judged."""
        scores = [verdict.score for verdict in self.verdicts if verdict.score is not None]
        return sum(scores) / len(scores) if scores else None

    @property
    def faults(self) -> tuple[str, ...]:
        """Why it failed."""
        return tuple(dict.fromkeys(verdict.reason for verdict in self.verdicts if not verdict.passed))


@dataclass(slots=True)
class Version:
    """Instructions, and what came of the cases so far. `id` is ``0`` as they are, else round and number: ``1.2``."""

    id: str
    text: str
    results: dict[str, CaseResult] = field(default_factory=dict)

    def tally(self, names: Iterable[str]) -> CaseTally:
        """How it fares on cases, of those that were measured."""
        return tally([self.results[name] for name in names if name in self.results])


@dataclass(frozen=True, slots=True)
class CaseTally:
    """Results summed up: cases that passed, of how many; a mean score from 0 to 10; what the runs used."""

    passed: int
    total: int
    score: float | None
    usage: Usage

    @property
    def is_perfect(self) -> bool:
        return self.passed == self.total and self.total > 0


def tally(results: Sequence[CaseResult]) -> CaseTally:
    """The sum of results."""
    scores = [result.score for result in results if result.score is not None]
    usage = Usage()
    for result in results:
        usage += result.outcome.usage
    return CaseTally(
        sum(result.passed for result in results), len(results), sum(scores) / len(scores) if scores else None, usage
    )


def split(cases: Sequence[Case]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the cases that proposals are made from, and of those that are held out: a third, drawn by their names.

    If a case says itself which it is, nothing is drawn. Of fewer than four, none is held out.
    """
    if any(case.held_out is not None for case in cases):
        return (
            tuple(case.name for case in cases if not case.held_out),
            tuple(case.name for case in cases if case.held_out),
        )
    names = [case.name for case in cases]
    drawn = sorted(names, key=lambda name: digest(name))
    held = set(drawn[: len(names) // 3 if len(names) >= FEWEST_TO_SPLIT else 0])
    return tuple(n for n in names if n not in held), tuple(n for n in names if n in held)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions on the same cases: those that only the first passes, those that only the second passes."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    score: float
    """By how much the first one's mean score is higher, over cases that both have one for."""

    @property
    def is_better(self) -> bool:
        """More cases pass; or as many, and the judge's score is higher by more than chance would have it."""
        more = len(self.gained) - len(self.lost)
        return more > 0 or (more == 0 and self.score > _NOISE)

    @property
    def is_worse(self) -> bool:
        more = len(self.gained) - len(self.lost)
        return more < 0 or (more == 0 and self.score < -_NOISE)


def compare(first: Mapping[str, CaseResult], second: Mapping[str, CaseResult], names: Iterable[str]) -> Comparison:
    """The first against the second, on those of the cases that both were measured on."""
    both = [name for name in names if name in first and name in second]
    differences = [
        a - b for name in both if (a := first[name].score) is not None and (b := second[name].score) is not None
    ]
    return Comparison(
        tuple(name for name in both if first[name].passed and not second[name].passed),
        tuple(name for name in both if second[name].passed and not first[name].passed),
        sum(differences) / len(differences) if differences else 0.0,
    )


def best_of(versions: Sequence[Version], names: Sequence[str]) -> Version:
    """The version that fares best; of equals, the first. Those not measured on all of these cases do not count."""
    complete = [version for version in versions if all(name in version.results for name in names)]
    best = complete[0] if complete else versions[0]
    for version in complete[1:]:
        if compare(version.results, best.results, names).is_better:
            best = version
    return best
