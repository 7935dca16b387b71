"""What is done by `lmm import`."""

from __future__ import annotations

import re
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.errors import ConfigError, LmmError
from lmm.importing import ImportReport, import_file
from lmm.importing.run import output_of
from lmm.markdown import parse_markdown_text
from lmm.markdown.blocks import HeadingBlock, TextBlock

_TABLE = re.compile(r"^\|(?: :?-+:? \|)+$", re.MULTILINE)


def import_files(files: list[Path], output: Path | None, force: bool, timeout: float) -> int:
    """Import each file; one that cannot be is reported, and the others go on."""
    if output is not None and len(files) > 1 and not output.is_dir():
        raise ConfigError("several files need a folder", where=str(output), hint=f"mkdir -p {output}")
    _check_outputs(files, output)
    code = console.DONE
    for path in files:
        try:
            terminal.say(_told(import_file(path, output, force=force, timeout=timeout)), end="")
        except LmmError as error:
            terminal.tell_error(error)
            failed = console.USAGE if isinstance(error, ConfigError) and len(files) == 1 else console.FAILED
            code = max(code, failed)
    return code


def _check_outputs(files: list[Path], output: Path | None) -> None:
    """Refuse two files whose markdown would have one name."""
    seen: dict[Path, Path] = {}
    for path in files:
        target = output_of(path, output).resolve()
        if target in seen and seen[target] != path:
            hint = "import them one by one, with -o"
            raise ConfigError(f"{seen[target]} and {path} would become one file", where=str(target), hint=hint)
        seen[target] = path


def _told(report: ImportReport) -> str:
    """What became of a file, in a line, and what did not come along, in more."""
    blocks = parse_markdown_text(report.text)
    headings = sum(isinstance(block, HeadingBlock) for block in blocks)
    tables = sum(len(_TABLE.findall(block.content)) for block in blocks if isinstance(block, TextBlock))
    parts = [terminal.count(headings, "heading"), terminal.count(tables, "table")]
    if report.images:
        parts.append(f"{terminal.count(len(report.images), 'image')} in {report.images[0].parent.name}")
    notes = "".join(f"{report.output}: {note}\n" for note in report.notes)
    return f"{report.output}: {', '.join(parts)}\n{notes}"
