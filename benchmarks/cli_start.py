"""How long commands take in a fresh process, and what they must not import to get there."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Row, seconds, show, times

RUNS = 9
HEAVY = ("pydantic_ai", "openai", "httpx", "numpy", "wordllama", "fastembed", "sentence_transformers", "model2vec")
FORBIDDEN: Mapping[str, Sequence[str]] = {
    "lmm": (*HEAVY, "pydantic", "yaml"),
    "lmm.cli.main": (*HEAVY, "pydantic", "yaml"),
    "lmm.markdown": (*HEAVY, "pydantic"),
    "lmm.scan": (*HEAVY, "pydantic"),
}
SMALL_FILE = "---\ntitle: Cells\ndocid: cells-000000\n---\n\n# Cells\n\nCells divide.\n"
LIMITS = {"--help": 0.2, "search": 1.0}
COMMANDS = (
    ("lmm", "--help"),
    ("lmm", "messages", "--help"),
    ("lmm", "search", "--help"),
    ("lmm", "scan", "--check", "small.md"),
    ("lmm", "status"),
    ("lmm", "search", "how do cells divide?"),
)


def rows() -> list[Row]:
    """Median wall time of each command; `python -c pass` is what no Python program can go below."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "small.md").write_text(SMALL_FILE, encoding="utf-8")
        wall_time([*_lmm(), "ingest", "small.md"], folder, runs=1)
        bare = wall_time([sys.executable, "-c", "pass"], folder)
        pip = wall_time([sys.executable, "-m", "pip", "--version"], folder)
        found = [_row(words, wall_time([*_lmm(), *words[1:]], folder), bare, pip) for words in COMMANDS]
    loaded = {module: imported(module, names) for module, names in FORBIDDEN.items()}
    assert not any(loaded.values()), f"heavy imports: {loaded}"
    return [
        *found,
        Row(f"heavy modules imported by {', '.join(FORBIDDEN)}", "", "none", "", "none (asserted)", True),
    ]


def _row(words: Sequence[str], ours: float, bare: float, pip: float) -> Row:
    """``--help`` and ``search`` have a target: the other commands also pay for what they do."""
    peer = f"python -c pass {seconds(bare)}, pip --version {seconds(pip)}"
    limit = next((limit for word, limit in LIMITS.items() if word in words), None)
    return Row(
        " ".join(words),
        peer,
        seconds(ours),
        f"{pip / ours:.1f} × pip",
        f"≤ {seconds(limit)}" if limit else "",
        ours <= limit if limit else None,
    )


def _lmm() -> list[str]:
    """The installed command, which is what people start."""
    script = Path(sys.executable).with_name("lmm")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "lmm"]


def wall_time(command: Sequence[str], folder: str, *, runs: int = RUNS) -> float:
    """Median seconds from start to exit, in `folder`, with a state folder there."""
    env = {**os.environ, "LMM_STATE_DIR": str(Path(folder, "state"))}

    def run() -> None:
        subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)

    return statistics.median(times(run, runs))


def imported(module: str, names: Sequence[str]) -> list[str]:
    """Which of `names` are loaded after `module` was imported in a fresh process."""
    code = f"import sys, {module}; print(*sorted(set({list(names)!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.split()


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
