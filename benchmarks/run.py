"""Run all benchmarks and rewrite ``results.md`` beside this file: ``python -m benchmarks.run``."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

from benchmarks import (
    annotate_concurrently,
    answer_concurrently,
    chatmd_parse,
    chatmd_run,
    cli_start,
    edit_key,
    editor,
    embed,
    entries,
    headings,
    imports,
    ingest,
    many_edits,
    own_words,
    parse_serialize,
    rebase,
    retrieval,
    round_trip,
    serve,
    spans,
    store,
    vignettes,
    web_pages,
)
from benchmarks.measure import Row, load_average, machine, table

BENCHMARKS = (
    parse_serialize,
    round_trip,
    spans,
    chatmd_parse,
    chatmd_run,
    edit_key,
    many_edits,
    rebase,
    cli_start,
    editor,
    answer_concurrently,
    annotate_concurrently,
    embed,
    imports,
    vignettes,
    web_pages,
    ingest,
    own_words,
    headings,
    entries,
    retrieval,
    store,
    serve,
)
RESULTS = Path(__file__).with_name("results.md")
_APART = "\n## Measured apart\n"


def report(rows: list[Row], took: float, load: str, before: str = "") -> str:
    """The text of ``results.md``; what `before` has under *Measured apart* stays, as it was written by hand."""
    _, heading, apart = before.partition(_APART)
    return (
        "# Benchmarks\n\n"
        f"- Date: {datetime.date.today().isoformat()}\n"
        f"- Machine: {machine()}; {load}\n"
        f"- Command: `python -m benchmarks.run` ({took:.0f} s)\n\n"
        f"{table(rows)}\n"
        "Speeds and single-process times are the best of many runs, start times the median of 9. "
        f"`../shared` holds the real files; without it, their rows are skipped.\n{heading}{apart}"
    )


def main() -> None:
    """Measure everything, print the table, write the file."""
    start, before = time.perf_counter(), load_average()
    rows: list[Row] = []
    for benchmark in BENCHMARKS:
        print(f"… {benchmark.__name__}", flush=True)
        rows += benchmark.rows()
    load = f"load average {before} before, {load_average()} after"
    written = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    text = report(rows, time.perf_counter() - start, load, written)
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
