"""The texts of the pages and of HTTP answers, by language: from ``words/*.toml``; a course may replace some of them."""

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
    """Return all texts in a language: those for students under ``page``, those for the teacher under ``teacher``."""
    file = resources.files(__package__).joinpath("words", f"{language}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def language_of(connection: HTTPConnection, settings: ServeSettings) -> str:
    """Return the language that the student chose on the page, or the course's."""
    chosen = connection.cookies.get("lmm_language", "")
    return chosen if chosen in LANGUAGES else settings.language


def theme_of(connection: HTTPConnection) -> str:
    """Return the theme that the student chose, ``light`` or ``dark``; by default ``auto``: as the browser does."""
    chosen = connection.cookies.get("lmm_theme", "")
    return chosen if chosen in THEMES else THEMES[0]


def texts_of(connection: HTTPConnection, settings: ServeSettings) -> Mapping[str, str]:
    """Return the texts in the language of the person who sent a request."""
    return texts_for(settings, language_of(connection, settings))


def texts_for(settings: ServeSettings, language: str = "") -> Mapping[str, str]:
    """Return the texts for students in a language (by default the course's), with the course's own replacements. These
    replacements apply only in the course's language, except the welcome text, which is used in all languages.

    Raises:
        ConfigError: a text under [serve] has an unknown name, or is not a string.

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
    """Return a notice in the words of the page; anything that is not a `SearchNotice` is returned unchanged.

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
    """How the teacher's page writes words, numbers and days in a language."""

    language: str

    @property
    def texts(self) -> Mapping[str, str]:
        """All texts, by name."""
        return words_in(self.language)["teacher"]

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    def number(self, value: float, digits: int = 0) -> str:
        """Return a number with the given number of decimals.

        >>> Wording("en").number(1234.5, 1), Wording("de").number(1234.5, 1), Wording("de").number(3)
        ('1,234.5', '1.234,5', '3')
        """
        written = words_in(self.language)["written"]
        return f"{value:,.{digits}f}".translate(str.maketrans(",.", written["thousands"] + written["decimal"]))

    def failure(self, kind: str) -> str:
        """Return what went wrong, for the name of an error.

        >>> Wording("en").failure("ModelTimeout"), Wording("en").failure("KeyError")
        ('The model took too long.', 'Something else went wrong (KeyError).')
        """
        failures: Mapping[str, str] = words_in(self.language)["failures"]
        return failures.get(kind) or failures["other"].replace("{kind}", kind)

    def day(self, day: date, bin: str = "day") -> str:
        """Return a day, or the name of the week or month that begins on it.

        >>> Wording("en").day(date(2026, 11, 2)), Wording("de").day(date(2026, 11, 2))
        ('2 Nov', '2. Nov.')
        >>> Wording("en").day(date(2026, 11, 1), "month")
        'Nov 2026'
        """
        written = words_in(self.language)["written"]
        month = written["months"][day.month - 1]
        return f"{month} {day.year}" if bin == "month" else written["day"].format(day=day.day, month=month)
