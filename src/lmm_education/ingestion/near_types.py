"""Metadata that say who may read a text: near misses are taken for what was meant, and what cannot be read is refused;
and headings that are named after a type of text: Exercises, Solution, Lösungen.

``Type: solution``, ``type:solution`` and ``type: solutions`` are meant as ``type: solution``: students must not see
what is below them.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from lmm.markdown import metadata, spans
from lmm.markdown.blocks import Block, MetadataBlock, TextBlock
from lmm.markdown.lookalikes import CONFLICT, RESOLVE, Lookalike, conflicts, find_lookalikes
from lmm.markdown.metadata import bare_key, is_slip
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.notebook.generated_fields import is_on
from lmm.notebook.problems import CONTROLS
from lmm_education.errors import UnreadableMetadata
from lmm_education.payloads import is_one_of, texts_of

_CONTROLS = tuple(CONTROLS)
_NO_SPACE = re.compile(
    rf"^([ \t]*(?:-[ \t]+)?)({'|'.join(_CONTROLS)})([ \t]*):(?=[^\s:])", re.MULTILINE | re.IGNORECASE
)
_CONTROLLED = re.compile(rf"(?:{'|'.join(_CONTROLS)})\W{{0,12}}?[:：=]", re.IGNORECASE)  # few texts have one
_WORDS = re.compile(r"[\s,;/+&|]+")
_LONG = 5  # letters of a type that a slip leaves recognisable
_SWITCH = re.compile(r"(?:true|yes|on|1|false|no|off|0)\Z", re.IGNORECASE)

_LIKE_TYPE = ("kind", "category", "categories", "class", "role", "tag", "tags")
_HIDES = ("hidden", "hide", "private", "exclude", "ignore", "draft", "unlisted", "skipped")
_SHOWS = ("public", "published", "visible", "students")
_ALONE = re.compile(r"^[^\w\n`]*(type|kind|skip)\b[^\w\n]{0,4}([^\W\d][\w ]*?)?[^\w\n]*$", re.MULTILINE | re.IGNORECASE)

# -- headings named after a type -------------------------------------------------------------------

# Names of headings, besides the name of a type and its plural: over one, and over several.
_CALLED = {
    "exercise": (
        "übung aufgabe exercice ejercicio esercizio exercício oefening",
        "übungen übungsaufgaben aufgaben exercices ejercicios esercizi exercícios oefeningen",
    ),
    "summary": ("zusammenfassung résumé resumen riassunto resumo samenvatting", ""),
    "solution": (
        "lösung musterlösung corrigé solución soluzione solução oplossing",
        "lösungen musterlösungen corrigés soluciones soluzioni soluções oplossingen",
    ),
}
_DIGITS = "0123456789. \t\xa0\u202f"


def named_type(title: str, types: Iterable[str], *, plural: bool = False) -> str:
    """Return the type that a heading is named after, empty if there is none; with `plural`, only names over several.

    >>> named_type("3.2 Solutions:", ["exercise", "solution"]), named_type("Solutions of salt", ["solution"])
    ('solution', '')
    """
    bare = title.lstrip(_DIGITS).rstrip(f"{_DIGITS}:").casefold()
    return next((kind for kind in types if bare in _names(kind.strip().casefold(), plural=plural)), "")


@functools.lru_cache(maxsize=64)
def _names(type: str, *, plural: bool) -> set[str]:
    """Return the names of headings over texts of a type; with `plural`, only those over several."""
    one, several = _CALLED.get(type, ("", ""))
    plurals = {*(type + ending for ending in ("s", "es", "n", "en")), *several.split()}
    return plurals if plural else {type, *one.split(), *plurals}


def lines_naming(text: str, types: Iterable[str]) -> list[int]:
    """Return the lines of a text, from 1, with a name of one of the types in them.

    >>> lines_naming("Why?\n**Lösung.** So.\n", ["solution"])
    [2]
    """
    names = {name for kind in types for name in _names(kind.strip().casefold(), plural=False)}
    answers = {name for each in _ANSWERS if "solution" in names for name in _names(each, plural=False)}
    folded, found = text.casefold(), set[int]()
    starts = [*accumulate((len(line) + 1 for line in folded.split("\n")), initial=0)]
    for name in names | answers:
        at = folded.find(name)
        while at >= 0:
            found.add(bisect_right(starts, at))
            at = folded.find(name, starts[bisect_right(starts, at)])
    return sorted(found)


# Words at the start of a paragraph, in emphasis or with a number or a stop: "**Solution 2.1.**", "Exercise 2:".
_LABEL = re.compile(
    r"(?P<lead>[ \t>]*)(?:(?P<mark>\*{1,3}|_{1,3})(?P<words>[^\W\d_][^*_\n]{1,120}?)(?P=mark)(?P<after>[ \t]*[^\n]?)"
    r"|(?P<plain>[^\W\d_]+(?:[ \t]+\(?\d[\w.)]*|(?=[.:])))[.:]?(?=\s|\Z))"
)
_TITLE_WORDS = 4  # "Show the solution", "Lösung zu Aufgabe 3"; longer titles are about something else
_WORD = re.compile(r"[^\W\d_]+")
_NUMBERED_LABEL = re.compile(r"[^\W\d_]+\s+\d+\.\d")
_ANSWERS = ("answer", "antwort")


@dataclass(frozen=True, slots=True)
class Label:
    """The words with which a paragraph is labelled, the type that they name (or nothing), and how they stand there."""

    words: str
    type: str
    is_emphasized: bool
    is_quoted: bool
    indentation: int

    @property
    def is_certain(self) -> bool:
        """Whether it is in emphasis: only then what follows is of its type without metadata."""
        return bool(self.type) and self.is_emphasized

    @property
    def is_numbered(self) -> bool:
        """Whether it is a word with a number of two parts, as in "Definition 2.2"."""
        return _NUMBERED_LABEL.match(self.words) is not None


def label_of(text: str, types: Collection[str]) -> Label | None:
    """Return the label of a paragraph, None if it has none; the type is that of `types` that its first words name.

    >>> [label_of(text, ["solution"]).type for text in ("**Lösung 5.1.** So.", "Solution 6.1. So.", "**Leaf 1.1.** A")]
    ['solution', 'solution', '']
    >>> label_of("**Solutions** of salt conduct.", ["solution"]), label_of("Solutions of salt", ["solution"])
    (None, None)
    """
    match = _LABEL.match(text)
    if match is None or (after := (match["after"] or "").strip()).islower():
        return None
    words = (match["words"] or match["plain"]).strip()
    is_quoted = ">" in match["lead"]
    named = _WORD.findall(words)[: 2 if match["mark"] else 1]
    named += _WORD.findall(words.partition(": ")[2])[:1] if is_quoted else []  # "> **Tip: Solution**"
    kind = next(filter(None, (_named_word(word, types) for word in named)), "")
    is_closed = not match["mark"] or words[-1] in ".:)" or words[-1].isdigit() or after in ("", ".", ":", "(")
    return Label(words, kind if is_closed or _named_word(named[0] if named else "", types) else "",
                 bool(match["mark"]), is_quoted, len(text) - len(text.lstrip(" \t")))  # fmt: skip


def titled_type(title: str, types: Collection[str]) -> str:
    """Return the type that the title of a callout, or the summary of details, names; empty if there is none.

    >>> titled_type("Show solution", ["solution"]), titled_type("Why a solution of salt conducts", ["solution"])
    ('solution', '')
    """
    words = _WORD.findall(title)
    named = (_named_word(word, types) for word in words) if len(words) <= _TITLE_WORDS else ()
    return next(filter(None, named), "")


_TITLE = re.compile(
    r"^[ \t]*:{3,}[^\n]*\btitle=(?:\"(?P<double>[^\"\n]*)\"|'(?P<single>[^'\n]*)')"
    r"|<summary\b[^<>]*>(?P<summary>.{0,300}?)</summary",
    re.IGNORECASE | re.DOTALL,
)


def title_in(text: str) -> str:
    """Return the title of the callout that a text opens, or the summary of details in it; empty if there is none.

    >>> title_in('::: {.callout-tip title="Solution"}'), title_in("<details><summary><b>Why?</b></summary>")
    ('Solution', 'Why?')
    """
    match = _TITLE.search(text) if "title=" in text or "<summary" in text else None
    return re.sub(r"<[^<>]*>", "", next(filter(None, match.groups()), "")).strip() if match else ""


def _named_word(word: str, types: Collection[str]) -> str:
    answers = "solution" if is_one_of("solution", types) and any(named_type(word, [each]) for each in _ANSWERS) else ""
    return named_type(word, types) or answers


# -- metadata --------------------------------------------------------------------------------------

Note = tuple[int, str]
"""A line, and what is taken for what on it."""


@functools.lru_cache(maxsize=2)
def parsed(text: str) -> tuple[Block, ...]:
    """Return the blocks of a document; cached for the last ones, because several functions parse it."""
    return tuple(parse_markdown_text(text))


def as_meant(text: str, types: Collection[str]) -> tuple[str, list[Note]]:
    """Correct near misses of ``type``, ``skip`` and ``frozen``, and of these types; return the text, and what was done.

    Every line stays where it is.

    >>> as_meant("---\\ntitle: T\\n---\\n# A\\n\\n---\\nType: solutions\\n---\\nZebra.\\n", ["solution"])[1]
    [(7, "'Type' is taken for 'type'"), (7, "'solutions' is taken for 'solution'")]
    """
    if "---" not in text:
        return text, []
    lines, notes = text.split("\n"), list[Note]()
    blocks = parsed(text)
    for one in find_lookalikes(blocks) if _NO_SPACE.search(text) else ():
        notes += _with_spaces(lines, one)
    if notes:
        blocks = parsed("\n".join(lines))
    for block in blocks:
        if isinstance(block, MetadataBlock):
            notes += _in_metadata(lines, block, types)
    return "\n".join(lines), sorted(notes)


def _with_spaces(lines: list[str], one: Lookalike) -> Iterator[Note]:
    start, end = one.body
    body = "\n".join(lines[start - 1 : end - 1])
    changed = _NO_SPACE.sub(r"\1\2\3: ", body)
    if one.closed and not one.margin and changed != body and metadata.check(changed + "\n") is None:
        for at, (old, new) in enumerate(zip(body.split("\n"), changed.split("\n"), strict=True), start):
            if old != new:
                lines[at - 1] = new
                yield at, f"'{old.strip()}' is taken for '{new.strip()}'"


def _in_metadata(lines: list[str], block: MetadataBlock, types: Collection[str]) -> Iterator[Note]:
    """Correct the keys and types in a block that can be read."""
    body = block.body
    for scalar in metadata.scalars(body):
        key, at = scalar.path[0], block.body_line + scalar.line - 2
        name = _key_meant(key, scalar.text, types)
        if not name:
            continue
        if key not in (name, f"~{name}", metadata.generated_key(name), *metadata.locked_keys(name)):
            lines[at] = lines[at].replace(key, name, 1)
            yield at + 1, f"'{key}' is taken for '{name}'"
        kind = _type_meant(scalar.text, types) if name == "type" else ""
        place = block.body_line + body.count("\n", 0, scalar.start) - 1
        if kind and scalar.text in lines[place]:
            before, _, after = lines[place].rpartition(scalar.text)
            lines[place] = before + kind + after
            yield place + 1, f"'{scalar.text}' is taken for '{kind}'"


def _key_meant(key: str, value: str, types: Collection[str]) -> str:
    """Return which of our keys is meant by a key, or an empty string."""
    bare = bare_key(key) if not key.startswith("~~") else ""
    if bare in _CONTROLS:
        return bare
    if is_slip(bare, "type") and (_type_meant(value, types) or is_one_of(value, types)):
        return "type"
    return next((name for name in ("skip", "frozen") if is_slip(bare, name) and _SWITCH.match(value)), "")


def _type_meant(value: str, types: Collection[str]) -> str:
    """Return the type that a value nearly is, or an empty string.

    >>> [_type_meant(v, ["solution"]) for v in ("Solutions", "soluton", "solution (draft)", "solution", "evolution")]
    ['solution', 'solution', 'solution', '', '']
    """
    words = _WORDS.split(value.strip().casefold()) if not is_one_of(value, types) else []
    for word in (each.strip(".:!?\"'“”‘’*_`()[]") for each in words if len(words) < 4):
        for kind in types:
            bare = kind.strip().casefold()
            answers = bare == "solution" and named_type(word, ["answer"])
            if answers or named_type(word, [kind]) or (len(bare) > _LONG < len(word) and is_slip(word, bare)):
                return kind
    return ""


def without_effect(text: str, types: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """Iterate over what seems to say who may read a text, and does not: its line, it, and what to write.

    >>> [what for _, what, _ in without_effect("---\\nkind: solution\\n---\\n**skip: true**\\n", ["solution"])]
    ["'kind' does not say who may read this", "'**skip: true**' is text"]
    """
    for block in parsed(text):
        if isinstance(block, MetadataBlock):
            for key, value in block.values().items():
                if meant := _meant_by(key, value, types):
                    line = block.body_line + (metadata.key_line(block.body, key) or 1) - 1
                    yield line, f"'{key}' does not say who may read this", f"write '{meant}'"
        elif isinstance(block, TextBlock):
            for match in _ALONE.finditer(block.content):
                key, value, source = match[1].casefold(), match[2] or "", block.content
                alone = key == "skip" and not value and source.startswith(("---", "<!--"))
                means = alone or value in ("true", "yes", "on") if key == "skip" else is_one_of(value, types)
                codes = (span for span in spans(source) if span.kind == "code_block")
                if means and not any(code.start <= match.start() < code.end for code in codes):
                    line = block.line + source.count("\n", 0, match.start())
                    yield line, f"'{match[0].strip()}' is text", "write it between lines '---'"


def _meant_by(key: str, value: object, types: Collection[str]) -> str:
    """Return what was meant by a key of metadata that says nothing to us, if it was who may read a text."""
    bare, inner = bare_key(key) if not key.startswith("~") else "", value if isinstance(value, dict) else {}
    kinds = [_type_meant(one, types) or one for one in texts_of(value)]
    kind = next((one for one in kinds if is_one_of(one, types)), "")
    if kind and (bare in _LIKE_TYPE or "type" in inner or (bare == "type" and inner)):
        return f"type: {kind}"
    if (bare == "type" and (value is None or inner)) or (is_one_of(bare, types) and value in (None, True)):
        return f"type: {next((one for one in (bare, *inner) if is_one_of(one, types)), 'solution')}"
    hides = bare in _HIDES and value is not None and is_on(value)
    hides = hides or (bare in _SHOWS and value is False) or inner.get("skip") is True
    return "skip: true" if hides or (bare == "skip" and (value is None or inner)) else ""


def check_metadata(text: str) -> None:
    """Raise if metadata that seem to say who may read a text cannot be read, even as they are meant.

    Raises:
        UnreadableMetadata: this is so, or there is an unresolved conflict of git; it says where, and what to do.
    """
    for line in conflicts(text)[:1]:
        raise UnreadableMetadata(CONFLICT, where=f"{line}:1", hint=RESOLVE)
    meant = as_meant(text, ())[0]
    for one in find_lookalikes(parsed(meant)) if _CONTROLLED.search(meant) else ():
        if found := sorted(one.controls.intersection(_CONTROLS)):
            what = f"this sets '{found[0]}', but cannot be read: {one.reason}"
            raise UnreadableMetadata(what, where=f"{one.line}:{one.column}", hint=one.hint)
