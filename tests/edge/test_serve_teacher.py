"""What the teacher changes on his page: users, keys, texts and limits; by HTTP, and in a real browser."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.serving import serving
from edge.test_serve_log import Visitor
from fakes.chromium import PROGRAM, Browser

from lmm_education.web.accounts import Accounts
from lmm_education.web.state import open_state

PASSWORD = "chalk and talk"
LOGINS = "/teacher/logins"


@pytest.fixture
def config(folder: Path) -> Path:
    """A course whose users log in, with a comment in its file."""
    state = open_state(folder, "course")
    Accounts(state).change(lambda logins: logins.with_user("Ada", "Adas Passwort"))
    Accounts(state, "teacher").change(lambda logins: logins.with_password(PASSWORD))
    file = folder / "config.toml"
    file.write_text('[serve]\ntitle = "Plants"  # short\nlogin = "users"\n')
    return file


@pytest.fixture
def address(config: Path) -> Iterator[str]:
    """The course, served."""
    with serving(config) as running:
        yield running


def teacher_at(address: str) -> Visitor:
    """Who has logged in as the teacher."""
    teacher = Visitor(address, opens=False)
    assert teacher.send("/teacher/login", {"password": PASSWORD})[0] == 200
    return teacher


def log_in(address: str, name: str, password: str) -> int:
    """What a student is told who logs in."""
    return Visitor(address, opens=False).send("/login", {"name": name, "password": password})[0]


def test_users(address: str) -> None:
    """Added with a password that counts at once, given another, removed; no hash is told, nobody is overwritten."""
    teacher = teacher_at(address)
    status, made = teacher.send(f"{LOGINS}/users", {"name": " Bob <i> "})
    assert status == 200
    assert "Bob &lt;i&gt;" in made["html"]
    assert log_in(address, "Bob <i>", made["secret"]) == 200
    assert teacher.send(f"{LOGINS}/users", {"name": "Bob <i>"})[0] == 409
    assert teacher.send(f"{LOGINS}/users", {"name": "Eve", "again": True})[0] == 404
    again = teacher.send(f"{LOGINS}/users", {"name": "Bob <i>", "again": True})[1]
    assert log_in(address, "Bob <i>", made["secret"]) == 401
    assert log_in(address, "Bob <i>", again["secret"]) == 200
    page = teacher.send("/teacher")[1]
    assert "Ada" in page
    assert "scrypt" not in page
    assert again["secret"] not in page
    assert "Bob" not in teacher.send(f"{LOGINS}/users/remove", {"name": "Bob <i>"})[1]["html"]
    assert log_in(address, "Bob <i>", again["secret"]) == 401
    for name in ("", "a:b", "x" * 101, "a\nb", "\ud800"):
        assert teacher.send(f"{LOGINS}/users", {"name": name})[0] == 400, name
    assert teacher.send(f"{LOGINS}/password", {"name": "x"})[0] == 404


def test_keys(address: str) -> None:
    """A program asks with one until it is removed."""
    teacher = teacher_at(address)
    key = teacher.send(f"{LOGINS}/keys", {"name": "bot"})[1]["secret"]
    headers = {"Authorization": f"Bearer {key}"}
    program = Visitor(address, opens=False)
    assert program.send("/v1/models", headers=headers)[0] == 200
    assert teacher.send(f"{LOGINS}/keys/remove", {"name": "bot"})[0] == 200
    assert program.send("/v1/models", headers=headers)[0] == 401


@pytest.mark.parametrize("path", [f"{LOGINS}/users", f"{LOGINS}/users/remove", f"{LOGINS}/keys", "/teacher/settings"])
def test_only_the_teacher(address: str, config: Path, path: str) -> None:
    """Not a student who has logged in, no other site's page, and no form."""
    student = Visitor(address, opens=False)
    assert student.send("/login", {"name": "Ada", "password": "Adas Passwort"})[0] == 200
    before, body = config.read_bytes(), {"name": "Ada", "title": "Mine"}
    assert student.send(path, body)[0] == 401
    teacher = teacher_at(address)
    assert teacher.send(path, body, {"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert teacher.send(path, body, {"Content-Type": "text/plain"})[0] == 415
    assert config.read_bytes() == before
    assert log_in(address, "Ada", "Adas Passwort") == 200


def test_texts_and_limits_count_at_once(address: str, config: Path) -> None:
    """All or none is written; what the author changes by hand counts too."""
    teacher = teacher_at(address)
    status, told = teacher.send("/teacher/settings", {"title": "Trees", "daily_tokens": "-1", "daily_cost": "x"})
    assert (status, set(told["errors"])) == (400, {"daily_tokens", "daily_cost"})
    assert "Plants" in Visitor(address).send("/login")[1]
    values = {"title": "Trees", "description": "Of <b> *wood*.", "questions_per_minute": "1", "daily_tokens": "1"}
    assert teacher.send("/teacher/settings", values)[0] == 200
    shown = Visitor(address).send("/login")[1]
    assert "Trees" in shown
    assert "Of &lt;b&gt; <em>wood</em>." in shown
    assert "# short" in config.read_text()
    assert tomllib.loads(config.read_text())["serve"] == {
        **{"title": "Trees", "login": "users", "description": "Of <b> *wood*.", "questions_per_minute": 1},
        "daily_tokens": 1,
    }
    before = config.stat().st_mtime_ns
    assert teacher.send("/teacher/settings", values)[0] == 200
    assert config.stat().st_mtime_ns == before  # nothing had changed
    config.write_text("[serve")
    status, told = teacher.send("/teacher/settings", {"title": "Moss"})
    assert (status, "config.toml" in told["error"]["message"]) == (409, True)


def test_not_a_file_that_may_be_written(address: str, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says so."""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "may not write" in teacher_at(address).send("/teacher")[1]


@pytest.mark.browser
@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
def test_by_keyboard_on_a_small_screen(browser: Browser, address: str) -> None:
    """A user is added, and removed after a second press; a limit that is none is told beside its field."""
    browser.screen(320, 800)
    browser.open(f"{address}/teacher")
    browser.wait_for("document.activeElement?.id === 'password'")
    browser.type(PASSWORD)
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('[data-logins]') && document.readyState === 'complete'")
    browser.problems.clear()
    browser.run("document.querySelector('[data-logins=users] input').focus()")
    browser.type("Bob")
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('[data-logins=users] code')")
    for _ in range(2):  # to the button, to the list
        browser.press("Tab", 9)
    browser.press("Enter", 13)
    for _ in range(4):
        browser.press("Tab", 9)
    assert browser.run("document.activeElement.ariaLabel") == "Remove: Bob"
    browser.press("Enter", 13)
    assert browser.run("document.activeElement.ariaLabel") == "Really? Bob"
    browser.keep("teacher-users")
    browser.press("Enter", 13)
    browser.wait_for("document.querySelectorAll('[data-logins=users] li').length === 1")
    assert browser.run("document.activeElement.name") == "name"
    browser.run("document.querySelector('#settings').parentElement.open = true")
    browser.run("document.querySelector('#set-daily_tokens').select()")
    browser.type("many")
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#not-daily_tokens').textContent")
    assert browser.run("document.activeElement.id") == "set-daily_tokens"
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    browser.keep("teacher-settings")
    browser.problems.clear()  # the console tells of the 400
    browser.run("document.activeElement.select()")
    browser.type("5000")
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#settings [role=status]').textContent.startsWith('Saved')")
    assert browser.problems == []
