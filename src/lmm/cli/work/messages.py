"""What is done by `lmm messages`: answer the questions that wait in documents."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.cli.work.progress import Progress, usage_text
from lmm.cli.work.word_diff import word_diff
from lmm.disk.files import decode_document, read_document, title_of
from lmm.errors import LmmError
from lmm.markdown.blocks import ErrorBlock, HeaderBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.prompt_lines import find_prompts
from lmm.messages import Usage, render
from lmm.prompts.load import load_prompts
from lmm.scan import MessageOptions, Outcome, scan_messages, scan_messages_text
from lmm.scan.chat_log import Exchange
from lmm.scan.edits import EDIT, find_edits
from lmm.scan.header import check_header
from lmm.scan.messages import chat_before, request_for
from lmm.scan.run_messages import pending

STDIN = Path("-")


def messages(
    files: list[Path], at: int | None, model: str | None, config: Path | None, again: bool, dry_run: bool, diff: bool
) -> int:
    """Answer every pending ?:, +: and =: (query:, message:, edit:) of the files, inside the files."""
    options = MessageOptions(model=model, config=config, at=at, again=again)

    def work(path: Path, options: MessageOptions) -> int:
        return _show_requests(path, options) if dry_run else _answer(path, options, diff)

    codes = []
    for path in files:
        try:
            codes.append(work(path, options))
        except LmmError as error:
            if len(files) == 1:
                raise
            terminal.tell_error(error)
            codes.append(console.FAILED)
        if codes[-1] == console.INTERRUPTED:
            break
    return max(codes)


def _answer(path: Path, options: MessageOptions, diff: bool) -> int:
    if path == STDIN:
        text = _read(path)
        outcome = scan_messages_text(text, options, listener=Progress("-", err=True))
        terminal.say_document(outcome.text)
        _tell_edits("-", outcome.text, diff, err=True)
        return _summary("-", outcome, err=True)
    outcome = scan_messages(path, options, listener=Progress(str(path)))
    _tell_edits(str(path), outcome.text, diff)
    return max(_tell_unreadable(str(path), outcome.text), _summary(str(path), outcome))


def _tell_unreadable(name: str, text: str) -> int:
    """Blocks that cannot be read and hold what looks like a question: nobody should wait for an answer."""
    code = console.DONE
    for block in parse_markdown_text(text):
        if isinstance(block, ErrorBlock) and find_prompts(block.source):
            where = f"{name}:{block.error_line}:{block.error_column}"
            terminal.tell_error(
                LmmError(
                    f"a question stands in a block that cannot be read: {block.reason}", where=where, hint=block.hint
                )
            )
            code = console.FAILED
    return code


def _tell_edits(name: str, text: str, diff: bool, *, err: bool = False) -> None:
    """What waits in the document now, and what the author should know before accepting it."""
    edits = find_edits(parse_markdown_text(text)) if EDIT in text else []
    for edit in edits:
        terminal.say(f"{terminal.styled(f'{name}:{edit.line}', 'cyan', err=err)} an edit waits: {edit.prompt}", err=err)
        if diff:
            old, new = serialize(edit.old).strip(), serialize(edit.new).strip()
            terminal.say(textwrap.indent(word_diff(old, new, err=err), "  "), err=err)
        for warning in edit.warnings:
            terminal.say(terminal.styled(f"  warning: {warning}", "yellow", err=err), err=err)
    if edits:
        terminal.say(f"{name}: lmm accept keeps the new text, lmm reject restores the old", err=err)


def _read(path: Path) -> str:
    return decode_document(sys.stdin.buffer.read(), "standard input") if path == STDIN else read_document(path)


def _summary(name: str, outcome: Outcome, *, err: bool = False) -> int:
    if outcome.side_file:
        terminal.tell_error(
            LmmError(
                "the document changed meanwhile and a reply found no place in it",
                where=name,
                hint=f"the reply is in {outcome.side_file}",
            )
        )
    if not outcome.answered and not outcome.failed and not outcome.interrupted:
        terminal.say(f"{name}: no question waits", err=err)
        return console.DONE
    parts = [terminal.count(len(outcome.answered), "reply")]
    if outcome.failed:
        parts.append(f"{len(outcome.failed)} not answered")
    if outcome.usage != Usage():
        parts.append(usage_text(outcome.usage))
    if outcome.interrupted:
        parts.append("interrupted; what had arrived is saved")
    terminal.say(f"{name}: {', '.join(parts)}", err=err)
    if outcome.interrupted:
        return console.INTERRUPTED
    return console.FAILED if outcome.failed or outcome.side_file else console.DONE


def _show_requests(path: Path, options: MessageOptions) -> int:
    text = _read(path)
    blocks = parse_markdown_text(text)
    check_header(blocks, document=str(path))
    header = blocks[0].values() if blocks and isinstance(blocks[0], HeaderBlock) else None
    settings = options.settings(None if path == STDIN else path, header)
    threads = pending(blocks, options, settings, title=title_of(path))
    prompts = load_prompts(settings.prompts_folder)
    for thread in threads:
        log = thread.log
        for ask in thread.asks:
            terminal.say(f"── {path}:{ask.line} → {settings.major.model} · {ask.subject}")
            for message in request_for(ask, chat_before(ask, log), settings.system, prompts).messages:
                terminal.say(f"[{message.role}]\n{render(message)}\n")
            if not ask.is_edit:
                log = (*log, Exchange(ask.prompt.word, ask.prompt.text, "(the reply to this)"))
    asked = sum(len(t.asks) for t in threads)
    terminal.say(f"{path}: {terminal.count(asked, 'request')} would be sent to {settings.major.model}")
    return console.DONE
