"""`lmm serve --setup`: ask for what a chat needs, try it, and write it into config.toml."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lmm import terminal
from lmm.errors import ConfigError
from lmm.terminal import DONE

if TYPE_CHECKING:
    from lmm.config_tables import Config
    from lmm_education.config import ServeSettings
    from lmm_education.course import Course
    from lmm_education.web.login import Accounts

T = TypeVar("T")
Values = dict[str, Any]
_LOGINS = ("none", "password", "users", "oidc")
_OF_OIDC = {
    "issuer": "The provider's address",
    "client_id": "The chat's client_id there",
    "client_secret_env": "The environment variable with the client's secret",
    "address": "The address of the page",
}


def set_up(config: Path | None) -> int:
    """Ask for the settings of a course's chat, and write those that changed.

    Raises:
        ConfigError: there is no terminal, or the file cannot be changed.
    """
    if not terminal.can_ask():
        hint = "lmm init --all writes a config.toml in which every key of [serve] is explained"
        raise ConfigError("it needs a terminal to ask questions", where="--setup", hint=hint)
    from lmm import config_files
    from lmm.cli.setup import choose_model
    from lmm.disk import files, trust
    from lmm.permissions import permissions_of
    from lmm_education.config import course_settings

    found = config_files.find_config(config)
    file = found.path or Path(config_files.CONFIG)
    found, before = replace(found, path=file), files.read_bytes(file) if file.exists() else None
    terminal.say(f"An empty line keeps the value in brackets. {file} is written at the end.\n", err=True)
    model, next_steps = choose_model(found)
    known = replace(found, text=config_files.with_values(found.text, {"major": model}, found.name))
    answers = {"major": model, "serve": _serve(course_settings(known).serve, _price(known))}
    text = config_files.with_values(found.text, answers, str(file))
    rows = ((table, key, value) for table, of in answers.items() for key, value in of.items())
    written = [f"  [{table}] {key} = {json.dumps(value, ensure_ascii=False)}" for table, key, value in rows]
    if text != found.text:
        files.replace(file, text, expected=before)
    same = "is unchanged" if before is not None else "is not needed: nothing differs from the defaults"
    terminal.say("\n".join([f"wrote into {file}:", *written]) if written else f"{file} {same}")
    if permissions_of(replace(found, text=text)):  # the user has just typed it, and thus approves it
        trust.approve(file, text)
    return _finish(file, next_steps)


def _price(known: Config) -> float | None:
    from lmm.config_files import settings_for
    from lmm.messages import Usage
    from lmm.models.tokens import price

    return price(str(settings_for(config=known).major.model), Usage(1000, 1000))


# -- the chat ------------------------------------------------------------------------------------------


def _serve(now: ServeSettings, price: float | None) -> Values:
    """Return what changes under [serve]."""
    values: Values = {
        "title": terminal.ask("Title of the course", now.title),
        "description": terminal.ask("A line about it", now.description),
        "language": _one_of("Language of the page ({})", ("en", "de"), now.language),
        "login": _one_of("Login: {}", _LOGINS, now.login),
    }
    if values["login"] == "oidc":
        values |= {key: terminal.ask(question, getattr(now, key)) for key, question in _OF_OIDC.items()}
    values["daily_tokens"] = _number("Tokens a day, of all students together; 0: no limit", now.daily_tokens, int)
    if price:
        values["daily_cost"] = _number("US dollars a day; 0: no limit", now.daily_cost, float)
    keep = _one_of(
        "Keep a log of questions and answers, without names? ({})", ("yes", "no"), "yes" if now.log else "no"
    )
    values["log"] = (now.log or "course-log.sqlite") if keep == "yes" else ""
    said = terminal.ask("Hide these types of text from students (- for none)", ", ".join(now.withhold) or "-")
    values["withhold"] = [word.strip() for word in said.split(",") if word.strip() not in ("", "-")]
    return {key: value for key, value in values.items() if value != _plain(getattr(now, key))}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _one_of(question: str, names: tuple[str, ...], default: str) -> str:
    while True:
        said = terminal.ask(question.format(", ".join(names)), default)
        if said == default or said in names:
            return said
        terminal.say(f"  '{said}' is not one of them", err=True)


def _number(question: str, default: T, kind: Callable[[str], T]) -> T:
    while True:
        said = terminal.ask(question, str(default))
        try:
            number = kind(said.replace("_", ""))
        except ValueError:
            number = None
        if number is not None and number >= 0:  # type: ignore[operator]
            return number
        terminal.say(f"  '{said}' is not a number from 0 on", err=True)


# -- afterwards ----------------------------------------------------------------------------------------


def _finish(file: Path, next_steps: list[str]) -> int:
    """Set passwords, and say what to do next."""
    from lmm_education.course import Course
    from lmm_education.web.login import Accounts
    from lmm_education.web.service import name_of, state_of

    with Course.open(config=file if file.exists() else None) as course:
        settings, state = course.settings.serve, state_of(course)
        if settings.login == "password":
            _set_password(Accounts(state), f"Students' password for '{name_of(course)}'", "lmm serve password")
        if settings.log:
            _set_password(Accounts(state, "teacher"), "Your password for the page /teacher", "lmm serve teacher")
        if settings.login == "users" and not Accounts(state).read().users:
            next_steps.append("lmm serve users add --generate @names.txt")
        if not _is_ingested(course):
            next_steps.append("lmm ingest PATH")
    terminal.say("next: " + "; ".join([*next_steps, "lmm serve"]))
    return DONE


def _is_ingested(course: Course) -> bool:
    """Return whether there is a store, ingested with the current withheld types."""
    from lmm_education.errors import StoreMismatch
    from lmm_education.withheld import StudentStore

    if course.store.manifest() is None:
        return False
    try:
        with StudentStore(course.store, course.settings.withholding).view():
            return True
    except StoreMismatch:
        return False


def _set_password(accounts: Accounts, question: str, later: str) -> None:
    while not accounts.read().password:
        given = new_secret(f"{question} (empty: later, {later}): ")
        if not given:
            return
        try:
            accounts.set_password(given)
        except ConfigError as error:
            terminal.tell_error(error)


def new_secret(prompt: str) -> str:
    """Read a secret without echo until it was typed twice the same; without a terminal, read a line."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    while given := getpass.getpass(terminal.visible(prompt), sys.stderr):
        if getpass.getpass("Again: ", sys.stderr) == given:
            break
        terminal.say("  the two differ", err=True)
    return given
