"""The words on the pages and in answers over HTTP, by language: those of ``words/*.toml``, of which a course may
replace some."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, reduce
from importlib import resources
from typing import Any

from starlette.requests import HTTPConnection

from lmm.errors import ConfigError, nearest
from lmm_education.config import ServeSettings
from lmm_education.search.query import SearchNotice

LANGUAGES = {"en": "English", "de": "Deutsch"}
THEMES = ("auto", "light", "dark")


@cache
def words_in(language: str) -> Mapping[str, Mapping[str, Any]]:
    """All words of a language: those for students in ``page``, for the teacher in ``teacher``."""
    file = resources.files(__package__).joinpath("words", f"{language}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def language_of(connection: HTTPConnection, settings: ServeSettings) -> str:
    """The language that the student has chosen on the page, else the course's."""
    chosen = connection.cookies.get("lmm_language", "")
    return chosen if chosen in LANGUAGES else settings.language


def theme_of(connection: HTTPConnection) -> str:
    """``light`` or ``dark``, as the student has chosen; ``auto`` as the browser says."""
    chosen = connection.cookies.get("lmm_theme", "")
    return chosen if chosen in THEMES else THEMES[0]


def texts_of(connection: HTTPConnection, settings: ServeSettings) -> Mapping[str, str]:
    """The words for whoever sent a request."""
    return texts_for(settings, language_of(connection, settings))


def texts_for(settings: ServeSettings, language: str = "") -> Mapping[str, str]:
    """The students' words in a language, by default the course's, with the course's own in their places. Those that
    replace ours are in the course's language, and count in no other; the welcome is the course's in all.

    Raises:
        ConfigError: a text under [serve] has a name that is not known, or is no text.

    >>> texts_for(ServeSettings(language="de", texts={"ask": "Los"}))["ask"]
    'Los'
    """
    language = language or settings.language
    texts = dict(words_in(language)["page"])
    for name, text in settings.texts.items():
        if name not in texts:
            where = "config.toml"
            raise ConfigError(f"unknown text '{name}' in [serve] texts", where=where, hint=nearest(name, texts))
        if not isinstance(text, str):
            raise ConfigError(f"'{name}' in [serve] texts must be text, not {text!r}", where="config.toml")
    own = {"welcome": settings.welcome} | ({"failure": settings.failure} if language == settings.language else {})
    texts |= dict(settings.texts) if language == settings.language else {}
    return texts | {name: text for name, text in own.items() if text}


def notice_for(notice: str, texts: Mapping[str, str]) -> str:
    """A notice in the words of the page; what is none stays as it is.

    >>> notice_for(SearchNotice("no_document", "", name="week-1"), words_in("en")["page"])
    "No document is named 'week-1'; it was searched as a word."
    """
    if not isinstance(notice, SearchNotice):
        return notice
    return reduce(
        lambda text, value: text.replace(f"{{{value[0]}}}", value[1]), notice.values.items(), texts[notice.code]
    )


# -- the teacher's page ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wording:
    """How the teacher's page says things in a language: words, numbers, days."""

    language: str

    @property
    def texts(self) -> Mapping[str, str]:
        """All words, by name."""
        return words_in(self.language)["teacher"]

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    def number(self, value: float, digits: int = 0) -> str:
        """A number with so many digits after the point.

        >>> Wording("en").number(1234.5, 1), Wording("de").number(1234.5, 1), Wording("de").number(3)
        ('1,234.5', '1.234,5', '3')
        """
        written = words_in(self.language)["written"]
        return f"{value:,.{digits}f}".translate(str.maketrans(",.", written["thousands"] + written["decimal"]))

    def short(self, value: float, digits: int = 0) -> str:
        """A number at an axis: with the digits that it needs, thousands as k.

        >>> Wording("en").short(12_500), Wording("en").short(0.05), Wording("en").short(3)
        ('12.5k', '0.05', '3')
        """
        if value >= 10_000:
            return f"{self.number(value / 1000, 0 if value % 1000 == 0 else 1)}k"
        return self.number(value, 0 if value == int(value) else max(digits, 2 if value < 0.1 else 1))

    def day(self, day: date, bin: str = "day") -> str:
        """A day, or the first of a week or a month.

        >>> Wording("en").day(date(2026, 11, 2)), Wording("de").day(date(2026, 11, 2))
        ('2 Nov', '2. Nov.')
        >>> Wording("en").day(date(2026, 11, 1), "month")
        'Nov 2026'
        """
        written = words_in(self.language)["written"]
        month = written["months"][day.month - 1]
        return f"{month} {day.year}" if bin == "month" else written["day"].format(day=day.day, month=month)
