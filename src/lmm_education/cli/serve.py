"""`lmm serve`: serve a course as a web chat and as an HTTP API; manage logins."""

from __future__ import annotations

import contextlib
import gc
import io
import multiprocessing
import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError
from lmm.extras import check_installed
from lmm.messages import Usage
from lmm.terminal import DONE
from lmm_education.cli import course_options

if TYPE_CHECKING:
    from lmm_education.course import Course
    from lmm_education.web.login import Accounts, Logins

_NEEDED = (
    *("starlette", "uvicorn", "markdown_it", "latex2mathml", "pygments", "jinja2", "limits", "prometheus_client"),
    *("segno", "sqlalchemy"),
)
_PATIENCE = 5  # seconds for answers in progress when the server is stopped
_SERVE = "serve"
_which = options.together(course_options.course, options.config)
_names = options.argument("names", "NAME", many=True)


class _Serve(options.Group):
    """A group that serves, unless the first word is the name of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in self.commands and args[0] != _SERVE:
            return super().parse_args(ctx, args)
        ctx.info_name = "lmm"  # so that usage and errors show `lmm serve`
        return super().parse_args(ctx, [_SERVE, *args])


@options.group(cls=_Serve)
def serve() -> None:
    """Serve courses."""


@serve.command(_SERVE, hidden=True)
@options.argument("folder", "[COURSE]", required=False, type=options.PATH)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="Listen on this address.")
@click.option("--port", metavar="NUMBER", type=click.IntRange(0, 65535), default=8000, help="0: any free port.")
@options.flag("--public", help="Allow everybody, without a login.")
@options.flag("--setup", help="Ask for model, title, login, limits and log; write them into config.toml.")
@options.flag("--share", help="Listen on all addresses; print one for the lecture hall, and its QR code.")
@click.option("--workers", metavar="NUMBER", type=click.IntRange(1, 64), default=1, help="Use this many processes.")
@options.model
@_which
def run(
    *, folder: Path | None, host: str, port: int, setup: bool, share: bool, config: Path | None, **given: Any
) -> int:
    """Serve a course: a web chat for students, and an API for OpenAI clients.

    COURSE is a folder with a config.toml, or the file itself; by default the course in this folder is served.

    What `lmm ingest` stores meanwhile appears in the next answer. If [serve] requires a login, set it up with
    `lmm serve password`, `lmm serve users`, `lmm serve keys`. Needs the extra `web`.
    """
    from lmm.config_files import CONFIG
    from lmm.server_socket import listen, url_of

    if folder and config:
        raise ConfigError("give the course as an argument, or use --config", where="--config")
    if folder:
        config = folder if folder.is_file() else folder / CONFIG
        if not config.is_file():
            hint = "to write one, run lmm serve --setup in the course's folder"
            raise ConfigError("there is no config.toml", where=str(folder), hint=hint)
    check_installed("web", "lmm serve needs", *_NEEDED)
    if setup:
        from lmm_education.cli.serve_setup import set_up

        return set_up(config)
    host = "0.0.0.0" if share and host == "127.0.0.1" else host
    work = _Work(host, config, **given)
    with ExitStack() as closing:
        if work.workers > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = closing.enter_context(TemporaryDirectory(prefix="lmm-metrics-"))
        course = closing.enter_context(work.open())
        _check_login(course, host, work.public, "--share" if share else "--host")
        app = _application(course, work)
        _check_course(course, work.workers)
        with listen(host, port) as listener:
            spawn = multiprocessing.get_context("spawn").Process
            others = [spawn(target=_serve_too, args=(work, listener), daemon=True) for _ in range(work.workers - 1)]
            for other in others:
                other.start()
            terminal.say(f"{course.settings.storage.course}: {url_of(listener)}  (Ctrl-C ends it)", err=True)
            if course.models.major.model.provider == "Builtin":
                terminal.note("without a model the chat only quotes: set model under [major]")
            if share:
                _show_address(course.settings.serve.address, listener)
            _run(app, listener)
            for other in others:
                other.terminate()
                other.join()
    return DONE


@dataclass(frozen=True, slots=True)
class _Work:
    """What to serve, as requested: every process opens it for itself."""

    host: str
    config: Path | None
    public: bool
    workers: int
    model: str | None
    course: str | None

    def open(self) -> Course:
        """Open the course."""
        from lmm_education.course import Course

        return Course.open(config=self.config, course=self.course, model=self.model)


def _serve_too(work: _Work, listener: socket.socket) -> None:
    """Answer at the same address, in another process."""
    with work.open() as course:
        _run(_application(course, work), listener)


def _application(course: Course, work: _Work) -> Any:
    from lmm_education.web.app import LOOPBACK, create_app

    anyone = work.public or course.settings.serve.login != "none"
    return create_app(course, hosts=("*",) if anyone else (*LOOPBACK, work.host), workers=work.workers)


def _check_login(course: Course, host: str, public: bool, option: str) -> None:
    """Raise an error if strangers would be let in by mistake."""
    from lmm.hosts import is_loopback

    settings = course.settings.serve
    if is_loopback(host):
        return
    if settings.login == "none" and not public:
        raise ConfigError(
            f"{host} can be reached by others, and the course in {course.root} has no login",
            where=option,
            hint="set login under [serve], or add --public if everybody who reaches it may ask, at your cost",
        )
    if settings.login in ("password", "users") and not settings.trusted_proxy:
        terminal.note("without TLS, others can read passwords: see 'Behind a proxy' in docs/serve.md")


def _show_address(address: str, listener: socket.socket) -> None:
    """Print the address for a lecture hall: the configured one, or this machine's in its network."""
    import segno

    from lmm.server_socket import url_of

    if not address:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way, contextlib.suppress(OSError):
            way.connect(("192.0.2.1", 9))  # sends nothing: determines which local address would be used
            address = f"http://{way.getsockname()[0]}:{listener.getsockname()[1]}/"
    code = io.StringIO()
    segno.make(address or url_of(listener)).terminal(out=code, border=2, compact=True)
    terminal.say(f"\n{address or url_of(listener)}\n\n{code.getvalue()}")


def _check_course(course: Course, workers: int = 1) -> None:
    """Open the models now, so that errors are reported here and no student waits."""
    from lmm.models.chat import shared_chat
    from lmm.models.tokens import price

    models, history, served = course.models, course.settings.answer.history, course.settings.serve
    if (workers > 1 or served.database) and not served.limits:
        terminal.note("each process counts questions and wrong passwords by itself: see docs/scale.md")
    for settings in (models.major, *([models.aux] if history != "none" else [])):
        shared_chat(settings)
        name = str(settings.model)
        if course.settings.serve.daily_cost and price(name, Usage(1000, 1000)) is None:
            terminal.note(f"the price of {name} is not known: daily_cost does not count it, daily_tokens does")
    for notice in course.encoder.notices:
        terminal.note(notice)
    if course.store.manifest() is None:
        name = course.settings.storage.course
        terminal.note(f"nothing is ingested yet in {name}: run lmm ingest PATH; the server need not be restarted")


def server_options(patience: float | None = None) -> dict[str, Any]:
    """Return uvicorn's options; a request must arrive within `patience` seconds. Headers of proxies are handled in
    web/login.py, where the trusted ones are known."""
    from lmm.server_socket import PATIENCE, bounded

    return {
        **bounded(PATIENCE if patience is None else patience),
        "log_level": "warning",
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": 2 * _PATIENCE,
    }


def _run(app: Any, listener: socket.socket) -> None:
    import asyncio

    import uvicorn

    from lmm import loop
    from lmm.server_socket import handle_loop_error

    terminal.log_to_stderr("%(asctime)s %(levelname)s %(message)s")
    # A class keeps a million objects alive, and a search or a check takes 10 ms in a thread: without these, a tenth of
    # the processor time goes into looking for garbage, and a word waits 5 ms at each turn for the thread.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    sys.setswitchinterval(0.001)

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().call_later(_PATIENCE, app.state.service.stop)
            await super().shutdown(sockets)

    server = Server(uvicorn.Config(app, **server_options()))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    if parent := multiprocessing.parent_process():

        def end_with_parent() -> None:  # however that ends
            parent.join()
            server.should_exit = True

        threading.Thread(target=end_with_parent, daemon=True).start()

    async def serving() -> None:
        asyncio.get_running_loop().set_exception_handler(handle_loop_error)
        await server.serve(sockets=[listener])

    gc.freeze()  # loaded objects are permanent: scanning them repeatedly takes a seventh of an answer's time
    loop.run(serving())  # in the models' event loop: nothing is passed between loops


# -- logins ----------------------------------------------------------------------------------------


def _accounts(course: Course, who: Literal["students", "teacher"] = "students") -> Accounts:
    from lmm_education.web.login import Accounts
    from lmm_education.web.service import state_of

    return Accounts(state_of(course), who)


@serve.command()
@course_options.opened
def password(course: Course) -> int:
    """Set the course's password, which all students share. It is typed in, or read from a pipe."""
    return _set_password(course, "students", "students' password", "lmm serve")


@serve.command()
@course_options.opened
def teacher(course: Course) -> int:
    """Set the teacher's password, for the page /teacher with students' questions, and for /metrics."""
    _set_password(course, "teacher", "teacher's password", "lmm serve, then log in at /teacher")
    if not course.settings.serve.log:
        terminal.note('no log is kept; under [serve] in config.toml: log = "course-log.sqlite"')
    return DONE


def _set_password(course: Course, who: Literal["students", "teacher"], what: str, following: str) -> int:
    from lmm_education.cli.serve_setup import new_secret
    from lmm_education.web.service import name_of

    accounts = _accounts(course, who)
    accounts.set_password(new_secret(f"{what.capitalize()} for '{name_of(course)}': "))
    terminal.say(f"{accounts.database.where}: the {what} for '{name_of(course)}' is set; next: {following}")
    if who == "students":
        _remind(course, "password")
    return DONE


@options.group()
def users() -> None:
    """Manage students who log in with their own name."""


@users.command("add")
@_names
@options.flag("--generate", help="Generate the passwords, and print them.")
@course_options.opened
def add_users(course: Course, *, names: tuple[str, ...], generate: bool) -> int:
    """Add users, or change their passwords. NAME may be @FILE, a file with a name on each line."""
    from lmm.disk.files import read_document
    from lmm_education.cli.serve_setup import new_secret
    from lmm_education.web.login import checked_name, new_password

    read = (read_document(Path(name[1:])).splitlines() if name.startswith("@") else [name] for name in names)
    checked = [checked_name(line.strip()) for lines in read for line in lines if line.strip()]
    accounts = _accounts(course)
    passwords = {name: new_password() if generate else new_secret(f"Password for {name}: ") for name in checked}
    accounts.change(lambda logins: reduce(lambda known, pair: known.with_user(*pair), passwords.items(), logins))
    shown = (f"{name}\t{made}\n" if generate else f"{name} may log in\n" for name, made in passwords.items())
    terminal.say("".join(shown), end="")
    _remind(course, "users")
    return DONE


@options.group()
def keys() -> None:
    """Manage keys for programs that ask over the API."""


@keys.command("add")
@options.argument("name", "NAME")
@click.option(
    "--questions-per-minute",
    metavar="NUMBER",
    type=click.IntRange(min=0),
    help="The key's own limit instead of the students'; 0: no limit.",
)
@course_options.opened
def add_key(course: Course, *, name: str, questions_per_minute: int | None) -> int:
    """Make a key and print it once; it replaces a key of the same name."""
    from lmm_education.web.login import new_key

    key = new_key()
    _accounts(course).change(lambda logins: logins.with_key(name, key, questions_per_minute))
    terminal.say(key)
    return DONE


def _manage(group: options.Group, kind: Literal["users", "keys"]) -> None:
    """Add the commands that both groups have."""

    @group.command("remove")
    @_names
    @course_options.opened
    def remove(course: Course, *, names: tuple[str, ...]) -> int:
        """Remove them, effective at once."""

        def change(logins: Logins) -> Logins:
            for name in names:
                if name not in getattr(logins, kind):
                    raise ConfigError(f"there is no {kind[:-1]} '{name}'", hint=f"lmm serve {kind} list")
            return logins.without(kind, names)

        _accounts(course).change(change)
        terminal.say("".join(f"{kind[:-1]} {name} removed\n" for name in names), end="")
        return DONE

    @group.command("list")
    @course_options.opened
    def list_names(course: Course) -> int:
        """Print their names."""
        terminal.say("".join(f"{name}\n" for name in sorted(getattr(_accounts(course).read(), kind))), end="")
        return DONE

    serve.add_command(group)


_manage(users, "users")
_manage(keys, "keys")


def _remind(course: Course, login: str) -> None:
    """Print a note if the configuration does not use what was just set."""
    if course.settings.serve.login != login:
        terminal.note(f'it is used only if config.toml has, under [serve]: login = "{login}"')
