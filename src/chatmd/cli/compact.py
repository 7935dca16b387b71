"""`lmm compact`: the older part of a conversation as a summary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.terminal import DONE, usage_text

if TYPE_CHECKING:
    from chatmd.compaction.compact import Compacted, Planned
    from chatmd.language.agent import Item

_TOKENS_PER_WORD = 1.5
_AT_ONCE = 8  # lines of a run of items that are shown whole; of a longer one, its ends
_WIDTH = 68


@options.command()
@options.argument("file", "FILE", "A ChatMD file with a long conversation.", type=options.PATH)
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=0),
    default=3,
    help="How many of the last turns stay as they are.",
)
@click.option(
    "--to",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    help="Keep fewer turns, if that is needed to get down to this.",
)
@click.option("--model", metavar="NAME", help="The model that summarises, instead of the file's own.")
@options.config
@options.roots("Another folder that files may be imported from.")
@options.dry_run("Show what would stay and what would go; ask no model.")
@options.flag("--json", "as_json", help="Report as JSON.")
def compact(
    *,
    file: Path,
    keep: int,
    to: int | None,
    model: str | None,
    config: Path | None,
    roots: tuple[Path, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Replace the older part of a conversation by a summary, so that it fits the model again.

    Instructions, decisions and the last turns stay. The original is kept beside the file, in .chatmd.
    """
    from chatmd.chat import Chat
    from chatmd.errors import NothingToCompact

    chat = Chat.open(file, config=config, roots=roots)
    if dry_run:
        return _show(file, chat.plan_compaction(keep=keep, to=to), to, as_json)
    try:
        done = chat.compact(keep=keep, to=to, model=model or "")
    except NothingToCompact as nothing:
        _say({"file": str(file), "compacted": False, "reason": nothing.message}, f"{file}: {nothing}", as_json)
        return DONE
    _say(_values(file, done), _told(file, done), as_json)
    return DONE


def _say(values: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        terminal.say_json(values)
    else:
        terminal.say(text)


def _values(file: Path, done: Compacted) -> dict[str, Any]:
    made = done.compaction
    return {
        "file": str(file),
        "compacted": True,
        "original": str(done.original),
        "tokens_before": made.before,
        "tokens_after": made.after,
        "items_kept": len(made.plan.stays),
        "items_summarised": len(made.plan.gone),
        "model": made.model,
        "input_tokens": made.usage.input_tokens,
        "output_tokens": made.usage.output_tokens,
        "cost": made.usage.cost,
    }


def _told(file: Path, done: Compacted) -> str:
    made = done.compaction
    requests = terminal.count(made.usage.requests, "request") if made.usage.requests else "remembered"
    paid = f"{requests}, {usage_text(made.usage)}" if made.usage.requests else requests
    return (
        f"{file}: {made.before:,} tokens became {made.after:,}; "
        f"{terminal.count(len(made.plan.gone), 'item')} in a summary, {len(made.plan.stays)} kept\n"
        f"summary by {made.model} ({paid})\n"
        f"the original: {done.original}"
    )


# -- dry run -------------------------------------------------------------------------------------


def _show(file: Path, planned: Planned, to: int | None, as_json: bool) -> int:
    """The items as a diff: ``-`` is summarised, ``+`` is the summary; and the tokens before and after."""
    from chatmd.compaction.compact import words_for

    before = sum(planned.sizes)
    gone = sum(planned.sizes[index] for index in planned.plan.gone)
    summary = min(int(words_for(gone, to) * _TOKENS_PER_WORD), gone) if gone else 0
    after = before - gone + summary
    values = {
        "file": str(file),
        "tokens_before": before,
        "tokens_after": after,
        "items": [_row(planned, index) for index in range(len(planned.items))],
    }
    lines = [*_lines(planned, summary), f"{file}: {before:,} tokens would become about {after:,}"]
    if not gone:
        lines[-1] = f"{file}: nothing to compact, {before:,} tokens"
    _say(values, "\n".join(lines), as_json)
    return DONE


def _row(planned: Planned, index: int) -> dict[str, Any]:
    item = planned.items[index]
    return {
        "what": _what(item),
        "line": item.span.line,
        "tokens": planned.sizes[index],
        "kept": index in set(planned.plan.stays),
    }


def _lines(planned: Planned, summary: int) -> Iterator[str]:
    gone = set(planned.plan.gone)
    last = max(gone, default=-1)
    for is_gone, run in groupby(range(len(planned.items)), key=gone.__contains__):
        indices = list(run)
        yield from _shortened([_line(planned, index, "-" if is_gone else " ") for index in indices])
        if last in indices:
            yield f"+ {'user':<10} {summary:>7,}  a summary of what goes"


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= _AT_ONCE:
        return lines
    half = _AT_ONCE // 2
    return [*lines[:half], f"{lines[0][0]} … {len(lines) - 2 * half} more …", *lines[-half:]]


def _line(planned: Planned, index: int, sign: str) -> str:
    from chatmd.compaction.summary import told

    item = planned.items[index]
    document = told(item, {}, 10_000)
    text = " ".join(document.text.split()) if document else "(empty)"
    text = f"{text[:_WIDTH]}…" if len(text) > _WIDTH else text
    return f"{sign} {_what(item):<10} {planned.sizes[index]:>7,}  {text}"


def _what(item: Item) -> str:
    from chatmd.compaction.summary import is_summary, told

    if is_summary(item):
        return "summary"
    document = told(item, {}, 100)
    return document.label if document else getattr(item, "role", "item")
