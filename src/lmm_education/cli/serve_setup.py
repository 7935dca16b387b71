"""`lmm serve --setup`: ask for what a chat needs, try it, and write it into config.toml."""

from __future__ import annotations

import getpass
import json
import os
import sys
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lmm import terminal
from lmm.errors import ConfigError, LmmError
from lmm.messages import TextDelta
from lmm.models.port import Ask
from lmm.terminal import DONE

if TYPE_CHECKING:
    from lmm.config import ModelSettings
    from lmm.config_tables import Config
    from lmm.models.port import ChatModel
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
_BEGINNING = 20  # characters
_LOOK = 5  # seconds to wait for a server's list of models


def set_up(config: Path | None) -> int:
    """Ask for the settings of a course's chat, and write those that changed.

    Raises:
        ConfigError: there is no terminal, or the file cannot be changed.
    """
    if not terminal.can_ask():
        hint = "lmm init --all writes a config.toml in which every key of [serve] is explained"
        raise ConfigError("it needs a terminal to ask questions", where="--setup", hint=hint)
    from lmm import config_files
    from lmm.disk import files, trust
    from lmm.permissions import permissions_of
    from lmm_education.config import course_settings

    found = config_files.find_config(config)
    file = found.path or Path(config_files.CONFIG)
    found, before = replace(found, path=file), files.read_bytes(file) if file.exists() else None
    terminal.say(f"An empty line keeps the value in brackets. {file} is written at the end.\n", err=True)
    model, exports = _model(found)
    known = _with(found, model)
    answers = {**model, "serve": _serve(course_settings(known).serve, _price(known))}
    text = config_files.with_values(found.text, answers, str(file))
    rows = ((table, key, value) for table, of in answers.items() for key, value in of.items())
    written = [f"  [{table}] {key} = {json.dumps(value, ensure_ascii=False)}" for table, key, value in rows]
    if text != found.text:
        files.replace(file, text, expected=before)
    same = "is unchanged" if before is not None else "is not needed: nothing differs from the defaults"
    terminal.say("\n".join([f"wrote into {file}:", *written]) if written else f"{file} {same}")
    if permissions_of(replace(found, text=text)):  # the user has just typed it, and thus approves it
        trust.approve(file, text)
    return _finish(file, exports)


def _with(found: Config, values: Mapping[str, Values]) -> Config:
    from lmm.config_files import with_values

    return replace(found, text=with_values(found.text, values, found.name))


# -- the model -----------------------------------------------------------------------------------------


def _model(found: Config) -> tuple[dict[str, Values], list[str]]:
    """Return the settings of a model that answered a test, and the environment variables to export."""
    from lmm.config_files import settings_for

    settings = settings_for(config=found).major
    default = settings.base_url if settings.base_url and settings.model.provider == "OpenAICompatible" else ""
    while True:
        said = terminal.ask(
            "The model that answers, as Provider/name (OpenAI/gpt-4.1-mini, Ollama/llama3.2), or a server's address",
            default or str(settings.model),
        )
        try:
            values = {} if said in (default, str(settings.model)) else _tier(said, found)
            known = {"major": values} if values else {}
            return known, _try(settings_for(config=_with(found, known)).major, _with(found, known))
        except LmmError as error:
            terminal.tell_error(error)


def _tier(said: str, found: Config) -> Values:
    if said.startswith(("http://", "https://")):
        name = terminal.ask("Its model", _first_model(said))
        return {"model": f"OpenAICompatible/{name}", "base_url": said}
    return {"model": said} | ({"base_url": ""} if "base_url" in found.tables.get("major", {}) else {})


def _first_model(address: str) -> str:
    """Return the first model that a server lists; empty if it lists none."""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/models", timeout=_LOOK) as answer:
            return str(json.load(answer)["data"][0]["id"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _try(settings: ModelSettings, known: Config) -> list[str]:
    """Test the model; return the environment variables that must be exported to use it again."""
    from lmm import loop
    from lmm.config_files import settings_for
    from lmm.models.chat import shared_chat
    from lmm.providers import PROVIDERS

    exports: list[str] = []
    keys = PROVIDERS[settings.model.provider.lower()].keys
    if keys and not settings.api_key:
        key = secret(f"Its key, for this test only; {keys[0]} is not set, and keys are never written: ")
        os.environ[keys[0]], exports = key, [keys[0]]
        settings = settings_for(config=known).major
    if settings.model.provider == "Builtin":
        terminal.note("without a model the chat only quotes")
        return exports
    terminal.say(f"  asking {settings.model} …", err=True)
    try:
        said = loop.run(_first_words(shared_chat(settings.replace(max_retries=0))))
    except LmmError:
        for name in exports:
            del os.environ[name]
        raise
    terminal.say(f"  it answers: {' '.join(said.split())} …", err=True)
    return exports


async def _first_words(model: ChatModel) -> str:
    """Return the beginning of an answer, as a test that there is one."""
    said = ""
    async with aclosing(model.stream(Ask.of("Greet a class in one short sentence.").request)) as events:
        async for event in events:
            said += event.text if isinstance(event, TextDelta) else ""
            if len(said) > _BEGINNING:
                break
    return said


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


def _finish(file: Path, exports: list[str]) -> int:
    """Set passwords, and say what to do next."""
    from lmm_education.course import Course
    from lmm_education.web.login import Accounts
    from lmm_education.web.service import name_of, state_of

    next_steps = [f"export {name}=…" for name in exports]
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
        given = secret(f"{question} (empty: later, {later}): ")
        if not given:
            return
        try:
            accounts.set_password(given)
        except LmmError as error:
            terminal.tell_error(error)


def secret(prompt: str) -> str:
    """Read a secret without echo; without a terminal, read a line."""
    if sys.stdin.isatty():
        return getpass.getpass(terminal.visible(prompt), sys.stderr)
    return sys.stdin.readline().rstrip("\r\n")
