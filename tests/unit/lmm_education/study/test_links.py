"""The files that documents show or link to."""

from __future__ import annotations

import pytest

from lmm_education.study.notes import Link, local_links

FOUND = {
    "![a](fig/a.png)": ["fig/a.png"],
    "![a](<my fig.png>) [b](c(d).pdf)": ["my fig.png", "c(d).pdf"],
    '![a](a.png "title"){width=50%}': ["a.png"],
    "[![a](a.png)](b.pdf)": ["a.png", "b.pdf"],
    "see [data][1]\n\n[1]: data/x.csv 'x'": ["data/x.csv"],
    '<img alt="x" src="a.png">': ["a.png"],
    "[part](other.md#section)": ["other.md"],
    "```{r}\nknitr::include_graphics('fig/b.png')\n```": ["fig/b.png"],
    '```{r, child="part.Rmd"}\n```': ["part.Rmd"],
    "{{< include _part.qmd >}}": ["_part.qmd"],
    "---\nbibliography: refs.bib\ncss: [a.css, b.css]\n---\n": ["refs.bib", "a.css", "b.css"],
    "[web](https://x.org/a.png) [mail](mailto:a@b) [here](#a) [root](/a.png) [//](//x/y.png)": [],
    "```\n![a](a.png)\n```\n\n`![b](b.png)`": [],
    "<!-- ![a](a.png) -->": [],
    "[^1]: a note [x](y.png)": ["y.png"],
}


@pytest.mark.parametrize("text", FOUND)
def test_local_files(text: str) -> None:
    """Pictures and links, in the order in which they stand; not what is elsewhere, or shown as code."""
    assert [link.target for link in local_links(text)] == FOUND[text]


def test_lines_and_repetitions() -> None:
    """Each file once, where it stands first."""
    assert local_links("One\n![a](a.png)\n\n![a](a.png)\n") == [Link("a.png", 2)]
