"""What is done by `lmm serve`."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lmm import terminal
from lmm.cli import console
from lmm.config_files import CONFIG, read_config
from lmm.errors import ConfigError, LmmError
from lmm.listening import PATIENCE, is_loopback, listen, patient_protocol, url_of
from lmm.models.chat import shared_chat
from lmm.powers import Config
from lmm_education.course import Course

_NEEDED = ("starlette", "uvicorn", "markdown_it", "latex2mathml", "pygments")
_PATIENCE = 5  # seconds for answers on their way when the server is stopped


def serve(
    paths: Sequence[Path],
    host: str,
    port: int,
    public: bool,
    model: str | None,
    course: str | None,
    config: Path | None,
) -> int:
    """Listen until Ctrl-C."""
    if paths and (config or course):
        raise ConfigError("name the courses, or use --config and --course", where="--config")
    _check_installed()
    with ExitStack() as closing:
        opened: dict[str, Course] = {}
        files: list[Path | Config | None] = [read_config(file) for file in course_files(paths)] or [config]
        for file in files:
            one = closing.enter_context(Course.open(config=file, course=course, model=model))
            opened[_new_name(one.root, opened)] = one
        _check_logins(opened.values(), host, public)
        app = _application(opened, host, public)
        for one in opened.values():
            _check_course(one)
        with listen(host, port) as listener:
            names = list(opened) if len(opened) > 1 else [one.settings.storage.course for one in opened.values()]
            terminal.say(f"{', '.join(names)}: {url_of(listener)}  (Ctrl-C ends it)", err=True)
            _run(app, listener)
    return console.DONE


def course_files(paths: Sequence[Path]) -> list[Path]:
    """The configuration files of courses: files, folders with one, and folders of such folders.

    Raises:
        ConfigError: there is none.
    """
    found: list[Path] = []
    for path in paths:
        here = [path] if path.is_file() else [path / CONFIG] if (path / CONFIG).is_file() else []
        here = here or [file for file in sorted(path.glob(f"*/{CONFIG}")) if not file.parent.is_symlink()]
        if not here:
            raise ConfigError("there is no config.toml, nor a folder with one", where=str(path))
        found += here
    return found


def _new_name(root: Path, others: Mapping[str, Course]) -> str:
    """Under what a course stands in the addresses: its folder's name."""
    name = root.name or "course"
    if name in others:
        where = f"{root} and {others[name].root}"
        raise ConfigError(f"two courses would stand under /{name}/", where=where, hint="rename one of the folders")
    return name


def _application(courses: Mapping[str, Course], host: str, public: bool) -> Any:
    """The application of one course, or of several under their names."""
    from lmm_education.web.app import LOOPBACK, create_app
    from lmm_education.web.site import create_site

    apps = {}
    for name, course in courses.items():
        anyone = public or course.settings.serve.login != "none"
        apps[name] = create_app(course, hosts=("*",) if anyone else (*LOOPBACK, host))
    return create_site(apps) if len(apps) > 1 else next(iter(apps.values()))


def _check_logins(courses: Iterable[Course], host: str, public: bool) -> None:
    """Refuse to let strangers in by oversight."""
    if is_loopback(host):
        return
    for course in courses:
        settings = course.settings.serve
        if settings.login == "none" and not public:
            raise ConfigError(
                f"{host} can be reached by others, and {course.settings.storage.course} has no login",
                where="--host",
                hint="set login under [serve], or add --public if everybody who reaches it may ask, at your cost",
            )
        if settings.login in ("password", "users") and not settings.trusted_proxy:
            terminal.note("without TLS, passwords can be read on their way: see Recipes in docs/serve.md")


def _check_course(course: Course) -> None:
    """Open the models now: what is missing is told here, and no student waits for it."""
    models, history = course.models, course.settings.answer.history
    for settings in (models.major, *([models.aux] if history != "none" else [])):
        shared_chat(settings)
    for notice in course.encoder.notices:
        terminal.note(notice)
    if course.store.manifest() is None:
        name = course.settings.storage.course
        terminal.note(f"there is nothing to ask about yet in {name}: lmm ingest PATH, which needs no restart")


def _check_installed() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise LmmError(f"{', '.join(missing)} is not installed", hint="pip install 'lmmarkdown[web]'")


def server_options(patience: float = PATIENCE) -> dict[str, Any]:
    """How uvicorn is run; a request has `patience` seconds to arrive. Headers of proxies are read where it is known who
    may be believed: web/identify.py."""
    return {
        "http": patient_protocol(patience),
        "log_level": "warning",
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": _PATIENCE,
    }


def _run(app: Any, listener: socket.socket) -> None:
    import uvicorn

    terminal.log_to_stderr("%(asctime)s %(levelname)s %(message)s")
    config = uvicorn.Config(app, **server_options())
    with contextlib.suppress(KeyboardInterrupt):  # which uvicorn raises again when all is closed
        uvicorn.Server(config).run(sockets=[listener])
