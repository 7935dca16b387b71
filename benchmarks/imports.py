"""Word and PowerPoint files to markdown, next to markitdown and to bare Pandoc: words that come through, and headings.

The files are those of Pandoc's own tests, so Pandoc, which reads them for us, is at home: `LMM_PANDOC_SOURCES` names a
checkout of jgm/pandoc, without which there is nothing to measure. What a file says is counted in its XML.
"""

from __future__ import annotations

import html
import importlib
import importlib.util
import os
import re
import subprocess
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.measure import Row
from lmm.importing import import_file
from lmm.importing.pandoc import find_pandoc

_PARTS = {".docx": r"word/document\.xml", ".pptx": r"ppt/(?:slides/slide|notesSlides/notesSlide)\d+\.xml"}
_MOST = 40  # files of a kind
_WORD = r"[^\W_]+"
Read = Callable[[Path], str]


def rows() -> list[Row]:
    """One row for each kind of file and peer that is here."""
    sources = Path(os.environ.get("LMM_PANDOC_SOURCES", "")) / "test"
    peers: dict[str, Read] = {"bare Pandoc": _pandoc}
    if importlib.util.find_spec("markitdown") is not None:
        peers["markitdown"] = _markitdown
    found = {suffix: sorted((sources / suffix[1:]).rglob(f"*{suffix}"))[:_MOST] for suffix in _PARTS}
    return [row for suffix, files in found.items() if files for row in _rows(suffix, files, peers)]


def _rows(suffix: str, files: list[Path], peers: dict[str, Read]) -> list[Row]:
    ours, what = _measured(files, _ours), f"{len(files)} {suffix} files of Pandoc's own tests"
    return [Row(what, f"{name}: {_measured(files, read)}", ours) for name, read in peers.items()]


def _ours(file: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return import_file(file, folder).text.partition("\n---\n")[2]


def _pandoc(file: Path) -> str:
    reader = file.suffix[1:]
    command = [find_pandoc(reader).program, "-f", reader, "-t", "markdown", str(file)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def _markitdown(file: Path) -> str:
    converter = importlib.import_module("markitdown").MarkItDown()  # no dependency of ours
    return str(converter.convert(str(file)).text_content)


def _measured(files: list[Path], read: Read) -> str:
    """How many files have all their words, the words that are missing, the headings of all that there are, the time."""
    whole = missing = total = headings = shown = failed = 0
    start = time.perf_counter()
    for file in files:
        words, titles = _said(file)
        try:
            text = read(file)
        except Exception:  # whatever a peer raises
            text, failed = "", failed + bool(words)
        lost = (words - _words(text)).total()
        whole, missing, total = whole + (not lost), missing + lost, total + words.total()
        headings, shown = headings + titles, shown + min(titles, len(re.findall(r"^#{1,6} ", text, re.MULTILINE)))
    took = (time.perf_counter() - start) / len(files)
    told = f"all words in {whole}, {missing} of {total:,} missing"
    told += f", {shown} of {headings} headings" if headings else ""
    return f"{told}, {took * 1000:.0f} ms each" + (f", {failed} refused" if failed else "")


def _said(file: Path) -> tuple[Counter[str], int]:
    """The words in a file, by its XML, and how many paragraphs are headings."""
    found: Counter[str] = Counter()
    headings = 0
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if not re.fullmatch(_PARTS[file.suffix], name):
                continue
            for paragraph in _paragraphs(ElementTree.fromstring(archive.read(name))):
                text, styles = paragraph
                found += Counter(re.findall(_WORD, text))
                headings += bool(text.strip()) and any(re.match(r"[Hh]eading ?[1-6]", style) for style in styles)
    return found, headings


def _paragraphs(root: ElementTree.Element) -> Iterator[tuple[str, list[str]]]:
    """The text of each innermost paragraph, without what was deleted, and its styles."""
    for node in root.iter():
        if _local(node) != "p" or any(_local(inner) == "p" for inner in node.iter() if inner is not node):
            continue
        parts = [_text(inner) for inner in node.iter()]
        styles = [value for inner in node.iter() if _local(inner) == "pStyle" for value in inner.attrib.values()]
        yield "".join(parts), styles


def _text(node: ElementTree.Element) -> str:
    name = _local(node)
    if name in ("tab", "br", "cr"):
        return " "
    return (node.text or "") if name == "t" else ""


def _local(node: ElementTree.Element) -> str:
    return str(node.tag).rpartition("}")[2]


def _words(markdown: str) -> Counter[str]:
    return Counter(re.findall(_WORD, html.unescape(re.sub(r"\\(?=\W)", "", markdown))))
