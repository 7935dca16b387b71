"""Whether the library that a model needs is there."""

from __future__ import annotations

import importlib.util

from lmm.errors import ModelNotInstalled


def check_installed(module: str, model: str, where: str) -> None:
    """Fail early where a library is missing, and say what installs it.

    Raises:
        ModelNotInstalled: there is no `module`, which the `model` named at `where` needs.
    """
    if importlib.util.find_spec(module) is None:
        raise ModelNotInstalled(
            f"{model} needs the package {module}",
            where=where,
            hint=f"pip install 'lmmarkdown[{module.replace('_', '-')}]'",
        )
