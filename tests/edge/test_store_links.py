"""A store in a folder from a stranger: links are refused, and nothing is removed that is not provably ours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from edge.store_child import MANIFEST, version_of, write_run
from edge.support import Ran, run_here

from lmm_education.config import StorageSettings
from lmm_education.store.edge import EdgeStore
from lmm_education.store.generations import checksum_of, copy_folder
from lmm_education.store.open import open_store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="making links needs rights there")
TEXT = "# Cells\n\nMitosis has four phases.\n"
STORE = Path(".lmm/store/course")
LARGE = 1 << 20  # bytes


@pytest.fixture
def lmm(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """The command, as one types it."""
    return lambda *words: run_here(capsys, *words)


def contents(folder: Path) -> dict[str, object]:
    """Every path below a folder, with what is in a small file, the stamp of a large one, or the target of a link."""

    def content(path: Path) -> object:
        if path.is_symlink():
            return path.readlink()
        if path.is_dir():
            return "folder"
        stat = path.stat()
        return path.read_bytes() if stat.st_size < LARGE else (stat.st_ino, stat.st_size, stat.st_mtime_ns)

    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*"))}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fake home: folders and files that must stay, some of which look like the store's."""
    home = tmp_path / "home"
    for name in ("Documents/thesis.md", ".ssh/id_rsa", "photos.gone/a.jpg", "000001-0a1b2c3d/letter.txt", ".bashrc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"the user's {name}")
    return home


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from somewhere, with a document in it; the current folder."""
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "cells.md").write_text(TEXT)
    monkeypatch.chdir(clone)
    return clone


# -- links --------------------------------------------------------------------------------------------


PLACES = (".lmm", ".lmm/store", ".lmm/store/course", ".lmm/store/course/generations")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", [("ingest", "."), ("search", "mitosis"), ("store", "status")])
def test_a_folder_of_the_store_that_is_a_link(
    home: Path, clone: Path, lmm: Callable[..., Ran], place: str, command: tuple[str, ...]
) -> None:
    """As reported: a run that removed old generations removed what lay in the user's home."""
    (clone / place).parent.mkdir(parents=True, exist_ok=True)
    (clone / place).symlink_to(home, target_is_directory=True)
    before = contents(home)
    done = lmm(*command)
    assert contents(home) == before
    assert done.code == 1, done.out
    assert place in done.err
    assert "link" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "name", ["current", "writing.lock", "in-use", "manifest.json", "chunks", "files.json", "documents.json"]
)
def test_a_file_of_the_store_that_is_a_link(home: Path, clone: Path, lmm: Callable[..., Ran], name: str) -> None:
    """Nothing is read from there, nothing is written to there: not even a lock is taken."""
    assert lmm("ingest", ".").code == 0
    generation = clone / STORE / "generations" / json.loads((clone / STORE / "current").read_text())["generation"]
    path = next(path for path in (clone / STORE / name, generation / name) if path.exists())
    if path.is_dir():
        path.rename(home / "theirs")
        path.symlink_to(home / "theirs", target_is_directory=True)
    else:
        path.replace(home / "theirs")
        path.symlink_to(home / "theirs")
    before = contents(home)
    (clone / "more.md").write_text("# More\n\nPlants breathe.\n")
    for command in (("search", "mitosis"), ("ingest", "."), ("store", "delete", "cells.md")):
        done = lmm(*command)
        assert done.code == 1, (command, done.out)
        assert "link" in done.err
        assert "Traceback" not in done.err
    assert contents(home) == before


def test_a_link_on_the_way_to_a_configured_folder(home: Path, clone: Path, lmm: Callable[..., Ran]) -> None:
    """`folder` under [storage] may lead through one as well; what lies above the course may be one."""
    (clone / "data").symlink_to(home, target_is_directory=True)
    (clone / "config.toml").write_text('[storage]\nfolder = "data/store"\n')
    before = contents(home)
    assert lmm("ingest", ".").code == 2
    assert lmm("trust", "--yes").code == 0
    done = lmm("ingest", ".")
    assert contents(home) == before
    assert done.code == 1
    assert "data" in done.err
    (clone.parent / "alias").symlink_to(clone, target_is_directory=True)
    settings = StorageSettings(folder=clone.parent / "alias" / "kept", root=clone.parent / "alias")
    store = open_store(settings, env={})
    write_run(store, 1)  # type: ignore[arg-type]
    assert version_of(store) == 1
    store.close()


# -- what is removed ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store."""
    return tmp_path / "course"


@pytest.fixture
def store(folder: Path) -> EdgeStore:
    """A store with the points of run 1."""
    store = EdgeStore(folder)
    write_run(store, 1)
    return store


def current(folder: Path) -> Path:
    """The generation that counts."""
    return folder / "generations" / str(json.loads((folder / "current").read_text())["generation"])


def _named_like_one(place: Path, old: Path) -> None:
    """A folder that has the name of a generation, and a text of the user in it."""
    (place / "000001-0a1b2c3d").mkdir()
    (place / "000001-0a1b2c3d/letter.txt").write_text("dear")


def _named_gone(place: Path, old: Path) -> None:
    (place / "photos.gone").mkdir()
    (place / "photos.gone/a.jpg").write_text("picture")


def _gone_like_one(place: Path, old: Path) -> None:
    (place / "000001-0a1b2c3d.gone").mkdir()
    (place / "000001-0a1b2c3d.gone/letter.txt").write_text("dear")


def _marker_of_another(place: Path, old: Path) -> None:
    """A generation that somebody copied under another name keeps the name in its marker."""
    copy_folder(old, place / "000009-0a1b2c3d")


def _with_a_link(place: Path, old: Path) -> None:
    copy_folder(old, place / old.name)
    (place / old.name / "chunks/out").symlink_to(place.parent, target_is_directory=True)


def _link(place: Path, old: Path) -> None:
    (place / "000001-0a1b2c3d").symlink_to(place.parent.parent, target_is_directory=True)


def _unmarked_with_more(place: Path, old: Path) -> None:
    """A generation whose marker is empty."""
    copy_folder(old, place / old.name)
    (place / old.name / "in-use").write_bytes(b"")
    (place / old.name / "notes.md").write_text("mine")


def _file(place: Path, old: Path) -> None:
    (place / "letter.txt").write_text("dear")


STRANGE = (
    _named_like_one,
    _named_gone,
    _gone_like_one,
    _marker_of_another,
    _with_a_link,
    _link,
    _unmarked_with_more,
    _file,
)


@pytest.mark.parametrize("put", STRANGE)
def test_what_is_not_provably_ours_stays(
    store: EdgeStore, folder: Path, tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    """Whatever lies among the generations: it stays byte for byte."""
    first = tmp_path / "first" / current(folder).name
    copy_folder(current(folder), first)
    write_run(store, 2)
    put(folder / "generations", first)
    strange = {name: data for name, data in contents(folder / "generations").items()
               if not name.startswith(current(folder).name)}  # fmt: skip
    assert strange
    write_run(store, 3)
    left = contents(folder / "generations")
    assert {name: left.get(name) for name in strange} == strange
    assert version_of(store) == 3
    ours = {name.partition("/")[0] for name in left} - {name.partition("/")[0] for name in strange}
    assert ours == {current(folder).name}


def test_a_store_that_names_files_elsewhere_as_its_documents(home: Path, clone: Path, lmm: Callable[..., Ran]) -> None:
    """A stranger's store does not decide what is read when it is made anew."""
    assert lmm("ingest", ".").code == 0
    for path in (clone / STORE).rglob("documents.json"):
        records = json.loads(path.read_text())["documents"]
        records[0]["file"] = "../home/Documents/thesis.md"
        path.write_text(json.dumps({"documents": records, "checksum": checksum_of(records)}))
    before = contents(clone / STORE)
    done = lmm("store", "repair")
    assert done.code == 1
    assert "outside of the course" in done.err
    assert contents(clone / STORE) == before


def test_repairing(clone: Path, lmm: Callable[..., Ran]) -> None:
    """Plain runs and searches refuse; `--again` and `repair` mend; a document that is gone has to be let go."""
    (clone / "more.md").write_text("# More\n\nPlants breathe.\n")
    assert lmm("ingest", ".").code == 0
    for mend in (("store", "repair"), ("ingest", "--again", "cells.md")):
        generation = current(clone / STORE)
        next((generation / "chunks").rglob("page_0.dat")).write_bytes(b"nonsense")
        for command in (
            ("search", "mitosis"),
            ("store", "check"),
            ("store", "status"),
            ("ingest", "--again", "--dry-run", "."),
        ):
            refused = lmm(*command)
            assert (refused.code, refused.err.count("lmm store repair")) == (1, 1), command
        assert lmm(*mend).code == 0
        assert "as it was written" in lmm("store", "check").out
        assert "2 documents" in lmm("store", "status").out
    (clone / "more.md").unlink()
    gone = lmm("store", "repair")
    assert gone.code == 1
    assert "--prune" in gone.err
    assert lmm("store", "repair", "--prune").code == 0
    assert "1 document," in lmm("store", "status").out
    for path in (clone / STORE).rglob("documents.json"):
        path.write_text("nonsense")
    lost = lmm("store", "repair")
    assert lost.code == 1
    assert "lmm store repair PATH" in lost.err
    assert lmm("store", "repair", ".").code == 0


def test_a_run_that_fails_removes_only_its_own(store: EdgeStore, folder: Path) -> None:
    """Even if its folder was exchanged meanwhile."""

    def fail() -> None:
        with store.writing(MANIFEST) as writer:
            writer.delete("chunks", [point.id for point in writer.scroll("chunks")])
            begun = next(path for path in (folder / "generations").iterdir() if path != current(folder))
            begun.rename(begun.with_name("moved"))
            begun.mkdir()
            (begun / "letter.txt").write_text("dear")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [letter.read_text() for letter in folder.rglob("letter.txt")] == ["dear"]
    assert version_of(store) == 1
