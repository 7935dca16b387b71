"""The extension in `editors/vscode`, packaged, in a real editor: code-server's, which `make code-server` installs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from edge.conftest import write_config
from edge.support import exchanges, wait_until
from fakes.chromium import PROGRAM, Browser
from fakes.openai_server import Action, ScriptedServer

from chatmd import Chat

EDITOR = Path(os.environ.get("CODE_SERVER", Path.home() / ".cache/lmm-code-server")) / "node_modules/code-server"
MAIN = EDITOR / "lib/vscode/out/server-main.js"
EXTENSION = Path(__file__).parent.parent.parent / "editors/vscode/lmmarkdown.vsix"
NODE = shutil.which("node")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(NODE is None or not MAIN.exists(), reason="code-server is missing: make code-server"),
    pytest.mark.skipif(not EXTENSION.exists(), reason="the extension is not packaged: make code-server"),
]
LISTENING = r"listening on (\d+)"
FILES = {
    "notes.md": "# Leaves\n\n---\n?: is this clear?\n---\n\nA leaf is green.\n",
    "edit.md": "# Leaves\n\n---\n=: shorter\n---\nA leaf is green as grass.\n",
    "slip.md": "# Leaves\n\n---\nQuery: why?\n---\n\nA leaf is green.\n",
    "talk.chatmd": "<system>Name plants.</system>\n<user>A tree?</user>\n",
}
SETTINGS = {
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "extensions.autoCheckUpdates": False,
    "extensions.ignoreRecommendations": True,
    "editor.minimap.enabled": False,
    "editor.autoClosingBrackets": "never",
    "files.autoSave": "off",
}


class Window:
    """A window of the editor, seen and used as by who sits before it."""

    def __init__(self, browser: Browser, address: str, folder: Path) -> None:
        self.browser, self.address, self.folder = browser, address, folder

    def load(self, name: str) -> None:
        """Load the window with a file."""
        first = [["openFile", f"vscode-remote://{self.address.removeprefix('http://')}{self.folder}/{name}"]]
        query = f"folder={self.folder}&payload={quote(json.dumps(first))}"
        self.browser.call("Page.navigate", url=f"{self.address}/?{query}")
        wait_until(lambda: self.text)

    def open(self, name: str) -> str:
        """Open a file of the folder; its text."""
        self.press(name, ".explorer-folders-view .label-name")
        text = (self.folder / name).read_text()
        self.wait_for(text.strip().splitlines()[-1])
        return text

    @property
    def text(self) -> str:
        """What is shown of the text."""
        script = "[...document.querySelectorAll('.view-line')].map(one => [parseFloat(one.style.top), one.innerText])"
        return "\n".join(line for _, line in sorted(self.browser.run(script))).replace("\xa0", " ")

    @property
    def lenses(self) -> list[str]:
        """The titles above the lines."""
        script = "[...document.querySelectorAll('.codelens-decoration a')].map(one => one.innerText)"
        return list(self.browser.run(script))

    def wait_for(self, words: str) -> None:
        """Wait until words are shown in the text."""
        wait_until(lambda: words in self.text)

    def press(self, title: str, among: str = ".codelens-decoration a") -> None:
        """Click a lens, or something else with a title."""
        self.browser.wait_for(f"""(() => {{
          document.querySelectorAll('.wanted').forEach(one => one.classList.remove('wanted'));
          const all = [...document.querySelectorAll({json.dumps(among)})];
          const found = all.find(one => one.innerText.replaceAll('\xa0', ' ') === {json.dumps(title)});
          found?.classList.add('wanted');
          return found;
        }})()""")
        self.browser.click(".wanted")

    def key(self, key: str, *, ctrl: bool = True) -> None:
        """Press a key, by default with Ctrl."""
        codes = {".": 190, "Enter": 13}
        self.browser.press(key, codes.get(key) or ord(key.upper()), ctrl=ctrl)

    def save(self, name: str) -> str:
        """Save; the text of the file."""
        self.key("s")
        self.browser.wait_for("document.querySelector('.tab.active') && !document.querySelector('.tab.active.dirty')")
        return (self.folder / name).read_text()


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    """The model."""
    with ScriptedServer() as running:
        yield running


def choose_command(folder: Path, command: str) -> None:
    """Tell the editor where `lmm` is."""
    (folder / "user-data/User").mkdir(parents=True, exist_ok=True)
    (folder / "user-data/User/settings.json").write_text(json.dumps(SETTINGS | {"lmm.command": command}))


def code_server(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """The editor's server, which says in the file `log` what it does: a pipe that nobody reads would stop it."""
    places = (f"--{kind}-dir={folder / kind}" for kind in ("server-data", "extensions", "user-data"))
    env = {**os.environ, "HOME": str(folder), "EXTENSIONS_GALLERY": "{}"}
    with (folder / "log").open("ab") as log:
        line = [str(NODE), str(MAIN), *places, *words, "--log=debug"]
        return subprocess.Popen(line, env=env, stdout=log, stderr=log, start_new_session=True)


def logged(folder: Path, pattern: str) -> list[str]:
    """What the server said that matches."""
    return re.findall(pattern, (folder / "log").read_text("utf-8", "replace"))


@pytest.fixture(scope="module")
def window(browser: Browser, model: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """A window with the extension installed."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "work").mkdir()
    for name, text in FILES.items():
        (folder / "work" / name).write_text(text)
    write_config(folder / "work", model)
    choose_command(folder, str(Path(sys.executable).parent / "lmm"))
    code_server(folder, "--install-extension", str(EXTENSION)).wait(60)
    assert logged(folder, "successfully installed")
    words = ("--host=127.0.0.1", "--port=0", "--without-connection-token", "--accept-server-license-terms")
    with code_server(folder, *words, "--telemetry-level=off") as running, ExitStack() as closing:
        closing.callback(os.killpg, running.pid, signal.SIGTERM)
        wait_until(lambda: logged(folder, LISTENING))
        port = logged(folder, LISTENING)[0]
        browser.screen(1200, 800)
        window = Window(browser, f"http://127.0.0.1:{port}", folder / "work")
        window.load("notes.md")
        yield window
    strangers = [url for url in browser.requests if url.startswith("http") and not url.startswith(window.address)]
    assert strangers == []


@pytest.fixture(autouse=True)
def notifications(window: Window) -> Iterator[None]:
    """What the editor notified of is shown with a test that fails."""
    yield
    shown = window.browser.run("[...document.querySelectorAll('.notification-toast')].map(one => one.innerText)")
    said = (window.folder.parent / "log").read_text("utf-8", "replace")
    sys.stdout.write(f"notifications: {shown}\n{said[-2000:]}")


def test_a_reply_streams_into_the_text_and_one_undo_takes_it_back(window: Window, model: ScriptedServer) -> None:
    """Cancel is there meanwhile, and what is typed stays."""
    go_on = threading.Event()
    model.queue(Action(pieces=("Green ", "as ", "grass."), hold=go_on, hold_after=2))
    window.press("Ask")
    window.wait_for("Green as")
    wait_until(lambda: "Cancel" in window.lenses)
    window.browser.keep("vscode-streams")
    go_on.set()
    window.wait_for("grass.")
    assert exchanges(window.save("notes.md")) == [("is this clear?", "Green as grass.")]
    window.key("z")
    wait_until(lambda: "Green" not in window.text)
    assert window.save("notes.md") == FILES["notes.md"]


def test_an_edit_is_accepted(window: Window, model: ScriptedServer) -> None:
    """By the lens that is above it when it has arrived."""
    window.open("edit.md")
    model.queue(Action("A leaf is red."))
    window.press("Ask")
    wait_until(lambda: "Accept" in window.lenses)
    window.browser.keep("vscode-edit")
    window.press("Accept")
    wait_until(lambda: "green" not in window.text)
    assert window.save("edit.md") == "# Leaves\n\nA leaf is red.\n"


def test_a_problem_is_shown_and_mended(window: Window) -> None:
    """A wavy line, and the fix of `lmm scan --fix` behind the bulb."""
    window.open("slip.md")
    window.browser.wait_for("document.querySelector('.squiggly-error')")
    window.press("Query: why?", ".view-line")
    window.key(".")
    window.browser.wait_for("[...document.querySelectorAll('.action-widget *')].length")
    window.browser.keep("vscode-problem")
    window.key("Enter", ctrl=False)  # the first: Mend this (lmm scan --fix)
    window.wait_for("query: why?")
    window.save("slip.md")
    window.browser.wait_for("!document.querySelector('.squiggly-error')")


def test_a_chat_runs(window: Window, model: ScriptedServer) -> None:
    """In a ChatMD file."""
    window.open("talk.chatmd")
    model.queue(Action("An oak."))
    window.press("Run")
    window.wait_for("An oak.")
    wait_until(lambda: "Run" in window.lenses)
    window.browser.keep("vscode-chat")
    assert Chat.from_text(window.save("talk.chatmd")).turn_of == "user"


def test_where_lmm_is_missing_it_is_offered(window: Window) -> None:
    """And used as soon as it is there."""
    missing = window.folder.parent / "lmm"
    choose_command(window.folder.parent, str(missing))
    window.load("notes.md")
    window.press("Install it", ".notification-toast a")
    window.browser.wait_for("document.querySelector('.terminal')")
    window.browser.keep("vscode-missing")
    missing.symlink_to(Path(sys.executable).parent / "lmm")
    window.press("Try again", ".notification-toast a")
    wait_until(lambda: "Ask" in window.lenses)
