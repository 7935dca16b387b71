"""What students and the teacher see of log, material and conversation, in a real browser."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.serving import LEAVES, serving, type_question
from edge.support import lmm
from fakes.chromium import PROGRAM, Browser
from fakes.openai_server import ScriptedServer

import lmm_education
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource
from lmm_education.exchange_log.log_file import LogFile, read_log

pytestmark = [pytest.mark.browser, pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")]
MOSS = """---
title: Moss
---
# Moss

---
questions: [What has moss instead of roots?]
---
Moss has *rhizoids*, $n > 1$.

---
type: exercise
solution: Through the whole surface, so $x^2$.
---
How does moss take up water?

---
type: exercise
---
**Exercise 2.** What is a sporophyte?

---
type: solution
---
What grows out of the moss.
"""


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    """The model behind the page."""
    with ScriptedServer() as running:
        yield running


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, model: ScriptedServer) -> Iterator[Path]:
    """A course that keeps a log, and whose teacher has a password."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "notes").mkdir()
    (folder / "notes/botany.md").write_text(LEAVES)
    (folder / "notes/moss.md").write_text(MOSS)
    write_config(folder, model)
    with (folder / "config.toml").open("a") as config:
        config.write('[answer]\nhistory = "none"\n[serve]\ntitle = "Plants"\nlog = "log.sqlite"\nwithhold = []\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LMM_STATE_DIR", str(folder / "state"))
        lmm_education.ingest("notes")
        assert lmm("serve", "teacher", stdin=b"chalk and talk\n").code == 0
        yield folder


@pytest.fixture(scope="module")
def address(course: Path) -> Iterator[str]:
    """The course, served."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMM_STATE_DIR", str(course / "state"))
        with serving(course / "config.toml") as running:
            yield running


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Browser]:
    """The page, opened anew; at its end, nothing was refused, and no other host was asked for anything."""
    browser.screen(1280, 900)
    browser.open(f"{address}/")
    browser.run("sessionStorage.clear()")
    browser.requests.clear()
    browser.problems.clear()
    browser.open(f"{address}/")
    browser.wait_for("document.querySelectorAll('#starters button').length")
    yield browser
    assert [url for url in browser.requests if not url.startswith((f"{address}/", "data:"))] == []
    assert browser.problems == []


def ask(page: Browser, question: str) -> None:
    """Type a question, press Enter and wait for the answer."""
    type_question(page, question)
    page.wait_for("document.querySelector('article:last-child .reaction')")


# -- reactions and the conversation ----------------------------------------------------------------


def test_a_reaction_survives_a_reload(page: Browser, course: Path, address: str, model: ScriptedServer) -> None:
    """With formula, source and comment; it is in the log, and can be changed afterwards."""
    model.queue("Because of *chlorophyll* [1], $x^2$.", "Water [1].")
    ask(page, "Why is a leaf green?")
    assert page.run("document.querySelector('.comment').hidden")
    page.click(".thumb.down")
    page.wait_for("document.querySelector('.thumb.down').ariaPressed === 'true'")
    page.click(".comment textarea")
    page.type("Too short.")
    page.press("Enter", 13)
    page.wait_for("Object.values(sessionStorage).join().includes('Too short.')")
    assert read_log(course / "log.sqlite")[-1].comment == "Too short."
    assert page.text(".reaction .note") == "Your comment was sent. Thank you."
    assert page.run("document.querySelector('.comment').hidden")
    page.keep("reaction")
    page.open(f"{address}/")
    page.wait_for("document.querySelector('.thumb.down')?.ariaPressed === 'true'")
    assert page.run("document.querySelector('.comment textarea').value") == "Too short."
    assert page.run("document.querySelectorAll('.answer math').length") == 1
    assert "Because of chlorophyll" in page.text(".answer")
    page.click("aside button")
    page.wait_for("document.querySelector('#section').open")
    page.press("Escape", 27)
    page.keep("reloaded")
    page.click(".thumb.up")
    page.wait_for("document.querySelector('.thumb.up').ariaPressed === 'true'")
    assert read_log(course / "log.sqlite")[-1].reaction == 1
    page.click(".thumb.up")
    page.wait_for("document.querySelector('.reaction .note').innerText === 'Your rating was withdrawn.'")
    assert read_log(course / "log.sqlite")[-1].reaction == 0
    ask(page, "What do roots take up?")
    assert "Why is a leaf green?" in model.requests[-1].last  # the last exchange is known, also with history = "none"
    assert page.run("document.querySelectorAll('article').length") == 2


def test_reactions_by_keyboard(page: Browser, model: ScriptedServer) -> None:
    """In the order in which one reads, each with a name."""
    model.queue("Because of chlorophyll [1].")
    ask(page, "Why is a leaf green?")
    page.run("document.querySelector('aside button').focus()")
    names = []
    for _ in range(5):
        page.press("Tab", 9)
        names.append(page.run("document.activeElement.ariaLabel ?? document.activeElement.innerText"))
    assert names[1:] == ["Copy the answer", "Read aloud", "Answer again", "Good answer"]
    page.press("Tab", 9)
    page.press("Enter", 13)
    page.wait_for("document.querySelector('.thumb.down').ariaPressed === 'true'")
    page.press("Tab", 9)
    assert page.run("document.activeElement.labels[0].innerText") == "Comment"
    assert page.run("document.querySelector('.reaction').ariaLabel") == "What do you think of this answer?"


# -- study material --------------------------------------------------------------------------------


def test_the_plan_opens_sections(page: Browser) -> None:
    """From the beginning of the chat; a section opens above it. Solutions are no type to ask for. A document whose
    first section is called like it stands there once."""
    page.wait_for("document.querySelectorAll('.chip').length")
    assert page.text("#chips") == "exercise"
    page.click("#starters button")
    page.wait_for("document.querySelectorAll('#study h3').length")
    titles = page.run("[...document.querySelectorAll('#study :is(h3, li) > input + *')].map(e => e.innerText)")
    assert len(set(titles)) == len(titles) == 3
    page.keep("plan")
    page.run("[...document.querySelectorAll('#study h3 button')].find(e => e.innerText === 'Moss').click()")
    page.wait_for("document.querySelector('#section').open")
    assert "rhizoids" in page.text("#section")
    assert page.run("document.querySelector('#section details').open") is False
    assert "grows out" not in page.text("#section")
    page.click("#section summary")
    assert "grows out" in page.text("#section")
    page.press("Escape", 27)
    page.wait_for("!document.querySelector('#section').open && document.querySelector('#study').open")


def open_kind(page: Browser, kind: str) -> None:
    """Open a kind of study material."""
    page.wait_for("!document.querySelector('#open-study').hidden")
    page.run("document.querySelector('#open-study').click()")
    page.wait_for(f"document.querySelector('#study[open] nav [data-kind={kind}]')")
    page.click(f"#study nav [data-kind={kind}]")


def test_the_plan_has_ticks(page: Browser, address: str) -> None:
    """The browser keeps them; exercises are counted as exercises, wherever the notes have them."""
    page.run("localStorage.clear()")
    open_kind(page, "plan")
    page.wait_for("document.querySelectorAll('#study input[type=checkbox]').length > 2")
    assert "1 × exercise" in page.text("#study")
    assert "2 × exercise" in page.text("#study")
    count = page.run("document.querySelectorAll('#study input[type=checkbox]').length")
    page.click("#study input[type=checkbox]")
    page.wait_for(f"document.querySelector('#study').innerText.includes('1 of {count} done')")
    for width, dark in ((390, True), (1280, False)):
        page.screen(width, 850, dark=dark)
        assert page.run("document.querySelector('#study').scrollWidth <= document.querySelector('#study').clientWidth")
        page.keep(f"plan-ticks-{width}")
    page.open(f"{address}/")
    open_kind(page, "plan")
    page.wait_for(f"document.querySelector('#study').innerText.includes('1 of {count} done')")
    assert page.run("document.querySelector('#study input[type=checkbox]').checked")


def test_cards_come_back(page: Browser, address: str) -> None:
    """By keyboard or with a click on how it went; what is behind is not shown before. Nothing leaves the browser."""
    page.run("localStorage.clear()")
    open_kind(page, "cards")
    page.wait_for("document.querySelector('.card-text')?.innerText")
    assert page.text(".card-text") == "What has moss instead of roots?"
    asked = len(page.requests)
    page.press(" ", 32)
    page.wait_for("document.querySelector('.answer-side')")
    assert page.run("document.querySelectorAll('.card-text math').length") == 1
    for width, dark in ((390, True), (1280, False)):
        page.screen(width, 850, dark=dark)
        assert page.run("document.querySelector('#study').scrollWidth <= document.querySelector('#study').clientWidth")
        page.keep(f"card-{width}")
    buttons = "[...document.querySelectorAll('#study .choices button')]"
    assert page.run(f"{buttons}.map(each => each.innerText)") == ["Again", "I knew it"]
    page.run(f"{buttons}[0].click()")
    page.wait_for("!document.querySelector('.answer-side')")
    page.press(" ", 32)
    page.wait_for("document.querySelector('.answer-side')")
    page.run(f"{buttons}[1].click()")
    page.wait_for("document.querySelector('#study').innerText.includes('No card is due')")
    assert len(page.requests) == asked
    page.open(f"{address}/")
    open_kind(page, "cards")
    page.wait_for("document.querySelector('#study').innerText.includes('No card is due')")
    page.keep("cards-done")


def test_cards_come_back_as_fsrs_has_it(page: Browser) -> None:
    """The first interval of a known card is its stability, 3.17 days; later ones grow, and shrink with forgetting."""
    script = """import('./static/fsrs.js').then(({ reviewed, AGAIN, GOOD }) => {
      const one = reviewed(null, GOOD, 100), two = reviewed(one, GOOD, 103), three = reviewed(two, AGAIN, 114);
      return [one, two, three].map(({ stability: s, difficulty: d, due }) => [s, d, due].map(x => +x.toFixed(2)));
    })"""
    first, second, third = page.run(script)
    assert first == [3.17, 5.28, 103]
    assert second[0] == pytest.approx(10.7, abs=0.4)
    assert second[2] == pytest.approx(103 + second[0], abs=0.5)
    assert (third[0] < second[0], third[1] > second[1], third[2]) == (True, True, 114)


@pytest.mark.parametrize(("coarse", "shown"), [(True, False), (False, True)])
def test_help_for_keys_is_for_those_who_have_some(page: Browser, coarse: bool, shown: bool) -> None:
    """On a phone there are none."""
    page.run("localStorage.clear()")
    page.call("Emulation.setTouchEmulationEnabled", enabled=coarse)
    page.screen(390 if coarse else 1280, 850)
    open_kind(page, "cards")
    page.wait_for("document.querySelector('.card-text')?.innerText")
    page.call("Emulation.setTouchEmulationEnabled", enabled=False)
    if not coarse:
        assert "Press Space" in page.text("#study")
    assert page.run("document.querySelector('.keys') !== null")
    rules = "[...document.styleSheets].flatMap(each => [...each.cssRules]).map(each => each.cssText).join()"
    assert "(pointer: coarse) {\n  .keys { display: none; }" in page.run(rules)


def test_solutions_when_one_asks(page: Browser) -> None:
    """They are not even in the page before."""
    page.wait_for("!document.querySelector('#open-study').hidden")
    page.click("#open-study")
    page.wait_for("document.querySelector('#study[open] nav [data-kind=exercises]')")
    page.click("#study nav [data-kind=exercises]")
    page.wait_for("document.querySelectorAll('.exercise').length === 3")
    assert "whole surface" not in page.run("document.body.textContent")
    assert "There is no solution" not in page.text("#study")
    assert page.run("[...document.querySelectorAll('#study .text > h3')].map(each => each.innerText)") == [
        "Botany",
        "Moss",
    ]
    assert page.run("[...document.querySelectorAll('.exercise h4')].map(each => each.innerText)") == [
        "1",
        "1",
    ]  # the author numbered one
    page.click(".exercise summary")
    page.wait_for("document.querySelector('#study').innerText.includes('Through the whole surface')")
    page.screen(390, 800, dark=True)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    page.keep("exercises")


# -- the teacher's page ----------------------------------------------------------------------------


def history(count: int) -> list[tuple[LoggedExchange, str]]:
    """What two students asked in the last days."""
    source = LoggedSource(1, "x", "notes/botany.md", ("Leaves",), "Botany", cited=True)
    base = LoggedExchange("", 0.0, "Why is a leaf green?", answer="So *it* is.", sources=(source,),
                          first_word=0.8, cost=0.01, model="m")  # fmt: skip
    made = [dataclasses.replace(base, id=f"h{i}", time=time.time() - i * 40_000) for i in range(count)]
    made[1] = dataclasses.replace(
        made[1], reaction=-1, comment="<b>Wrong</b> <script>document.title = 'pwned'</script>"
    )
    made[2] = dataclasses.replace(made[2], question="When is the exam?", outcome="not found", sources=())
    made[3] = dataclasses.replace(made[3], outcome="failed", error="ModelTimeout: nothing came", first_word=None)
    return [(exchange, f"student {i % 2}") for i, exchange in enumerate(made)]


@pytest.mark.parametrize(("width", "dark"), [(1600, False), (320, True)])
def test_the_teachers_page(page: Browser, course: Path, address: str, width: int, dark: bool) -> None:
    """A wrong password, the right one; tables, what students write stays text; days, a section; out again."""
    with LogFile(course / "log.sqlite") as log:
        log.add(history(20))
    page.screen(width, 900, dark=dark)
    page.call("Network.clearBrowserCookies")
    page.open(f"{address}/teacher")
    page.click("#password")
    page.type("wrong")
    page.press("Enter", 13)
    page.wait_for("document.querySelector('#told').innerText")
    page.type("chalk and talk")
    page.press("Enter", 13)
    page.wait_for("document.querySelector('.tiles') && document.readyState === 'complete'")
    page.problems.clear()  # the console tells of the 401
    body = page.text("main")
    for words in ("When is the exam?", "<b>Wrong</b>", "The model took too long.", "Botany > Leaves", "Never found"):
        assert words in body
    assert page.run("document.title") == "Plants: What students ask"
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    page.keep(f"teacher-{width}")
    page.click(".parts li:last-child a")
    page.wait_for("scrollY > 1000")
    assert page.run("document.querySelector('.parts').getBoundingClientRect().top > 60") == (width == 1600)
    assert page.run("Math.max(...[...document.querySelectorAll('table')].map(each => each.rows.length))") == 31
    page.click("td [data-section]")
    page.wait_for("document.querySelector('#section').open")
    assert page.text("#section-title")
    page.press("Escape", 27)
    page.click("[data-kind=latest] summary")
    page.click("[data-kind=latest] [data-exchange=h0]")
    page.wait_for("document.querySelector('#section').open && document.querySelector('[data-wrong]')")
    assert page.text("#section-title") == "Why is a leaf green?"
    assert "So it is." in page.text("#section .text")
    page.click("[data-wrong]")
    page.wait_for("document.querySelector('#section [role=status]').innerText.includes('questions.jsonl')")
    page.keep(f"teacher-exchange-{width}")
    assert page.run("document.querySelector('#section').scrollWidth <= document.querySelector('#section').clientWidth")
    questions = [json.loads(line) for line in (course / "questions.jsonl").read_text().splitlines()]
    assert [row["question"] for row in questions] == ["Why is a leaf green?"]
    exported = "fetch(document.querySelector('a[href*=csv]').href).then(answer => answer.text())"
    assert page.run(exported).count("Why is a leaf green?") >= 10
    page.press("Escape", 27)
    page.click(".range a")
    page.wait_for(
        "document.querySelector('.range [aria-current]')?.innerText === '7 days' && document.readyState === 'complete'"
    )
    page.click("#range button")
    page.wait_for("location.search.includes('from=') && document.readyState === 'complete'")
    page.click("#log-out")
    page.wait_for("document.querySelector('#password')")
    for part in ("exchanges/h0", "export/csv"):
        assert page.run(f"fetch('teacher/{part}').then(answer => answer.status)") == 401
    page.problems.clear()
