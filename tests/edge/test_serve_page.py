"""The page of `lmm serve` in a real browser: what a student does, by mouse, keyboard and on a phone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from edge.conftest import write_config
from edge.serving import LEAVES, TRICKS, serving, type_question
from fakes.chromium import PROGRAM, Browser
from fakes.openai_server import Action, ScriptedServer, fail

import lmm_education

pytestmark = [pytest.mark.browser, pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")]
ANSWER = """Because of *chlorophyll* [1].

H<sub>2</sub>O<br>**「葉」**は [緑](https://example.org/), $\\ce{H2O}$.

$$
\\begin{aligned} a &= \\frac{1}{2} \\end{aligned}
$$

| a | b |
|---|--:|
| 1 | 2 |

```r
x <- lm(y ~ x)  # a comment
```
"""


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    """The model behind the page."""
    with ScriptedServer() as running:
        yield running


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, model: ScriptedServer) -> Iterator[str]:
    """A course, served; one of its documents is full of tricks."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "notes").mkdir()
    (folder / "notes/botany.md").write_text(LEAVES)
    (folder / "notes/tricks.md").write_text(TRICKS)
    write_config(folder, model)
    with (folder / "config.toml").open("a") as config:
        config.write('[answer]\nhistory = "none"\n[serve]\ntitle = "Plants & <b>more</b>"\nwelcome = "Ask *me*."\n')
        config.write("questions_per_minute = 0\ncached_answers = 0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        lmm_education.ingest("notes")
        with serving(folder / "config.toml") as running:
            yield running


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Browser]:
    """The page, opened anew; at its end, nothing was refused, and no other host was asked for anything."""
    browser.requests.clear()
    browser.problems.clear()
    browser.screen(1280, 900)
    browser.open(f"{address}/")
    browser.wait_for("document.querySelectorAll('.chip').length")
    yield browser
    browser.run("sessionStorage.clear()")  # the conversation, which survives a reload
    assert [url for url in browser.requests if not url.startswith(f"{address}/")] == []
    assert browser.problems == []


def test_an_answer_streams_with_formula_and_sources(page: Browser, model: ScriptedServer) -> None:
    """The text as it arrives, in blocks; in the end formula, table, coloured code, and sources beside it."""
    go_on = threading.Event()
    model.queue(Action(pieces=("Because of *chlorophyll* [1].\n\nAnd then", ANSWER[29:]), hold=go_on, hold_after=1))
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('.done em')")
    page.wait_for("document.querySelector('.tail').textContent.startsWith('And then')")
    assert page.text("#ask") == "Stop"
    go_on.set()
    page.wait_for("document.querySelector('aside li')")
    assert page.run("document.querySelectorAll('.answer math mtr').length") == 1
    assert page.run("getComputedStyle(document.querySelector('td.align-right')).textAlign") == "right"
    assert page.run("document.querySelectorAll('pre .c1').length") == 1
    models_write = page.run("document.querySelector('.answer p:nth-of-type(3)').innerHTML")
    assert "H<sub>2</sub>O<br>" in models_write
    assert "<strong>「葉」</strong>は" in models_write
    assert '<a href="https://example.org/"' in models_write
    assert "\\ce{H2O}</code>" in models_write
    assert "Botany › Leaves" in page.text("aside")
    assert page.run("document.querySelector('aside').offsetLeft > document.querySelector('.answer').offsetWidth")
    assert page.text("#ask") == "Ask"
    assert page.text("#status") == "The answer is ready."
    page.keep("answer")


def test_words_of_buttons_stand_in_one_line(page: Browser, address: str) -> None:
    """In the longer language too, with study material and a login."""
    page.run("document.cookie = 'lmm_language=de'")
    page.open(f"{address}/")
    page.wait_for("document.querySelector('#new-chat').textContent === 'Neues Gespräch'")
    page.run("document.querySelector('#open-study').hidden = false")
    page.run("document.querySelector('#actions').insertAdjacentHTML('beforeend', '<button>Abmelden</button>')")
    lines = """[...document.querySelectorAll('#actions button:not([hidden])')].map((button) => {
      const range = document.createRange();
      range.selectNodeContents(button);
      return new Set([...range.getClientRects()].map((box) => box.top)).size;
    }).join()"""
    assert page.run(lines) == "1,1,1,1,1,1"
    page.run("document.cookie = 'lmm_language=; max-age=0'")


def test_a_plan_has_the_times_of_the_command(page: Browser, address: str) -> None:
    """Of each document and of its sections."""
    with urlopen(f"{address}/material/plan") as response:
        plan = json.load(response)
    page.run("document.querySelector('#open-study').click()")
    page.wait_for("document.querySelector('#study h3')")
    shown = page.run(
        "[...document.querySelectorAll('#study h3 .place')].map((place) => place.textContent.split(',')[0])"
    )
    assert shown == plan["times"]
    page.run("document.querySelector('#study').close()")


def test_a_plan_fits_on_a_phone(page: Browser) -> None:
    """With long names and formulas: nothing is wider than the screen, and a tick is beside its title."""
    page.screen(390, 850)
    page.run("document.querySelector('#open-study').click()")
    page.wait_for("document.querySelector('#study input + *')")
    long = f"<math><mi>{'x' * 90}</mi></math> {'a_name_' * 12}"
    page.run(f"document.querySelectorAll('#study input + *').forEach((title) => title.innerHTML = '{long}')")
    assert page.run("(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('#study'))")
    beside = "(tick) => Math.abs(tick.getBoundingClientRect().top - tick.nextSibling.getBoundingClientRect().top) < 9"
    assert page.run(f"[...document.querySelectorAll('#study input')].every({beside})")
    page.run("document.querySelector('#study').close()")


def test_what_the_sources_do_not_say_is_marked(page: Browser, model: ScriptedServer) -> None:
    """A quotation with its block, a cited sentence with the answer; the source opens where its words stand."""
    go_on = threading.Event()
    pieces = (
        "It says “green in all winters”, and that “root hairs enlarge their surface” [2].\n\nIn",
        " 1807 [2]. End.",
    )
    model.queue(Action(pieces=pieces, hold=go_on, hold_after=1))
    type_question(page, "What do roots take up?")
    page.wait_for("document.querySelector('.done .unverified')")
    assert page.text(".done").startswith("It says “green in all winters” not found in the sources")
    assert page.text(".tail") == "In"
    go_on.set()
    page.wait_for("document.querySelector('aside li')")
    marks = "[...document.querySelectorAll('.done .unverified')].map((mark) => mark.textContent).join('; ')"
    assert page.run(marks) == "not found in the sources; not in its source: 1807"
    assert page.run("getComputedStyle(document.querySelector('.unverified')).borderStyle") == "dashed"
    page.click("aside li button")
    page.wait_for("document.querySelector('#section .passage')")
    assert "enlarge their surface" in page.text("#section .passage")
    page.keep("unverified")


def test_who_waits_reads_how_many_are_before_him(
    browser: Browser, model: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the model bears one call at once; then his answer comes."""
    (tmp_path / "botany.md").write_text(LEAVES)
    config = write_config(tmp_path, model, concurrency=1)
    monkeypatch.chdir(tmp_path)
    lmm_education.ingest("botany.md")
    go_on, asked = threading.Event(), len(model.requests)
    model.queue(Action(pieces=("Because of ", "chlorophyll [1]."), hold=go_on, hold_after=1), "They take up water [1].")
    with serving(config) as address:
        body = b'{"question": "Why is a leaf green?"}'
        other = Request(f"{address}/chat", body, {"Content-Type": "application/json"})
        with urlopen(other, timeout=60) as answer:
            while len(model.requests) == asked:
                answer.readline()
            browser.open(f"{address}/")
            browser.wait_for("document.querySelectorAll('.chip').length")
            type_question(browser, "What do roots do?")
            browser.wait_for("document.querySelector('article').innerText.includes('Questions before yours: 1.')")
            go_on.set()
            browser.wait_for("document.querySelector('.answer').innerText.startsWith('They take up water')")
        browser.run("sessionStorage.clear(); localStorage.clear()")


def test_a_source_opens_at_its_passage(page: Browser, model: ScriptedServer) -> None:
    """From the list, and from the number in the text; Escape closes it."""
    model.queue("Because of chlorophyll [1].")
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('aside li')")
    for selector in ("aside button", "a.cite"):
        page.click(selector)
        page.wait_for("document.querySelector('#section').open")
        assert page.text("#section-title") == "Botany › Leaves"
        assert "chlorophyll absorbs" in page.text("#section .passage")
        assert page.run("document.querySelectorAll('#section math').length") == 1
        page.keep("section")
        page.press("Escape", 27)
        page.wait_for("!document.querySelector('#section').open")


def test_a_source_leads_on(page: Browser, model: ScriptedServer) -> None:
    """To the section after it and back, and to its whole chapter, where it stands; by keyboard too."""
    model.queue("Because of chlorophyll [1].")
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('aside li')")
    page.click("aside button")
    for name, titles in (
        ("Roots ›", "Botany › Roots"),
        ("‹ Leaves", "Botany › Leaves"),
        ("The whole chapter", "Botany"),
    ):
        page.wait_for(f"document.querySelector('#section .choices')?.innerText.includes('{name}')")
        page.run(
            f"[...document.querySelectorAll('#section .choices button')].find(e => e.innerText === '{name}').focus()"
        )
        page.press("Enter", 13)
        page.wait_for(f"document.querySelector('#section-title').innerText === '{titles}'")
        page.wait_for("document.activeElement.matches('#section .close')")
    assert page.run("[...document.querySelectorAll('#section h3')].map(e => e.innerText)") == ["Leaves", "Roots"]
    assert page.text("#section .here") == "Leaves"
    assert "Root hairs" in page.text("#section .text")
    page.keep("chapter")


def test_the_contents_open_sections(page: Browser) -> None:
    """Chapters and their headings, each title once."""
    page.click("#open-contents")
    page.wait_for("document.querySelectorAll('nav li').length >= 3")
    assert page.text("nav .chapter").split() == ["Botany", "2", "sections", "Leaves", "Roots"]
    page.keep("contents")
    page.run("[...document.querySelectorAll('nav button')].find(e => e.innerText === 'Roots').click()")
    page.wait_for("document.querySelector('#section').open")
    assert "Root hairs" in page.text("#section")


def test_the_first_glance(page: Browser, model: ScriptedServer) -> None:
    """What it is, what one could ask, and chapters; a suggestion is asked when it is pressed."""
    assert "sections of this course" in page.text(".about")
    assert page.text(".chapters li") == "Botany"
    question = page.text(".starter")
    assert question == "What are the key ideas of “Botany”?"
    page.keep("first-glance")
    before = page.run("document.querySelector('.welcome').getBoundingClientRect().left")
    model.queue("Leaves [1].")
    page.click(".starter")
    page.wait_for("document.querySelector('aside li')")
    assert question in page.text(".asked")
    assert ".md" not in page.text("aside")
    left = "document.querySelector({!r}).getBoundingClientRect().left"
    assert len({page.run(left.format(each)) for each in ("h1", ".answer", ".box")} | {before}) == 1


def test_the_input_grows_with_its_text(page: Browser) -> None:
    """One row, more while one types more, one again when it was sent."""
    height = "document.querySelector('#question').offsetHeight"
    row = page.run(height)
    page.type("a\nb\nc")
    assert row < 45 < page.run(height)


def test_chips_ask_for_a_type_of_material(page: Browser, model: ScriptedServer) -> None:
    """As the author marked it; pressed again, for all."""
    assert page.text("#chips") == "exercise"
    page.click(".chip")
    assert page.run("document.querySelector('#question').value").strip() == "*exercise*"
    assert page.run("document.querySelector('.chip').ariaPressed") == "true"
    page.click(".chip")
    assert page.run("document.querySelector('#question').value") == ""
    model.queue("Do this [1].")
    page.click(".chip")
    type_question(page, "chlorophyll")
    page.wait_for("document.querySelector('aside li')")
    assert "exercise" in page.text("aside .place")


def test_a_new_chat_forgets(page: Browser, model: ScriptedServer) -> None:
    """The conversation goes, and with it what was said."""
    model.queue("Because of chlorophyll [1].", "Because [1].")
    page.run(
        "(send => { window.sent = []; window.fetch = (to, what) => {"
        " if (to === 'chat') sent.push(JSON.parse(what.body)); return send(to, what); } })(fetch)"
    )
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('aside li')")
    page.click("#new-chat")
    page.wait_for("!document.querySelector('article')")
    assert page.run("document.activeElement.id") == "question"
    assert page.run("!document.querySelector('#intro').hidden")
    type_question(page, "And why?")
    page.wait_for("document.querySelector('aside li')")
    assert page.run("sent.map(body => body.history.length)") == [0, 0]


def test_a_model_that_is_down(page: Browser, model: ScriptedServer) -> None:
    """A polite sentence, and the next question is answered."""
    model.queue(fail(500, "secret"), "Because of chlorophyll [1].")
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('.failure')")
    assert "try again" in page.text(".failure")
    assert "secret" not in page.text("body")
    page.press("Enter", 13)  # the question stands in the box again
    page.wait_for("document.querySelector('aside li')")


def test_a_question_without_an_answer_comes_back(page: Browser, model: ScriptedServer) -> None:
    """When the stream is cut; what was typed meanwhile stays."""
    page.run(
        "(() => { window.fetch = async () => new Response(new ReadableStream({"
        " start(stream) { window.cut = () => stream.close(); } })); })()"
    )
    for typed, left in (("", "Why is a leaf green?"), ("And roots?", "And roots?")):
        page.run("document.querySelector('#question').value = ''")
        type_question(page, "Why is a leaf green?")
        page.wait_for("document.querySelector('#ask').innerText === 'Stop'")
        page.type(typed)
        page.run("cut()")
        page.wait_for("document.querySelector('article:last-child .failure')")
        assert page.run("document.querySelector('#question').value") == left


def test_an_answer_that_breaks_off_is_none(page: Browser, model: ScriptedServer, address: str) -> None:
    """Below its text stands that it breaks off, also after a reload, and the way to another answer."""
    model.queue(Action("Because of *chlorophyll* [1].\n\nAnd then it goes on", error="secret"))
    type_question(page, "Why is a leaf green?")
    for _ in range(2):
        page.wait_for("document.querySelector('.done .failure')")
        assert page.text(".done > :last-child").startswith("The answer broke off here. The course cannot answer")
        assert page.text(".done > :nth-last-child(2)") == "And then it goes on"
        assert page.text(".note").strip() == ""
        page.open(f"{address}/")
    page.wait_for("document.querySelector('.done .failure')")
    page.keep("broken")
    model.queue("Green [1].")
    page.click(".done .failure button")
    page.wait_for("document.querySelector('.versions')")
    assert page.text(".done") == "Green 1."


def test_a_model_that_takes_its_time(page: Browser, model: ScriptedServer) -> None:
    """After ten seconds without a piece, before the first or later, the page says that one is waited for."""
    page.run("(() => { const real = setTimeout; window.setTimeout = (does, ms) => real(does, ms / 20); })()")
    second = threading.Event()
    model.queue(Action(pieces=("Because", " of chlorophyll [1]."), hold=second, hold_after=1, delay=2))
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('.note').textContent.startsWith('Still waiting for the model')")
    page.wait_for("document.querySelector('.tail').textContent === 'Because'")
    page.wait_for("document.querySelector('.note').textContent.startsWith('Still waiting for the model')")
    assert page.text("#status") == "Still waiting for the model …"
    second.set()
    page.wait_for("document.querySelector('aside li')")
    assert page.text(".note").strip() == ""


def test_a_reload_stops_an_answer(page: Browser, model: ScriptedServer) -> None:
    """What has arrived stays, as if it had been stopped: the server can be reached."""
    model.queue(Action(pieces=("Because of chlorophyll", " [1]."), hold=threading.Event(), hold_after=1))
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('.tail')?.textContent.includes('chlorophyll')")
    page.run("window.before = true")
    page.call("Page.reload")
    page.wait_for("!window.before && document.querySelector('.tools button')")
    assert page.text("article > .note") == "Stopped."
    assert page.text(".answer") == "Because of chlorophyll"


def test_what_came_before_an_answer_was_stopped_stays(page: Browser, model: ScriptedServer, address: str) -> None:
    """With its sources, over a reload, and the next answer knows it; a question without a word of answer comes back."""
    said = ("Because of *chlorophyll* [1].\n\n", "And <b>then")
    model.queue(Action(pieces=(*said, "nothing"), hold=threading.Event(), hold_after=2))
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('.tail')?.textContent.includes('then')")
    page.click("#ask")
    for _ in range(2):
        page.wait_for("document.querySelector('.tools button')")
        assert page.text("article .note") == "Stopped."
        assert page.text(".answer").split("\n\n") == ["Because of chlorophyll 1.", "And <b>then"]
        assert page.text("aside .number") == "1"
        page.open(f"{address}/")
    model.queue("Green [1].")
    type_question(page, "And why is that?")
    page.wait_for("document.querySelectorAll('.tools button').length > 3")
    page.wait_for("document.querySelector('article:last-child .tools button')")
    assert "Answer: Because of *chlorophyll*.\n\nAnd <b>then" in model.requests[-1].last
    model.queue(Action(pieces=("x",), hold=threading.Event(), hold_after=0))
    type_question(page, "And roots?")
    page.wait_for("document.querySelector('#ask').innerText === 'Stop'")
    page.click("#ask")
    page.wait_for("document.querySelector('.withdrawn')")
    assert page.run("document.querySelector('#question').value") == "And roots?"


def test_tricks_in_documents_and_answers_stay_text(page: Browser, model: ScriptedServer) -> None:
    """In the answer, its sources, the section and the contents."""
    model.queue(f"{TRICKS.rpartition('---')[2]}\n\nTrickery [3].")
    type_question(page, "What is trickery?")
    page.wait_for("document.querySelector('aside li')")
    page.click("aside button")
    page.wait_for("document.querySelector('#section').open")
    assert "Trickery: picture link" in page.text("#section .text")
    assert "pwned'</script>" not in page.text("#section .text")  # as a reader of the book would see it
    assert "<script>document.title = 'pwned'</script>" in page.text("#conversation")
    page.press("Escape", 27)
    page.click("#open-contents")
    page.wait_for("document.querySelectorAll('nav details').length >= 2")
    assert "<img\xa0src=x" in page.text("nav")  # in a formula it is text; outside of one, a tag that no reader sees
    assert page.run("document.querySelectorAll('nav img').length") == 0
    assert page.run("document.title") == "Plants & <b>more</b>"
    assert page.run("document.querySelectorAll('body script, body style, img, svg, iframe').length") == 0
    assert (
        page.run("[...document.querySelectorAll('a[href]')].filter(a => a.href.startsWith('javascript')).length") == 0
    )
    page.press("Escape", 27)
    page.keep("tricks")


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone(page: Browser, model: ScriptedServer, dark: bool) -> None:
    """Nothing is wider than the screen, sources are below the answer, by day and by night; the header is one row, with
    what else there is behind one button."""
    page.screen(390, 800, dark=dark)
    assert page.run("document.querySelector('header').offsetHeight") < 60
    page.click("#menu")
    page.keep(f"phone-menu-{'dark' if dark else 'light'}")
    page.click("#open-chats")
    page.press("Escape", 27)
    page.click("#menu")
    page.click("#new-chat")
    assert page.run("getComputedStyle(document.querySelector('#actions')).display") == "none"
    model.queue(ANSWER + "\n$$\n" + "a + " * 60 + "b\n$$\n")
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('aside li')")
    page.keep(f"phone-{'dark' if dark else 'light'}")
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    place = "document.querySelector({!r}).getBoundingClientRect().{}"
    assert page.run(place.format("aside", "top") + " >= " + place.format(".answer", "bottom"))
    colour = page.run("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")
    page.click("aside button")
    page.wait_for("document.querySelector('#section').open")
    page.keep(f"phone-section-{'dark' if dark else 'light'}")


def test_the_passage_begins_below_the_heading(page: Browser, model: ScriptedServer) -> None:
    """Also where the heading takes several lines of a small screen."""
    page.screen(390, 800)
    model.queue("Because of chlorophyll [1].")
    type_question(page, "Why is a leaf green?")
    page.wait_for("document.querySelector('aside li')")
    page.run(
        "(send => { window.fetch = async (...to) => { const found = await (await send(...to)).json();"
        " found.title = 'A long heading '.repeat(8); found.html = '<p>before</p>'.repeat(30) + found.html"
        " + '<p>after</p>'.repeat(30); return Response.json(found); } })(fetch)"
    )
    page.click("aside button")
    page.wait_for("document.querySelector('#section').open && document.querySelector('#section').scrollTop")
    top = page.run("document.querySelector('#section .passage').getBoundingClientRect().top")
    bar = page.run("document.querySelector('#section .bar').getBoundingClientRect().bottom")
    assert bar > 100
    assert bar <= top <= bar + 20
    page.keep("phone-passage")


def test_without_javascript(page: Browser, address: str) -> None:
    """The page says that it needs it."""
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(f"{address}/")
        page.wait_for("document.querySelector('noscript p')?.innerText.includes('JavaScript')")
        page.keep("no-script")
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)


def test_by_keyboard_alone(page: Browser, model: ScriptedServer) -> None:
    """From the question to an open source and back; everything that takes the focus has a name."""
    model.queue("Because of chlorophyll [1].")
    page.type("Why is a leaf green?")  # the question has the focus when the page opens
    page.press("Enter", 13)
    page.wait_for("document.querySelector('aside li')")
    page.run("document.querySelector('#new-chat').focus()")
    for _ in range(4):  # settings, the question, the number in the answer, then the source
        page.press("Tab", 9)
    assert page.run("document.activeElement.closest('aside') !== null")
    page.press("Enter", 13)
    page.wait_for("document.querySelector('#section').open")
    page.press("Escape", 27)
    page.wait_for("document.activeElement.closest('aside') !== null")
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    nameless = [
        node["role"]["value"] for node in tree
        if not node["ignored"] and node["role"]["value"] in ("button", "textbox", "link", "dialog", "complementary")
        and not node.get("name", {}).get("value")
    ]  # fmt: skip
    assert nameless == []
