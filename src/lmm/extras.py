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
    lmm.errors.LmmError: lmm serve needs a package that is not installed: no_such_module (pip install 'lmmarkdown[web]')
    """
    if missing := [module for module in modules if not _is_found(module)]:
        packages = "a package that is" if len(missing) == 1 else "packages that are"
        message = f"{what} {packages} not installed: {', '.join(missing)}"
        raise kind(message, where=where, hint=install_command(extra) + hint)


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False
