"""What is done by `lmm annotate` and `lmm batch`."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.cli.work.progress import usage_text
from lmm.errors import ConfigError, LmmError
from lmm.markdown.tree import HeadingNode
from lmm.messages import Usage
from lmm.scan import BatchOptions, BatchReport, scan_batch, scan_rag
from lmm.scan.batch import find_batch_model
from lmm.scan.fields import BatchEvent, FieldFailed, Planned, Visited, Waiting
from lmm.scan.fingerprints import State
from lmm.scan.making import user_error
from lmm.scan.prices import price
from lmm.scan.run_batch import BatchFailed


def annotate(
    files: list[Path],
    titles: bool | None,
    questions: bool | None,
    keywords: bool | None,
    summaries: bool | None,
    model: str | None,
    config: Path | None,
    dry_run: bool,
    changed: bool,
    refresh: bool,
    again: bool,
) -> int:
    """Add annotations to sections where they are missing, or where the text changed."""
    fields = {"titles": titles, "questions": questions, "keywords": keywords, "summary": summaries}
    options = BatchOptions(model, config, fields, refresh, again, estimate=dry_run or changed)
    return _for_each(files, options, changed, lambda path, show: scan_rag(path, options, listener=show))


def batch(
    name: str,
    files: list[Path],
    source: Path | None,
    model: str | None,
    config: Path | None,
    dry_run: bool,
    changed: bool,
    refresh: bool,
    again: bool,
) -> int:
    """Run a batch model: a Python function registered with @lmm.batch_model("NAME")."""
    if source is not None:
        _load(source)
    function = find_batch_model(name)
    options = BatchOptions(model, config, {}, refresh, again, estimate=dry_run or changed)
    return _for_each(files, options, changed, lambda path, show: scan_batch(function, path, options, listener=show))


def _load(source: Path) -> None:
    """Run a Python file, which may import what lies beside it."""
    name = f"lmm_batch_{source.stem}"
    spec = importlib.util.spec_from_file_location(name, source)
    if spec is None or spec.loader is None or not source.is_file():
        raise ConfigError("this is not a Python file", where=str(source), hint="name the file that registers the model")
    sys.path.append(str(source.resolve().parent))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ConfigError(f"SyntaxError: {error.msg}", where=f"{error.filename}:{error.lineno}") from error
    except Exception as error:
        told = user_error(error)
        raise ConfigError(told.message, where=told.where, hint="the file that --from names must load") from error


def _for_each(
    files: list[Path], options: BatchOptions, changed: bool, work: Callable[[Path, _Show], BatchReport]
) -> int:
    codes, told = [console.DONE], set[str]()
    for path in files:
        show = _Show(str(path), changed, options.estimate)
        failed: LmmError | None = None
        try:
            report = work(path, show)
        except BatchFailed as error:
            failed, report = error, error.report
        except LmmError as error:
            show.finish()
            if len(files) == 1:
                raise
            terminal.tell_error(error)
            codes.append(console.USAGE if isinstance(error, ConfigError) else console.FAILED)
            continue
        show.finish()
        for hint in dict.fromkeys(report.hints):
            if hint not in told:
                terminal.say(hint, err=True)
        told |= set(report.hints)
        if failed is not None:
            terminal.tell_error(failed)
            codes.append(console.FAILED)
        codes.append(_summary(path, report, show, options, changed))
        if report.interrupted:
            return console.INTERRUPTED
    return max(codes)


class _Show:
    """Counts what happens to a document's fields, tells of failures, and shows a progress bar on a terminal."""

    def __init__(self, document: str, changed: bool, estimate: bool) -> None:
        self.document, self.changed, self.estimate = document, changed, estimate
        self.total = self.done = self.blocked = self.stale_before = 0
        self.made, self.removed = Counter[str](), Counter[str]()
        self.stale: list[tuple[int, str]] = []
        self.errors: Counter[str] = Counter()

    def __call__(self, event: BatchEvent) -> None:
        if isinstance(event, Waiting):
            terminal.say(f"{event.document}: another lmm is working on it; waiting", err=True)
            return
        if isinstance(event, Planned):
            self.total += event.count
        elif isinstance(event, FieldFailed):
            self._failed(event)
        else:
            self._visited(event)
        self._draw()

    def _failed(self, event: FieldFailed) -> None:
        self.done += 1
        self.errors[str(event.error)] += 1
        if self.errors[str(event.error)] == 1:  # a server that is down says the same of every section
            self._tell(event.node, event.field, str(event.error))

    def _visited(self, event: Visited) -> None:
        self.done += 1
        if event.made:
            self.made[event.field] += 1
        elif event.state is State.GONE:
            self.removed[event.field] += 1
        elif event.state is State.BLOCKED:
            self.blocked += 1
        elif event.state is State.OTHERWISE:
            self.stale_before += 1
        if self.changed:
            if event.state in _LISTED:
                self.stale.append((_line(event.node), f"{event.field} of '{event.node.title}': {event.state}"))
        elif event.state is State.EDITED and not event.made:
            self._tell(event.node, event.field, "edited by hand; kept")

    def _tell(self, node: HeadingNode, field: str, what: str) -> None:
        terminal.erase_bar()
        terminal.say(f"{self.document}:{_line(node)}: {field} of '{node.title}': {what}", err=True)

    def _draw(self) -> None:
        if self.total:
            terminal.show_bar(self.done, self.total, before=f"{self.document} ")

    def finish(self) -> None:
        """Take the bar away; tell how often a failure came again."""
        terminal.erase_bar()
        for error, times in self.errors.items():
            if times > 1:
                terminal.say(f"{self.document}: {times - 1} more: {error}", err=True)


_LISTED = (State.MISSING, State.CHANGED, State.EDITED, State.OTHERWISE, State.GONE)


def _line(node: HeadingNode) -> int:
    return node.heading.line if node.heading is not None else 1


def _summary(path: Path, report: BatchReport, show: _Show, options: BatchOptions, changed: bool) -> int:
    if changed:
        terminal.say("".join(f"{path}:{line}: {what}\n" for line, what in sorted(show.stale)), end="")
        if not show.stale:
            terminal.say(f"{path}: nothing is stale")
    else:
        terminal.say(f"{path}: {'; '.join(_parts(report, show, options))}")
    if report.side_file:
        terminal.tell_error(
            LmmError(
                "the document changed meanwhile and something found no place in it",
                where=str(path),
                hint=f"it is in {report.side_file}",
            )
        )
    return console.FAILED if report.failures or report.side_file else console.DONE


def _parts(report: BatchReport, show: _Show, options: BatchOptions) -> list[str]:
    """What the line at the end tells."""
    verb = "would " if options.estimate else ""
    made = ", ".join(f"{field} {count}" for field, count in show.made.items())
    parts = [f"{verb}{'make' if verb else 'made'} {made}" if made else "nothing to make"]
    if show.removed:
        removed = ", ".join(f"{field} {count}" for field, count in show.removed.items())
        parts.append(f"{verb}{'remove' if verb else 'removed'} {removed}, whose text is gone")
    if options.estimate:
        parts.append(_cost(report.usage, report.model))
    elif report.usage.requests:
        parts.append(f"{terminal.count(report.usage.requests, 'call')}, {usage_text(report.usage)}")
    if show.stale_before:
        parts.append(f"{show.stale_before} made otherwise: --changed lists them, --refresh makes them anew")
    if report.failures:
        waiting = f", {show.blocked} wait for that" if show.blocked else ""
        parts.append(f"{len(report.failures)} failed{waiting}")
    if report.interrupted:
        parts.append("interrupted; what was made is saved")
    return parts


def _cost(usage: Usage, model: str) -> str:
    if not usage.requests:
        return "no calls"
    dollars = price(model, usage)
    known = ", price unknown" if dollars is None else f", about ${dollars:.4f}" if dollars else ""
    return f"{terminal.count(usage.requests, 'call')} to {model}, about {usage_text(usage)}{known}"
