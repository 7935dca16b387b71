"""`lmm demo`: four examples on one screen, or a complete tour, on the example course, with real commands on real files.

The steps are in ``example/demo.toml``: the text that an author would type, and the commands they would run.
The commands run as separate processes, without keys and configuration, so that the built-in models
answer, whatever is set on this machine. Nothing is written outside the demo's folder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import LmmError
from lmm.providers import PROVIDERS
from lmm.terminal import DONE

LECTURE = "01-linear-models.md"
STATE = ".lmm"


@options.command()
@click.option("--all", "tour", is_flag=True, help="Show every step of the tour.")
@click.option("--folder", metavar="DIR", type=options.PATH, help="Put the course here instead of a temporary folder.")
def demo(*, tour: bool, folder: Path | None) -> int:
    """Show what LM Markdown does on an example course: offline, with the built-in models, in a few seconds."""
    started = time.perf_counter()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="lmm-demo-"))
    elif folder.exists() and any(folder.iterdir()):
        raise LmmError("this folder is not empty", where=str(folder), hint="choose a new folder")
    course = folder
    with resources.as_file(resources.files("lmm").joinpath("example")) as example:
        shutil.copytree(example / "course", course, dirs_exist_ok=True)
        script = tomllib.loads((example / "demo.toml").read_text("utf-8"))
    (course / STATE).mkdir(exist_ok=True)  # marks the course's folder: configurations above it are not used
    _say(f"The example course is in {course}\n")
    for number, step in enumerate(script["tour" if tour else "screen"], 1):
        _say(terminal.styled(f"\n{number}. {step['title']}\n", "bold"))
        _show(step, course)
    _say(script["ending"].format(course=course))
    _say(f"The demo took {time.perf_counter() - started:.1f} s.\n")
    return DONE


def _show(step: Mapping[str, Any], course: Path) -> None:
    """Run a step: what it is for, what is typed, the commands, and the lines of their output that match `shown`."""
    if "explanation" in step:
        _say(f"{step['explanation']}\n")
    if "prepare" in step:
        _say(terminal.styled(f"$ lmm {step['prepare']}\n", "cyan"))
        _call(step["prepare"], course)
    if "text" in step:
        name = str(step.get("file", LECTURE))
        text = (course / name).read_bytes().decode()
        at = 0 if text.startswith(step["before"]) else text.index("\n" + step["before"]) + 1
        (course / name).write_bytes((text[:at] + step["text"] + text[at:]).encode())
        typed = [line for line in step["text"].splitlines() if line.strip("-")]
        _say(f"You type into {name}:\n" + "".join(f"  {line}\n" for line in typed))
    for command in step["commands"]:
        _say(terminal.styled(f"$ lmm {command}\n", "cyan"))
        output = _call(command, course)
        lines = (line.strip() for line in output.splitlines() if re.match(step.get("shown", ""), line))
        _say("".join(f"{_wrapped(line)}\n" for line in lines))


def _wrapped(line: str) -> str:
    """Return a line indented; on a terminal, it is broken between words."""
    width = shutil.get_terminal_size().columns if terminal.is_terminal() else len(line) + 3
    indent = "  "
    return textwrap.fill(
        line, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _call(command: str, course: Path) -> str:
    words, env = [sys.executable, "-m", "lmm", *shlex.split(command)], offline_environment(course)
    out, err = subprocess.PIPE, subprocess.STDOUT
    result = subprocess.run(words, cwd=course, env=env, check=False, stdout=out, stderr=err, encoding="utf-8")
    if result.returncode:
        message = f"the command ended with exit code {result.returncode}"
        raise LmmError(message, where=f"lmm {command}", hint=f"please report this: {result.stdout}")
    return result.stdout


def offline_environment(course: Path) -> dict[str, str]:
    """Return the environment without variables that choose or pay for models; state goes into the demo's folder.

    The fast embedding model is used even if the extra ``meaning`` is installed, which would take twice as long.
    """
    keys = {key for provider in PROVIDERS.values() for key in (*provider.keys, provider.base_url_variable)}
    environment = {k: v for k, v in os.environ.items() if k not in keys and not k.startswith("LMM_")}
    return environment | {
        "LMM_MODEL_EMBEDDING": "Builtin/wordllama",
        "LMM_STATE_DIR": str(course / STATE),
        "LMM_CACHE_DIR": str(course / STATE / "cache"),
        "PYTHONUNBUFFERED": "1",
    }


def _say(text: str) -> None:
    terminal.say(text, end="")
