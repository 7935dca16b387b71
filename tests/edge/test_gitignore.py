"""What is ignored is what git ignores."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lmm.disk.names import is_ignored, parse_ignore

PARTS = st.sampled_from(["a", "b", "ab", "a.b", "c", "a b"])
PATTERN_PARTS = st.sampled_from(["a", "b", "ab", "*", "a*", "*.b", "?", "[ab]", "[!a]", "**", "a\\*", "a b", "a**b"])
PATTERNS = st.builds(
    lambda kept, start, parts, end: kept + start + "/".join(parts) + end,
    st.sampled_from(["", "", "", "!"]), st.sampled_from(["", "", "/"]), st.lists(PATTERN_PARTS, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " ", "\\ "]),
)  # fmt: skip
PATHS = st.lists(st.lists(PARTS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty repository."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    place = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", place], check=True, capture_output=True)
    return place


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patterns=st.lists(PATTERNS, min_size=1, max_size=4), paths=PATHS)
def test_the_same_as_git(repository: Path, patterns: list[str], paths: list[tuple[str, ...]]) -> None:
    """For any rules and paths of files, where no folder above is ignored."""
    text = "\n".join(patterns) + "\n"
    (repository / ".gitignore").write_text(text)
    layers = ((0, parse_ignore(text)),)
    asked = "\0".join("/".join(path) for path in paths)
    done = subprocess.run(
        ["git", "-C", repository, "check-ignore", "--no-index", "-z", "--stdin"],
        input=asked.encode(), capture_output=True, check=False,
    )  # fmt: skip
    theirs = {tuple(path.split("/")) for path in done.stdout.decode().split("\0") if path}
    ours = {
        path
        for path in paths
        if is_ignored(layers, path, False) or any(is_ignored(layers, path[:n], True) for n in range(1, len(path)))
    }
    assert ours == theirs, text
