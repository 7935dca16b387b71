"""A folder from a stranger with links in it: whatever is asked for there, nothing outside is read or written."""

from __future__ import annotations

import json
import threading
import zipfile
from pathlib import Path

import pytest
from edge.support import Ran, run_here

from chatmd.mcp_server import read_prompts
from lmm.errors import Place
from lmm.messages import Event, Failed
from lmm.scan import watch_documents
from lmm.watcher import Scanned
from lmm_education.study.cards import Card, save_cards

SECRET = "zanzibar-1964"
DIARY = f"""---
title: Diary
docid: diary
---

# Mine

---
?: why?
---

The word is {SECRET}.

```{{=html}}
```

?: and this?
"""
TALK = f"""<config model="Builtin/extractive"/>
<user>The word is {SECRET}.</user>
"""
CONFIG = '[major]\nmodel = "Builtin/extractive"\n[minor]\nmodel = "Builtin/extractive"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What is the user's own."""
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (home / "diary.md").write_text(DIARY)
    (home / "sub" / "deep.md").write_text(DIARY)
    (home / "talk.chatmd").write_text(TALK)
    (home / "page.html").write_text(f"<p>{SECRET}</p>")
    (home / "questions.jsonl").write_text(f'{{"question": "{SECRET}", "document": "a"}}\n')
    (home / "schema.json").write_text('{"type": "object", "properties": {"x": {"type": "string"}}}')
    (home / "out.csv").write_text(SECRET)
    return home


@pytest.fixture
def clone(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stranger's folder, which is the current one."""
    clone = home.parent / "clone"
    clone.mkdir()
    (clone / "config.toml").write_text(CONFIG)
    (clone / "a.md").write_text("---\ntitle: A\ndocid: a\n---\n\n# Leaves\n\nA leaf is green.\n")
    (clone / "ours.chatmd").write_text(TALK.replace(SECRET, "leaf"))
    (clone / "ours.jsonl").write_text('{"question": "Why?", "document": "a"}\n')
    (clone / "cases.yaml").write_text("- input: x\n  contains: x\n")
    for name, real in {
        "key.md": "diary.md",
        "key.chatmd": "talk.chatmd",
        "key.html": "page.html",
        "questions.jsonl": "questions.jsonl",
        "schema.json": "schema.json",
        "out.csv": "out.csv",
        "sub": "sub",
        "new.chatmd": "new.chatmd",
        "new": "",
    }.items():
        (clone / name).symlink_to(home / real)
    monkeypatch.chdir(clone)
    return clone


def listing(folder: Path) -> dict[str, bytes | None]:
    """All that is in a folder, with contents."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


NAMED = [
    "scan key.md",
    "scan --check key.md",
    "scan sub/deep.md",
    "messages key.md",
    "messages --dry-run key.md",
    "messages sub/deep.md",
    "watch key.md",
    "watch sub",
    "accept key.md",
    "reject key.md",
    "clear key.md",
    "annotate key.md",
    "annotate --dry-run key.md",
    "extract schema.json a.md",
    "import key.html",
    "ingest key.md",
    "ingest sub",
    "ingest --dry-run sub/deep.md",
    "toc key.md",
    "toc sub",
    "plan key.md",
    "cards key.md",
    "cards a.md -o out.csv",
    "exercises key.md",
    "export key.md",
    "export sub -o notes",
    "export a.md -o key.md",
    "eval questions.jsonl --documents a.md",
    "eval ours.jsonl --documents key.md",
    "ask why --history out.csv",
    "log show --log out.csv",
    "status key.md",
    "agents proof-reader --to sub",
    "init new",
    "run key.chatmd",
    "run ours.chatmd -o new.chatmd",
    "check key.chatmd",
    "render key.chatmd",
    "tools key.chatmd",
    "compact key.chatmd",
    "refine key.chatmd --cases cases.yaml",
    "mcp --no-course --prompts sub",
]


@pytest.mark.parametrize("line", NAMED)
def test_a_link_that_was_named(line: str, clone: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a shell's pattern may have named is refused with the real path to name instead."""
    before = listing(home)
    ran = run_here(capsys, *line.split())
    assert listing(home) == before
    assert ran.code in (1, 2), ran
    assert "leads out of" in ran.err
    assert f"name {home}" in ran.err
    assert SECRET not in ran.out + ran.err
    assert not any(SECRET.encode() in (data or b"") for data in own(clone).values())


def own(clone: Path) -> dict[str, bytes | None]:
    """What lies in the folder itself."""
    return {name: data for name, data in listing(clone).items() if not (clone / name).is_symlink()}


# -- what nobody named -------------------------------------------------------------------------------


def check(home: Path, clone: Path, before: dict[str, bytes | None], ran: Ran) -> None:
    """Nothing outside was changed, nothing of it came in."""
    assert listing(home) == before
    assert SECRET not in ran.out + ran.err
    leaked = [name for name, data in own(clone).items() if SECRET.encode() in (data or b"")]
    assert not leaked


@pytest.mark.parametrize("line", ["ingest .", "ingest *", "ingest **/*.md", "ingest --save-files .", "plan .", "toc ."])
def test_a_folder_with_links(line: str, clone: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Documents that are links out are skipped and told of; those inside, links or not, are read."""
    (clone / "inside.md").symlink_to("a.md")
    before = listing(home)
    ran = run_here(capsys, *line.split())
    check(home, clone, before, ran)
    assert "key.md" in ran.out + ran.err
    assert "leads out of" in ran.out + ran.err
    assert ran.code == 0, ran
    if line.startswith("ingest"):
        found = run_here(capsys, "search", "zanzibar diary word", "--json")
        assert SECRET not in found.out
        assert "A leaf" in found.out


def test_watching_a_folder_with_links(clone: Path, home: Path) -> None:
    """Nobody answers in a private diary because a link to it lies in a folder that is watched."""
    (clone / "b.md").write_text("---\n?: why?\n---\nA leaf is green.\n")
    before, told, stop = listing(home), list[str](), threading.Event()

    def listener(event: Event, place: Place) -> None:
        told.append(f"{event!r} {place}")
        is_answered = isinstance(event, Scanned) and event.report is not None
        if is_answered or (
            isinstance(event, Failed) and "b.md" in str(place)
        ):  # a failure is told below, not waited for
            stop.set()

    watch_documents(["."], quiet=0.1, listener=listener, stop=stop)
    assert listing(home) == before
    assert "~reply" in (clone / "b.md").read_text(), told
    assert any("Failed" in line and "key.md" in line for line in told)


def test_exporting_into_a_folder_with_links(clone: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither what lies behind a link is exported, nor is anything written behind one."""
    (clone / "notes").mkdir()
    (clone / "notes" / "one.md").write_text("# One\n\n![p](key.png) ![e](.env) ![x](../../home/page.html)\n")
    (clone / "notes" / "key.md").symlink_to(home / "diary.md")
    (clone / "notes" / "key.png").symlink_to(home / "page.html")
    (clone / "notes" / ".env").write_text(f"KEY={SECRET}-of-the-clone")
    (clone / "notes" / "deep").mkdir()
    (clone / "notes" / "deep" / "deep.md").write_text("# Deep\n")
    (clone / "out").mkdir()
    (clone / "out" / "one.md").symlink_to(home / "new.md")
    (clone / "out" / "deep").symlink_to(home / "sub")
    before = listing(home)
    ran = run_here(capsys, "export", "notes", "-o", "out")
    assert listing(home) == before
    assert ran.code == 1
    assert SECRET not in ran.out + ran.err
    assert not (clone / "out" / ".env").exists()
    (clone / "out" / "one.md").unlink()
    (clone / "out" / "deep").unlink()
    run_here(capsys, "export", "notes", "-o", "out")
    assert (clone / "out" / "one.md").read_text().startswith("# One")
    assert sorted(listing(clone / "out")) == [".lmm-export", "deep", "deep/deep.md", "one.md"]


def test_cards_show_no_pictures_from_elsewhere(clone: Path, home: Path) -> None:
    """A package for Anki has the course's own pictures in it, and no other file."""
    pytest.importorskip("genanki")
    (clone / "leaf.png").write_bytes(b"\x89PNG leaf")
    (clone / "key.png").symlink_to(home / "page.html")
    pictures = "![a](leaf.png) ![b](key.png) ![c](../home/diary.md) ![d](key.md) ![e](config.toml)"
    save_cards("cards.apkg", [Card("id", "Q?", pictures, "a", "A", "a.md", 1)])
    with zipfile.ZipFile("cards.apkg") as package:
        names = json.loads(package.read("media"))
        kept = [package.read(name) for name in names]
    assert kept == [b"\x89PNG leaf"]


def test_an_import_writes_no_pictures_behind_a_link(
    clone: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of pictures beside an imported file may be a link too."""
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    (clone / "page.html").write_text(f'<p>Text</p><img src="data:image/png;base64,{pixel}" alt="p">')
    (clone / "page_files").symlink_to(home)
    before = listing(home)
    ran = run_here(capsys, "import", "page.html")
    check(home, clone, before, ran)
    assert ran.code == 1
    assert "leads out of" in ran.err


@pytest.mark.parametrize("line", ["run ours.chatmd", "check ours.chatmd", "render ours.chatmd"])
def test_a_record_that_is_a_link(line: str, clone: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is read from, or kept in, a .chatmd that is a link, or has one in it."""
    (home / "expansions.jsonl").write_text(f'{{"transcript": "{SECRET}"}}\n')
    (clone / ".chatmd").symlink_to(home)
    text = '<user>Look: <doc src="a.md" local/></user>\n'
    (clone / "ours.chatmd").write_text(text)
    before = listing(home)
    ran = run_here(capsys, *line.split())
    check(home, clone, before, ran)
    assert ran.code == 1, ran
    (clone / ".chatmd").unlink()
    (clone / ".chatmd").mkdir()
    (clone / ".chatmd" / "expansions.jsonl").symlink_to(home / "expansions.jsonl")
    ran = run_here(capsys, *line.split())
    check(home, clone, before, ran)
    assert ran.code == 1, ran


def test_prompts_that_are_links(clone: Path, home: Path) -> None:
    """`lmm mcp --prompts` publishes what lies in the folder."""
    prompts, _ = read_prompts(clone)
    assert [prompt.name for prompt in prompts] == ["ours"]


@pytest.mark.parametrize("log", ["log.sqlite", ".lmm/log.sqlite", "logs/log.sqlite"])
def test_a_log_that_is_a_link(log: str, clone: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Questions of students are not written elsewhere because the log, or its folder, is a link."""
    (clone / "config.toml").write_text(f'{CONFIG}[serve]\nlog = "{log}"\n')
    place = clone / (log.split("/")[0])
    place.symlink_to(home / "new" if place.suffix else home)
    before = listing(home)
    for line in ("log show", "log clear --all --yes", "log clear --all"):
        ran = run_here(capsys, *line.split())
        check(home, clone, before, ran)
        assert ran.code in (1, 2), ran
