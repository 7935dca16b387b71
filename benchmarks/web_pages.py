"""The main part of web pages: the words that an import takes, next to those that are the text; F1, precision, recall.

Articles are those of Zyte's benchmark, whose text people marked: `LMM_ARTICLES` names a checkout of
scrapinghub/article-extraction-benchmark. Documentation is the Rust book, made into pages with navigation by MkDocs,
where that is installed.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from benchmarks.documents import SHARED
from benchmarks.measure import Row
from lmm.importing.read_html import decode_html, read_page

_THEMES = ("mkdocs", "readthedocs")
_HOOK = """
import json, pathlib
texts = {}
def on_page_content(html, page, config, files):
    texts[page.file.dest_uri] = html
def on_post_build(config):
    pathlib.Path(config["site_dir"], "texts.json").write_text(json.dumps(texts))
"""
Page = tuple[bytes, str]
Read = Callable[[bytes], str]


def rows() -> list[Row]:
    """One row for each kind of page that is here."""
    kinds = {"articles, marked by people (Zyte)": _articles(), "pages of the Rust book by MkDocs, two themes": _book()}
    return [
        _row(f"main text of {len(pages)} {kind}: F1 of words (precision, recall)", pages)
        for kind, pages in kinds.items()
        if pages
    ]


def _row(what: str, pages: list[Page]) -> Row:
    peers: dict[str, Read] = {"trafilatura": _trafilatura, "readability": _readability}
    here = {name: read for name, read in peers.items() if importlib.util.find_spec(name) is not None}
    measured = "; ".join(f"{name}: {_measured(pages, read)}" for name, read in here.items())
    return Row(what, measured or "no peer is installed", _measured(pages, _ours))


def _measured(pages: list[Page], read: Read) -> str:
    found = [_compared(_words(read(data)), _words(text)) for data, text in pages]
    f1, precision, recall = (sum(column) / len(found) for column in zip(*found, strict=True))
    return f"{f1:.3f} ({precision:.3f}, {recall:.3f})"


def _compared(taken: Counter[str], meant: Counter[str]) -> tuple[float, float, float]:
    both = (taken & meant).total()
    precision, recall = both / max(1, taken.total()), both / max(1, meant.total())
    return 2 * precision * recall / max(1e-9, precision + recall), precision, recall


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


# -- readers -----------------------------------------------------------------------------------------------


def _ours(data: bytes) -> str:
    page = read_page(decode_html(data), [])
    return _text(page.body) if page else ""


def _text(html: str) -> str:
    return LexborHTMLParser(html).text(separator=" ")


def _trafilatura(data: bytes) -> str:
    return str(importlib.import_module("trafilatura").extract(data, include_comments=False) or "")


def _readability(data: bytes) -> str:
    page = importlib.import_module("readability").Document(decode_html(data))
    return _text(str(page.summary()))


# -- pages -------------------------------------------------------------------------------------------------


def _articles() -> list[Page]:
    folder = Path(os.environ.get("LMM_ARTICLES", ""))
    truth = folder / "ground-truth.json"
    texts = json.loads(truth.read_text(encoding="utf-8")) if truth.is_file() else {}
    files = {name: folder / "html" / f"{name}.html.gz" for name in texts}
    return [(gzip.decompress(file.read_bytes()), texts[name]["articleBody"]) for name, file in files.items()]


def _book() -> list[Page]:
    book = SHARED / "corpus" / "rust-book"
    if importlib.util.find_spec("mkdocs") is None or not book.is_dir():
        return []
    return [page for theme in _THEMES for page in _built(book, theme)]


def _built(book: Path, theme: str) -> list[Page]:
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        Path(folder, "hook.py").write_text(_HOOK, encoding="utf-8")
        settings = {"site_name": "Notes", "docs_dir": str(book), "theme": theme, "hooks": ["hook.py"]}
        Path(folder, "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        command = [sys.executable, "-m", "mkdocs", "-q", "build", "-d", str(site)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        texts = json.loads((site / "texts.json").read_text(encoding="utf-8"))
        pages = [((site / name).read_bytes(), _text(html)) for name, html in sorted(texts.items())]
    return [page for page in pages if page[1]]
