"""`lmm demo`: four examples on one screen, or a complete tour, on the example course, with real commands on real files.

The steps are in ``example/demo.toml``: the text that an author would type, and the commands they would run.
The commands run as separate processes, without keys and configuration, so that the built-in models
answer, whatever is set on this machine. Nothing is written outside the demo's folder.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
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
MOST_LINES = 16  # shown of a change


@options.command()
@click.option("--all", "tour", is_flag=True, help="Show every step of the tour, with what changes in the files.")
@click.option("--folder", metavar="DIR", type=options.PATH, help="Put the course here instead of a temporary folder.")
def demo(*, tour: bool, folder: Path | None) -> int:
    """Show what LM Markdown does on an example course: offline, with the built-in models, in a few seconds."""
    started = time.perf_counter()
    course = _new_folder(folder)
    with resources.as_file(resources.files("lmm").joinpath("example")) as example:
        shutil.copytree(example / "course", course, dirs_exist_ok=True)
        script = tomllib.loads((example / "demo.toml").read_text("utf-8"))
    (course / STATE).mkdir(exist_ok=True)  # marks the course's folder: configurations above it are not used
    _say(f"The example course is in {course}\n")
    for number, step in enumerate(script["tour" if tour else "screen"], 1):
        _say(terminal.styled(f"\n{number}. {step['title']}\n", "bold"))
        (_explain if tour else _show)(step, course)
    _say(script["ending"].format(course=course))
    _say(f"The demo took {time.perf_counter() - started:.1f} s.\n")
    return DONE


def _new_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="lmm-demo-"))
    if folder.exists() and any(folder.iterdir()):
        raise LmmError("this folder is not empty", where=str(folder), hint="choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _show(step: Mapping[str, Any], course: Path) -> None:
    """Run a step of the screen: what is typed, the commands, and the lines of their output that match `shown`."""
    if "prepare" in step:
        _say(terminal.styled(f"$ lmm {step['prepare']}\n", "cyan"))
        _call(step["prepare"], course, capture=True)
    if "text" in step:
        _type(step, course)
        typed = [line for line in step["text"].splitlines() if line.strip("-")]
        _say(f"You type into {_name(step)}:\n" + "".join(f"  {line}\n" for line in typed))
    for command in step["commands"]:
        _say(terminal.styled(f"$ lmm {command}\n", "cyan"))
        output = _call(command, course, capture=True)
        _say("".join(f"  {line.strip()}\n" for line in output.splitlines() if re.match(step["shown"], line)))


def _explain(step: Mapping[str, Any], course: Path) -> None:
    """Run a step of the tour: what it is for, what is typed, the command, its output, and what changed in the file."""
    name = _name(step)
    file = course / name
    _say(f"{step['explanation']}\n")
    if "text" in step:
        before = _read(file)
        _type(step, course)
        _say(f"You type into {name}:\n{_diff(before, _read(file))}\n")
    before = _read(file)
    _say(terminal.styled(f"$ lmm {step['command']}\n", "cyan"))
    _call(step["command"], course)
    if _read(file) != before:
        _say(f"\nWhat changed in {name}:\n{_diff(before, _read(file))}")


def _name(step: Mapping[str, Any]) -> str:
    return str(step.get("file", LECTURE))


def _type(step: Mapping[str, Any], course: Path) -> None:
    """Put the step's text before the first line that begins with `before`."""
    file = course / _name(step)
    text = _read(file)
    at = 0 if text.startswith(step["before"]) else text.index("\n" + step["before"]) + 1
    file.write_bytes((text[:at] + step["text"] + text[at:]).encode())


def _call(command: str, course: Path, *, capture: bool = False) -> str:
    words = [sys.executable, "-m", "lmm", *shlex.split(command)]
    env = offline_environment(course)
    out, err = (subprocess.PIPE, subprocess.STDOUT) if capture else (None, None)
    result = subprocess.run(words, cwd=course, env=env, check=False, stdout=out, stderr=err, encoding="utf-8")
    if result.returncode:
        message = f"the command ended with exit code {result.returncode}"
        raise LmmError(message, where=f"lmm {command}", hint=f"please report this: {result.stdout or ''}")
    return result.stdout or ""


def offline_environment(course: Path) -> dict[str, str]:
    """Return the environment without variables that choose or pay for models; state goes into the demo's folder.

    The fast embedding model is used even if the extra ``meaning`` is installed, which would take twice as long.
    """
    keys = {key for provider in PROVIDERS.values() for key in (*provider.keys, provider.base_url_variable)}
    kept = {k: v for k, v in os.environ.items() if k not in keys and not k.startswith("LMM_")}
    return kept | {
        "LMM_MODEL_EMBEDDING": "Builtin/wordllama",
        "LMM_STATE_DIR": str(course / STATE),
        "LMM_CACHE_DIR": str(course / STATE / "cache"),
        "PYTHONUNBUFFERED": "1",
    }


def _read(file: Path) -> str:
    return file.read_bytes().decode("utf-8") if file.exists() else ""


def _diff(before: str, after: str) -> str:
    """Return the changed lines with two lines of context, coloured on a terminal."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm=""))[2:]
    shown = []
    for line in lines:
        if line.startswith("@@"):
            number = line.split("+")[1].split(",")[0].split(" ")[0]
            shown.append(terminal.styled(f"  line {number}:", "dim"))
        else:
            colour = {"+": "green", "-": "red"}.get(line[:1])
            shown.append("  " + (terminal.styled(line, colour) if colour else line))
    more = [f"  … and {len(shown) - MOST_LINES} lines more"] if len(shown) > MOST_LINES + 5 else []
    return "\n".join((shown[:MOST_LINES] if more else shown) + more) + "\n"


def _say(text: str) -> None:
    terminal.say(text, end="")
