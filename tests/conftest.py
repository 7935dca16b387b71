"""Test-wide settings: how hard the property tests search (HYPOTHESIS_PROFILE=default or thorough), and
an environment in which nothing of the developer's own counts: keys, servers, journal, approvals, vectors."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from memory import temporary_folder

from lmm.providers import parse_name

# The strategies assemble whole documents; that they take milliseconds is no sign of a bad test.
_SLOW_INPUT = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("default", max_examples=60, deadline=None, suppress_health_check=_SLOW_INPUT)
settings.register_profile("thorough", max_examples=2000, deadline=None, suppress_health_check=_SLOW_INPUT)
# In CI the same examples every time: a run there judges a change; new counterexamples are searched for elsewhere.
settings.register_profile(
    "ci", max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW_INPUT
)
# On a second Python: what differs there shows in a few examples.
settings.register_profile(
    "brief", max_examples=10, derandomize=True, database=None, deadline=None, suppress_health_check=_SLOW_INPUT
)
_PROFILE = "ci" if os.environ.get("CI") == "true" else "default"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _PROFILE))

_OF_THE_DEVELOPER = (
    "LMM_",
    "OPENAI_",
    "ANTHROPIC_",
    "GOOGLE_",
    "GEMINI_",
    "MISTRAL_",
    "CO_API_",
    "COHERE_",
    "VOYAGE_",
    "FASTEMBED_",
    "OLLAMA_",
    "VLLM_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
# Whether or not the extra is installed here, a new course gets the model that comes along; so it does in processes.
pytest.MonkeyPatch().setattr("lmm.config.default_embedding", lambda: parse_name("Builtin/wordllama"))


def _checked(descriptor: Any) -> None:
    """In place of `os.fsync`: no test takes the power away, so none waits for a disk; no file is an error as there."""
    if isinstance(descriptor, int) and descriptor < 0:
        raise ValueError(f"no file descriptor: {descriptor}")


pytest.MonkeyPatch().setattr("os.fsync", _checked)
# In the background of a shell, Ctrl-C is ignored, and so it is by each process that a test starts and then interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
# What one process of a run compiled, the others read: without that, each spends seconds on tests and on `src`.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
_WITHOUT_MEANING = str(Path(__file__).parent / "fakes" / "without_meaning")


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as cores: a third of the time, tests wait for servers, browsers and processes."""
    return (os.cpu_count() or 1) * 3 // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first: at the end, the other processes would wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def state_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test has a state and a cache folder of its own, and no key or server from the developer's environment."""
    for name in list(os.environ):
        if name.upper().startswith(_OF_THE_DEVELOPER) and not name.startswith("LMM_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (_WITHOUT_MEANING, os.environ.get("PYTHONPATH")))))
    with temporary_folder() as folder:
        monkeypatch.setenv("LMM_STATE_DIR", str(folder))
        monkeypatch.setenv("LMM_CACHE_DIR", str(folder / "cache"))
        yield folder
