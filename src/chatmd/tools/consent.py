"""Consent: what a file's tools could do is shown to its user once, before it runs for the first time.

A file may have come from somewhere else. If its tools can start processes, change files, read outside of its folder
or use an MCP server, or if it sends files that may hold keys, somebody has to agree to its declarations, those of the
agents it asks included. The answer is kept with a hash of what was declared, so that a change is asked about again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import operator
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from chatmd.errors import ConsentNeeded
from chatmd.language.items import AgentSpec
from chatmd.tools.declared import DeclaringFile, Traffic, declared_by, in_prose, own_declarations, remote_digest
from chatmd.workplace import Workplace
from lmm.disk import trust
from lmm.messages import ToolCall
from lmm.terminal import visible

STORE = "consents.json"

Confirm = Callable[[str], bool]
"""Show a text of several lines that says what is asked for, and return whether the user agrees."""

Approve = Callable[[ToolCall], Awaitable[bool | str]]
"""Ask about one call before it is made (``--ask``): True makes it; False refuses it; a text refuses it and is what
the model is told. Raises `StoppedByUser` if the user wants the run to end there."""

REFUSED = "The user refused this call. Do not repeat it; go on without it, or ask the user what to do instead."
"""What the model reads if a call is refused without a reason."""

# Whether it is tools that are asked about, not only files that are sent.
_MORE = {
    True: "its tools can do more than read in its folder",
    False: "it sends more than ordinary files of its folder",
}
_CHANGED = {
    True: "its tools are not those that you agreed to",
    False: "the files that it sends are not those that you agreed to",
}


_NO_TRAFFIC = Traffic()


@dataclass(frozen=True, slots=True)
class Consent:
    """What was agreed to, for one run: declarations by the file that they stand in, with what they do together."""

    agreed: frozenset[tuple[str, str]] = frozenset()
    together: Traffic = _NO_TRAFFIC

    def check(self, spec: AgentSpec, place: Workplace) -> None:
        """Let an agent start only with tools that were agreed to: a tool may have written to its file meanwhile.

        Raises:
            ConsentNeeded: it has others.
        """
        own = own_declarations(spec, place, self.together)
        if remote_digest(own.path) in {digest for _, digest in self.agreed}:
            return
        if own.traffic.reads and self.together == Traffic(sends=True):
            raise ConsentNeeded(
                "it reads what is here, which nothing did when it was looked at, and what is read could be sent",
                where=visible(own.name),
                hint="its file changed during the run: look at it, and run again",
            )
        if own.keys <= self.agreed:
            return
        raise ConsentNeeded(
            f"{_CHANGED[_has_tools((own,))]}: {_listed((own,))}",
            where=visible(own.name, line=True),
            hint="its file changed during the run: lmm tools shows what it declares now; then run again",
        )


def consent(spec: AgentSpec, place: Workplace, *, yes: bool = False, confirm: Confirm | None = None) -> Consent:
    """See to it that somebody agreed to what a file's tools, and those of the agents that it asks, can do.

    `yes` agrees for this run only. Else what is kept from an earlier run counts; else `confirm` is asked, and if
    it agrees, that is kept. Every agent that starts later is to pass the result's `check`.

    Raises:
        ConsentNeeded: nobody agreed: `confirm` is None (no terminal), or said no.
        ChatmdError: a tool does not exist.
    """
    files = declared_by(spec, place)
    asked = frozenset(key for file in files for key in file.keys)
    if not yes and not asked <= _kept_keys(before := _kept(files[0].path)):
        _ask(files, before, confirm)
        trust.remember(STORE, files[0].path, _record(files))
    return Consent(asked, functools.reduce(operator.or_, (file.traffic for file in files)))


def is_agreed(spec: AgentSpec, place: Workplace) -> bool:
    """Whether the file would run without a question.

    Raises:
        ChatmdError: a tool does not exist.
    """
    files = declared_by(spec, place)
    return frozenset(key for file in files for key in file.keys) <= _kept_keys(_kept(files[0].path))


def question(files: tuple[DeclaringFile, ...], before: Sequence[str] = ()) -> str:
    """What a user is asked to agree to, in lines; `before` are the lines that were agreed to last time.

    >>> from chatmd.tools.declared import Declaration
    >>> search = Declaration("search", "runs rg -n", True, "…")
    >>> print(question((DeclaringFile("/notes/review.md", "review.md", (search,)),), ["sh  runs sh"]), end="")
    review.md: its tools are not those that you agreed to:
      + search  runs rg -n
      - sh  runs sh
    """
    name, lines = visible(files[0].name, line=True), [line for file in files for line in _lines(file)]
    has_tools = _has_tools(files)
    if not before:
        return "\n  ".join([f"{name}: {_MORE[has_tools]}:", *lines]) + "\n"
    shown = [f"{' ' if line in before else '+'} {line}" for line in lines]
    gone = [f"- {line}" for line in before if line not in lines]
    return "\n  ".join([f"{name}: {_CHANGED[has_tools]}:", *shown, *gone]) + "\n"


def _lines(file: DeclaringFile) -> list[str]:
    """A file's declarations, a line each; under its name, if it is another agent's."""
    width = max((len(visible(one.name, line=True)) for one in file.declarations), default=0)
    rows = [f"{visible(one.name, line=True):<{width}}  {visible(one.words, line=True)}" for one in file.declarations]
    if file.depth and rows:
        return [f"the agent {visible(file.name, line=True)}:", *(f"  {row}" for row in rows)]
    return rows


def _ask(files: tuple[DeclaringFile, ...], before: str, confirm: Confirm | None) -> None:
    if confirm is None:
        what = (_CHANGED if before else _MORE)[_has_tools(files)]
        raise ConsentNeeded(
            f"{what}: {_listed(files)}",
            where=visible(files[0].name, line=True),
            hint="run it in a terminal, where you are asked once, or agree: --yes; in Python RunOptions(yes=True)",
        )
    if not confirm(question(files, _kept_lines(before))):
        what = "its tools" if _has_tools(files) else "what it sends"
        raise ConsentNeeded(f"not run: you did not agree to {what}", where=visible(files[0].name, line=True))


def _has_tools(files: tuple[DeclaringFile, ...]) -> bool:
    """Whether it is tools that are asked about, not only files that are sent."""
    return any(one.is_tool for file in files for one in file.asking)


def _listed(files: tuple[DeclaringFile, ...]) -> str:
    """The declarations that are asked about, on one line; those that can do the same together."""
    return "; ".join(one for file in files for one in _sentences(file))


def _sentences(file: DeclaringFile) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for one in file.asking:
        names.setdefault(one.words, []).append(one.name)
    for words, several in names.items():
        yield visible(f"{'each of ' * (len(several) > 1)}{in_prose(several)} {words}", line=True)


# -- what is kept ------------------------------------------------------------------------------------------


def _kept(path: str) -> str:
    return trust.remembered(STORE).get(path, "")


def _record(files: tuple[DeclaringFile, ...]) -> str:
    """Hashes, to compare, and the lines that were shown, to tell what changed."""
    keys = sorted(key for file in files for key in file.keys)
    return json.dumps({"agreed": keys, "shown": [line for file in files for line in _lines(file)]}, ensure_ascii=False)


def _kept_keys(record: str) -> frozenset[tuple[str, str]]:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return frozenset((str(path), str(digest)) for path, digest in json.loads(record)["agreed"])
    return frozenset()


def _kept_lines(record: str) -> list[str]:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return [str(line) for line in json.loads(record)["shown"]]
    return []
