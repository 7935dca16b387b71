"""Which texts of a document are exercises, and which are solutions: the only place that decides it, for annotations,
ingestion, students, exports, exercises and cards.

A type above a heading applies to the section with everything below it; that of the header, to the document; that of a
div (``::: {.exercise}``, Quarto's ``#exr-`` and ``#sol-``) or a chunk of bookdown's, to its content. A metadata block
above a text applies to that text. But for a solution, students could then read what follows its first paragraph: a type
that *lasts* extends to the next heading of the section's level or above, the next metadata block by the author, a
heading called Exercises, the next typed div, or the end of the div that contains it; directly below a heading, it
applies to the section. A heading called Exercises, Solution or Solution to Exercise 3 is of that type without metadata,
but what is inside a solution is part of it, whatever its heading is called. The innermost type counts.

Where an exercise stands before them (above them under the same heading, in a section of exercises, or in the same
paragraph), callouts and details called Solution are solutions, too, and so are the texts from a label (``**Solution
2.1.**``, ``Solution:``) to the next label of an exercise or with a number, the next heading, typed div or metadata. A
paragraph that is no more than such a name is a label, too. In a section of exercises, each label of an exercise begins
one; elsewhere, each with a number (``**Exercise 2**``, ``Exercise 2.``, but not "Exercise 2 shows that"), which is its
paragraph only, unless the section begins with such labels.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

from lmm.markdown.comments import is_comment
from lmm.markdown.metadata import bare_key, is_slip
from lmm.markdown.tree import HeadingNode, Node, TextNode, children, preorder
from lmm.markdown.units import ITEM, continuations_of_units, enclosed, fences_of_divs, unit_ends
from lmm.notebook.outputs import environments
from lmm.type_names import (
    DEFAULT,
    SPEAKER_NOTE,
    TypeNames,
    is_named_after_exercises,
    is_one_of,
    kind_called,
    named_type,
    names_of,
    types_in,
)

# -- labels and titles ------------------------------------------------------------------------------


def lines_naming(text: str, types: Iterable[str]) -> list[int]:
    """Return the lines of a text, from 1, with a name of one of the types in them.

    >>> lines_naming("Why?\\n**Lösung.** So.\\n", ["solution"])
    [2]
    """
    folded, found, starts = text.casefold(), set[int](), list[int]()
    for name in _shortest_names(tuple(types), folded.isascii()):
        at = folded.find(name)
        while at >= 0:
            starts = starts or [*accumulate((len(line) + 1 for line in folded.split("\n")), initial=0)]
            found.add(bisect_right(starts, at))
            at = folded.find(name, starts[bisect_right(starts, at)])
    return sorted(found)


@lru_cache(maxsize=16)
def _shortest_names(types: tuple[str, ...], ascii_only: bool) -> list[str]:
    """Return the names of types, without those that contain another one of them."""
    names = {name for kind in types for name in names_of(kind) if not ascii_only or name.isascii()}
    return [name for name in names if not any(other in name for other in names - {name})]


_WORD = re.compile(r"[^\W\d_]+")
_MARKUP = ("{", "<", "\\", ":::", "```", "~~~", "///", "`r ")  # divs, chunks, environments and the like


def _may_name(text: str, types: Collection[str]) -> bool:
    """Return whether a text has a word of a name of the types, or markup that may stand for one: most have none."""
    bare = text.replace("*", "").casefold()
    words = _first_words(tuple(types))
    return not words.isdisjoint(_WORD.findall(bare)) or any(mark in text for mark in _MARKUP)


@lru_cache(maxsize=16)
def _first_words(types: tuple[str, ...]) -> frozenset[str]:
    """Return the first word of each name of the types."""
    return frozenset(word for kind in types for name in names_of(kind) for word in _WORD.findall(name)[:1])


# Words at the start of a paragraph, in emphasis or with a number or a stop: "**Solution 2.1.**", "Exercise 2:".
_LABEL = re.compile(
    r"(?P<lead>(?:[ \t]|>!?|[-*+][ \t](?:\[[ xX]\][ \t])?|\d{1,9}[.)][ \t])*)"
    r"(?:(?P<mark>\*{1,3}|_{1,3})(?P<words>[^\W\d_][^*_\n]{1,120}?)(?P=mark)(?P<after>[ \t]*(?:[a-zäöü]+|[^\n]?))"
    r"|(?P<plain>[^\W\d_]+(?:(?:[ \t]+[^\W\d_]{1,12}){0,3}[ \t]+\(?\d[\w.)]*"
    r"|(?=[ \xa0\u202f]?[.:：．。]|[ \t]+[-–—]{1,3}[ \t])))"
    r"(?:(?P<stop>[ \xa0\u202f]?[.:]|[ \t]+[-–—]{1,3})?(?=\s|\Z)|(?P<wide>[：．。])))"
)
_STOPS = (".", ":", "：", "．", "。", "-", "–", "—")
# Other ways to write the label: emphasis in HTML, TeX or Chinese, a heading without a blank line above, symbols.
_WRITTEN = re.compile(
    r"</?(?P<tag>b|strong|em|i|u|h[1-6])(?:[ ][^<>]*)?>"
    r"|\$?\\(?:textbf|textit|emph)\{(?P<tex>[^{}\n]*)\}\$?|【(?P<wide>[^】\n]*)】"
    r"|^(?P<lead>[ \t>]*)\#{1,6}[ \t]+(?P<heading>[^\n#]+?)[ \t#]*(?=\n|\Z)|<p\b[^<>]*>|~~|[✅✔☑🔑💡📝]\ufe0f?[ \t]?"
    r"|(?<=\*\*)[(\[]|[)\]](?=\*\*)"
)
_HAS_MARKS = re.compile(r"[<\\【~#✅✔☑🔑💡📝]|\*[(\[]")
# Words after emphasis that make it the subject of a sentence: "**Solutions** of salt".
_GOES_ON = {*("of", "in", "is", "are", "was", "were", "has", "have", "and", "or", "with", "that", "which", "to", "for")}
_TITLE_WORDS = 4  # "Show the solution"; longer titles are about something else, unless they are named so
_NUMBERED_LABEL = re.compile(r"[^\W\d_]+\s+\d+\.\d")


@dataclass(frozen=True, slots=True)
class Label:
    """The words with which a paragraph is labelled, the type that they name (or nothing), and how they stand there."""

    words: str
    type: str
    is_emphasized: bool
    is_quoted: bool
    indentation: int
    is_alone: bool = False  # the whole paragraph: a heading without looks, of a PDF
    is_subject: bool = False  # of a sentence: "Exercise 2 shows that"

    @property
    def is_certain(self) -> bool:
        """Whether what follows is of its type, if an exercise stands before: it is in emphasis, or ends with a stop."""
        return bool(self.type) and (self.is_emphasized or self.words[-1:] in _STOPS or self.words[-1:].isdigit())

    @property
    def is_numbered(self) -> bool:
        """Whether it has a number (without a type, one of two parts: "Definition 2.2"), and begins no sentence."""
        has_number = any(map(str.isdigit, self.words)) if self.type else _NUMBERED_LABEL.match(self.words)
        return bool(has_number) and not self.is_subject


def label_of(text: str, types: Collection[str]) -> Label | None:
    """Return the label of a paragraph, None if it has none; the type is that of `types` that its first words name.

    >>> [label_of(text, ["solution"]).type for text in ("**Lösung 5.1.** So.", "Solution 6.1. So.", "**Leaf 1.1.** A")]
    ['solution', 'solution', '']
    >>> [label_of(text, ["solution"]).words for text in ("> [!TIP]- Solution", "Solution: So.")]
    ['Solution', 'Solution:']
    >>> label_of("**Solutions** of salt conduct.", ["solution"]), label_of("Solutions of salt", ["solution"])
    (None, None)
    """
    if alert := _ALERT.match(text):  # as Obsidian and GitHub write it
        words = alert["title"].strip() or alert["kind"]
        return Label(words, titled_type(words, types), True, True, _indentation(text))
    if underlined := _UNDERLINED.match(text):
        return Label(underlined[1], named_type(underlined[1], types), True, False, 0)
    head = text[:_LONGEST_LABEL]
    name = head.strip()
    is_name = name[:1].isalpha() and not name[0].islower() and "\n" not in name and name[-1] not in (*_STOPS, "?", "!")
    kind = named_type(name, types) if is_name and len(_WORD.findall(name)) <= _TITLE_WORDS else ""
    first, *more = name.split() if kind else ("",)
    if kind and not (more and more[0][0].isdigit() and kind == kind_called(first.casefold(), types)):  # "Exercise 2 is"
        return Label(name, kind, False, False, _indentation(text), is_alone=True)
    match = _LABEL.match(_WRITTEN.sub(_emphasized, head) if _HAS_MARKS.search(head) else head)
    if match is None:
        return None
    after, words = (match["after"] or "").strip(), (match["words"] or match["plain"]).strip()
    if after.islower() and words[-1] not in _STOPS and (after in _GOES_ON or not _is_singular(words, types)):
        return None
    is_quoted = ">" in match["lead"]
    is_item = match["lead"].strip(" \t>") != ""  # "- **Salt solution:** 5 g" is what an exercise asks about
    named = _WORD.findall(words)[: 2 if match["mark"] and not is_item else 1]
    kind = named_type(words.rstrip("."), types)
    kind = kind or (titled_type(words.partition(": ")[2], types) if is_quoted else "")  # "> **Tip: Solution**"
    kind = kind or next(filter(None, (kind_called(word.casefold(), types) for word in named)), "")
    is_closed = not match["mark"] or words[-1] in (*_STOPS, ")") or words[-1].isdigit() or after in ("", *_STOPS, "(")
    is_first = bool(named) and kind_called(named[0].casefold(), types) != ""
    kind = kind or (kind_called("solution", types) if words.casefold().rstrip(".:") == "sol" else "")
    words += (match["stop"] or match["wide"] or "").strip()
    if match["plain"] and len(_WORD.findall(words)) > 1:  # "Solution to Exercise 1:", not "Solution to Exercise 1 is"
        kind = named_type(words, types) if words[-1] in _STOPS else ""
    rest = match.string[match.end("words") + len(match["mark"]) if match["mark"] else match.end() :]
    points, _, after = rest.partition(")")
    rest = f"\n{after}" if points.lstrip().startswith("(") and any(map(str.isdigit, points)) else rest
    word = rest.lstrip(" \t\n,;")
    goes_on = word[:1].islower() and word[1:2] not in (")", ".")  # "a)" begins a part
    # A capital letter after a plain number may begin a German noun: a solution that ended there would be seen.
    goes_on = goes_on or (rest[:1] not in ("", "\n") and not match["mark"] and not _NUMBERED_LABEL.match(words))
    is_subject = goes_on and words[-1] not in (*_STOPS, ")")
    kind, is_bold, is_alone = kind if is_closed or is_first else "", bool(match["mark"]), not rest.strip()
    return Label(words, kind, is_bold, is_quoted, _indentation(text), is_alone=is_alone, is_subject=is_subject)


def _emphasized(match: re.Match[str]) -> str:
    words = match["tex"] or match["wide"] or match["heading"]
    return f"{match['lead'] or ''}**{words}**" if words else "**" if match["tag"] else ""


def _is_singular(words: str, types: Collection[str]) -> bool:
    """Return whether words are the name of one solution, but no verb: not "**Answer** all questions"."""
    name = words.casefold()
    return name != "answer" and kind_called(name, types) != "" and not kind_called(name, types, plural=True)


_WITHIN = re.compile(r"^(?=.)|(?<=[.?!:)][ \t])(?=[*_]{1,3}[^\W\d_])", re.MULTILINE)
_LONGEST_LABEL = 200


def labels_within(text: str, kinds: TypeNames = DEFAULT) -> list[int]:
    """Return where solutions begin inside a text, by their labels, and where what follows them begins: the next item of
    the list, or the next label.

    >>> labels_within("Why? **Solution.** So."), labels_within("- A?\\n  *Answer:* B.\\n- C?")
    ([5], [5, 20])
    """
    if not any(map(text.__contains__, ("\n", "*", "_"))):
        return []
    found, inside, in_code, in_container = list[int](), False, False, False
    outer, is_list = _indentation(text), ITEM.match(text) is not None
    for match in _WITHIN.finditer(text):
        at = match.end()
        begins_line, head = not at or text[at - 1] == "\n", text[at : at + _LONGEST_LABEL]
        is_fence = begins_line and head.lstrip().startswith(("```", "~~~"))
        in_code ^= is_fence
        if in_code != is_fence:  # within code, or at its end
            continue
        label = label_of(head, kinds.all)
        is_label = label is not None and label.is_certain and (begins_line or label.is_emphasized)
        is_item = (
            is_list
            and not in_container
            and begins_line
            and ITEM.match(text, at) is not None
            and _indentation(text[at : at + 20]) <= outer
        )
        opened = _container(head, kinds) if at and begins_line else ""
        kind = opened or (label.type if is_label and label is not None else "")
        if kind and not is_one_of(kind, kinds.exercises):
            found += [at] if at and not inside else []
            inside, in_container = True, in_container or opened != ""
        elif inside and environment(text[at : at + _LONGEST_LABEL].replace("\\end{", "\\begin{", 1), kinds.lasting):
            found += [end] if (end := text.find("\n", at) + 1) else []
            inside = False
        elif inside and (is_item or (is_label and label is not None and not label.is_subject)):
            found += [at]
            inside = False
    return found


def _container(head: str, kinds: TypeNames) -> str:
    """Return the type of what the line at the start of a text opens: an environment, or what has such a title."""
    bare = head.lstrip()
    if bare[:1] not in ("<", ":", "!", "?", "=", "{", "`", "~", "\\", "/"):
        return ""
    title = title_in(head if bare.startswith("<details") else head.partition("\n")[0])
    return environment(head, kinds.lasting) or titled_type(title, kinds.lasting)


def titled_type(title: str, types: Collection[str]) -> str:
    """Return the type that the title of a callout, or the summary of details, names; empty if there is none.

    >>> titled_type("Show solution", ["solution"]), titled_type("Why a solution of salt conducts", ["solution"])
    ('solution', '')
    """
    if not title:
        return ""
    words = _WORD.findall(title.casefold())
    named = (kind_called(word, types) for word in words) if len(words) <= _TITLE_WORDS else ()
    return next(filter(None, named), "") or named_type(title, types)


# A heading of two lines, and a term with its definition.
_UNDERLINED = re.compile(
    r" {0,3}[*_]{0,2}([^\W\d_][^\n*_]{0,80})[*_]{0,2}\n {0,3}(?:(?:-{2,}|={2,})\s*\Z|[:~][ \t]+\S)"
)
_ALERT = re.compile(r"[ \t]*(?:>[ \t]?)+\[!(?P<kind>[\w-]+)\][+-]?(?P<title>[^\n]*)")
_TITLE = re.compile(  # of callouts of Quarto and Docusaurus, admonitions and tabs of MkDocs, details, tags, directives
    r"^[ \t]*:{3,}+[^\n]*\b(?:title|name)=(?:\"([^\"\n]*)\"|'([^'\n]*)')"
    r"|^[ \t]*:{3,}+[ \t]*\w+(?:\[([^\]\n]*)\]|[ \t]+([^\s:{][^:{\n]*)(?:\{[^{}\n]*\})?$)"
    r"|^[ \t]*(?:`{3,}|~{3,}|:{3,})[ \t]*\{[\w-]+\}[ \t]+([^\n]*)"
    r"|^[ \t]*(?:!!!|\?\?\?\+?|===!?\+?)[ \t]+(?:[\w-]+[ \t]+)*\"([^\"\n]*)\""
    r"|^[ \t]*(?:!!!|\?\?\?\+?)[ \t]+([\w-]+)[ \t]*$|^[ \t]*/{3,}[ \t]*[\w-]+[ \t]*\|[ \t]*([^\n]+)"
    r"|<summary\b[^<>]*>(.{0,300}?)</summary"
    r"|\{(?:\{[%<]|%-?)[ ]*\w[^{}\n]*\b(?:title|summary|label|name|text)=\"([^\"\n]*)\""
    r"|^[ \t]*\{\{[%<][ ]*[\w/-]+[ ]+\"([^\"\n]*)\"|^[ \t]*\{(?:\{[%<]|%-?)[ ]*(\w+)(?:[ ]+[\"'\w]*)?[ ]*[%>-]{1,2}\}"
    r"|^[ \t]*(?:<\w+>[ \t]*)*<(?-i:[A-Z])\w*\b[^<>\n]*\b(?:title|label|summary|name)=\"([^\"\n]*)\""
    r"|^[ \t]*<((?-i:[A-Z])\w*)>",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_TITLED = ("title=", "<summary", ":::", "!!!", "???", "===", "{{<", "{{%", "{%",
           "///", "`{", "~{", "label=", "<Sol", "<Ans")  # fmt: skip


def title_in(text: str) -> str:
    """Return the title of the callout, admonition, tab or details that a text opens; empty if there is none.

    >>> title_in('::: {.callout-tip title="Solution"}'), title_in("<details><summary><b>Why?</b></summary>")
    ('Solution', 'Why?')
    >>> title_in('??? success "Lösung"\\n    So.'), title_in(":::note[Answer]")
    ('Lösung', 'Answer')
    """
    match = _TITLE.search(text) if any(mark in text for mark in _TITLED) else None
    return " ".join(re.sub(r"<[^<>]*>", "", next(filter(None, match.groups()), "")).split()) if match else ""


_WORDS = re.compile(r"[\s,;/+&|_-]+")
_LONG = 5  # letters of a type that a slip leaves recognisable
_SHORT = 3  # letters of an abbreviation


def type_meant(value: str, types: Collection[str]) -> str:
    """Return the type that a value nearly is, or an empty string.

    >>> [type_meant(v, ["solution"]) for v in ("Solutions", "soluton", "solution (draft)", "solution", "evolution")]
    ['solution', 'solution', 'solution', '', '']
    >>> [type_meant(v, ["solution"]) for v in ("Loesung", "sol", "exam-solution", "hidden")]
    ['solution', 'solution', 'solution', '']
    """
    words = _WORDS.split(value.strip().casefold()) if not is_one_of(value, types) else []
    for word in (each.strip(".:!?\"'“”‘’*_`()[]") for each in words if len(words) < 4):
        for kind in types:
            bare = kind.strip().casefold()
            is_short = len(bare) > _LONG and len(word) >= _SHORT and bare.startswith(word)
            if is_short or kind_called(word, [kind]) or (len(bare) > _LONG < len(word) and is_slip(word, bare)):
                return kind
    return ""


# -- ranges ---------------------------------------------------------------------------------------


_ENVIRONMENTS = ("exercise", "solution")
_OPENED = re.compile(
    r"\s*+(?:<(?:div|section|aside|details|p|span)\b[^<>]{0,200}?\bclass=[\"']?(?P<classes>[\w\s-]+)"
    r"|\\begin\{(?P<name>\w+?)(?:box|block)?\*?\}(?:\[(?P<title>[^\W\d_]+)\])?"
    r"|(?:[^\n]+\n)*?\{:[^{}\n]{0,200}\.(?P<kramdown>[\w-]+)[^{}\n]*\}[ \t]*(?:\n|\Z))"
)
# What opens and closes without an element around: marks of MyST, webexercises, nbgrader, and blocks of PyMdown.
_GATE = re.compile(
    r"[ \t]*(?:[`~:]{3,}[ \t]*\{(?P<kind>exercise|solution)-start\}|<!--[ \t]*\W*BEGIN[ _]+(?P<marked>\w+)[^\n]*"
    r"|`r (?:webexercises::)?hide\([\"'](?P<hidden>[^\"'`\n]*)[^\n]*|/{3,}[ \t]*[\w-]+[ \t]*\|[ \t]*(?P<title>[^\n]+))"
)
_GATE_END = re.compile(
    r"^[ \t]*(?:/{3,}[ \t]*$|`r (?:webexercises::)?unhide\(|<!--[ \t]*\W*END\b|[`~:]{3,}[ \t]*\{\w+-end\})",
    re.MULTILINE,
)
_ENCLOSED = ("class=", "\\begin{", "{%", "{{<", "{{%")
_OF_PROGRAMS = frozenset({"docid", "textid", "headingid", "UUID", "group_UUID"})


@dataclass(frozen=True, slots=True)
class Stretch:
    """Texts that have their types from the same place: a `line` of metadata, of a heading, of a label or of a fence;
    negative for the second label in a line."""

    types: tuple[str, ...]
    line: int

    @property
    def value(self) -> str | list[str]:
        """The types as a metadata value."""
        return self.types[0] if len(self.types) == 1 else list(self.types)


def stretches(tree: HeadingNode, kinds: TypeNames = DEFAULT) -> dict[int, Stretch]:
    """Return the origin of each node's type, by the node's id; nodes without a type are missing. The types in
    `kinds.lasting` extend beyond the text below a metadata block; headings may be named after them, or be exercises.

    >>> from lmm.markdown import load_text
    >>> tree = load_text("# A\\n\\nWhy?\\n\\n---\\ntype: solution\\n---\\nSo.\\n\\n- and so\\n\\n# B\\n\\nText.\\n")
    >>> found = stretches(tree)
    >>> [node.text for node in preorder(tree) if id(node) in found]
    ['So.', '- and so']
    """
    return TypedDocument(tree, kinds).stretches()


class TypedDocument:
    """The nodes of a document in order, and where its divs end."""

    def __init__(self, tree: HeadingNode, kinds: TypeNames = DEFAULT) -> None:
        self.tree, self.kinds = tree, kinds
        self.solutions_end = 0  # where the solutions end that have been found so far
        self.exercises_end = self.exercise_section_end = 0  # where what belongs to the exercises so far ends
        self.order = list(preorder(tree))
        self.texts = [node.text if isinstance(node, TextNode) else "" for node in self.order]
        self._labels = dict[int, Label | None]()
        self.mixed = dict[int, list[int]]()
        """Where to split texts, by their places, so that a solution inside them is a text of its own."""
        self.place = {id(node): at for at, node in enumerate(self.order)}
        self.ends: list[int] = [*range(1, len(self.order) + 1)]  # of each node with everything below it
        for at in range(len(self.order) - 1, -1, -1):
            if below := children(self.order[at]):
                self.ends[at] = self.ends[self.place[id(below[-1])]]
        self.continuations = continuations_of_units(tree)
        self.fences = {self.place[id(first)]: self.place[id(last)] for first, last in fences_of_divs(tree)}
        self.typed, self.enclosed = dict[int, str](), dict[int, int]()
        self.titled = dict[int, tuple[int, int, str]]()
        self.may_be_typed = self._may_be_typed()
        if self.may_be_typed:
            self._read_marks()
        self.opened = {last: first for first, last in self.fences.items()}
        if self.may_be_typed:
            self._read_gates()
            self.titled = dict(self._titled())

    def _may_be_typed(self) -> bool:
        """Return whether anything names a type, or is written as what may have one: most notes spare the rest."""
        if any(self._own_types(node) for node in self.order if node.metadata_block is not None):
            return True
        titles = [node.title for node in self.order if isinstance(node, HeadingNode)]
        return _may_name("\n".join((*titles, *self.texts)), self.kinds.all)

    def _read_marks(self) -> None:
        """Note which texts have a type by what encloses them."""
        texts = [node.block.source if isinstance(node, TextNode) and node.block else None for node in self.order]
        environments = ((at, environment(text, self.kinds.lasting)) for at, text in enumerate(texts) if text)
        self.typed = {at: kind for at, kind in environments if kind}
        self.enclosed = enclosed(texts) if any(mark in text for text in texts if text for mark in _ENCLOSED) else {}
        self.fences = {at: end for at, end in self.enclosed.items() if at in self.typed} | self.fences

    def _read_gates(self) -> None:
        """Note what is between marks such as MyST's ``{solution-start}`` and ``{solution-end}``."""
        start = 0
        for at, text in enumerate(self.texts):
            gate = _GATE.match(text)
            name = (gate["marked"] or gate["hidden"] or gate["title"] or "").strip() if gate else ""
            kind = (gate["kind"] if gate else "") or titled_type(name, self.kinds.lasting)
            if start and (kind or _GATE_END.search(text)):
                self.fences[start] = at - (kind != "")
                start = 0
            if gate and kind:
                start = at + 1 if gate["marked"] else at  # a comment is no part of the solution
                self.typed[start] = kind
                if _GATE_END.search(text, gate.end()):
                    self.fences[start], start = at, 0
        if start:  # it never closes
            self.fences[start] = self._last_end(start, start + 1) - 1

    def stretches(self) -> dict[int, Stretch]:
        """See `stretches`."""
        found, begin = dict[int, Stretch](), dict[int, list[tuple[int, Stretch]]]()
        for start, end, stretch in self.marks():
            begin.setdefault(start, []).append((end, stretch))
        open_: list[tuple[int, Stretch]] = []
        for at, node in enumerate(self.order if begin else ()):
            open_ += begin.get(at, ())
            while open_ and open_[-1][0] <= at:
                open_.pop()
            if open_:
                found[id(node)] = open_[-1][1]
        return found

    def marks(self) -> Iterator[tuple[int, int, Stretch]]:
        """Iterate over start, end and types of typed ranges; of those with the same start, the innermost is last."""
        for at, node in enumerate(self.order if self.may_be_typed else ()):
            if kind := self.typed.get(at):
                end = self.fences.get(at, at) + 1
                yield at, end, Stretch((kind,), node.line)
                self._extend_solutions((kind,), end)
                self._extend_exercises((kind,), node, end)
            types = self._own_types(node)
            if not types and isinstance(node, HeadingNode) and (kind := self._named(node)):
                types = (kind,)
            if not types and at not in self.typed and (named := self._titled_or_labelled(at)):
                start, end, kind = named
                is_second = self.order[at - 1].line == node.line  # it follows the exercise in the same line
                yield start, end, Stretch((kind,), -node.line if is_second else node.line)
                self._extend_solutions((kind,), end)
                self._extend_exercises((kind,), node, end, is_label=at not in self.titled and not self._is_sheet(at))
            self._extend_exercises(types, node, at + 1)
            lasts = self._lasts(types)
            stretch = Stretch(types, node.line)
            if types and isinstance(node, HeadingNode):
                yield at, self.ends[at], stretch
                self._extend_solutions(types, self.ends[at])
                # Each subsection of a section of exercises is one exercise.
                for below in node.headings if not lasts else ():
                    yield self.place[id(below)], self.ends[self.place[id(below)]], Stretch(types, below.line)
            elif types:
                end = at + 1 + len(self.continuations.get(id(node), ()))
                end = self._last_end(at, end) if lasts else end
                yield at, end, stretch
                self._extend_solutions(types, end)
                if lasts and (heading := _heading_right_above(node)) is not None:
                    start = self.place[id(heading)]
                    yield start, self.ends[start], stretch
                    self._extend_solutions(types, self.ends[start])
            kinds = (*types, self.typed.get(at))
            is_exercise = any(is_one_of(kind, self.kinds.exercises) for kind in kinds)
            if parts := labels_within(self.texts[at] if is_exercise else "", self.kinds):
                yield at, self._end_of_mixed(at, parts), Stretch((self.kinds.lasting[0],), node.line)

    def _own_types(self, node: Node) -> tuple[str, ...]:
        """Return the types in a node's metadata; one that is nearly that of a solution is meant as that."""
        values = node.metadata if node.metadata_block is not None else {}
        declared = types_in({"type": node.own("type")}) if values else ()
        nearly = [str(value) for key, value in values.items() if not declared and is_slip(bare_key(key), "type")]
        found = (type_meant(each, self.kinds.lasting) or each for each in declared or nearly)
        return tuple(each for each in found if declared or is_one_of(each, self.kinds.lasting))

    def _lasts(self, types: Collection[str]) -> bool:
        return any(is_one_of(kind, self.kinds.lasting) for kind in types)

    def _extend_solutions(self, types: Collection[str], end: int) -> None:
        self.solutions_end = max(self.solutions_end, end) if self._lasts(types) else self.solutions_end

    def _extend_exercises(self, types: Collection[str], node: Node, end: int, *, is_label: bool = False) -> None:
        """Note where the solutions of an exercise may stand: in its section, or up to the next heading; and other
        exercises, unless it is no more than labelled as one."""
        if not any(is_one_of(kind, self.kinds.exercises) for kind in types):
            return
        if isinstance(node, HeadingNode):
            self.exercise_section_end = max(self.exercise_section_end, self.ends[self.place[id(node)]])
        self.exercises_end = max(self.exercises_end, self.exercise_section_end)
        if end > self.exercises_end:  # else the next heading is where that of an earlier exercise is, or before it
            headings = (at for at in range(end, len(self.order)) if isinstance(self.order[at], HeadingNode))
            self.exercises_end = next(headings, len(self.order))
        if not is_label:
            self.exercise_section_end = max(self.exercise_section_end, self.exercises_end)

    def _titled(self) -> Iterator[tuple[int, tuple[int, int, str]]]:
        """Iterate over callouts and details called Exercise or Solution: their place, start, end and type."""
        types = self.kinds.all
        texts = [node.block.source if isinstance(node, TextNode) and node.block else None for node in self.order]
        has_any = any(text and any(mark in text for mark in ("<details", *_TITLED)) for text in texts)
        ends, units = (enclosed(texts), unit_ends(texts)) if has_any else ({}, [])
        for at, text in enumerate(texts):
            below = self.order[at + 1] if text and at in self.fences and at + 1 < len(texts) else None
            title = below.title if isinstance(below, HeadingNode) else title_in(text or "")  # of a callout
            if text is None or not (kind := titled_type(title, types)):
                continue
            if at in self.fences:
                yield at, (at, self.fences[at] + 1, kind)
            elif "<details" in text:  # below a text without a blank line, it begins with the next one
                start = at if text.lstrip().startswith("<details") else at + 1
                yield at, (start, ends.get(at, at) + 1, kind)
            else:  # an admonition, or paired shortcodes
                yield at, (at, max(units[at], ends.get(at, at) + 1), kind)

    def _titled_or_labelled(self, at: int) -> tuple[int, int, str] | None:
        """Return start, end and type of a callout, details or labelled paragraph that is one without metadata."""
        node, exercises = self.order[at], self.kinds.exercises
        if not isinstance(node, TextNode) or at < self.solutions_end:
            return None
        if named := self.titled.get(at):
            start, end, kind = named
            if start < end and (at < self.exercises_end or is_one_of(kind, exercises)):
                if start == at:
                    self.fences.setdefault(at, end - 1)
                return named
        if not _may_name(self.texts[at], self.kinds.all):
            return None
        label, parts = self._label(at), labels_within(self.texts[at], self.kinds)
        is_exercise = label is not None and is_one_of(label.type, exercises)
        if parts and (is_exercise or at < self.exercises_end):
            return at, self._end_of_mixed(at, parts), self.kinds.lasting[0]
        if label is None or not label.type:
            return None
        is_sheet = self._is_sheet(at)
        begins = label.is_numbered and (is_sheet or not ITEM.match(self.texts[at]))
        if is_exercise and not (begins or (at < self.exercise_section_end and label.is_emphasized)):
            self._extend_exercises((label.type,), node, at + 1, is_label=True)
            return None
        if not is_exercise and not ((label.is_certain or label.is_alone) and at < self.exercises_end):
            return None
        end = self._end_of_labelled(at, label)
        following = self._label(end) if end < len(self.order) else None
        is_single = not (at < self.exercise_section_end or (following and following.type))
        if is_exercise and (is_single or not is_sheet):  # what follows an exercise in a chapter may teach
            end = min(end, at + 1 + label.is_alone + len(self.continuations.get(id(node), ())))
        return at, end, label.type

    def _is_sheet(self, at: int) -> bool:
        """Return whether a label is in a section of exercises, or in one that begins with it."""
        parent = self.order[at].parent
        texts = (node for node in parent.children if isinstance(node, TextNode)) if parent is not None else iter(())
        first = next((node for node in texts if not is_comment(node.text)), None)
        return at < self.exercise_section_end or first is self.order[at]

    def _label(self, at: int) -> Label | None:
        if at not in self._labels:
            self._labels[at] = label_of(self.texts[at], self.kinds.all)
        return self._labels[at]

    def _end_of_mixed(self, at: int, parts: list[int]) -> int:
        """Note where to split a text with a solution inside; return the end of what belongs to that."""
        self.mixed[at] = parts
        end = self.enclosed.get(at, at) + 1
        label = label_of(self.texts[at][parts[-1] :], self.kinds.all) if len(parts) % 2 else None
        return max(end, self._end_of_labelled(at, label)) if label else end

    def _end_of_labelled(self, start: int, label: Label) -> int:
        """Return the end of the texts that belong to a label."""
        number = self._numbers[start]  # of the exercise, in a list
        end = start + 1
        while end < len(self.order):
            node = self.order[end]
            if not isinstance(node, TextNode) or end in self.typed or _says_something(node):
                break
            text, other = self.texts[end], self._label(end)
            is_next = number is not None and re.match(rf" {{0,3}}{number + 1}[.)]\s", text)
            is_outside = self.opened.get(end, start) < start or _indentation(text) < label.indentation
            is_label = other is not None and other.type and (other.is_emphasized or other.is_alone)
            is_other = is_label or (other is not None and other.is_numbered)
            is_titled = end in self.titled and is_one_of(self.titled[end][2], self.kinds.exercises)
            is_unquoted = label.is_quoted and not text.lstrip().startswith(">")
            if is_next or is_outside or is_other or is_titled or is_unquoted:
                break
            end += 1
        return end

    @cached_property
    def _numbers(self) -> list[int | None]:
        """The number of the last list item above each node, below the same heading."""
        found, number = list[int | None](), None
        for node, text in zip(self.order, self.texts, strict=True):
            found.append(number)
            items = re.findall(r"^ {0,3}(\d{1,9})[.)]", text, re.MULTILINE)
            number = int(items[-1]) if items else number if isinstance(node, TextNode) else None
        return found

    def _named(self, node: HeadingNode) -> str:
        """Return the type that a heading is named after, unless a type directly below it says otherwise; inside a
        solution, no heading is one over exercises."""
        first = next(iter(node.children), None)
        if not node.level or (isinstance(first, TextNode) and first.own("type") is not None):
            return ""
        is_inside = self.place[id(node)] < self.solutions_end
        if self.place[id(node)] < self.exercises_end and is_named_after_exercises(node.title):
            return kind_called("solution", self.kinds.lasting)
        return named_type(node.title, (*self.kinds.lasting, *(() if is_inside else self.kinds.exercises)))

    def _last_end(self, start: int, end: int) -> int:
        """Return the end of a lasting type, given that the text at `start` goes to `end`."""
        parent = self.order[start].parent
        level = (parent.level if parent is not None else 0) or 6
        inside = start  # where the divs end that begin after `start`
        while end < len(self.order):
            node = self.order[end]
            inside = max(inside, self.fences.get(end, 0))
            leaves_div = self.opened.get(end, start) < start
            ends = isinstance(node, HeadingNode) and (0 < node.level <= level or self._named(node))
            if (ends and end > inside) or leaves_div or end in self.typed or _says_something(node):
                break
            end += 1
        return end


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))


def environment(text: str, lasting: Collection[str] = DEFAULT.lasting) -> str:
    """Return the type of a div, chunk or environment of TeX that a text opens, by its class, label or name; empty if
    there is none.

    >>> environment("::: {#sol-leaf}"), environment("::: {.exam}", ["exam"]), environment("::: {.callout-note}")
    ('solution', 'exam', '')
    >>> environment('<div class="box loesung">'), environment("\\\\begin{solution}"), environment("::: notes")
    ('solution', 'solution', 'speaker note')
    """
    match = _OPENED.match(text)
    names = " ".join(filter(None, match.groups())).split() if match else environments(text)
    is_code = text.lstrip().startswith(("`", "~"))  # its language may be called so: "sol"
    if "notes" in names and not is_code:  # of slides
        return SPEAKER_NOTE
    if is_code and "BEGIN SOLUTION" in text:  # nbgrader, Otter
        return "solution"
    meant = "" if is_code else next(filter(None, (type_meant(name, (*lasting, "solution")) for name in names)), "")
    found = (kind_called(name.casefold(), (*lasting, "solution")) or name for name in names)
    return meant or next((name for name in found if is_one_of(name, (*_ENVIRONMENTS, *lasting))), "")


def _heading_right_above(node: Node) -> HeadingNode | None:
    """Return the heading directly above a text if it has no type itself, ignoring comments in between."""
    heading = node.parent
    if heading is None or not heading.level or heading.own("type"):
        return None
    for before in heading.children:
        if before is node:
            return heading
        if before.metadata_block is not None or not (isinstance(before, TextNode) and is_comment(before.text)):
            return None
    return None


def _says_something(node: Node) -> bool:
    """Return whether a node has metadata by its author, ignoring what programs wrote and questions to a model."""
    block = node.metadata_block
    if block is None:
        return False
    values: Mapping[str, Any] = block.values()
    own = [key for key in values if not key.startswith("~") and key not in _OF_PROGRAMS]
    return bool(own) or not (values or block.prompts)
