"""Custom styles of Word files, as publishers use them: recognising headings, code and quotations.

Pandoc recognises styles by the names that Word gives them. So custom styles are renamed to these, in the file's
table of styles, before Pandoc reads it; Pandoc's own `docx+styles` would lose the indentation of code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from xml.etree import ElementTree

from lmm.errors import ConfigError
from lmm.importing.archive import Archive, local

_PART = "word/styles.xml"
_CODE, _QUOTE, _INLINE = "Source Code", "Block Text", "Verbatim Char"
_KINDS = {"code": _CODE, "quote": _QUOTE, **{f"heading {level}": f"heading {level}" for level in range(1, 7)}}
_KNOWN = (
    "heading ",
    "title ",
    "source code",
    "block text",
    "quote ",
    "list ",
    "caption",
    "toc ",
    "footnote",
    "header",
    "footer",
)
# Names in lower case without blanks and punctuation, as used by No Starch, Packt, Manning and others.
_HEAD = r"h(?:ead(?:ing)?)?"
_PLACE = r"(?:wide|single|block|first|middle|last|annotated|sample|snippet|listing|line|text|para(?:graph)?|[a-d]|\d)*"
_PARAGRAPHS = {
    rf"(?:part|chapter|ch|co|appendix)(?:chapter)?title|{_HEAD}1(?:chapter|section)?": "heading 1",
    rf"{_HEAD}[a2](?:heading|section)?|ahead": "heading 2",
    rf"{_HEAD}[b3](?:sub)?(?:heading)?|bhead": "heading 3",
    rf"{_HEAD}[c4](?:sub)?(?:heading)?|chead": "heading 4",
    rf"{_HEAD}[d5]|dhead": "heading 5",
    rf"(?:source)?(?:code|program|listing|console|screen|terminal|verbatim|preformatted){_PLACE}": _CODE,
    r"sc(?:source|highlight)|conconsole": _CODE,
    rf"(?:block)?(?:quote|quotation|extract|epigraph){_PLACE}": _QUOTE,
}
_CHARACTERS = {r"(?:literal|(?:inline)?code|monospaced?|verbatim)(?:inline|intext|bold|italic|gr[ae]y|char)*": _INLINE}
# Words in the names of styles for plain text, which need not be reported.
_PLAIN = (
    *("body", "text", "normal", "standard", "para", "list", "bullet", "num", "caption", "figure", "table", "toc"),
    *("index", "header", "footer", "note", "compact", "intro", "abstract", "continued", "label", "slug", "author"),
    *("date", "bibliography", "reference", "definition", "subtitle"),
)
_MOST = 8  # names in a note


def read_choice(choice: str) -> tuple[str, str]:
    """Parse ``NAME=KIND`` of the option ``--style``; return a style's name and its kind.

    Raises:
        ConfigError: it has another form, or the kind is unknown.

    >>> read_choice("HeadA=heading 1")
    ('HeadA', 'heading 1')
    """
    name, equals, kind = (part.strip() for part in choice.rpartition("="))
    if not name or not equals or kind not in _KINDS:
        hint = f"for example --style 'HeadA=heading 1'; there are {', '.join(_KINDS)}"
        raise ConfigError(f"this is not a mapping of a style: {choice}", hint=hint)
    return name, kind


@dataclass(frozen=True, slots=True)
class _Style:
    id: str
    name: str
    names: Sequence[str]  # its own, and those of the styles that it is based on
    is_custom: bool
    is_character: bool


def known_styles(archive: Archive, chosen: Mapping[str, str]) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Rename a Word file's styles to names that Pandoc recognises, as `chosen`, else by usual names; return the changed
    members, and notes of used styles that stay plain text.

    Raises:
        FileReadError: the file is damaged, or declares entities.
    """
    document = next((name for name in archive.names if re.fullmatch(r"word/document\d*\.xml", name)), "")
    if not document or _PART not in archive.names:
        return {}, ()
    styles = list(_styles(archive.xml(_PART)))
    text = archive.checked(document).decode("utf-8", "replace")
    used = Counter(map(unescape, re.findall(r'<w:pStyle w:val="([^"]*)"', text)))
    targets = {style.name: target for style in styles if (target := _target(style, chosen))}
    plain = Counter({style.name: used[style.id] for style in styles if style.name not in targets and _is_told(style)})
    notes = tuple(f"--style {name}: there is no style of this name" for name in chosen if name not in targets)
    if told := [f"{name} ({times})" for name, times in plain.most_common(_MOST) if times]:
        first = plain.most_common(1)[0][0]
        hint = f"if one is a heading, map it: --style '{first}=heading 2' (or code, or quote)"
        notes = (*notes, f"read as plain text: paragraphs in the styles {', '.join(told)}; {hint}")
    return {_PART: _renamed(archive.checked(_PART), targets)}, notes


def _styles(root: ElementTree.Element) -> Iterator[_Style]:
    def get(node: ElementTree.Element | None, key: str) -> str:
        return next((text for name, text in node.items() if local(name) == key), "") if node is not None else ""

    nodes = {get(node, "styleId"): {local(part.tag): part for part in node} | {"": node} for node in root}
    for id, parts in nodes.items():
        names, at = list[str](), id
        while at in nodes and len(names) < 20:
            names.append(get(nodes[at].get("name"), "val"))
            at = get(nodes[at].get("basedOn"), "val")
        style = parts[""]
        yield _Style(id, names[0], names, get(style, "customStyle") == "1", get(style, "type") == "character")


def _target(style: _Style, chosen: Mapping[str, str]) -> str:
    """Return Pandoc's name for a style that it does not recognise, or the empty string."""
    if style.name in chosen:
        return _KINDS[chosen[style.name]]
    if not style.is_custom or _is_known(style):
        return ""
    name = re.sub(r"[\W_]+", "", style.name.lower())
    table = _CHARACTERS if style.is_character else _PARAGRAPHS
    return next((target for pattern, target in table.items() if re.fullmatch(pattern, name)), "")


def _is_known(style: _Style) -> bool:
    return any(f"{name.lower()} ".startswith(_KNOWN) for name in style.names)


def _is_told(style: _Style) -> bool:
    is_plain = any(word in style.name.lower() for word in _PLAIN)
    known = is_plain or _is_known(style)
    return style.is_custom and not style.is_character and not known


def _renamed(styles: bytes, targets: Mapping[str, str]) -> bytes:
    """Rename some styles in the table of styles."""

    def name(match: re.Match[str]) -> str:
        target = targets.get(unescape(match[2]))
        return f"{match[1]}{escape(target)}{match[3]}" if target else match[0]

    return re.sub(r'(<w:name w:val=")([^"]*)(")', name, styles.decode("utf-8", "replace")).encode()
