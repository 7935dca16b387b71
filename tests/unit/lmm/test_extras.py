"""The command that installs an extra is the one of the tool that made this environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lmm.errors import ConfigError
from lmm.extras import check_installed, install_command


@pytest.mark.parametrize(
    ("marker", "command"),
    [
        ("", "pip install 'lmmarkdown[web]'"),
        ("pipx_metadata.json", "pipx runpip {name} install 'lmmarkdown[web]'"),
        ("uv-receipt.toml", "uv pip install --python {path} 'lmmarkdown[web]'"),
    ],
)
def test_the_command_fits_the_environment(
    marker: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pipx and uv keep a file in the environment of each program."""
    if marker:
        (tmp_path / marker).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_command("web") == command.format(name=tmp_path.name, path=tmp_path)


def test_a_missing_extra_is_named() -> None:
    """In the error that the caller raises, however many modules are missing, also below a missing package."""
    with pytest.raises(ConfigError) as caught:
        check_installed("web", "lmm serve needs", "os", "no_such.module", kind=ConfigError, where="a", hint=", or not")
    assert str(caught.value) == (
        "a: lmm serve needs the extra 'web', which is not installed (pip install 'lmmarkdown[web]', or not)"
    )
    with pytest.raises(ConfigError, match="needs the extra 'web', which is not installed "):
        check_installed("web", "lmm serve needs", "no_such", "none_such", kind=ConfigError)
    check_installed("web", "lmm serve needs", "json", "importlib.util")
