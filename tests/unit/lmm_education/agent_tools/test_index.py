"""Folders of markdown, indexed and searched by agents: what is embedded, what goes, and where nothing may go."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memory import temporary_folder
from unit.lmm_education.agent_tools.test_course import Declared, Place

from lmm.errors import LmmError
from lmm_education.agent_tools import FOLDER, Indexes, open_index_markdown_docs, open_markdown_search

Call = Callable[..., str]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with documents in ``docs``."""
    with temporary_folder() as made:
        (made / "docs").mkdir()
        for name in ("kiwi", "apple", "pear"):
            (made / "docs" / f"{name}.md").write_text(f"# The {name}\n\nThe {name} is described here.\n")
        yield made


@pytest.fixture
def index(folder: Path) -> Call:
    return lambda **values: asyncio.run(_call(open_index_markdown_docs, "index_markdown_docs", folder, values))


@pytest.fixture
def search(folder: Path) -> Call:
    return lambda **values: asyncio.run(_call(open_markdown_search, "markdown_search", folder, values))


async def _call(opener: Any, name: str, folder: Path, values: dict[str, Any]) -> str:
    roots = values.pop("roots", ())
    async with opener(Declared(name, roots=roots), Place(folder)) as (tool,):
        return str((await tool.call(values)).text)


WIKI = {"root": "docs", "index_name": "wiki", "description": "Fruit."}


def test_only_what_changed_is_embedded_and_what_is_gone_goes(folder: Path, index: Call, search: Call) -> None:
    """As often as one indexes."""
    assert index(**WIKI) == "Index wiki: 3 new; 3 passages embedded."
    assert index(**WIKI) == "Index wiki: 3 unchanged; 0 passages embedded."
    (folder / "docs" / "kiwi.md").unlink()
    (folder / "docs" / "pear.md").write_text("# The pear\n\nIt is sweet.\n")
    assert index(**WIKI) == "Index wiki: 1 changed, 1 unchanged, 1 removed; 1 passages embedded."
    found = search(query="kiwi pear apple", k=50)
    assert "kiwi.md" not in found
    assert "It is sweet." in found


def test_what_is_found_can_be_read(folder: Path, index: Call, search: Call) -> None:
    """Files are named as other tools name them: relative to the prompt."""
    index(**WIKI)
    found = search(query="What is a kiwi?", k=2)
    assert re.search(r'<source number="1" from="docs/kiwi.md:3" section="The kiwi" index="wiki">', found)
    assert found.count("<source") == 2


def test_several_indexes_take_turns(folder: Path, index: Call, search: Call) -> None:
    """Scores of different stores say nothing about each other."""
    (folder / "more").mkdir()
    (folder / "more" / "plum.md").write_text("# The plum\n\nThe plum is blue.\n")
    index(**WIKI)
    index(root="more", index_name="plums", description="Plums.")
    found = search(query="plum", k=2)
    assert re.findall(r'index="(\w+)"', found) == ["plums", "wiki"]
    assert re.findall(r'index="(\w+)"', search(query="plum", index_name="wiki")) == ["wiki"] * 3
    with pytest.raises(LmmError, match=r"no index 'wikis' \(there are plums, wiki\)"):
        search(query="plum", index_name="wikis")


def test_the_model_is_told_which_indexes_there_are(folder: Path, index: Call) -> None:
    """With what they are for."""

    async def described() -> str:
        async with open_markdown_search(Declared("markdown_search"), Place(folder)) as (tool,):
            return tool.definition.description

    before = asyncio.run(described())
    index(**WIKI)
    assert asyncio.run(described()) == f"{before} Indexes:\n- wiki: Fruit."


@pytest.mark.parametrize(
    "values",
    [
        {"root": ".."},
        {"root": "/etc"},
        {"root": "link"},
        {"vector_db_root": "../out"},
        {"vector_db_root": "link/x"},
        {"root": "a\0b"},
        {"index_name": "../x"},
        {"index_name": ".git"},
        {"index_name": "all"},
        {"index_name": "docs", "vector_db_root": "."},
    ],
)
def test_nothing_is_read_or_written_outside(folder: Path, index: Call, values: dict[str, str]) -> None:
    """Neither by a path nor by a link, nor over what is something else."""
    (folder / "link").symlink_to("/tmp")
    before = sorted(path for path in folder.rglob("*") if path.is_file())
    with pytest.raises(LmmError):
        index(**{**WIKI, **values})
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == before


def test_roots_may_be_other_folders(folder: Path, index: Call, search: Call) -> None:
    """Those that the declaration names, and only those."""
    (folder / "kept").mkdir()
    with pytest.raises(LmmError, match="is outside"):
        index(**WIKI, roots=("docs",))  # the index itself would lie outside
    assert "3 new" in index(**WIKI, vector_db_root="kept", roots=("docs", "kept"))
    assert (folder / "kept" / "wiki" / "index.json").is_file()
    assert "docs/apple.md" in search(query="apple", vector_db_root="kept", roots=("kept",))


def test_documents_that_cannot_be_indexed_are_told_of(folder: Path, index: Call) -> None:
    """The others are, all the same."""
    (folder / "docs" / "broken.md").write_bytes(b"\xff\xfe\x00")
    told = index(**WIKI)
    assert told.startswith("Index wiki: 3 new")
    assert "Not indexed: " in told
    assert "broken.md" in told


def test_documents_are_left_as_they_are(folder: Path, index: Call) -> None:
    """An index is made of them, and nothing in them."""
    before = {path: path.read_bytes() for path in (folder / "docs").iterdir()}
    index(**WIKI)
    assert {path: path.read_bytes() for path in (folder / "docs").iterdir()} == before
    assert Indexes(Place(folder), (folder,)).path(FOLDER).is_dir()
