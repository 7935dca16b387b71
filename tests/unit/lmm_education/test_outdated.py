"""Where a source is gone, or newer than what is stored, everything that cites it says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmm.cli.main import main
from lmm_education import Course
from lmm_education.answer.lookup import Lookup
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource
from lmm_education.exchange_log.log_file import LogFile
from lmm_education.search.search import CourseSearch

GONE = "the file is gone: b.md (lmm ingest --prune removes what is stored of it)"
NEWER = "changed since it was ingested: a.md (lmm ingest brings the store up to date)"


@pytest.fixture
def course(tmp_path: Path) -> Iterator[Course]:
    """A course of two documents, of which one is changed and one deleted after it was ingested."""
    (tmp_path / "a.md").write_text("# Leaves\n\nLeaves are green because of chlorophyll.\n")
    (tmp_path / "b.md").write_text("# Roots\n\nRoots are in the soil.\n")
    (tmp_path / "c.md").write_text("# Stems\n\nStems carry water.\n")
    (tmp_path / "config.toml").write_text('[embedding]\nmodel = "Builtin/wordllama"\n[serve]\nlog = "log.sqlite"\n')
    with Course.open(tmp_path) as course:
        course.ingest()
        assert course.search("leaves roots").notices == ()
        (tmp_path / "a.md").write_text("# Leaves\n\nNew.\n\nLeaves are green because of chlorophyll.\n")
        (tmp_path / "b.md").unlink()
        yield course


def test_search_and_answers_name_it(course: Course) -> None:
    """Until it is pruned, or ingested again."""
    assert course.search("leaves roots", limit=2).notices == (GONE, NEWER)
    assert course.search("roots", limit=1).notices == (GONE,)
    assert course.search("stems water", limit=1).notices == ()
    assert GONE in course.ask("Where are roots?").notices
    hit = course.search("roots", limit=1).hits[0]
    assert course.fetch(hit.id).notices == (GONE,)
    course.ingest(prune=True)
    assert course.search("leaves roots", limit=2).notices == ()


def test_tools_name_it(course: Course) -> None:
    """Whatever an agent looks up."""
    lookup = Lookup(CourseSearch(course))
    for found in (lookup.search("roots", limit=1), lookup.mentions("soil"), lookup.open_section("b.md:3")):
        assert asyncio.run(found).endswith(f"\n\nNote: {GONE}")
    assert "Note:" not in asyncio.run(lookup.open_section("c.md:3"))


def test_nothing_is_gone_where_only_the_store_is(course: Course) -> None:
    """On a server without the documents."""
    for name in ("a.md", "c.md"):
        (course.root / name).unlink()
    assert course.search("leaves roots").notices == ()


def test_the_log_shows_answers_that_are_outdated(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that cite a section which is gone, or whose file was changed."""
    sections = {hit.place.file: hit.section for hit in course.search("leaves roots stems").hits}
    with LogFile(course.root / "log.sqlite") as log:
        for number, (file, section) in enumerate([*sections.items(), ("c.md", "other")]):
            source = LoggedSource(1, section, file, cited=True)
            log.add([(LoggedExchange(f"{number}", time.time(), f"About {section} of {file}?", sources=(source,)), "s")])
    assert main(["log", "show", "--outdated", "--json", "--config", str(course.root / "config.toml")]) == 0
    out = capsys.readouterr().out
    assert [name in out for name in ("of a.md?", "of b.md?", "About other of c.md?")] == [True] * 3
    assert f"About {sections['c.md']} of c.md?" not in out
