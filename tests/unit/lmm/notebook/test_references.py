"""Citations that no bibliography has are named: when a reply arrives, when it is accepted, and by scan."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm import Document
from lmm.messages import Event, Notice
from lmm.testing import ScriptedModel

INVENTED = [f"author{number}_{1990 + number}" for number in range(20)]
BIB = "@comment{no}\n@book{darwin1859,\n  title = {Origin}}\n@Article{ Fox:2015 , year=2015}\n"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A chapter of a Quarto project whose bibliography is beside the project's file."""
    (tmp_path / "_quarto.yml").write_text("project:\n  type: book\nbibliography: refs/all.bib\n")
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "all.bib").write_text(BIB)
    (tmp_path / "part").mkdir()
    return tmp_path / "part" / "a.qmd"


def noticed(events: list[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Notice))


def test_twenty_invented_keys_are_found_on_arrival_and_by_scan(notes: Path) -> None:
    notes.write_text("---\n?: which sources?\n---\nSpecies change [@darwin1859].\n")
    events = list[Event]()
    document = Document.open(notes, listener=lambda event, place: events.append(event))
    reply = "Real: [@darwin1859; @Fox:2015]. " + " ".join(f"As @{key} says." for key in INVENTED[:10])
    reply += " " + "; ".join(f"[see @{key}, p. 3]" for key in INVENTED[10:])
    document.answer(model=ScriptedModel([reply + " Not: @fig-a, me@example.org, `[@code]`, @sec-x."])).check()
    for shown in (noticed(events), document.text, "\n".join(found.message for found in document.problems())):
        assert all(f"@{key}" in shown for key in INVENTED)
    warning = next(found.message for found in document.problems() if "bibliography" in found.message)
    assert warning.count("@") == 20


def test_accept_names_what_an_edit_cites_and_no_bibliography_has(notes: Path) -> None:
    notes.write_text("---\n=: add a source\n---\nSpecies change [@mine2001].\n")
    events = list[Event]()
    document = Document.open(notes, listener=lambda event, place: events.append(event))
    new = "<new>\nSpecies change [@mine2001; @ghost2020; @Fox:2015].\n</new>"
    document.answer(model=ScriptedModel([new])).check()
    assert "warning: it cites what is in no bibliography: @ghost2020" in noticed(events)
    assert "@mine2001" not in noticed(events)
    events.clear()
    assert document.accept() == 1
    assert noticed(events) == "it cites what is in no bibliography: @ghost2020"


def test_what_cannot_be_known_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\nbibliography: missing.bib\n---\nSee [@darwin1859].\n")
    assert Document.open(tmp_path / "a.md").problems() == ()
    own = "---\ntitle: T\nreferences:\n- id: doe2001\n---\nSee [@doe2001] and @roe2002, (@good) {#sub2001}, @sub2001.\n"
    assert [found.message for found in Document.from_text(own).problems()] == [
        "it cites what is in no bibliography: @roe2002"
    ]
    assert Document.from_text("Thanks to [@somebody2020] and @ann.\n").problems() == ()


def test_a_key_without_brackets_is_one_where_there_is_a_bibliography(notes: Path) -> None:
    """The name of an account whose address is there is none, nor is a figure with a capital."""
    notes.write_text("As @x1 says, see @Fig-a. Follow [@ann](https://example.org/ann).\n")
    assert [found.message for found in Document.open(notes).problems()] == ["it cites what is in no bibliography: @x1"]
