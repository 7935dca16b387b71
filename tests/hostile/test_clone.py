"""Every command of the table is run in a stranger's clone: nothing leaves, nothing outside changes, no key is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile.clone import COLLECTOR, SECRET, World, build, variables
from hostile.rows import POWERS, ROWS, WEB, Row
from hostile.world import WATCH, Done, holding_secrets, listing, run

from lmm.cli.main import COMMANDS, load

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and limits of processes")


# As they are installed: what the clone offers to be imported counts from the first line on.
FROM_NOTHING = [
    next(row for row in ROWS if row.words.startswith(words))
    for words in ("status", "messages", "ingest", "search", "import", "cards", "serve", "run", "mcp", "lsp", "watch")
]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A fresh clone and the home that it is after."""
    return build(tmp_path / "w")


def _name(row: Row) -> str:
    return re.sub(r"[^\w./*-]+", "-", f"{row.folder}-{row.words}" if row.folder != "." else row.words)


def _words(row: Row, world: World) -> list[bytes]:
    """The words as a shell would hand them over."""
    here = world.clone / row.folder
    words: list[bytes] = []
    for word in row.words.split():
        found = sorted(os.fsencode(path.relative_to(here)) for path in here.glob(word)) if "*" in word else []
        words += found or [os.fsencode(word)]
    return words


def run_row(row: Row, world: World) -> Done:
    """Run one row in a clone, and see that nothing happened that must not."""
    done = _run(row, world)
    contacts = [line for line in done.log if line.startswith("contact")]
    assert not contacts, f"{contacts}\n{done.out[-3000:]}"
    assert done.code in (*row.codes, *((130, -15) if row.long_running else ())), f"{done.code}\n{done.out[-3000:]}"
    return done


def _run(row: Row, world: World) -> Done:
    if row.first:
        run(world, row.first.split(), from_nothing=False)
    if row.prepare is not None:
        row.prepare(world)
    before = listing(world.home, world.neighbour)
    done = run(
        world,
        _words(row, world),
        row.folder,
        long_running=row.long_running,
        poke=row.poke,
        from_nothing=row in FROM_NOTHING,
    )
    shown = done.out[-3000:]
    assert listing(world.home, world.neighbour) == before, shown
    assert SECRET not in done.out
    assert not holding_secrets(world.clone, world.state), shown
    opened = {line for line in done.log if line.startswith("opened")}
    assert not opened, f"{sorted(opened)[:5]}\n{shown}"
    programs = [line for line in done.log if re.match(r"program: .*'(sh|touch|cat|.*evil\.sh)'", line)]
    assert not programs, programs
    assert row.exact or not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066\u200b]", done.out), repr(shown)
    assert "Traceback" not in done.out, shown
    assert re.search(row.explains, done.out, re.IGNORECASE), shown
    return done


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_nothing_leaves_and_nothing_outside_is_touched(row: Row, world: World) -> None:
    """As it says."""
    run_row(row, world)


@pytest.mark.parametrize("row", POWERS, ids=_name)
def test_a_configuration_of_the_clone_has_no_power(row: Row, world: World) -> None:
    """What reaches beyond the folder waits for the user, and how to agree is told."""
    done = run_row(row, world)
    assert "lmm trust" in done.out, done.out


@pytest.mark.parametrize("row", WEB, ids=_name)
def test_what_is_fetched_takes_nothing_with_it(row: Row, world: World) -> None:
    """The name of the host that the file gives is looked up; there the suite ends it."""
    done = _run(row, world)
    assert {line.removeprefix("contact: ") for line in done.log} <= {f"socket.getaddrinfo {COLLECTOR}"}


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "contact: socket.connect ('127.0.0.1', 9)"),
        ("import socket; socket.getaddrinfo('a.example', 1)", "contact: socket.getaddrinfo a.example"),
        ("import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', 9))", "contact: socket.connect"),
        ("import socket; socket.socket(type=2).sendto(b'x', ('127.0.0.1', 9))", "contact: socket.sendto"),
        ("open('notes/key.md').read()", "opened: notes/key.md"),
        ("import os; os.system('true')", "program: "),
    ],
)
def test_the_watch_sees(code: str, line: str, world: World) -> None:
    """What the suite relies on: a process that does such a thing is written down."""
    log = world.state / "watch.log"
    environment = variables(world, WATCH, log)
    subprocess.run([sys.executable, "-P", "-c", code], cwd=world.clone, env=environment, check=False)
    assert log.read_text().startswith(line)


@pytest.mark.parametrize("from_nothing", [True, False])
def test_the_watch_sees_what_a_command_does(world: World, from_nothing: bool) -> None:
    """Also one that had imported `lmm` before."""
    done = run(world, WEB[0].words.split(), WEB[0].folder, from_nothing=from_nothing)
    assert done.log[0] == f"contact: socket.getaddrinfo {COLLECTOR}"


def test_every_command_is_run() -> None:
    """A new command needs a row."""
    run = {tuple(row.words.split()[:depth]) for row in ROWS for depth in (1, 2, 3)}
    assert set(_commands()) - run == set()


def _commands() -> Iterator[tuple[str, ...]]:
    """Every command, and every command below one."""
    for command in COMMANDS:
        yield from _below((command.name,), load(command))


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[str, ...]]:
    """A command's own name, or those below it; `serve` alone is what `lmm serve` does."""
    if not hasattr(command, "commands"):
        yield words
    for name, each in getattr(command, "commands", {}).items():
        yield from _below(words if name == words[-1] else (*words, name), each)
