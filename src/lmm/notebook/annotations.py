"""The RAG annotations: titles, questions, keywords and summaries of sections, as a batch model.

- ``titles``: the path of headings, made without a model.
- ``summary``: of a section's own text and of its subsections' summaries; also of the document.
- ``questions`` and ``keywords``: from a section's own text and its subsections' questions or keywords.

The texts of solutions are not shown to the model. A section with one subsection and no text of its own takes that
subsection's value. A section that is too short for questions, with no subsection that is long enough, gets none: its
text is used for the one above. A small entry, a section that fits into a chunk with everything below it, is found as
one: it gets one summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from lmm.config import ANNOTATIONS, Settings
from lmm.errors import ConfigError, EmptyReply
from lmm.markdown.tree import HeadingNode, count_words
from lmm.messages import Attachment, Task
from lmm.models.structured import object_of
from lmm.notebook.batch import BatchFunction
from lmm.notebook.generated_fields import Batch, Field, FieldMaterial, Make, MakeTogether, Values, sections_of, text_of
from lmm.notebook.text_types import stretches
from lmm.prompts.templates import Prompts, packaged_prompt
from lmm.type_names import DEFAULT, is_one_of

LANGUAGES = {
    "en": "English", "de": "German", "fr": "French", "it": "Italian", "es": "Spanish", "pt": "Portuguese",
    "nl": "Dutch", "pl": "Polish", "sv": "Swedish", "da": "Danish", "cs": "Czech", "ja": "Japanese", "zh": "Chinese",
}  # fmt: skip
# The annotations made by a model: the number of words below which a text is not worth a call, and the most items.
_LEAST: dict[Task, int] = {"summary": 50, "questions": 15, "keywords": 15}
_MOST = {"questions": 5, "keywords": 10}
_SUMMARY_WORDS = "80"  # at most
_TEXT: dict[str, Any] = {"type": "string"}
_LIST = {"type": "array", "items": _TEXT}
# Identify the packaged prompts in fingerprints: with another wording of ours, annotations are not out of date.
_RECIPES = Prompts(
    {
        "summary": "Summarise the text in at most {words} words, in {language}, as a paragraph of plain sentences that "
        "can stand alone. Name the topics by the words that the text uses. Reply with the summary only.",
        "questions": "Write up to five questions, in {language}, that a student might ask and that the text answers. "
        "One question per line; no numbers, no bullets, nothing else.",
        "keywords": "List up to ten key terms of the text, in {language}, in the form in which they occur there. "
        "One term per line; no numbers, no bullets, nothing else.",
    }
)


def chosen(settings: Mapping[str, bool], flags: Mapping[str, bool | None]) -> tuple[str, ...]:
    """Return the annotations that are on; `flags` of the command line override the settings.

    >>> chosen({"titles": True, "questions": True}, {"questions": False, "summary": True, "titles": None})
    ('titles', 'summary')
    """
    switches = {name: settings.get(name) if flags.get(name) is None else flags[name] for name in ANNOTATIONS}
    return tuple(name for name in ANNOTATIONS if switches[name])


async def annotate(batch: Batch, names: Collection[str], prompts: Prompts, entry_size: int = 0) -> None:
    """Generate the named annotations where they are missing or their text has changed.

    With an `entry_size` in characters, every section gets a summary, except for those in an entry of at most this size.
    """
    slots = {"language": language_name(batch.language), "words": _SUMMARY_WORDS}
    entries = Entries.of(batch.tree, entry_size)
    fields = [Field("titles", source=_title_path)] if "titles" in names else []
    wordings = {name: prompts.fill(name, **slots) for name in _LEAST if name in names}
    for name, prompt in wordings.items():
        packaged = prompts.texts[name] == packaged_prompt(name)
        make = None if packaged else _by_own_prompt(batch, name, prompt, entries)
        recipe = _RECIPES.fill(name, **slots) if packaged else prompt
        fields.append(Field(name, make, partial(_material_of, name, entries), name == "summary", recipe))
    await batch.make_fields(*fields, together=_together(batch, wordings, entries))


def rag_annotations(
    fields: Mapping[str, bool | None], load: Callable[[Path | None], Prompts], *, named: bool = False
) -> Callable[[Settings], BatchFunction]:
    """Return the batch model of the RAG annotations: those of the settings, switched on or off by `fields`.

    `load` loads the prompts of a folder, or the packaged ones. Unless a model was `named`, the built-in model, the
    default without configuration, must not write into a document: this raises a ConfigError.
    """

    def choose(settings: Settings) -> BatchFunction:
        names = chosen(msgspec.structs.asdict(settings.annotations), fields)
        tier = settings.major if settings.minor.layer == "follows" else settings.minor
        is_default = settings.minor.model.provider == "Builtin" and tier.layer == "default"
        if not named and set(names) - {"titles"} and is_default:
            what = f"no language model is configured, and {settings.minor.model} annotates only if you choose it"
            hint = "set model under [minor] in config.toml, or choose one: --model Ollama/llama3.2"
            raise ConfigError(what, hint=hint)
        prompts = load(settings.prompts.folder)
        return partial(annotate, names=names, prompts=prompts, entry_size=settings.entry_size)

    return choose


def language_name(code: str) -> str:
    """Return the English name of a language, for prompts; unknown codes are returned unchanged.

    >>> language_name("de-CH"), language_name("rm")
    ('German', 'rm')
    """
    return LANGUAGES.get(re.split("[-_]", code)[0].lower(), code)


OWN_WORDS = 200
"""Most characters of a text directly below a heading that is read with each section below: a name, a date."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The sections `inside` entries of at most `size` characters, the short texts directly below the headings
    `above` each section, and the `solutions`, by the ids of the nodes."""

    size: int
    inside: Collection[int]
    above: Mapping[int, str]
    solutions: Collection[int]

    @classmethod
    def of(cls, tree: HeadingNode, size: int) -> Self:
        """Find the entries of at most `size` characters; with 0, there are none."""
        inside, above, solutions = set[int](), dict[int, str](), solutions_in(tree)

        def visit(node: HeadingNode, words: tuple[str, ...]) -> tuple[int, list[int]]:
            own, below = text_of(node, solutions), list[int]()
            above[id(node)] = "\n\n".join(words)
            words += (own,) if 0 < len(own) <= OWN_WORDS else ()
            length = len(own) + len(node.title)
            for child in sections_of(node):
                more, ids = visit(child, words)
                length, below = length + more, [*below, id(child), *ids]
            inside.update(below if node.level and length <= size else ())
            return length, below

        visit(tree, ())
        return cls(size, inside, above, solutions)


def solutions_in(tree: HeadingNode) -> set[int]:
    """Return the ids of the nodes that are solutions, as far as a course takes them for these.

    >>> from lmm.markdown.tree import load_text, preorder
    >>> tree = load_text("# A\\n\\nWhy?\\n\\n---\\ntype: solution\\n---\\nSo.\\n\\nAnd so.\\n\\n# B\\n\\nText.\\n")
    >>> [node.text for node in preorder(tree) if id(node) in solutions_in(tree)]
    ['So.', 'And so.']
    """
    return {id for id, each in stretches(tree).items() if any(is_one_of(kind, DEFAULT.lasting) for kind in each.types)}


# -- asking ----------------------------------------------------------------------------------------


def _together(batch: Batch, wordings: Mapping[Task, str], entries: Entries) -> MakeTogether:
    """Return the function that asks for several annotations of a section in one call."""

    async def make(node: HeadingNode, names: Sequence[str], below: Sequence[Values]) -> Values:
        types = {name: _LIST if name in _MOST else _TEXT for name in names}
        schema = object_of(
            **{name: types[name] | {"description": wordings[name]} for name in wordings if name in types}
        )
        system = packaged_prompt("annotate").replace("{schema}", schema.text)
        about = _attachments(node, _material_text(node, below, names, entries), entries)
        made = await batch.value("Annotate this section.", *about, schema=schema, task="annotate", system=system)
        texts = {name: value.strip() for name, value in made.items() if isinstance(value, str)}
        lists = {name: [*filter(None, map(_unmarked, made[name]))][: _MOST[name]] for name in made.keys() - texts}
        return {name: _or_error(name, (texts | lists)[name]) for name in names}

    return make


def _by_own_prompt(batch: Batch, name: Task, prompt: str, entries: Entries) -> Make:
    """Return the function that asks for an annotation with a prompt of the project, in a call of its own."""

    async def make(node: HeadingNode, text: str) -> str | list[str] | EmptyReply:
        reply = await batch.ask(prompt, *_attachments(node, text, entries), task=name)
        return _or_error(name, lines_of(reply) if name in _MOST else reply.strip())

    return make


def _or_error(name: str, value: str | list[str]) -> str | list[str] | EmptyReply:
    return value or EmptyReply(f"the reply contains no {name}", hint="run again with --again")


def _attachments(node: HeadingNode, text: str, entries: Entries) -> list[Attachment]:
    source, above = " > ".join((*node.heading_path, node.title)), entries.above.get(id(node), "")
    context = [Attachment(above, "context", " > ".join(node.heading_path))] if above else []
    return [Attachment(text, "text", source), *context]


# -- material --------------------------------------------------------------------------------------


def _material_of(name: Task, entries: Entries, node: HeadingNode, below: Sequence[Any]) -> FieldMaterial | None:
    """Return the material for a field: the section's own text, and the value of each subsection."""
    own = text_of(node, entries.solutions)
    if not own and len(below) == 1 and below[0] is not None and not isinstance(below[0], FieldMaterial):
        return FieldMaterial(_as_text(below[0]), value=below[0])
    counted, headings = [own], list[str]()
    for child, value in zip(sections_of(node), below, strict=True):
        part = value if isinstance(value, FieldMaterial) else FieldMaterial(_as_text(value))
        counted.append(part.fingerprinted)
        headings += [_heading(child), *part.headings]
    text = _joined(counted)
    if not text:
        return None
    if above := entries.above.get(id(node)):
        headings.append(above)
    material = _material_text(node, [{name: value} for value in below], [name], entries)
    if name == "summary" and entries.size:
        passes_through = id(node) in entries.inside or not re.search(r"\w", material)
    else:
        made = any(value is not None and not isinstance(value, FieldMaterial) for value in below)
        passes_through = not made and count_words(text) < _LEAST[name]
    return FieldMaterial(material, text, tuple(headings), passes_through=passes_through)


def _material_text(node: HeadingNode, below: Sequence[Values], names: Sequence[str], entries: Entries) -> str:
    """Return a section's text, and under the heading of each subsection its annotations, or its text."""
    parts = [text_of(node, entries.solutions)]
    for child, values in zip(sections_of(node), below, strict=True):
        parts += [_heading(child), *dict.fromkeys(_part(name, values.get(name)) for name in names)]
    return _joined(parts)


def _heading(node: HeadingNode) -> str:
    return f"{'#' * node.level} {node.title}".rstrip()


def _part(name: str, value: Any) -> str:
    """Return an annotation of a subsection under its name, or the text in its place."""
    if isinstance(value, FieldMaterial):
        return value.text
    return f"{name.capitalize()}:\n{text}" if (text := _as_text(value)) else ""


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return "" if value is None else str(value)


def _title_path(node: HeadingNode, below: Sequence[Any]) -> FieldMaterial | None:
    path = (*node.heading_path, node.title)
    title = next((a.title for a in node.ancestors() if a.level == 0), path[0]) or "Untitled"
    path = path if title == path[0] else (title, *path)  # the first heading may repeat it
    text = " - ".join(filter(None, path))
    return FieldMaterial(text, value=text) if text else None


def lines_of(reply: str) -> list[str]:
    """Return the lines of a reply, or the strings in its JSON, without the announcements and marks that models add.

    Only the marks of a list are removed: a line that begins with another number keeps it.

    >>> lines_of("1. What is a leaf?\\n2) Why?\\n- And then?\\n\\n2.5 sd rule")
    ['What is a leaf?', 'Why?', 'And then?', '2.5 sd rule']
    >>> lines_of('Here are two:\\n\\n```json\\n["Why?", "How?"]\\n```'), lines_of("Sure:\\n**Why?**")
    (['Why?', 'How?'], ['Why?'])
    """
    listed = re.search(r"\[\s*\".*\"\s*\]", reply, re.DOTALL)
    with suppress(ValueError):
        items = json.loads(listed[0]) if listed else []
        if items and all(isinstance(item, str) for item in items):
            return [item.strip() for item in items if item.strip()]
    lines = map(_unmarked, reply.splitlines())
    return [line for line in lines if line and not line.endswith(":") and not line.startswith(("```", "~~~"))]


def _unmarked(line: str) -> str:
    line = re.sub(r"^\s*(?:\d{1,2}[.)]|[-*•])(?:\s+|$)", "", line).strip()
    return line[2:-2] if line.startswith("**") and line.endswith("**") else line
