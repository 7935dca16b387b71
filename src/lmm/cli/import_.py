"""`lmm import`: other people's files to markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError, LmmError
from lmm.terminal import DONE, FAILED, USAGE

if TYPE_CHECKING:
    from lmm.importing import ImportReport

_TABLE = re.compile(r"^\|(?: ?:?-+:? ?\|)+$", re.MULTILINE)


@options.command("import")
@options.argument("files", "FILE", "files; their kind is told by their names.", many=True, type=options.PATH)
@click.option(
    "--output", "-o", type=options.PATH, help="The markdown file, or the folder for it; else beside each FILE."
)
@options.flag("--force", help="Replace what exists under the output's name.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=300,
    help="How long a file may take to read.",
)
def import_(*, files: tuple[Path, ...], output: Path | None, force: bool, timeout: float) -> int:
    """Turn other formats into markdown, with their images in a folder beside it.

    PDF, web pages, EPUB and notebooks; through Pandoc: Word, PowerPoint, Excel, ODT, RTF, LaTeX, Org, reStructuredText,
    AsciiDoc, MediaWiki, DocBook.

    Read and correct the result before you ingest it. No code is run, and nothing is fetched from the network.
    """
    from lmm.importing import import_file

    if output is not None and len(files) > 1 and not output.is_dir():
        raise ConfigError("several files need a folder", where=str(output), hint=f"mkdir -p {output}")
    _check_outputs(files, output)
    code = DONE
    for path in files:
        try:
            terminal.say(_told(import_file(path, output, force=force, timeout=timeout)), end="")
        except LmmError as error:
            terminal.tell_error(error)
            failed = USAGE if isinstance(error, ConfigError) and len(files) == 1 else FAILED
            code = max(code, failed)
    return code


def _check_outputs(files: Sequence[Path], output: Path | None) -> None:
    """Refuse two files whose markdown would have one name."""
    from lmm.importing.run import output_of

    seen: dict[Path, Path] = {}
    for path in files:
        target = output_of(path, output).resolve()
        if target in seen and seen[target] != path:
            hint = "import them one by one, with -o"
            raise ConfigError(f"{seen[target]} and {path} would become one file", where=str(target), hint=hint)
        seen[target] = path


def _told(report: ImportReport) -> str:
    """What became of a file, in a line, and what did not come along, in more."""
    from lmm.markdown import parse_markdown_text
    from lmm.markdown.blocks import HeadingBlock, TextBlock

    blocks = parse_markdown_text(report.text)
    headings = sum(isinstance(block, HeadingBlock) for block in blocks)
    tables = sum(len(_TABLE.findall(block.content)) for block in blocks if isinstance(block, TextBlock))
    parts = [terminal.count(headings, "heading"), terminal.count(tables, "table")]
    if report.images:
        parts.append(f"{terminal.count(len(report.images), 'image')} in {report.images[0].parent.name}")
    notes = "".join(f"{report.output}: {note}\n" for note in report.notes)
    return f"{report.output}: {', '.join(parts)}\n{notes}"
