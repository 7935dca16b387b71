"""Extras: optional packages of this project, and what installs them where they are missing."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path

from lmm.errors import LmmError

_NAME = "lmmarkdown"


def install_command(extra: str, *, upgrade: bool = False) -> str:
    """Return the command that adds extras to this installation, whether pip, pipx or uv made it.

    >>> install_command("web,postgres")
    "pip install 'lmmarkdown[web,postgres]'"
    """
    environment = Path(sys.prefix)
    wanted = f"{'--upgrade ' if upgrade else ''}'{_NAME}[{extra}]'"
    if (environment / "pipx_metadata.json").exists():
        return f"pipx runpip {environment.name} install {wanted}"
    if (environment / "uv-receipt.toml").exists():
        return f"uv pip install --python {shlex.quote(str(environment))} {wanted}"
    return f"pip install {wanted}"


def check_installed(
    extra: str, what: str, *modules: str, kind: type[LmmError] = LmmError, where: str = "", hint: str = ""
) -> None:
    """Raise an error of this `kind` if a module cannot be found; `what` needs it, for example "MCP servers need".

    `hint` is another way, beside the extra.

    >>> check_installed("web", "lmm serve needs", "no_such_module")
    Traceback (most recent call last):
    ...
    lmm.errors.LmmError: lmm serve needs the extra 'web', which is not installed (pip install 'lmmarkdown[web]')
    """
    if not is_installed(*modules):
        message = f"{what} the extra '{extra}', which is not installed"
        raise kind(message, where=where, hint=install_command(extra) + hint)


def is_installed(*modules: str) -> bool:
    """Return whether all modules can be found; none is imported, except the packages that they are in.

    >>> is_installed("json", "no_such_package.module")
    False
    """
    try:
        return all(importlib.util.find_spec(module) is not None for module in modules)
    except ModuleNotFoundError:  # the package that it is in
        return False
