"""Fields of sections: what they are made from, and what happens while they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lmm.errors import Place
from lmm.markdown.tree import HeadingNode
from lmm.markdown.walk import without_metadata
from lmm.notebook.fingerprints import State

# -- what fields are made from ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Material:
    """What a value is made from.

    `text` is what the function that makes it gets. `counted` is the part of it whose change makes the value
    stale, by default all; `headings` the other part, whose change is only listed. `value` is taken as the
    value, without making one. A section whose material `stands` for itself gets no value; the section above
    it gets the material in its place.
    """

    text: str
    counted: str | None = None
    headings: tuple[str, ...] = ()
    value: Any = None
    stands: bool = False

    @property
    def fingerprinted(self) -> str:
        """The text whose change makes the value stale."""
        return self.text if self.counted is None else self.counted


def is_on(value: Any) -> bool:
    """Whether a switch such as ``skip`` or ``frozen`` is on; ``no`` and ``off`` are text in YAML 1.2, and mean no.

    >>> is_on(True), is_on("yes"), is_on("no"), is_on(None), is_on("False")
    (True, True, False, False, False)
    """
    return str(value).strip().lower() not in ("no", "off", "false", "n", "0", "none", "")


def sections_of(node: HeadingNode) -> list[HeadingNode]:
    """The sections directly under `node`, those with ``skip`` left out."""
    return [child for child in node.headings if not is_on(child.own("skip"))]


def text_of(node: HeadingNode) -> str:
    """The text directly under a heading, paragraphs with ``skip`` left out."""
    return without_metadata([b for text in node.texts if not is_on(text.own("skip")) for b in text.own_blocks()])


def own_material(node: HeadingNode, below: Sequence[Any]) -> str | None:
    """The default of `Field.source`: the section's own text, if it has any."""
    return text_of(node) or None


Make = Callable[[HeadingNode, str], Any]
MakeSource = Callable[[HeadingNode, Sequence[Any]], Material | str | None]


@dataclass(frozen=True, slots=True)
class Field:
    """A field that a batch model makes.

    Args:
        name: the field's name; it is written as ``~name``.
        make: the value from the section and its text, sync or async; called only where the field is missing
            or its text changed. None writes nothing.
        source: what the value is made from, given the section and the values (or the material that stands
            for them) of `sections_of` it; None leaves the field out.
        root: whether the document itself gets the field, in its header.
        made_by: names the prompt; with the model and the headings, it tells how a value was made.
    """

    name: str
    make: Make
    source: MakeSource = own_material
    root: bool = False
    made_by: str = ""


# -- what became of them ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Visited:
    """A field of a section was looked at: made anew (`made`), or not, for the reason in `state`."""

    field: str
    title: str
    place: Place
    state: State
    made: bool
