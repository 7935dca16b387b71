"""Logging in and agreeing in a real browser, by keyboard, in both languages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.serving import LEAVES, serving
from fakes.chromium import PROGRAM, Browser
from fakes.openai_server import ScriptedServer

import lmm_education
from lmm_education.web.login import Accounts
from lmm_education.web.state import open_state

pytestmark = [pytest.mark.browser, pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")]
SERVE = """
[answer]
history = "none"
[serve]
title = "Pflanzen"
description = "Fragen zur *Vorlesung*."
language = "de"
login = "users"
consent = "Fragen gehen an **ExampleAI**."
"""


@pytest.fixture
def page(
    folder: Path, server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Browser, str]]:
    """A browser, and a course with a user."""
    (folder / "notes").mkdir()
    (folder / "notes/botany.md").write_text(LEAVES)
    write_config(folder, server)
    with (folder / "config.toml").open("a") as config:
        config.write(SERVE)
    lmm_education.ingest("notes")
    Accounts(open_state(folder, "course")).change(lambda logins: logins.with_user("Ada", "Adas Passwort"))
    with ExitStack() as closing:
        address = closing.enter_context(serving(folder / "config.toml"))
        browser = closing.enter_context(Browser(tmp_path_factory.mktemp("profile")))
        browser.screen(390, 800)
        browser.open(f"{address}/")
        yield browser, address


def focused(page: Browser) -> str:
    """The id of what has the focus."""
    return str(page.run("document.activeElement.id"))


def test_from_the_login_to_an_answer_and_out(page: tuple[Browser, str], server: ScriptedServer) -> None:
    """By keyboard: a wrong password is told, the right one leads to the page; consent is asked for once."""
    browser, address = page
    browser.wait_for("location.pathname === '/login' && document.activeElement?.id === 'name'")
    browser.keep("login")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    browser.type("Ada")
    browser.press("Tab", 9)
    assert focused(browser) == "password"
    browser.type("Bobs Passwort")
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#told').textContent")
    assert browser.text("#told") == "Das stimmt nicht. Bitte versuchen Sie es noch einmal."
    assert focused(browser) == "password"
    browser.type("Adas Passwort")  # what was wrong is selected
    browser.press("Enter", 13)
    browser.wait_for("location.pathname === '/' && document.querySelector('.chip')")
    server.queue("Because of chlorophyll [1].")
    browser.click("#question")
    browser.type("Why is a leaf green?")
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#consent').open")
    browser.keep("consent")
    assert browser.text("#consent strong") == "ExampleAI"
    browser.press("Escape", 27)  # not now: the question stays
    browser.wait_for("!document.querySelector('#consent').open")
    assert browser.run("document.querySelector('#question').value") == "Why is a leaf green?"
    assert not server.requests
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#consent').open")
    browser.press("Enter", 13)  # the first button has the focus
    browser.wait_for("document.querySelector('aside li')")
    browser.keep("logged-in")
    assert len(server.requests) == 1
    browser.open(f"{address}/")
    assert browser.run("document.body.dataset.consent") == ""
    browser.click("#menu")
    browser.click("#log-out")
    browser.wait_for("location.pathname === '/login' && document.activeElement?.id === 'name'")
    browser.open(f"{address}/")
    browser.wait_for("location.pathname === '/login'")
    assert [url for url in browser.requests if not url.startswith(f"{address}/")] == []
    assert [problem for problem in browser.problems if "401" not in problem] == []


def test_a_session_that_ended_leads_to_the_login(page: tuple[Browser, str], server: ScriptedServer) -> None:
    """The question is not lost."""
    browser, _ = page
    browser.wait_for("document.activeElement?.id === 'name'")
    login = "fetch('login', {method: 'POST', headers: {'Content-Type': 'application/json'}, "
    browser.run(login + "body: JSON.stringify({name: 'Ada', password: 'Adas Passwort'})})")
    browser.open(browser.run("location.origin") + "/")
    browser.run("document.body.dataset.consent = ''")
    Accounts(open_state(Path.cwd(), "course")).change(lambda logins: logins.with_user("Ada", "another one"))
    browser.click("#question")
    browser.type("Why is a leaf green?")
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('.note a')")
    assert browser.text(".note") == "Bitte melden Sie sich an. Anmelden"
    assert browser.run("document.querySelector('#question').value") == "Why is a leaf green?"
    browser.click(".note a")
    browser.wait_for("location.pathname === '/login'")
