"""Debian's PostgreSQL and Redis, each on a free port of 127.0.0.1, as a user without privileges, in a folder that is
removed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest


@contextmanager
def postgres() -> Iterator[Address]:
    """The address of an empty database; a test that needs one is skipped where PostgreSQL is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        pytest.skip("needs Debian's postgresql")
    with _folder() as folder:
        data = folder / "data"
        made = [str(folders[-1] / "initdb"), "-D", str(data), "-A", "trust", "-U", "lmm", "--no-sync", "-E", "UTF8"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=folder, **_unprivileged())
        port = _free_port()
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": folder, "fsync": "off"}
        options = [f"--{name}={value}" for name, value in settings.items()]
        program = Program([str(folders[-1] / "postgres"), "-D", str(data), *options], folder)
        with program:
            yield Address(f"postgresql+psycopg://lmm@127.0.0.1:{port}/postgres", program)


@contextmanager
def redis() -> Iterator[Address]:
    """The address of an empty Redis; see `postgres`."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs Debian's redis-server")
    with _folder() as folder:
        port = _free_port()
        words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        with Program(words, folder) as running:
            yield Address(f"redis://127.0.0.1:{port}", running)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder of the user without privileges; pytest's own cannot be entered by him."""
    folder = Path(tempfile.mkdtemp(prefix="lmm-state-"))
    try:
        if os.geteuid() == 0:
            os.chown(folder, *_nobody())
        yield folder
    finally:
        shutil.rmtree(folder)


def _nobody() -> tuple[int, int]:
    user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


def _unprivileged() -> Any:
    if os.geteuid() != 0:
        return {}
    user, group = _nobody()
    return {"user": user, "group": group, "extra_groups": []}


class Program:
    """A server's process; a context manager. It can be stopped and started again."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.words, self.folder = words, folder

    def __enter__(self) -> Self:
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log, cwd=self.folder, **_unprivileged())
        until = time.monotonic() + 60
        while b"eady to accept connections" not in (self.folder / "log").read_bytes():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # PostgreSQL ends at once, whoever is still connected
            self.process.wait(30)

    @contextmanager
    def away(self) -> Iterator[None]:
        """It is stopped for the duration of the block."""
        self.__exit__()
        yield
        self.__enter__()


class Address(str):
    """An address, and the `program` that listens there."""

    program: Program

    def __new__(cls, text: str, program: Program) -> Self:
        made = super().__new__(cls, text)
        made.program = program
        return made


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
