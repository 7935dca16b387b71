"""The teacher's page: what is on it, in both languages, and that nothing a student writes becomes part of it."""

from __future__ import annotations

from datetime import UTC, date
from html.parser import HTMLParser

import pytest
from hypothesis import given
from unit.lmm_education.exchange_log.logs import logs

from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource
from lmm_education.web.http import render
from lmm_education.web.teacher import RANGES, Range, TeacherReport
from lmm_education.web.words import Wording

DAYS = Range(date(2026, 11, 1), date(2026, 11, 21))
NOW = 1_795_000_000.0  # one of these days
COURSE = [LoggedSource(0, "l", "a.md", ("Leaves",), "Botany"), LoggedSource(0, "r", "a.md", ("Roots",), "Botany")]


class Elements(HTMLParser):
    """The elements of a page, which must be closed in order, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("br", "input", "meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def page(exchanges: list[LoggedExchange], language: str = "en") -> str:
    """The report on some exchanges."""
    words = lambda text: {hash(word) for word in text.split()}  # noqa: E731
    down = [exchange for exchange in exchanges if exchange.reaction < 0]
    return shown_page(TeacherReport(exchanges, down, COURSE, DAYS, words, UTC), language)


def shown_page(report: TeacherReport, language: str = "en") -> str:
    """The whole page."""
    say = Wording(language)
    return render("teacher.html", language=language, course="Botany", say=say, ranges=RANGES, message="", failures=[],
                  logged_in=True, report=report)  # fmt: skip


def asked(id: str, question: str, **values: object) -> LoggedExchange:
    """A question of these days."""
    return LoggedExchange(id, NOW, question, **values)  # type: ignore[arg-type]


def test_no_table_without_rows() -> None:
    """Where every question was answered from the course, and no answer was called bad."""
    source = LoggedSource(1, "l", "a.md", ("Leaves",), "Botany", cited=True)
    assert Elements(page([asked("1", "Why green?", sources=(source,))])).words.count("None.") == 2


@pytest.mark.parametrize("language", ["en", "de"])
def test_what_is_on_it(language: str) -> None:
    """Figures, a table over time, questions, comments, failures, sections found and never found."""
    source = LoggedSource(1, "l", "a.md", ("Leaves",), "Botany", cited=True)
    shown = Elements(page([
        asked("1", "Why green?", sources=(source,), first_word=1.5, cost=0.25),
        asked("2", "When is the exam?", outcome="not found"),
        asked("3", "Why red?", sources=(source,), reaction=-1, comment="That is wrong.", answer="Because."),
        asked("4", "Why blue?", outcome="failed", error="ModelTimeout: nothing came"),
    ], language))  # fmt: skip
    say = Wording(language)
    asked_for = ("Why green?", "When is the exam?", "That is wrong.", "Because.", "nothing came")
    for words in (*asked_for, say.failure("ModelTimeout")):
        assert words in shown.words
    assert "When is the exam?" in shown.words.split(say["over_time"])[0]  # what was not answered comes first
    found, never = shown.words.split(say["found_most"])[1].split(say["never"])
    assert "Botany > Leaves" in found
    assert "Botany > Roots" in never
    assert say["never_help"].replace("{n}", "1").replace("{all}", "2") in shown.words
    assert "svg" not in shown.tags


def test_long_questions_are_cut_and_open_their_exchange() -> None:
    """A row is as long as a line or two; what is behind it opens on a click."""
    long = "Why " + "very " * 500 + "long?"
    html = page([asked("q7", long, outcome="not found"), asked("q8", "Why red?", reaction=-1)])
    assert long not in html
    for title, id in (("unanswered", "q7"), ("down", "q8")):
        assert f'data-exchange="{id}"' in html.split(f"<h2>{Wording('en')[title]}</h2>")[1].split("</section>")[0]


def test_what_is_not_known_is_not_nothing() -> None:
    """Answers of a model whose price nobody knows did not cost 0.00."""
    free = Elements(page([asked("1", "Why?", input_tokens=5)])).words
    assert "0.00" not in free
    assert "answers without a known price: 1" in free
    assert "0.25" in Elements(page([asked("1", "Why?", input_tokens=5), asked("2", "Why?", cost=0.25)])).words


@given(logs())
def test_no_text_becomes_markup(held: list[LoggedExchange]) -> None:
    """Whatever students and models write; styles and scripts in the page would be refused by its policy."""
    shown = Elements(page(held))
    assert not shown.tags & {"style", "iframe", "img"}
    assert page(held).count("<script") == 1
    assert not any(name.startswith("on") or name == "style" for name in shown.attributes)


def test_nobody_asked() -> None:
    """There is still the course."""
    shown = Elements(page([]))
    assert "Nobody asked anything in this period." in shown.words
    assert "Botany > Roots" in shown.words


def test_the_days() -> None:
    """The range that is shown is marked."""
    range = Range(date(2026, 11, 15), date(2026, 11, 21))
    shown = shown_page(TeacherReport([], [], COURSE, range, lambda text: set(), UTC))
    assert shown.count("aria-current") == 1
    assert '?days=7" aria-current' in shown
