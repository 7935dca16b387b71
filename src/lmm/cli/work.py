"""What commands share that let a model work on documents: work and save, and tell what became of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lmm import terminal
from lmm.errors import Failure, Place
from lmm.messages import Event, Notice, Progress, Usage, Waiting
from lmm.terminal import DONE, FAILED, INTERRUPTED

if TYPE_CHECKING:
    from lmm.document import Document
    from lmm.pipeline import Report

T = TypeVar("T")


def work(document: Document, verb: Callable[[Document], Report[T]], *, save: bool = True) -> Report[T]:
    """What a verb did to a document, which is saved; also where Ctrl-C, or the user's own function, ended it."""
    from lmm.document import BatchFailed, saved
    from lmm.loop import Stopped

    try:
        return saved(document, verb) if save else verb(document)
    except (Stopped, BatchFailed) as ended:
        report: Report[T] = ended.report
        return report
    finally:
        terminal.erase_bar()


def change(path: Path, verb: Callable[[Document], T], *, save: bool = True, err: bool = False) -> T:
    """What a verb that asks no model did to the document in a file, as it is now; it is saved."""
    from lmm import Document

    with Document.open(path, listener=terminal.EventPrinter(err=err)) as document:
        document.reload()
        done = verb(document)
        if save:
            document.save()
    return done


def exit_code(report: Report[Any]) -> int:
    """The exit code that a report stands for."""
    return INTERRUPTED if report.interrupted else FAILED if report.failures or report.error else DONE


def show_progress(event: Event, place: Place) -> None:
    """Print what a person should know, and draw how far the work is; a `lmm.messages.Listener`."""
    match event:
        case Waiting() | Notice():
            terminal.tell_notice(event, place, err=True)
        case Progress(done=done, total=total) if total:
            terminal.show_bar(done, total, before=f"{place} " if str(place) else "")


def tell_failures(report: Report[Any]) -> None:
    """Each failure once, where it was first met: a server that is down says the same of every section."""
    alike: dict[str, list[Failure]] = {}
    for failure in report.failures:
        alike.setdefault(str(failure.error), []).append(failure)
    for first, *others in alike.values():
        terminal.say(f"{first}{f'; {len(others)} more of the same kind' if others else ''}", err=True)


def cost_text(usage: Usage, model: str) -> str:
    """What calls to a model would come to, in words; the price where it is known."""
    from lmm.models.tokens import price

    if not usage.requests:
        return "no calls"
    dollars = price(model, usage)
    known = ", price unknown" if dollars is None else f", about ${dollars:.4f}" if dollars else ""
    return f"{terminal.count(usage.requests, 'call')} to {model}, about {terminal.usage_text(usage)}{known}"
