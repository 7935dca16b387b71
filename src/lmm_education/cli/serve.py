"""`lmm serve`: courses as web chats and as an HTTP API; who may log in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import click
import typer
from typer.core import TyperGroup

from lmm.cli import console

work = console.Later("lmm_education.cli.work.serve")
logins = console.Later("lmm_education.cli.work.logins")
_SERVE = "serve"

Course = Annotated[Optional[str], typer.Option("--course", metavar="NAME", help="The course.")]
Config = Annotated[Optional[Path], typer.Option("--config", metavar="FILE", help="The configuration file.")]
Name = Annotated[str, typer.Argument(metavar="NAME")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...")]


class _Serve(TyperGroup):
    """Serves, unless the first word is one of the commands' names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in self.commands and args[0] != _SERVE:
            return super().parse_args(ctx, args)
        ctx.info_name = "lmm"  # so that usage and errors name `lmm serve`
        return super().parse_args(ctx, [_SERVE, *args])


app = console.make_app()
serve = console.make_app()
users = console.make_app()
keys = console.make_app()
serve.info.cls = _Serve
app.add_typer(serve, name="serve")
serve.add_typer(users, name="users")
serve.add_typer(keys, name="keys")


@serve.callback()
def about() -> None:
    """Serve courses."""


@serve.command(_SERVE, hidden=True)
def run(
    courses: Annotated[Optional[list[Path]], typer.Argument(metavar="[COURSE]...", show_default=False)] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="NUMBER", min=0, max=65535, help="0: any that is free.")] = 8000,
    public: Annotated[bool, typer.Option("--public", help="Let others in without a login.")] = False,
    model: Annotated[Optional[str], typer.Option(metavar="NAME", help="The model that answers.")] = None,
    course: Course = None,
    config: Config = None,
) -> int:
    """Serve a course: a page on which students ask and read, and an API for OpenAI clients.

    COURSE is a folder with a config.toml, the file itself, or a folder of such folders. Several courses stand under
    their folders' names, with a page that lists them; without COURSE, the course in this folder is served.

    What `lmm ingest` stores meanwhile counts for the next answer. Who may log in, where [serve] says that one has to:
    `lmm serve password`, `lmm serve users`, `lmm serve keys`. Needs the extra `web`.
    """
    return work.serve(list(courses or ()), host, port, public, model, course, config)


@serve.command()
def password(course: Course = None, config: Config = None) -> int:
    """Set the course's password, which all students share; it is asked for, or read from a pipe."""
    return logins.password(course, config)


@serve.command()
def teacher(course: Course = None, config: Config = None) -> int:
    """Set the teacher's password: for the page /teacher, which tells what students ask, and for /metrics."""
    return logins.teacher(course, config)


@users.callback()
def about_users() -> None:
    """Students who log in with a name of their own."""


@users.command("add")
def add_users(
    names: Names,
    generate: Annotated[bool, typer.Option("--generate", help="Make the passwords, and print them.")] = False,
    course: Course = None,
    config: Config = None,
) -> int:
    """Add users, or give them other passwords. NAME may be a file with a name a line, as @FILE."""
    return logins.add_users(names, generate, course, config)


@users.command("remove")
def remove_users(names: Names, course: Course = None, config: Config = None) -> int:
    """Remove users; their sessions end at once."""
    return logins.remove_users(names, course, config)


@users.command("list")
def list_users(course: Course = None, config: Config = None) -> int:
    """Print the users' names."""
    return logins.list_users(course, config)


@keys.callback()
def about_keys() -> None:
    """Keys with which programs ask over the API, where students log in."""


@keys.command("add")
def add_key(
    name: Name,
    questions_per_minute: Annotated[
        Optional[int], typer.Option(metavar="NUMBER", min=0, help="Instead of the students' limit; 0: no limit.")
    ] = None,
    course: Course = None,
    config: Config = None,
) -> int:
    """Make a key, instead of one of that name, and print it: it cannot be printed again."""
    return logins.add_key(name, questions_per_minute, course, config)


@keys.command("remove")
def remove_keys(names: Names, course: Course = None, config: Config = None) -> int:
    """Remove keys; they count no more."""
    return logins.remove_keys(names, course, config)


@keys.command("list")
def list_keys(course: Course = None, config: Config = None) -> int:
    """Print the keys' names."""
    return logins.list_keys(course, config)
