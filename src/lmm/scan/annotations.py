"""The RAG annotations: titles, questions, keywords and summaries of sections, as a batch model.

- ``titles``: the path of headings, by code.
- ``summary``: of a section's own text and of its subsections' summaries; also of the document.
- ``questions`` and ``keywords``: from a section's own text and its subsections' questions or keywords.

A section with one subsection and no text of its own takes that subsection's value. A section that is too
short to be summarised stands for itself: the section above sees its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmm.config import ANNOTATIONS
from lmm.markdown.tree import HeadingNode
from lmm.markdown.walk import annotated_text, own_text
from lmm.models.port import Document
from lmm.prompts.templates import Prompts
from lmm.scan.batch import Batch

LANGUAGES = {
    "en": "English", "de": "German", "fr": "French", "it": "Italian", "es": "Spanish", "pt": "Portuguese",
    "nl": "Dutch", "pl": "Polish", "sv": "Swedish", "da": "Danish", "cs": "Czech", "ja": "Japanese", "zh": "Chinese",
}  # fmt: skip
# Texts of fewer words are not worth a call.
SUMMARY_WORDS = 50
QUESTION_WORDS = 15


@dataclass(frozen=True, slots=True)
class Annotations:
    """Which annotations are wanted, and how long summaries may be (in words)."""

    fields: tuple[str, ...] = ("titles",)
    summary_words: int = 80


def chosen(settings: Mapping[str, bool], flags: Mapping[str, bool | None]) -> tuple[str, ...]:
    """The annotations that are on, the command line's choice before the settings'.

    >>> chosen({"titles": True, "questions": True}, {"questions": False, "summary": True, "titles": None})
    ('titles', 'summary')
    """
    wanted = {name: flags.get(name) if flags.get(name) is not None else settings.get(name) for name in ANNOTATIONS}
    return tuple(name for name in ANNOTATIONS if wanted[name])


async def annotate(batch: Batch, annotations: Annotations, prompts: Prompts) -> None:
    """Make the chosen annotations where they are missing or their text changed."""
    if "titles" in annotations.fields:
        await batch.annotate("titles", _titles, source=_title_path)
    language = LANGUAGES.get(batch.language.split("-")[0].lower(), batch.language)
    words = str(annotations.summary_words)
    texts = {
        "summary": prompts.fill("summary", language=language, words=words),
        "questions": prompts.fill("questions", language=language),
        "keywords": prompts.fill("keywords", language=language),
    }
    for name in ("summary", "questions", "keywords"):
        if name in annotations.fields:
            await _from_model(batch, name, texts[name])


async def _from_model(batch: Batch, name: str, prompt: str) -> None:
    async def make(node: HeadingNode, text: str) -> Any:
        if text.startswith(_TAKEN):
            return _only_child_value(node, name)
        source = " > ".join((*node.heading_path, node.title))
        reply = await batch.ask(prompt, Document(text, "text", source), task=_TASKS[name])
        return reply.strip() if name == "summary" else lines_of(reply)

    def source(node: HeadingNode, below: Sequence[Any]) -> str | None:
        return _text_for(node, name, below)

    await batch.annotate(name, make, source=source, root=name == "summary", made_by=prompt)


_TASKS: dict[str, Any] = {"summary": "summary", "questions": "questions", "keywords": "keywords"}
_TAKEN = "\0taken from the only subsection: "


def _text_for(node: HeadingNode, name: str, below: Sequence[Any]) -> str | None:
    """What a field is made from: the section's own text, then what is known of each subsection."""
    own = own_text(node)
    children = [child for child in node.headings if not child.own("skip")]
    if not own and len(children) == 1 and below[0]:
        return _TAKEN + _as_text(below[0])
    parts = [own] if own else []
    for child, value in zip(children, below, strict=True):
        if value:
            parts.append(f"{'#' * child.level} {child.title}\n\n{_as_text(value)}")
        elif name == "summary":
            parts.append(annotated_text(child))
    text = "\n\n".join(parts)
    least = SUMMARY_WORDS if name == "summary" else QUESTION_WORDS
    return text if len(text.split()) >= least else None


def _as_text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _only_child_value(node: HeadingNode, name: str) -> Any:
    return next(child.own(name) for child in node.headings if not child.own("skip"))


def _title_path(node: HeadingNode, below: Sequence[Any]) -> str | None:
    return " - ".join((*_document_title(node), *node.heading_path, node.title))


def _document_title(node: HeadingNode) -> tuple[str, ...]:
    root = [a for a in node.ancestors() if a.level == 0]
    title = root[0].title if root else ""
    first = (*node.heading_path, node.title)[0]
    return (title,) if title and title != first else ()


def _titles(node: HeadingNode, text: str) -> str:
    return text


def lines_of(reply: str) -> list[str]:
    """The lines of a reply, without the numbers and bullets that models add all the same.

    Only a list's own marks go: a line that begins with a number keeps it.

    >>> lines_of("1. What is a leaf?\\n2) Why?\\n- And then?\\n\\n2.5 sd rule")
    ['What is a leaf?', 'Why?', 'And then?', '2.5 sd rule']
    """
    lines = (re.sub(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+", "", line).strip() for line in reply.splitlines())
    return [line for line in lines if line]
