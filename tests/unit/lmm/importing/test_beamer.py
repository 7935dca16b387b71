"""Slides in LaTeX."""

from __future__ import annotations

import pytest

from lmm.importing.imported import Context
from lmm.importing.pandoc import find_pandoc, read

DECK = r"""\documentclass[10pt]{beamer}
\begin{document}
\section{Cells}
%s
\end{document}
"""


@pytest.mark.parametrize(
    ("frame", "shown"),
    [
        (r"\begin{frame}<1->[t]{A \textbf{title}}Text.\end{frame}", "## A **title**\n\nText.\n"),
        (r"\frame{\frametitle{Old} Text.}", "## Old\n\nText.\n"),
        (r"\begin{frame}{T}{Sub}Text.\end{frame}", "## T\n\n*Sub*\n\nText.\n"),
        (
            r"\begin{frame}{T}\only<2>{A} \alt<1>{B}{C} \onslide<3> D \textbf<2>{E}\end{frame}",
            "## T\n\nA B C D **E**\n",
        ),
        (r"\begin{frame}{T}A.\only<1>{B.}\uncover<2>{C.}\end{frame}", "## T\n\nA. B. C.\n"),
        (r"\begin{frame}{T}A\note<1>{B\par C}\end{frame}", "## T\n\nA\n\n::: notes\nB\n\nC\n:::\n"),
        (r"\begin{frame}{T}\begin{itemize}\item<+-> A\item<2> B\end{itemize}\end{frame}", "## T\n\n- A\n\n- B\n"),
        (r"\begin{frame}{T}\begin{block}{Why}<2->Text.\end{block}\end{frame}", "## T\n\n**Why**\n\nText.\n"),
        (
            r"\begin{frame}{T}\begin{columns}[T]\begin{column}{0.5\textwidth}A\end{column}\column{4cm}B\end{columns}\end{frame}",
            "## T\n\nA\n\nB\n",
        ),
        (
            r"\begin{frame}{T}\begin{tabular}{lS[table-format=1.2]}A & {B}\\\hline a & 1.5\end{tabular}\end{frame}",
            "## T\n\n| A   |   B |\n|:----|----:|\n| a   | 1.5 |\n",
        ),
        (r"\begin{frame}{T}$\alpha < 1 > \beta$\end{frame}", "## T\n\n$\\alpha < 1 > \\beta$\n"),
    ],
)
def test_frames_are_sections_with_all_that_they_show(frame: str, shown: str) -> None:
    """Titles of any form, overlays, blocks."""
    program = find_pandoc("latex").program
    document = read((DECK % frame).encode(), Context("a.tex", kind="LaTeX", reader="latex", pandoc=program))
    assert document.body == f"# Cells\n\n{shown}"
