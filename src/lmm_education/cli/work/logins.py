"""What is done by `lmm serve password`, `lmm serve users` and `lmm serve keys`."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from lmm import terminal
from lmm.cli import console
from lmm.disk.files import read_document
from lmm.errors import ConfigError, LmmError
from lmm_education.course import Course
from lmm_education.web.logins import LoginFile, Logins, checked_name, new_key, new_password
from lmm_education.web.state import serve_state

T = TypeVar("T")


def password(course: str | None, config: Path | None) -> int:
    """Set the course's password."""
    with Course.open(config=config, course=course) as opened:
        given = _asked(f"Password for {opened.settings.storage.course}: ")
        _file(opened).change(lambda logins: logins.with_password(given))
        _remind(opened, "password")
    return console.DONE


def teacher(course: str | None, config: Path | None) -> int:
    """Set the teacher's password."""
    with Course.open(config=config, course=course) as opened:
        given = _asked(f"Teacher's password for {opened.settings.storage.course}: ")
        state = serve_state(opened.root, opened.settings.storage.course)
        LoginFile(state.teacher).change(lambda logins: logins.with_password(given))
        if not opened.settings.serve.log:
            terminal.note('no log is kept; under [serve] in config.toml: log = "course-log.sqlite"')
    return console.DONE


def add_users(names: Sequence[str], generate: bool, course: str | None, config: Path | None) -> int:
    """Add users; passwords that were made are printed after their names."""
    names = [checked_name(name) for name in _all_names(names)]
    with Course.open(config=config, course=course) as opened:
        passwords = {name: new_password() if generate else _asked(f"Password for {name}: ") for name in names}

        def change(logins: Logins) -> Logins:
            for name, given in passwords.items():
                logins = logins.with_user(name, given)
            return logins

        _file(opened).change(change)
        if generate:
            terminal.say("".join(f"{name}\t{made}\n" for name, made in passwords.items()), end="")
        _remind(opened, "users")
    return console.DONE


def add_key(name: str, questions_per_minute: int | None, course: str | None, config: Path | None) -> int:
    """Make a key and print it."""
    key = new_key()
    with Course.open(config=config, course=course) as opened:
        _file(opened).change(lambda logins: logins.with_key(name, key, questions_per_minute))
        terminal.say(key)
    return console.DONE


def remove_users(names: Sequence[str], course: str | None, config: Path | None) -> int:
    """Remove users."""
    return _change(course, config, lambda logins: replace(logins, users=_without(logins.users, names, "user")))


def remove_keys(names: Sequence[str], course: str | None, config: Path | None) -> int:
    """Remove keys."""
    return _change(course, config, lambda logins: replace(logins, keys=_without(logins.keys, names, "key")))


def list_users(course: str | None, config: Path | None) -> int:
    """Print the users' names, one a line."""
    return _show(course, config, lambda logins: logins.users)


def list_keys(course: str | None, config: Path | None) -> int:
    """Print the keys' names, one a line."""
    return _show(course, config, lambda logins: logins.keys)


def _change(course: str | None, config: Path | None, change: Callable[[Logins], Logins]) -> int:
    with Course.open(config=config, course=course) as opened:
        _file(opened).change(change)
    return console.DONE


def _show(course: str | None, config: Path | None, part: Callable[[Logins], Collection[str]]) -> int:
    with Course.open(config=config, course=course) as opened:
        names = sorted(part(_file(opened).read()))
    terminal.say("".join(f"{name}\n" for name in names), end="")
    return console.DONE


def _file(course: Course) -> LoginFile:
    return LoginFile(serve_state(course.root, course.settings.storage.course).logins)


def _without(known: Mapping[str, T], names: Collection[str], what: str) -> dict[str, T]:
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no {what} '{name}'", hint=f"lmm serve {what}s list")
    return {name: value for name, value in known.items() if name not in names}


def _all_names(names: Sequence[str]) -> list[str]:
    """The names, with those in files that are named as ``@FILE``."""
    found: list[str] = []
    for name in names:
        lines = read_document(Path(name[1:])).splitlines() if name.startswith("@") else [name]
        found += [line.strip() for line in lines if line.strip()]
    return found


def _asked(prompt: str) -> str:
    """A password that is typed twice, or one line of what is piped in."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    given = getpass.getpass(terminal.visible(prompt), sys.stderr)
    if getpass.getpass("Again: ", sys.stderr) != given:
        raise LmmError("the two are not the same")
    return given


def _remind(course: Course, login: str) -> None:
    """Say so if the configuration does not ask for what was just set."""
    if course.settings.serve.login != login:
        terminal.say(
            f'note: it is asked for when config.toml has, under [serve]: login = "{login}"\n', err=True, end=""
        )
