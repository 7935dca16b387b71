"""What the teacher changes on the page: documents; by HTTP, and in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.serving import serving
from edge.test_serve_log import Visitor
from fakes.chromium import PROGRAM, Browser

from lmm_education.web import teacher as teacher_page
from lmm_education.web.login import Accounts
from lmm_education.web.state import open_state

PASSWORD = "chalk and talk"


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


def test_only_the_teacher(address: str, config: Path) -> None:
    """Not a student who has logged in, no other site's page, and no form."""
    student = Visitor(address, opens=False)
    assert student.send("/login", {"name": "Ada", "password": "Adas Passwort"})[0] == 200
    teacher = teacher_at(address)
    bodies: dict[str, object] = {"/teacher/documents?name=a.md": b"A", "/teacher/ingest": {}}
    for path, body in bodies.items():
        assert student.send(path, body)[0] == 401
        assert teacher.send(path, body, {"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert teacher.send(path, body, {"Content-Type": "text/plain"})[0] == 415
    assert not (config.parent / "a.md").exists()


NAMES = [
    "", "x.bin", "../x.md", "../x.pdf",
    "out/x.pdf", "/tmp/x.md", "a//x.md", ".lmm/x.md", ".git/x.md", "a\\x.md", "C:x.md", "a/../x.md",
    "x\n.md", "out/x.md", "config.toml", f"{'x' * 200}.md",
]  # fmt: skip


def test_documents(address: str, config: Path) -> None:
    """One is taken and read in, nothing is overwritten unasked, and what changed is told and read in; only below the
    course's folder, and no solution reaches a student because the teacher's course has it."""
    root = config.parent
    teacher = teacher_at(address)
    (root / "draft.md").write_text("# Draft\n\nNot for students.\n")
    leaf = "# Leaves\n\nGreen.\n\n---\ntype: solution\n---\nSecret.\n"
    assert teacher.upload("notes/leaf.md", leaf)[0] == 200
    assert teacher.upload("notes/leaf.md", "other")[0] == 409
    assert (root / "notes/leaf.md").read_text() == leaf
    told = teacher.send("/teacher/ingest", {"files": ["notes/leaf.md"]})[1]
    assert "<td>new" in told["html"]
    assert "<td>unchanged" in teacher.send("/teacher/ingest", {"look": True})[1]["html"]
    assert teacher.upload("notes/leaf.md", f"{leaf}More.\n", replace=True)[0] == 200
    for _ in range(2):  # to look changes nothing
        assert "<td>changed" in teacher.send("/teacher/ingest", {"look": True})[1]["html"]
    told = teacher.send("/teacher/ingest", {})[1]
    assert "<td>changed" in told["html"]
    assert "draft" not in told["html"]
    student = Visitor(address, opens=False)
    assert student.send("/login", {"name": "Ada", "password": "Adas Passwort"})[0] == 200
    found = json.dumps(student.send("/search", {"query": "green secret", "limit": 9})[1])
    assert "Green." in found
    assert "Secret" not in found
    (root / "notes/leaf.md").unlink()
    assert "the file is gone" in teacher.send("/teacher/ingest", {"look": True})[1]["html"]


def test_only_documents_below_the_folder(
    address: str, config: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the name is; to students, nothing at all."""
    outside = tmp_path_factory.mktemp("outside")
    (config.parent / "out").symlink_to(outside)
    teacher, before = teacher_at(address), sorted(config.parent.rglob("*.md"))
    for name in NAMES:
        assert teacher.upload(name, "x", replace=True)[0] in (400, 409), name
    assert teacher.upload("x.md", b"M\xfc")[0] == 400
    monkeypatch.setattr(teacher_page, "_LARGEST", 1000)
    assert teacher.upload("x.md", "x" * 2000)[0] == 413
    assert teacher.send("/teacher/ingest", {"files": ["../x.md"]})[0] == 400
    with teacher_page._running:
        assert teacher.send("/teacher/ingest", {})[0] == 409
    student = Visitor(address, opens=False)
    assert student.upload("x.md", "x")[0] == 401
    assert student.send("/teacher/ingest", {})[0] == 401
    assert sorted(config.parent.rglob("*.md")) == before
    assert not any(outside.iterdir())


IMPORTED = Path(__file__).parent.parent / "fixtures/import"


def test_other_formats_are_converted(address: str, config: Path) -> None:
    """As lmm import does it: what was lost is said, and the markdown can be read before it counts."""
    teacher, root = teacher_at(address), config.parent
    status, told = teacher.upload("notes/leaves.pdf", (IMPORTED / "leaves.pdf").read_bytes())
    assert (status, told["file"]) == (200, "notes/leaves.md")
    assert (root / "notes/leaves.md").is_file()
    assert 'data-read="notes/leaves.md"' in told["html"]
    assert not list(root.rglob("*.pdf"))
    assert teacher.upload("notes/leaves.pdf", b"x")[0] == 409
    status, told = teacher.upload("marks.xlsx", (IMPORTED / "marks.xlsx").read_bytes())
    assert "|" in told["html"]
    status, told = teacher.upload("notes/encrypted.pdf", (IMPORTED / "encrypted.pdf").read_bytes())
    assert "encrypted" in told["error"]["message"]
    assert not (root / "notes/encrypted.md").exists()
    page = "<h1>Moss</h1><p>It has <script>alert(1)</script> rhizoids.</p><form><input></form>"
    status, told = teacher.upload("moss.html", page)
    assert "# Moss" in (root / "moss.md").read_text()
    assert "<script>" not in told["html"]


def test_a_file_beside_the_documents_is_in_the_next_ingest(address: str, config: Path) -> None:
    """However it came there; what is elsewhere in the folder is not the course's."""
    teacher, root = teacher_at(address), config.parent
    assert teacher.upload("notes/leaf.md", "# Leaves\n\nGreen.\n")[0] == 200
    assert "<td>new" in teacher.send("/teacher/ingest", {"files": ["notes/leaf.md"]})[1]["html"]
    (root / "notes/root.md").write_text("# Roots\n\nWhite.\n")
    (root / "draft.md").write_text("# Draft\n\nNot for students.\n")
    looked = teacher.send("/teacher/ingest", {"look": True})[1]["html"]
    assert "notes/root.md" in looked
    assert "<td>new" in looked
    told = teacher.send("/teacher/ingest", {})[1]["html"]
    assert "notes/root.md" in told
    assert "draft.md" not in told
    assert "<td>unchanged" in teacher.send("/teacher/ingest", {"look": True})[1]["html"]


@pytest.mark.browser
@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
def test_by_keyboard_on_a_small_screen(browser: Browser, address: str, config: Path) -> None:
    """A document is uploaded and read in."""
    browser.screen(320, 800)
    browser.open(f"{address}/teacher")
    browser.wait_for("document.activeElement?.id === 'password'")
    browser.type(PASSWORD)
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#documents') && document.readyState === 'complete'")
    browser.problems.clear()
    browser.run("document.querySelector('#documents details').open = true")
    browser.run(
        "const files = new DataTransfer(); files.items.add(new File(['# Moss\\n\\nGreen.\\n'], 'moss.md'));"
        "const chosen = document.querySelector('#documents [type=file]'); chosen.files = files.files;"
        "chosen.dispatchEvent(new Event('change')); document.querySelector('#documents [name=name]').focus()"
    )
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#documents td')?.textContent === 'moss.md'")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(
        "[...document.querySelectorAll('#documents td, #documents input')].every("
        "each => each.getBoundingClientRect().right <= innerWidth && each.offsetParent)"
    )
    assert browser.run(
        "document.querySelector('#documents .check').innerText.trim() === 'Replace the file that is there'"
    )
    browser.run("document.querySelector('#documents').scrollIntoView()")
    browser.keep("teacher-documents")
    assert browser.problems == []
    choose = (
        "(() => {{ const files = new DataTransfer(); files.items.add(new File([{content}], '{name}'));"
        "const chosen = document.querySelector('#documents [type=file]'); chosen.files = files.files;"
        "chosen.dispatchEvent(new Event('change'));"
        "document.querySelector('#documents [name=replace]').checked = {replace};"
        "document.querySelector('#documents [name=name]').focus() }})()"
    )
    browser.run("document.querySelector('#documents [role=status]').textContent = ''")
    browser.run(choose.format(content="new Uint8Array([35, 32, 77, 252])", name="moss.md", replace="true"))  # Latin-1
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#documents [role=status]').textContent.includes('markdown in UTF-8')")
    browser.run(choose.format(content="'<h1>Ferns</h1><p>They have fronds.</p>'", name="ferns.html", replace="false"))
    browser.press("Enter", 13)
    browser.wait_for("document.querySelector('#documents pre')?.textContent.includes('# Ferns')")
    for width, dark in ((390, True), (1280, False)):
        browser.screen(width, 900, dark=dark)
        browser.run("document.querySelector('#documents').scrollIntoView()")
        browser.keep(f"teacher-upload-{width}")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    browser.click("[data-read]")
    browser.wait_for("document.querySelector('#documents td')?.textContent === 'ferns.md'")
    browser.problems.clear()  # the console tells of the 400
    assert (config.parent / "moss.md").read_text() == "# Moss\n\nGreen.\n"
