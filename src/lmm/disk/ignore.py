"""Patterns of paths, as shells and ``.gitignore`` have them: ``*``, ``?``, ``[a-z]``, ``{a,b}``, ``**`` for folders.

Matching takes a time that is linear in the length of each name, whatever the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

_MOST_ALTERNATIVES = 100
_SET = re.compile(r"(\[!?+\]?+[^\]]*\])|\[")


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern that is ready to be compared with paths.

    >>> Glob.of("**/*.{md,txt}").fits(("a", "b", "c.md")), Glob.of("src/*.py").fits(("src", "a", "b.py"))
    (True, False)
    >>> Glob.of("*.md").fits(("a", "b", "c.md"))
    True
    """

    alternatives: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, pattern: str) -> Glob:
        """Read a pattern; one without a slash is compared with the last part of a path only."""
        patterns = [one.strip("/") for one in _braces(pattern.removeprefix("./"))]
        return cls(tuple(tuple(one.split("/")) if "/" in one else ("**", one) for one in patterns))

    def fits(self, parts: Sequence[str]) -> bool:
        """Whether a path, given by its parts, fits."""
        return any(fits_parts(pattern, parts) for pattern in self.alternatives)


def fits_parts(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the parts of a path fit the parts of a pattern, one of which may be ``**``: any number of folders."""
    # Which prefixes of the path fit the part of the pattern that has been read.
    fitting = {0}
    for wanted in pattern:
        if wanted == "**":
            fitting = set(range(min(fitting), len(parts) + 1))
        else:
            fitting = {at + 1 for at in fitting if at < len(parts) and _part(wanted).match(parts[at])}
        if not fitting:
            return False
    return len(parts) in fitting


@lru_cache(maxsize=2000)
def _part(pattern: str) -> re.Pattern[str]:
    plain = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], pattern)
    plain = re.sub(r"\*+", "*", plain)
    # `translate` would search the rest of the pattern for the end of each set that has none.
    end = plain.rfind("]") + 1
    sets = _SET.sub(lambda match: match[1] or "[[]", plain[:end])
    return re.compile(translate(sets + plain[end:].replace("[", "[[]")))


def _braces(pattern: str) -> list[str]:
    """The alternatives that braces stand for.

    >>> _braces("a.{b,c}{d,}")
    ['a.bd', 'a.b', 'a.cd', 'a.c']
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= _MOST_ALTERNATIVES:
        one = waiting.pop(0)
        if found := re.search(r"\{([^{}]*,[^{}]*)\}", one):
            waiting[:0] = [one[: found.start()] + part + one[found.end() :] for part in found[1].split(",")]
        else:
            done.append(one)
    return done + waiting


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line of a ``.gitignore``; `kept` if it takes back what lines before it ignore."""

    pattern: tuple[str, ...]
    kept: bool = False
    folders_only: bool = False


def parse_ignore(text: str) -> tuple[IgnoreRule, ...]:
    """The rules of a ``.gitignore``.

    >>> [rule.pattern for rule in parse_ignore("# built\\n/dist/\\n*.log\\n!a/keep.log\\n")]
    [('dist',), ('**', '*.log'), ('a', 'keep.log')]
    """
    rules = []
    for line in text.splitlines():
        pattern = re.sub(r"(?:(?<![\\\s])|(?<=\\\s))\s+$", "", line)
        kept = pattern.startswith("!")
        pattern = pattern[1:] if kept else pattern
        if not pattern or pattern.startswith("#"):
            continue
        bare = pattern.strip("/")
        if not bare:
            continue
        parts = tuple(part for part in bare.split("/") if part)
        anchored = pattern.rstrip("/").startswith("/") or len(parts) > 1
        if parts[-1] == "**":  # what is in the folder, not the folder
            parts = (*parts, "*")
        rules.append(IgnoreRule(parts if anchored else ("**", *parts), kept, pattern.endswith("/")))
    return tuple(rules)


def is_ignored(layers: Sequence[tuple[int, tuple[IgnoreRule, ...]]], parts: Sequence[str], is_folder: bool) -> bool:
    """Whether a path is ignored; of all rules that fit, the last one counts.

    `layers` are the rules of the folders above, outermost first, each with how many of `parts` lead to it.
    """
    ignored = False
    for depth, rules in layers:
        inside = parts[depth:]
        for rule in rules:
            if (is_folder or not rule.folders_only) and rule.kept == ignored and fits_parts(rule.pattern, inside):
                ignored = not rule.kept
    return ignored
