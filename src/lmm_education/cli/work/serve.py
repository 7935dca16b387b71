"""What is done by `lmm serve`."""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import socket
import sys
from pathlib import Path
from typing import Any

from lmm.cli import console
from lmm.errors import ConfigError, LmmError
from lmm.models.chat import shared_chat
from lmm_education.open_course import Course, open_course

_NEEDED = ("starlette", "uvicorn", "markdown_it", "latex2mathml", "pygments")
_PATIENCE = 5  # seconds for answers on their way when the server is stopped


def serve(host: str, port: int, public: bool, model: str | None, course: str | None, config: Path | None) -> int:
    """Listen until Ctrl-C."""
    if not public and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached by others, and there is no login yet",
            where="--host",
            hint="add --public if everybody who reaches it may ask, at your cost",
        )
    _check_installed()
    from lmm_education.web.app import LOOPBACK, create_app

    with open_course(config=config, course=course, model=model) as opened:
        app = create_app(opened, hosts=("*",) if public else (*LOOPBACK, host))
        _check_models(opened)
        if opened.store.manifest() is None:
            console.say("there is nothing to ask about yet: lmm ingest PATH, which needs no restart\n", sys.stderr)
        with _listening(host, port) as listener:
            console.say(f"{opened.settings.storage.course}: {_address(listener)}  (Ctrl-C ends it)\n", sys.stderr)
            _run(app, listener)
    return console.DONE


def _check_models(course: Course) -> None:
    """Open the models now: what is missing is told here, and no student waits for it."""
    models, history = course.models, course.settings.answer.history
    for settings in (models.major, *([models.aux] if history != "none" else [])):
        shared_chat(settings)
    for notice in course.encoder.notices:
        console.say(f"{console.style('note:', 'yellow', sys.stderr)} {console.printable(notice)}\n", sys.stderr)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_installed() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise LmmError(f"{', '.join(missing)} is not installed", hint="pip install 'lmmarkdown[web]'")


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise LmmError(f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another --port") from None


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _run(app: Any, listener: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=_PATIENCE)
    with contextlib.suppress(KeyboardInterrupt):  # which uvicorn raises again when all is closed
        uvicorn.Server(config).run(sockets=[listener])
