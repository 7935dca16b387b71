"""The real Pandoc and R for the tests of what renders: found or skipped, and started rarely."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

# Enough for every core of a small machine; more only makes R slow.
PROCESSES = max(2, min(4, os.cpu_count() or 2))

_R_SCRIPT = """
suppressMessages(library(knitr))
knit_job = function(kind, file) {
  knit_patterns$restore(); opts_knit$restore(); knit_hooks$restore(); opts_chunk$restore()
  env = new.env(parent = globalenv())
  switch(kind,
    knit = knit(file, "out.md", quiet = TRUE, envir = env),
    text = xfun::write_utf8(knit(text = xfun::read_utf8(file), quiet = TRUE, envir = env), "out.md"),
    render = rmarkdown::render(file, "html_fragment", output_file = "out.html", quiet = TRUE, envir = env))
}
for (line in readLines("JOBS")) {
  job = strsplit(line, "\\t")[[1]]
  setwd(job[2])
  failure = try(suppressMessages(suppressWarnings(knit_job(job[1], job[3]))), silent = TRUE)
  if (inherits(failure, "try-error")) writeLines(as.character(failure), "failure.txt")
}
"""


def need(program: str, *packages: str) -> None:
    """Skip the test where a program or an R package is missing; in CI fail instead, so that it is noticed."""
    missing = [] if shutil.which(program) else [program]
    missing += [] if missing else [name for name in packages if not _r_has(name)]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"{', '.join(missing)} must be installed in CI")
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")


@lru_cache
def _r_has(package: str) -> bool:
    found = subprocess.run(["Rscript", "-e", f'stopifnot(nzchar(system.file(package = "{package}")))'], check=False,
                           capture_output=True)  # fmt: skip
    return found.returncode == 0


@dataclass(frozen=True)
class Rendered:
    """What Pandoc said to one document."""

    status: int
    text: str
    errors: str

    @property
    def meta(self) -> Any:
        """The document's metadata; for output in JSON."""
        return json.loads(self.text)["meta"]

    @property
    def blocks(self) -> Any:
        """The document's content; for output in JSON."""
        return json.loads(self.text)["blocks"]


@lru_cache(maxsize=1000)
def pandoc(markdown: str, to: str) -> Rendered:
    """Pandoc's rendering of a markdown text; line ends are not translated on the way in."""
    done = subprocess.run(
        ["pandoc", "-f", "markdown", "-t", to], input=markdown.encode(), capture_output=True, check=False
    )
    return Rendered(done.returncode, done.stdout.decode(), done.stderr.decode())


def pandoc_all(texts: list[str], to: str) -> list[Rendered]:
    """`pandoc` for many texts, a few at a time."""
    with ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(lambda text: pandoc(text, to), texts))


@dataclass
class Job:
    """One document for R, in a folder of its own, so that what it writes is seen."""

    kind: str
    folder: Path
    file: str

    @property
    def output(self) -> str:
        """What knitr or R Markdown made of the document.

        Raises:
            AssertionError: it did not get that far.
        """
        assert not self.failure, self.failure
        name = "out.html" if self.kind == "render" else "out.md"
        return (self.folder / name).read_bytes().decode()

    @property
    def failure(self) -> str:
        """R's error message, if there was one."""
        path = self.folder / "failure.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def ran(self) -> list[str]:
        """The marker files that code of replies has written."""
        return sorted(path.name for path in self.folder.rglob("ran-*"))


@dataclass
class Batch:
    """Many documents for few R processes: starting R costs more than knitting a page."""

    root: Path
    jobs: list[Job] = field(default_factory=list)

    def add(self, kind: str, name: str, text: str) -> Job:
        """Plan one document: `kind` is ``knit``, ``text`` (knit a text without a file name) or ``render``."""
        folder = self.root / f"{len(self.jobs):03}"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(text.encode())
        (folder / "child.Rmd").write_text('`r cat("x", file = "ran-child")` SECRET\n')
        (folder / "_child.qmd").write_text("SECRET\n")
        job = Job(kind, folder, name)
        self.jobs.append(job)
        return job

    def run(self) -> None:
        """Run what was planned, the jobs dealt to the processes in turn."""
        with ThreadPoolExecutor(PROCESSES) as pool:
            list(pool.map(self._process, range(PROCESSES)))

    def _process(self, number: int) -> None:
        dealt = self.jobs[number::PROCESSES]
        if not dealt:
            return
        jobs, script = self.root / f"jobs-{number}.tsv", self.root / f"run-{number}.R"
        jobs.write_text("".join(f"{job.kind}\t{job.folder}\t{job.file}\n" for job in dealt))
        script.write_text(_R_SCRIPT.replace("JOBS", str(jobs)))
        subprocess.run(["Rscript", "--vanilla", str(script)], check=True, capture_output=True, timeout=110)


def r_strings(expression: str) -> list[str]:
    """The character vector that an R expression yields."""
    done = subprocess.run(["Rscript", "--vanilla", "-e", f"cat(jsonlite::toJSON({expression}))"], check=True,
                          capture_output=True, encoding="utf-8")  # fmt: skip
    return [str(item) for item in json.loads(done.stdout)]


def has_line(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a line of `text` matches, where lines end as R's `readLines` ends them."""
    return any(pattern.search(line) for line in re.split(r"\r\n|\r|\n", text))
