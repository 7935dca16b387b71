"""`lmm annotate` and `lmm batch`."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console
from lmm.cli.progress import usage_text
from lmm.errors import ConfigError, LmmError
from lmm.markdown.tree import HeadingNode
from lmm.models.port import Usage
from lmm.scan import BatchOptions, BatchReport, scan_batch, scan_rag
from lmm.scan.batch import BatchEvent, FieldFailed, Planned, Visited, registered
from lmm.scan.fingerprints import State
from lmm.scan.prices import price

app = console.make_app()
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Markdown, R Markdown or Quarto files.")]
Model = Annotated[Optional[str], typer.Option(metavar="NAME", help="Ask this model, such as Ollama/llama3.2.")]
Config = Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be made, and what it costs; ask nothing.")]
Changed = Annotated[bool, typer.Option("--changed", help="List what is stale, and why; ask nothing.")]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Make anew also what another prompt, model or heading path made.")
]
Again = Annotated[bool, typer.Option("--again", help="Ask anew what an earlier run already got a reply to.")]


def _switch(name: str) -> object:
    return typer.Option(
        f"--{name}/--no-{name}", help=f"Make {name}, whatever the configuration says.", show_default=False
    )


@app.command()
def annotate(
    files: Files,
    titles: Annotated[Optional[bool], _switch("titles")] = None,
    questions: Annotated[Optional[bool], _switch("questions")] = None,
    keywords: Annotated[Optional[bool], _switch("keywords")] = None,
    summaries: Annotated[Optional[bool], _switch("summaries")] = None,
    model: Model = None,
    config: Config = None,
    dry_run: DryRun = False,
    changed: Changed = False,
    refresh: Refresh = False,
    again: Again = False,
) -> int:
    """Add annotations to sections where they are missing, or where the text changed.

    What you wrote or edited yourself is kept. Which annotations: [RAG] in config.toml, 'model: RAG:' in the
    header, or the options here.
    """
    fields = {"titles": titles, "questions": questions, "keywords": keywords, "summary": summaries}
    options = BatchOptions(model, config, fields, refresh, again, estimate=dry_run or changed)
    return _for_each(files, options, changed, lambda path, show: scan_rag(path, options, listener=show))


@app.command()
def batch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The batch model's name.")],
    files: Files,
    source: Annotated[
        Optional[Path], typer.Option("--from", metavar="FILE.py", help="Load this Python file, which registers it.")
    ] = None,
    model: Model = None,
    config: Config = None,
    dry_run: DryRun = False,
    changed: Changed = False,
    refresh: Refresh = False,
    again: Again = False,
) -> int:
    """Run a batch model: a Python function registered with @lmm.batch_model("NAME")."""
    if source is not None:
        _load(source)
    if name not in registered():
        known = ", ".join(sorted(registered())) or "none is registered"
        raise ConfigError(f"there is no batch model '{name}'", hint=f"known: {known}; --from FILE.py loads yours")
    options = BatchOptions(model, config, {}, refresh, again, estimate=dry_run or changed)
    return _for_each(files, options, changed, lambda path, show: scan_batch(name, path, options, listener=show))


def _load(source: Path) -> None:
    spec = importlib.util.spec_from_file_location(source.stem, source)
    if spec is None or spec.loader is None or not source.is_file():
        raise ConfigError("this is not a Python file", where=str(source), hint="name the file that registers the model")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _for_each(
    files: list[Path], options: BatchOptions, changed: bool, work: Callable[[Path, _Show], BatchReport]
) -> int:
    codes, told = [console.DONE], set[str]()
    for path in files:
        show = _Show(str(path), changed)
        try:
            report = work(path, show)
        except LmmError as error:
            if len(files) == 1:
                raise
            console.tell_error(error)
            codes.append(console.FAILED)
            continue
        for hint in set(report.hints) - told:
            sys.stderr.write(f"{hint}\n")
        told |= set(report.hints)
        codes.append(_summary(path, report, show, options, changed))
        if report.interrupted:
            break
    return max(codes)


class _Show:
    """Counts what happens to a document's fields and shows a progress bar on a terminal."""

    def __init__(self, document: str, changed: bool) -> None:
        self.document, self.changed = document, changed
        self.total = self.done = 0
        self.made, self.kept = Counter[str](), Counter[str]()
        self.stale: list[tuple[int, str]] = []
        self.bar = sys.stderr.isatty()

    def __call__(self, event: BatchEvent) -> None:
        if isinstance(event, Planned):
            self.total += event.count
        elif isinstance(event, FieldFailed):
            self._clear()
            about = f"{event.field} of '{event.node.title}'"
            sys.stderr.write(f"{self.document}:{_line(event.node)}: {about}: {event.error}\n")
        elif isinstance(event, Visited):
            self._visited(event)
        self._draw()

    def _visited(self, event: Visited) -> None:
        self.done += 1
        (self.made if event.made else self.kept)[event.field if event.made else event.state] += 1
        about = f"{event.field} of '{event.node.title}'"
        if self.changed and event.state not in (State.FRESH, State.LOCKED, State.OWN):
            self.stale.append((_line(event.node), f"{about}: {event.state}"))
        elif event.state is State.EDITED and not event.made:
            self._clear()
            sys.stderr.write(f"{self.document}:{_line(event.node)}: {about} was edited by hand; kept\n")

    def _draw(self) -> None:
        if self.bar and self.total:
            filled = 30 * min(self.done, self.total) // self.total
            sys.stderr.write(f"\r{self.document} [{'█' * filled}{'·' * (30 - filled)}] {self.done}/{self.total}")
            sys.stderr.flush()

    def _clear(self) -> None:
        if self.bar:
            sys.stderr.write("\r\x1b[K")

    def finish(self) -> None:
        """Take the bar away."""
        self._clear()


def _line(node: HeadingNode) -> int:
    return node.heading.line if node.heading is not None else 1


def _summary(path: Path, report: BatchReport, show: _Show, options: BatchOptions, changed: bool) -> int:
    show.finish()
    if changed:
        sys.stdout.writelines(f"{path}:{line}: {what}\n" for line, what in sorted(show.stale))
        if not show.stale:
            sys.stdout.write(f"{path}: nothing is stale\n")
        return console.DONE
    made = ", ".join(f"{field} {count}" for field, count in show.made.items())
    made = f"made {made}" if made else "nothing to make"
    if options.estimate:
        sys.stdout.write(f"{path}: {made.replace('made', 'would make', 1)}; {_cost(report.usage, report.model)}\n")
        return console.DONE
    parts = [made]
    if report.usage.requests:
        parts.append(usage_text(report.usage))
    if report.failures:
        parts.append(f"{len(report.failures)} failed")
    if report.interrupted:
        parts.append("interrupted; what was made is saved")
    sys.stdout.write(f"{path}: {'; '.join(parts)}\n")
    if report.side_file:
        sys.stderr.write(f"{path}: the document changed meanwhile; what found no place is in {report.side_file}\n")
    if report.interrupted:
        return console.INTERRUPTED
    return console.FAILED if report.failures or report.side_file else console.DONE


def _cost(usage: Usage, model: str) -> str:
    if not usage.requests:
        return "no calls"
    dollars = price(model, usage)
    known = f", about ${dollars:.4f}" if dollars is not None else ", price unknown"
    return (
        f"{console.count(usage.requests, 'call')} to {model}, about {usage_text(usage)}{known if dollars != 0 else ''}"
    )
