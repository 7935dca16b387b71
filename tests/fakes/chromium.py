"""A real Chromium without a window, driven over the pipe that ``--remote-debugging-pipe`` opens.

The protocol is JSON with a zero byte after each message, so that no further package is needed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = os.environ.get("LMM_TEST_PICTURES")  # a folder: the pictures are kept there, to be looked at
PATIENCE = 30.0  # seconds
# A container has no sandbox of its own; what is not needed here would look for servers of the vendor.
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
    *("--disable-extensions", "--password-store=basic", "--remote-debugging-pipe"),
)


# The middle of an element, if it is the same as it was a moment before: what arrives meanwhile may have moved it.
_STILL = """(async (selector) => {
  const middle = () => {
    const found = document.querySelector(selector);
    found?.scrollIntoView({ block: "center", behavior: "instant" });
    const box = found?.getBoundingClientRect();
    return box?.width ? [box.x + box.width / 2, box.y + box.height / 2] : null;
  };
  const before = middle();
  await new Promise((done) => setTimeout(done, 20));
  const after = middle();
  return before && after && before.join() === after.join() ? after : null;
})(%s)"""


class Browser:
    """A browser with one page; a context manager. `requests` are the addresses that the page asked for, `problems`
    what its console complained of: errors, refusals of the page's policy."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._profile, self._number, self._left = profile, 0, b""
        self._program = PROGRAM

    def __enter__(self) -> Self:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def as_3_and_4() -> None:  # in the child: Chromium reads its orders from 3 and answers on 4
            copies = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        line = [self._program, *_OPTIONS, f"--user-data-dir={self._profile}", "about:blank"]
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen(
            line, stdin=silent, stdout=silent, stderr=silent, close_fds=False, preexec_fn=as_3_and_4
        )
        os.close(theirs_in)
        os.close(theirs_out)
        targets = self._ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._send("Browser.close", {}, None)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    # -- what tests do -----------------------------------------------------------------------------

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """A method of the page; its result."""
        return self._ask(method, session=self._session, **values)

    def open(self, address: str) -> None:
        """Go to a page and wait until it is loaded."""
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def run(self, script: str, *, framed: bool = False) -> Any:
        """The value of an expression in the page, or in the first frame in it, if that is of the same host."""
        values = {"expression": script, "awaitPromise": True, "returnByValue": True}
        try:
            done = self.call("Runtime.evaluate", **values, **({"contextId": self._world()} if framed else {}))
        except AssertionError as error:
            if not framed or "context" not in str(error):
                raise
            return self.run(script, framed=True)  # the frame's page went meanwhile, for the next
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def _world(self) -> int:
        """Where scripts of ours see the elements of the frame, and its own scripts do not see them."""
        (frame, *_) = self.call("Page.getFrameTree")["frameTree"]["childFrames"]
        made = self.call("Page.createIsolatedWorld", frameId=frame["frame"]["id"])
        return int(made["executionContextId"])

    def wait_for(self, script: str, *, framed: bool = False) -> None:
        """Return when an expression in the page, or in its frame, is true."""
        end = time.monotonic() + PATIENCE
        while not self._is_true(script, framed):
            assert time.monotonic() < end, f"never true: {script}; problems: {self.problems}"
            time.sleep(0.03)

    def _is_true(self, script: str, framed: bool) -> bool:
        try:
            return bool(self.run(f"Boolean({script})", framed=framed))
        except AssertionError as error:
            if "navigated" not in str(error):
                raise
            return False  # the page is being loaded again

    def click(self, selector: str) -> None:
        """A click of the mouse on the middle of an element, whatever lies there, once it is shown and stands still."""
        end = time.monotonic() + PATIENCE
        while not (middle := self.run(_STILL % json.dumps(selector))):
            assert time.monotonic() < end, f"never shown: {selector}; problems: {self.problems}"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=middle[0], y=middle[1], button="left", clickCount=1)

    def text(self, selector: str) -> str:
        """What a reader sees of an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def type(self, text: str) -> None:
        """Text into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, *, ctrl: bool = False) -> None:
        """A key, such as Enter (13), Tab (9), Escape (27); with `ctrl`, also a letter or a point (190)."""
        more = {"text": "\r"} if key == "Enter" else {}
        code_name = "Period" if key == "." else f"Key{key.upper()}" if len(key) == 1 else key
        values = {"key": key, "code": code_name, "windowsVirtualKeyCode": code, "modifiers": 2 * ctrl}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **values, **(more if kind == "keyDown" else {}))

    def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and what the reader prefers."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path) -> None:
        """A picture of the window, as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def keep(self, name: str) -> None:
        """Such a picture, where they are wanted."""
        if PICTURES:
            self.picture(Path(PICTURES) / f"{name}.png")

    # -- the protocol ------------------------------------------------------------------------------

    def _ask(self, method: str, *, session: str | None = None, **values: Any) -> dict[str, Any]:
        number = self._send(method, values, session)
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _send(self, method: str, values: dict[str, Any], session: str | None) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": values}
        data = json.dumps(message | ({"sessionId": session} if session else {})).encode()
        os.write(self._out, data + b"\0")
        return self._number

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], PATIENCE)
            data = os.read(self._in, 1 << 16) if ready else b""
            assert data, "Chromium does not answer"
            self._left += data
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, message: dict[str, Any]) -> None:
        values, method = message.get("params", {}), message.get("method")
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Page.javascriptDialogOpening":  # "Leave site?": until it is answered, nothing else is
            self._send("Page.handleJavaScriptDialog", {"accept": True}, self._session)
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(values["exceptionDetails"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.problems.append(values["entry"]["text"])
