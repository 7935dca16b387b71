"""What is done by `lmm agents`."""

from __future__ import annotations

import difflib
import sys
from importlib import resources
from pathlib import Path

from chatmd.errors import ChatmdError
from chatmd.language.nodes import Comment
from chatmd.language.parser import parse
from lmm import files
from lmm.cli import console

_SUFFIX = ".chatmd"


def agents(names: list[str], to: Path) -> int:
    """List the ready-made agents, or copy those named."""
    ready = _ready()
    if not names:
        for name, text in ready.items():
            console.say(f"{console.style(name, 'bold', sys.stdout)}\n  {_about(text)}\n", sys.stdout)
        return console.DONE
    for name in names:
        _copy(name.removesuffix(_SUFFIX), ready, to)
    return console.DONE


def _ready() -> dict[str, str]:
    folder = resources.files("chatmd.examples")
    found = sorted(file.name for file in folder.iterdir() if file.name.endswith(_SUFFIX))
    return {name.removesuffix(_SUFFIX): folder.joinpath(name).read_text(encoding="utf-8") for name in found}


def _about(text: str) -> str:
    """The comment that a file begins with, on one line."""
    first = next((node for node in parse(text).children if isinstance(node, Comment)), None)
    return " ".join(first.value.split()) if first else ""


def _copy(name: str, ready: dict[str, str], to: Path) -> None:
    if name not in ready:
        close = difflib.get_close_matches(name, ready, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(ready)}"
        raise ChatmdError(f"there is no ready-made agent '{name}'", hint=hint)
    file = to / f"{name}{_SUFFIX}"
    if file.exists():
        raise ChatmdError("this file is there already", where=str(file), hint="delete it, or name another folder: --to")
    to.mkdir(parents=True, exist_ok=True)
    files.replace_document(file, ready[name])
    console.say(f"{file}\n", sys.stdout)
