"""A picture of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmm.disk.folder import check_named
from lmm.errors import ConfigError, FileWriteError, LmmError
from lmm_education.evaluation.report import Mean
from lmm_education.evaluation.results import Evaluation

SUFFIXES = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Fail before anything is measured if no picture can be written there.

    Raises:
        ConfigError: the kind of file is not known, or its folder is missing.
        LinkOutside: the file is a link that leads out of its folder.
        LmmError: matplotlib is not installed.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError("no kind of picture is called that", where=str(path), hint=f"use {', '.join(SUFFIXES)}")
    if not check_named(path).resolve().parent.is_dir():
        raise ConfigError("there is no such folder", where=str(path), hint=f"mkdir -p {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        hint = "pip install 'lmmarkdown[plot]'"
        raise LmmError("plots need a package that is not installed: matplotlib", hint=hint) from error


def save_plot(path: Path, evaluations: Sequence[Evaluation], by: Mean) -> None:
    """Write a picture of the variants, best on top: the mean of each level, with its 95 % interval.

    Raises:
        FileWriteError: it cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ordered = sorted(evaluations, key=lambda evaluation: evaluation.estimate(*by).mean)
    figure = Figure(figsize=(8, 1.2 + 0.4 * len(ordered)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    levels = [level for level in evaluations[0].levels if level != "document" or by.level == "document"]
    for shift, level in enumerate(levels):
        found = [evaluation.estimate(level, by.measure) for evaluation in ordered]
        means = [100 * estimate.mean for estimate in found]
        spans = [[100 * (e.mean - e.low) for e in found], [100 * (e.high - e.mean) for e in found]]
        heights = [i + 0.15 * (len(levels) - 1) / 2 - 0.15 * shift for i in range(len(ordered))]
        axes.errorbar(means, heights, xerr=spans, fmt="os^"[shift % 3], capsize=3, label=level)
    axes.set_yticks(range(len(ordered)), [evaluation.label for evaluation in ordered])
    axes.set_xlabel(f"{by.measure}, % (95 % interval)")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="best", frameon=False)
    try:
        figure.savefig(path)
    except OSError as error:
        raise FileWriteError(f"cannot be written: {error.strerror or error}", where=str(path)) from error
