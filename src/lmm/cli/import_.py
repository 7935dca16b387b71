"""`lmm import`: convert other formats to markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError, LmmError
from lmm.terminal import DONE, FAILED, USAGE

if TYPE_CHECKING:
    from lmm.importing import ImportReport

_MARKDOWN = (".md", ".markdown")


@options.command("import")
@options.argument("files", "FILE", "Files (their names show the format), or URLs of pages and files.", many=True)
@click.option(
    "--output",
    "-o",
    metavar="OUTPUT",
    type=click.Path(readable=False),  # as it was typed, with its slash
    help="The markdown file; a folder if it ends in /, exists, or is for several files. [default: beside each FILE]",
)
@options.flag("--force", help="Replace existing files.")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=1), default=300, help="The longest time to read one file."
)
def import_(*, files: tuple[str, ...], output: str | None, **how: Any) -> int:
    """Convert other formats into markdown, with their images in a folder beside it.

    PDF, web pages, EPUB, notebooks, Word, PowerPoint, Excel, OpenDocument, RTF, subtitles, LaTeX, Org,
    reStructuredText, AsciiDoc, MediaWiki, DocBook. Pandoc writes the markdown; comments in it say which page, slide or
    minute a text comes from.

    Check the result before you ingest it. No code is run, and only the URLs that you name are fetched
    and the pictures beside them.
    """
    if output is not None and len(files) > 1:
        if output.lower().endswith(_MARKDOWN) and not Path(output).is_dir():
            raise ConfigError("for several files, the output must be a folder", where=output, hint="end its name in /")
        output = f"{output}/"
    from lmm.importing import import_file
    from lmm.importing.import_document import output_of
    from lmm.importing.web import import_url

    code, seen = DONE, dict[Path, str]()
    for path in files:
        target = Path() if "://" in path else output_of(Path(path), output).resolve()
        if target != Path() and seen.setdefault(target, path) != path:
            hint = "import them one by one, with -o"
            raise ConfigError(f"{seen[target]} and {path} would become one file", where=str(target), hint=hint)
    for path in files:
        try:
            reader = import_url if "://" in path else import_file
            terminal.say(_summary(reader(path, output, **how)), end="")
        except LmmError as error:
            terminal.tell_error(error)
            failed = USAGE if isinstance(error, ConfigError) and len(files) == 1 else FAILED
            code = max(code, failed)
    return code


def _summary(report: ImportReport) -> str:
    """Return one line about an imported file, and further lines about what was left out."""
    from lmm.markdown import parse_markdown_text
    from lmm.markdown.blocks import HeadingBlock, TextBlock

    blocks = parse_markdown_text(report.text)
    headings = sum(isinstance(block, HeadingBlock) for block in blocks)
    lines = [line for block in blocks if isinstance(block, TextBlock) for line in block.content.split("\n")]
    tables = sum(line.startswith("|") and "-" in line and not line.strip("|:- ") for line in lines)
    parts = [terminal.count(headings, "heading"), terminal.count(tables, "table")]
    if report.images:
        parts.append(f"{terminal.count(len(report.images), 'image')} in {report.images[0].parent.name}")
    notes = "".join(f"{report.output}: {note}\n" for note in report.notes)
    return f"{report.output}: {', '.join(parts)}\n{notes}"
