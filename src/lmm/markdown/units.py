"""Units: texts with blank lines in them that Pandoc reads as one block, and that must not be split.

A fenced div with its content; a list, loose or tight; a table with its caption; a definition list; a footnote
and indented code over several paragraphs; parts of HTML, environments of TeX, paired tags of Liquid and Hugo, and
admonitions of MkDocs. Texts are given by the sources of their blocks; None stands for a
heading or metadata, which ends any unit except a div.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from lmm.markdown.blocks import Block, TextBlock
from lmm.markdown.metadata import prefix_end
from lmm.markdown.parse_markdown import FENCE, Texts, div_ends as div_ends
from lmm.markdown.tree import HeadingNode, Node, TextNode, preorder

_BULLET = r"(?P<bullet>[-*+])"
_NUMBER = r"(?P<open>\(?)(?:\d{1,9}|#|[A-Za-z]|[ivxIVX]+|@[\w-]*)(?P<close>[.)])"
# No name's initial, "A. Leaf": a list needs two spaces there.
ITEM = re.compile(rf"(?! {{0,3}}[A-Z]\. (?! )) {{0,3}}(?:{_BULLET}|{_NUMBER})(?:[ \t]+|(?=\r?(?:\n|\Z)))")
_INDENTED = ("    ", "\t")
# A caption of the form ": text" is a definition where it follows a term.
_MARK = re.compile(r" {0,3}([Tt]able:|[:~])[ \t]+\S")
_DASHES = r" {0,3}--[- \t]*+"
_PIPES = r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+"
_KIND = re.compile(
    rf"(?P<note> {{0,3}}\[\^[^\]\s]+\]:| {{0,3}}(?:!!!|\?\?\?\+?|===)[ \t]+[\"\w]|    |\t)"
    rf"|(?P<ruled>{_DASHES}\r?\n[ \t]*\S)"
    rf"|(?P<table>(?=[^|\n]*\|)[^\n]*+\n{_PIPES}(?:[|+]|\n)|[^\n]++\n{_DASHES}\r?\n| {{0,3}}\+[-=+:]+\+[ \t]*\r?\n)"
)
_LONGEST = 200  # the largest number of texts in a table of ruled lines


def texts_of(blocks: Iterable[Block]) -> list[str | None]:
    """Return the sources of text blocks, None for the others."""
    return [block.source if isinstance(block, TextBlock) else None for block in blocks]


def is_opening(text: str) -> bool:
    """Return whether a text, as parsed, is the line that opens a fenced div."""
    fence = FENCE.match(text, prefix_end(text))
    return fence is not None and fence["opens"] is not None


def balanced(ends: Mapping[int, int], start: int, end: int) -> int:
    """Return the end of the longest run from `start` up to `end` that splits no div; `ends` are those of `div_ends`.

    >>> ends = div_ends(["::: a\\n", "A leaf.\\n", ":::\\n", "::: b\\n", "A root.\\n", ":::\\n"])
    >>> balanced(ends, 1, 6), balanced(ends, 0, 5), balanced(ends, 0, 6)
    (2, 3, 6)
    """
    closers = set(ends.values())
    at = start
    while at < end:
        after = ends.get(at, at) + 1
        if at in closers or after > end:
            break
        at = after
    return at


def unit_ends(texts: Texts, divs: Mapping[int, int] | None = None) -> list[int]:
    """Return, for each text, the end of the unit that begins with it: the position after its last text.

    >>> unit_ends(["- a\\n\\n", "- b\\n\\n", "  more\\n\\n", "Then.\\n"])
    [3, 3, 3, 4]
    >>> unit_ends(["| a |\\n|---|\\n| 1 |\\n\\n", ": Numbers\\n\\n", "[^1]: A note.\\n\\n", "    More of it.\\n"])
    [2, 2, 4, 4]
    """
    divs = div_ends(texts) if divs is None else divs
    if texts and texts[0]:  # the only one that may have blank lines above it
        texts = [texts[0][prefix_end(texts[0]) :], *texts[1:]]
    divs = {**enclosed(texts), **divs}
    fences = {*divs, *divs.values()}
    ends = [divs.get(position, position) + 1 for position in range(len(texts))]
    at = 0
    while at < len(texts):
        end = at + 1 if texts[at] is None or at in fences else _run_end(texts, at, divs, fences)
        for inner in range(at, end):
            if inner == at or (inner not in divs and is_item(texts[inner])):
                ends[inner] = max(end, ends[inner])
        at = end
    return ends


# Elements of HTML, a page's own, with a dash in their names, and components of MDX, which begin with a capital.
_TAGS = (
    "[a-z]+-[a-z-]+|article|aside|blockquote|center|details|div|dl|fieldset|figure|form|main|nav|ol|section|table|ul"
    r"|(?-i:[A-Z]\w*)"
)
_ENCLOSING = re.compile(
    rf"^ {{0,3}}(?:<(?P<ends_tag>/)?(?P<tag>{_TAGS})\b(?![^<>\n]*/>)|\\(?P<env>begin|end)\{{(?P<name>[^}}\n]+)\}}"
    r"|\{(?P<mark>\{[%<]|%)-?[ \t]*(?P<ends_call>/|end)?(?P<call>\w[\w-]*)|(?P<math>\\\[))"
    rf"|(?P<ends_math>\\\])[ \t]*\r?$|</(?P<last>{_TAGS})>[ \t]*\r?$",
    re.MULTILINE | re.IGNORECASE,
)


def enclosed(texts: Texts) -> dict[int, int]:
    """Map the position of each text that opens a part of HTML, an environment of TeX, a formula in ``\\[ \\]`` or a
    paired tag of Liquid or Hugo to the one that closes it, where that is another text.

    >>> enclosed(["<details>\\n\\n", "A leaf.\\n\\n", "</details>\\n", "\\\\begin{x}\\n\\n", "\\\\end{x}\\n"])
    {0: 2, 3: 4}
    """
    ends, opened = dict[int, int](), dict[tuple[str, ...], list[int]]()
    for at, text in enumerate(texts):
        if text is None or not ("<" in text or "\\" in text or "{" in text) or text.lstrip().startswith(("```", "~~~")):
            continue
        for match in _ENCLOSING.finditer(text):
            closes = match["ends_tag"] or match["last"] or match["ends_call"] or match["ends_math"]
            closes = closes or (match["env"] or "").lower() == "end"
            tag = (match["tag"] or match["last"] or "").lower()
            positions = opened.setdefault((tag, match["name"] or "", match["mark"] or "", match["call"] or ""), [])
            if not closes:
                positions.append(at)
            elif positions and (start := positions.pop()) < at:
                ends[start] = max(ends.get(start, at), at)
    return ends


def misread_as_captions(texts: Texts) -> set[int]:
    """Return the texts that Pandoc would wrongly read as the caption of a following table: loose definitions of one
    paragraph. Pandoc reads metadata after one as a table.

    >>> misread_as_captions(["Leaf\\n\\n", ":   What is green.\\n\\n", "| a |\\n|---|\\n\\n", ": A table\\n\\n"])
    {1}
    """
    found, at = set[int](), 0
    ends = unit_ends(texts) if any(text and _is_caption(text) for text in texts) else []
    while at < len(ends):
        first, last = texts[at], texts[ends[at] - 1]
        if first and last and _is_caption(last) and kind_of(first) not in ("table", "ruled"):
            found.add(ends[at] - 1)
        at = ends[at]
    return found


def _run_end(texts: Texts, start: int, divs: Mapping[int, int], fences: Collection[int]) -> int:
    """Return the end of the unit that continues, over blank lines, from the text at `start`."""
    first = texts[start] or ""
    kind, item, at = kind_of(first), first, start + 1
    for last in range(start, min(start + _LONGEST, len(texts)) if kind == "ruled" else start):
        if (text := texts[last]) is None:
            break
        above, _, rule = text.rstrip().rpartition("\n")
        if rule.strip().startswith("--") and not rule.strip("- \t") and (above or last > start):
            at = last + 1  # else the table is its first text
            break
    while at < len(texts) and (text := texts[at]) is not None:
        if at in fences:
            if kind != "list" or at not in divs or not _belongs(item, text):
                break
            at = divs[at] + 1  # a div that is indented, as a part of an item
            continue
        if not _follows(kind, item, texts, start, at):
            break
        item = text if is_item(text) and not _is_inside(item, text) else item
        at += 1
    return at


def kind_of(first: str) -> str:
    """Return the kind of a text, as far as other texts may continue it.

    >>> kind_of("| a |\\n|---|\\n"), kind_of(": Leaves"), kind_of("- a"), kind_of("[^1]: A"), kind_of("A leaf.")
    ('table', 'caption', 'list', 'note', 'prose')
    """
    if is_item(first):
        return "list"
    if kind := _KIND.match(first):
        return str(kind.lastgroup)
    return "caption" if _is_caption(first) else "prose"


def _mark(text: str) -> str:
    """Return the mark of a definition or a caption with which a text begins."""
    mark = _MARK.match(text)
    return mark[1] if mark else ""


def _is_caption(text: str) -> bool:
    return _mark(text).endswith(":")


def _is_definition(text: str) -> bool:
    return _mark(text) in (":", "~")


def _follows(kind: str, item: str, texts: Texts, start: int, at: int) -> bool:
    """Return whether the text `at` continues the unit of this kind from `start`; `item` is the last item of a list."""
    text = texts[at] or ""
    match kind:
        case "list":
            return _belongs(item, text)
        case "note":
            return text.startswith(_INDENTED)
        case "table" | "ruled":
            return _is_caption(text) and not _is_caption(texts[at - 1] or "")
        case "caption":
            return at == start + 1 and kind_of(text) in ("table", "ruled")
    # Whether it defines the term before it, continues such a definition, or is the next term.
    before, after = texts[at - 1] or "", (texts[at + 1] if at + 1 < len(texts) else None) or ""
    begun = at > start + 1 or _defines_inside(before)
    if _is_definition(text):
        return begun or _is_line(before)
    is_term = _is_line(text) and _is_definition(after)
    return begun and (is_term or text.startswith(_INDENTED) or _defines_inside(text))


def _belongs(item: str, text: str) -> bool:
    """Return whether a text continues a list whose last item is `item`: as an item of its kind, or indented."""
    marker, other = ITEM.match(item), ITEM.match(text)
    is_alike = marker and other and other.group("open", "close") == marker.group("open", "close")
    return _is_inside(item, text) or bool(is_alike)


def _is_inside(item: str, text: str) -> bool:
    """Return whether a text is indented as far as the text of an item."""
    marker = ITEM.match(item)
    return marker is not None and text.expandtabs(4).startswith(" " * min(len(marker[0].expandtabs(4)), 4))


def is_item(text: str | None) -> bool:
    """Return whether a text begins with an item of a list."""
    return text is not None and ITEM.match(text) is not None


def _defines_inside(text: str) -> bool:
    """Return whether a text is a term with its definition on the next line."""
    return _is_definition(text.partition("\n")[2])


def _is_line(text: str) -> bool:
    return "\n" not in text.strip()


# -- in a tree -----------------------------------------------------------------------------------------


def continuations_of_units(tree: HeadingNode | None) -> dict[int, list[Node]]:
    """Return the other nodes of each unit with metadata, by the id of its first text: its metadata applies to all."""
    order, texts = _in_order(tree)
    has_any = any(isinstance(node, TextNode) and node.metadata_block is not None for node in order)
    ends, continuations = unit_ends(texts) if has_any else [], dict[int, list[Node]]()
    for at, node in enumerate(order):
        if isinstance(node, TextNode) and node.metadata_block is not None and ends[at] > at + 1:
            continuations[id(node)] = [other for other in order[at + 1 : ends[at]] if other is not None]
    return continuations


def fences_of_divs(tree: HeadingNode | None) -> list[tuple[Node, Node]]:
    """Return the first and the last line of each fenced div, which are kept or removed together."""
    order, texts = _in_order(tree)
    found = ((order[first], order[last]) for first, last in div_ends(texts).items())
    return [(first, last) for first, last in found if first is not None and last is not None]


def _in_order(tree: HeadingNode | None) -> tuple[list[Node | None], list[str | None]]:
    """Return the nodes of a tree and their texts, with None for metadata."""
    order: list[Node | None] = []
    for node in preorder(tree):
        order += [None, node] if node.metadata_block is not None else [node]
    texts = [node.block.source if isinstance(node, TextNode) and node.block else None for node in order]
    return order, texts
