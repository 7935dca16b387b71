"""`lmm help QUESTION`: passages of the manual, which comes with the package as a course."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from lmm import terminal
from lmm.cli import options
from lmm.config import WORDLLAMA
from lmm.terminal import DONE, FAILED
from lmm_education.cli.search import shown
from lmm_education.errors import StoreError

if TYPE_CHECKING:
    from lmm_education.material import Passage
    from lmm_education.search.query import SearchResult

_FOR_DEVELOPERS = ("api.md", "architecture.md", "decisions.md", "style.md")
_LEAST = 0.25  # score of a page; the best page has 0.36 and more for questions that the manual answers, else often less


@options.command()
@options.argument("question", "QUESTION", "What you want to know.", many=True)
def help_(question: tuple[str, ...]) -> int:
    """Find the passages of the manual that answer a question: page, lines and text, offline.

    The manual is indexed once, in the cache folder. lmm help COMMAND shows the help of a command. Exit code 1: nothing
    was found.
    """
    result = search_manual(" ".join(question))
    if not result.hits:
        terminal.say(
            f"nothing in the manual answers this; lmm --help lists the commands, the pages are in {manual_folder()}"
        )
        return FAILED
    terminal.say(shown(result), end="")
    terminal.say(f"The pages are in {manual_folder()}")
    return DONE


def manual_folder() -> Path:
    """Return the folder of the manual's pages: in the package, or in a checkout."""
    packaged = Path(str(resources.files("lmm_education").joinpath("manual")))
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "docs"


def search_manual(question: str) -> SearchResult:
    """Return the best passage of each of the pages that fit a question best; index the manual if it has changed.

    Raises:
        StoreError: the index in the cache folder cannot be read or written.
    """
    import hashlib

    from lmm.config_tables import Config
    from lmm.disk.files import cache_folder
    from lmm_education.options import SearchOptions
    from lmm_education.parts import CourseParts  # Course would import what answers: another 0.1 s
    from lmm_education.search.search import CourseSearch

    pages, index = manual_folder(), cache_folder() / "manual"
    # Fast to load and to index with; where there is no wheel of it, the default is used.
    model = f'[embedding]\nmodel = "{WORDLLAMA}"\n' if importlib.util.find_spec("wordllama") else ""
    no_types = "[study]\nexercises = []\nsolutions = []\n"  # the manual's sections about exercises are none
    config = Config(pages / "config.toml", f"[storage]\nfolder = '{index / 'store'}'\n{no_types}{model}")
    state = hashlib.blake2b(b"\0".join(page.read_bytes() for page in sorted(pages.rglob("*.md")))).hexdigest()
    indexed = index / "indexed"
    with CourseParts.open(config=config, env={}) as manual:
        if not indexed.is_file() or indexed.read_text() != state:
            from lmm_education.ingestion.ingest import ingest_into
            from lmm_education.options import IngestOptions

            terminal.note("indexing the manual, once…")
            try:
                ingest_into(manual, [pages], IngestOptions(again=True, prune=True))
                indexed.write_text(state)
            except (StoreError, OSError) as error:
                hint = "let LMM_CACHE_DIR name a folder that can be written to"
                raise StoreError("the manual cannot be indexed", where=str(index), hint=hint) from error
        found = CourseSearch(manual).search(question, SearchOptions(limit=12))
    passages: dict[str, list[Passage]] = {}
    for hit in (each for each in found.hits if each.place.file not in _FOR_DEVELOPERS):
        passages.setdefault(hit.place.file, []).append(hit)
    # Further passages of a page count less and less: 40 of 40 pages instead of 39, of other questions 16 of 20, not 13.
    pages_found = ((sum(hit.score * 0.3**i for i, hit in enumerate(hits)), hits[0]) for hits in passages.values())
    best = sorted((page for page in pages_found if page[0] >= _LEAST), key=lambda page: -page[0])[:3]
    return replace(found, hits=tuple(replace(hit, score=score) for score, hit in best))
