"""The table [serve] of ``config.toml``: what students see in the web chat, who may ask, and how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lmm.powers import Power
from lmm_education.setting_checks import COUNT, NAMES, NUMBER, TABLE, TEXT

Login = Literal["none", "password", "users", "proxy"]


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What students see, who may ask, and how much. Texts are markdown, except `title` and those in `texts`.

    `title` is the course's name if empty; `description` stands below it; `welcome` before the first question;
    `failure` is said when no answer can be given. `language` chooses the words on the page (``en``, ``de``), of which
    `texts` replaces some, by their names. Questions have at most `longest_question` characters.

    `consent` is agreed to before the first question. Questions are about `allowed_content`, or are not answered;
    `on_check_failure` says what to do when that cannot be checked. A student asks at most `questions_per_minute`;
    all together use at most `daily_tokens` and `daily_cost` (US dollars) a day; 0 is without limit.

    `login` asks for the course's password, for a user's, or believes the name that a proxy writes into `proxy_header`;
    only peers with addresses in `trusted_proxy` are believed. A session ends after `session_hours`.

    Texts whose type `withhold` names reach no student: not as sources, not in what the model is asked, not in the API.

    `log` is the file in which questions and answers are kept, for `log_days`; none if empty. `powers` have to be agreed
    to before it is opened.
    """

    title: str = ""
    description: str = ""
    welcome: str = ""
    failure: str = ""
    language: str = "en"
    longest_question: int = 4000
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)
    consent: str = ""
    allowed_content: str = ""
    on_check_failure: Literal["refuse", "answer"] = "refuse"
    questions_per_minute: int = 20
    daily_tokens: int = 0
    daily_cost: float = 0.0
    login: Login = "none"
    session_hours: int = 12
    proxy_header: str = "X-Forwarded-User"
    trusted_proxy: tuple[str, ...] = ()
    log: str = ""
    log_days: int = 180
    withhold: tuple[str, ...] = ("solution",)
    powers: tuple[Power, ...] = ()


SERVE: dict[str, str] = {
    "title": TEXT,
    "description": TEXT,
    "welcome": TEXT,
    "failure": TEXT,
    "language": TEXT,
    "longest_question": COUNT,
    "texts": TABLE,
    "consent": TEXT,
    "allowed_content": TEXT,
    "on_check_failure": TEXT,
    "questions_per_minute": COUNT,
    "daily_tokens": COUNT,
    "daily_cost": NUMBER,
    "login": TEXT,
    "session_hours": COUNT,
    "proxy_header": TEXT,
    "trusted_proxy": NAMES,
    "log": TEXT,
    "log_days": COUNT,
    "withhold": NAMES,
}
"""Every key with the kind of its value."""
SERVE_CHOICES: dict[str, tuple[str, ...]] = {
    "language": ("en", "de"),
    "on_check_failure": ("refuse", "answer"),
    "login": ("none", "password", "users", "proxy"),
}
SERVE_ZERO = ("questions_per_minute", "daily_tokens")
"""Counts that may be 0."""
SERVE_POWERS = {"log": "path"}
"""Which keys are powers, and of which kind (a row of `lmm.powers.KINDS`)."""
