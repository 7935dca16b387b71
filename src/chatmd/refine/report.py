"""The results of a refinement, for people and as JSON."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from chatmd.refine.search import Refined, Task
from chatmd.refine.versions import CaseResult, CaseTally, Version

_NAME = 32


def table(done: Refined) -> str:
    """One line per version, and one per case."""
    return "\n".join([*_versions(done), "", *_cases(done)])


def _versions(done: Refined) -> Iterator[str]:
    judged = any(version.tally(version.results).score is not None for version in done.versions)
    priced = any(version.tally(version.results).usage.cost for version in done.versions)
    head = ["version", "cases" if not done.held_out else "train", *(["held out"] if done.held_out else []),
            *(["judge"] if judged else []), "tokens/case", *(["cost/case"] if priced else [])]  # fmt: skip
    rows = [head]
    for version in done.versions:
        train, everything = version.tally(done.train), version.tally(version.results)
        held = [_passed(version.tally(done.held_out), len(done.held_out))] if done.held_out else []
        score = ["–" if everything.score is None else f"{everything.score:.1f}"] if judged else []
        count = max(everything.total, 1)
        cost = [f"${(everything.usage.cost or 0) / count:.5f}"] if priced else []
        tokens = round((everything.usage.input_tokens + everything.usage.output_tokens) / count)
        rows.append([_name(version, done), _passed(train, len(done.train)), *held, *score, f"{tokens:,}", *cost])
    return _aligned(rows)


def _name(version: Version, done: Refined) -> str:
    mark = " *" if version is done.winner else ""
    return "as it is" if version is done.baseline else f"{version.id}{mark}"


def _passed(came: CaseTally, total: int) -> str:
    if not came.total:
        return "–"
    part = f" ({came.total} of {total} measured)" if came.total < total else ""
    return f"{came.passed}/{came.total}{part}"


def _cases(done: Refined) -> Iterator[str]:
    rows = [["case", *(("as it is" if v is done.baseline else v.id) for v in done.versions)]]
    for case in done.cases:
        name = case.name if len(case.name) <= _NAME else f"{case.name[: _NAME - 1]}…"
        held = " (held out)" if case.name in done.held_out else ""
        rows.append([f"{name}{held}", *(_mark(version.results.get(case.name)) for version in done.versions)])
    return _aligned(rows)


def _mark(result: CaseResult | None) -> str:
    return "–" if result is None else "pass" if result.passed else "FAIL"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        first, *rest = row
        cells = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([f"{first:<{widths[0]}}", *cells]).rstrip()


def faults(done: Refined, version: Version) -> str:
    """Why cases fail with a version, a line each; empty if none does."""
    lines = []
    for case in done.cases:
        result = version.results.get(case.name)
        for fault in result.faults if result else ():
            lines.append(f"{case.name}: {' '.join(fault.split())}")
    return "\n".join(lines)


def difference(task: Task, version: Version, file: str) -> str:
    """What a version changes in the file, as a unified diff."""
    old, new = task.source.splitlines(keepends=True), task.agent(version.text).splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def as_values(done: Refined, task: Task, file: str) -> dict[str, Any]:
    """All of it as JSON values."""
    return {
        "file": file,
        "train": list(done.train),
        "held_out": list(done.held_out),
        "versions": [_version_values(version, done) for version in done.versions],
        "winner": done.winner.id if done.winner else None,
        "reason": done.reason,
        "stopped": done.stopped,
        "diff": difference(task, done.winner, file) if done.winner else "",
    }


def _version_values(version: Version, done: Refined) -> dict[str, Any]:
    return {
        "id": version.id,
        "text": version.text,
        "train": _tally_values(version.tally(done.train)),
        "held_out": _tally_values(version.tally(done.held_out)),
        "cases": {name: _case_values(result) for name, result in sorted(version.results.items())},
    }


def _tally_values(came: CaseTally) -> dict[str, Any]:
    usage = came.usage
    return {
        "passed": came.passed,
        "measured": came.total,
        "score": came.score,
        "tokens": usage.input_tokens + usage.output_tokens,
        "cost": usage.cost,
    }


def _case_values(result: CaseResult) -> dict[str, Any]:
    return {
        "passed": result.passed,
        "score": result.score,
        "faults": list(result.faults),
        "reply": result.outcome.text,
        "calls": [call.name for call in result.outcome.calls],
    }
