"""The rules of a course, opened: who is asking, whether he may, what about; and where all of that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmm.errors import ConfigError
from lmm.models.chat import shared_chat
from lmm.prompts.load import load_prompts
from lmm_education.answer.run import Answering
from lmm_education.parts import CourseParts
from lmm_education.prompts.templates import SLOTS
from lmm_education.search.expand import can_write
from lmm_education.web.attempts import Attempts
from lmm_education.web.budget import Budget, Spent
from lmm_education.web.database import Database
from lmm_education.web.guard import Guard
from lmm_education.web.identify import Identity
from lmm_education.web.state import ServeState, serve_state
from lmm_education.web.topic import TopicCheck

_BESIDES = 1500  # tokens of a question besides its context: instructions, history, the answer


@dataclass(frozen=True, slots=True)
class Access:
    """One for each course; kept in the application's state under ``access``."""

    identity: Identity
    guard: Guard
    attempts: Attempts
    topic: TopicCheck | None = None


def open_access(course: CourseParts, answering: Answering, texts: Mapping[str, str]) -> Access:
    """The rules that [serve] sets.

    Raises:
        ConfigError: they cannot be kept: there is no password yet, or no model that could check what is asked.
        FileReadError, FileWriteError: the server's own files cannot be read or made.
    """
    settings, state = course.settings.serve, state_of(course)
    identity = Identity(settings, state)
    _check_logins(identity)
    budget = None
    if settings.daily_tokens or settings.daily_cost:
        expected = Spent(course.settings.answer.budget + _BESIDES)
        budget = Budget(Database(state.database), settings.daily_tokens, settings.daily_cost, expected)
        budget.spent()  # that it can be counted at all
    guard = Guard(settings, texts, identity.signer, budget)
    topic = _topic(course, answering, texts["off_topic"]) if settings.allowed_content else None
    return Access(identity, guard, Attempts(identity.signer), topic)


def state_of(course: CourseParts) -> ServeState:
    """Where the server of a course keeps its own."""
    return serve_state(course.root, course.settings.storage.course)


def _check_logins(identity: Identity) -> None:
    logins = identity.logins.read()
    if identity.login == "password" and not logins.password:
        raise ConfigError("there is no password yet", where="[serve] login", hint="lmm serve password")
    if identity.login == "users" and not logins.users:
        raise ConfigError("there are no users yet", where="[serve] login", hint="lmm serve users add NAME")


def _topic(course: CourseParts, answering: Answering, refusal: str) -> TopicCheck:
    settings, aux = course.settings.serve, answering.aux or shared_chat(course.models.aux)
    if not can_write(aux):
        raise ConfigError(
            f"{aux.name} cannot check what questions are about",
            where="[serve] allowed_content",
            hint="set a model under [aux] in config.toml",
        )
    prompts = load_prompts(course.models.prompts_folder, package="lmm_education.prompts", slots=SLOTS)
    strict = settings.on_check_failure == "refuse"
    return TopicCheck(settings.allowed_content, refusal, strict, lambda: aux, lambda: prompts)
