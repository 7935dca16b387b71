"""What is published: the archive of sources, and the wheel that is made from it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytest.importorskip("hatchling", reason="hatchling is not installed")
if not (ROOT / ".git").exists():
    pytest.skip("not a checkout", allow_module_level=True)


def test_a_wheel_made_from_the_sdist_holds_the_packages_and_nothing_else(tmp_path: Path) -> None:
    """Every file of `src` that git knows, prompts, pages and type stubs included, the manual, and the manual page."""
    build(ROOT, "sdist", tmp_path)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    build(unpacked, "wheel", tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())

    files = git("ls-files", "src") - git("ls-files", "--deleted", "src")
    pages = git("ls-files", "docs/*.md") - {"docs/style.md"}
    assert {name for name in names if ".dist-info/" not in name and ".data/" not in name} == {
        name.removeprefix("src/") for name in files
    } | {name.replace("docs/", "lmm_education/manual/", 1) for name in pages}
    assert {name.rpartition(".data/")[2] for name in names if ".data/" in name} == {"data/share/man/man1/lmm.1"}
    assert {"constraints.txt", "README.md", "LICENSE"} <= {path.name for path in unpacked.iterdir()}


def build(project: Path, target: str, folder: Path) -> None:
    """Build without an environment of its own: nothing is downloaded."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)


def git(*words: str) -> set[str]:
    """The paths that git prints."""
    return set(subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())
