"""Word files and OpenDocument texts before Pandoc reads them: what it does not open, and what readers do not see.

Text boxes, fields, furigana, diagrams and embedded documents are opened in the package's XML. What readers of the
document do not see, such as rows deleted with tracked changes and hidden text, is taken out. Custom styles, as
publishers use them, are renamed to those by which Pandoc recognises headings, code and quotations; its own
`docx+styles` would lose the indentation of code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lmm.errors import FileReadError
from lmm.importing.archive import Archive, local

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_PARTS = re.compile(r"word/(?:document\d*|footnotes|endnotes)\.xml")
_STYLES = "word/styles.xml"
_UNWRAPPED = tuple(f"{_W}{name}" for name in ("fldSimple", "dir", "bdo", "customXml", "smartTag", "ins", "moveTo"))
_CODE, _QUOTE, _INLINE = "Source Code", "Block Text", "Verbatim Char"
_KNOWN = ("heading ", "title ", "source code", "block text", "quote ", "list ", "caption", "toc ", "footnote", "header",
          "footer")  # fmt: skip
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


def open_word(archive: Archive) -> tuple[dict[str, bytes], tuple[str, ...], list[bytes]]:
    """Open the wrappers in a Word file, and rename its styles with usual names to those that Pandoc recognises; return
    the changed members, notes about what was left out or stays plain text, and embedded documents.

    Raises:
        FileReadError: the file is damaged, or declares entities.
    """
    parts = [_WordPart(archive, name) for name in sorted(filter(_PARTS.fullmatch, archive.names))]
    notes = list[str]()
    changed = {part.name: _source(part.root) for part in parts}
    if _STYLES in archive.names and parts:
        styles = _parsed(archive, _STYLES)
        notes += _rename(styles, parts[0].used)
        changed[_STYLES] = _source(styles)
    if hidden := [word for part in parts for word in part.hidden]:
        notes.append(f"left out: hidden text ({len(hidden)} words: {' '.join(hidden[:8])} …)")
    if charts := sum(part.charts for part in parts):
        notes.append(f"left out: {charts} chart(s)")
    return changed, tuple(notes), [chunk for part in parts for chunk in part.chunks]


def _rename(root: Any, used: Counter[str]) -> Iterator[str]:
    """Rename styles to those that Pandoc recognises; iterate over notes of used styles that stay plain text."""
    styles = {node.get(f"{_W}styleId", ""): node for node in root.iter(f"{_W}style")}
    targets, plain = dict[str, str](), Counter[str]()
    for id, style in styles.items():
        names, at = list[str](), style
        while at is not None and len(names) < 20:
            names.append(_value(at, "name"))
            at = styles.get(_value(at, "basedOn"))
        name, is_character = names[0], style.get(f"{_W}type") == "character"
        is_known = any(f"{each.lower()} ".startswith(_KNOWN) for each in names)
        if style.get(f"{_W}customStyle") == "1" and not is_known:
            table, bare = _CHARACTERS if is_character else _PARAGRAPHS, re.sub(r"[\W_]+", "", name.lower())
            target = next((target for pattern, target in table.items() if re.fullmatch(pattern, bare)), "")
            if target:
                targets[name] = target
            elif not is_character and used[id] and not any(word in name.lower() for word in _PLAIN):
                plain[name] = used[id]
    for node in root.iter(f"{_W}name"):
        node.set(f"{_W}val", targets.get(node.get(f"{_W}val", ""), node.get(f"{_W}val", "")))
    if plain:
        listed = ", ".join(f"{name} ({times})" for name, times in plain.most_common(_MOST))
        hint = "if one is a heading, base it on 'Heading 2' in Word, or name it 'Code' or 'Quote'"
        yield f"read as plain text: paragraphs in the styles {listed}; {hint}"


# -- XML -------------------------------------------------------------------------------------------------


def _parsed(archive: Archive, name: str) -> Any:
    from lxml import etree

    try:
        return etree.fromstring(archive.checked(name), etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as error:
        raise FileReadError(f"'{name}' in it is not valid XML: {error}", hint="the file is damaged") from error


def _source(root: Any) -> bytes:
    from lxml import etree

    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True))


def _value(node: Any, name: str) -> str:
    """Return the value of an element below another one, which Word writes as an attribute."""
    child = node.find(f"{_W}{name}")
    return "" if child is None else child.get(f"{_W}val", "1")


def _get(node: Any, name: str) -> str:
    """Return an attribute by its name without a namespace."""
    return next((value for key, value in node.items() if local(key) == name), "")


def _replace(node: Any, others: list[Any]) -> None:
    """Put other elements in the place of one; the text after it stays."""
    parent, before = node.getparent(), node.getprevious()
    if parent is None:
        return
    for other in reversed(others):
        node.addnext(other)
    if before is None:
        parent.text = (parent.text or "") + (node.tail or "")
    else:
        before.tail = (before.tail or "") + (node.tail or "")
    parent.remove(node)


# -- Word ------------------------------------------------------------------------------------------------


def _is_on(value: str) -> bool:
    return value not in ("", "0", "false", "off")


def _is_white(run: Any) -> bool:
    """Return whether a run is in white letters, and nothing around it may have a darker background."""
    own, dark = run.find(f"{_W}rPr"), (f"{_W}txbxContent", f"{_W}tbl")  # by their own styles
    if own is None or _value(own, "color").upper() != "FFFFFF" or own.find(f"{_W}highlight") is not None:
        return False
    properties = [own, *(paragraph[0] for paragraph in run.iterancestors(f"{_W}p"))]  # they come first
    fills = {mark.get(f"{_W}fill", "").upper() for node in properties for mark in node.iterfind(f"{_W}shd")}
    page = run.getroottree().getroot().find(f"{_W}background")
    return fills <= {"FFFFFF", "AUTO"} and page is None and next(run.iterancestors(*dark), None) is None


class _WordPart:
    """The XML of one member of a Word file, with its wrappers opened; what was `hidden` in it, its number of `charts`,
    and how often its styles are `used`."""

    def __init__(self, archive: Archive, name: str) -> None:
        self.name, self.root = name, _parsed(archive, name)
        self._archive, self._targets = archive, archive.targets(name)
        self._hidden_styles = {
            node.get(f"{_W}styleId", "")
            for node in (archive.xml(_STYLES) if _STYLES in archive.names else ())
            if any(_is_on(_value(properties, "vanish")) for properties in node.iterfind(f"{_W}rPr"))
        }
        self.used = Counter(_get(node, "val") for node in self.root.iter(f"{_W}pStyle"))
        self.charts = sum(local(str(node.tag)) == "chart" for node in self.root.iter())
        self.hidden, self.chunks = list(self._unseen()), list[bytes]()
        self._open()

    def _open(self) -> None:
        """Open all wrappers."""
        from lxml import etree

        for mark in self.root.iter(f"{_W}position"):  # raised and smaller, as LibreOffice writes some superscripts
            run, height = mark.getparent(), mark.get(f"{_W}val", "0")
            if run.find(f"{_W}sz") is not None and run.find(f"{_W}vertAlign") is None and height != "0":
                kind = "subscript" if height.startswith("-") else "superscript"
                etree.SubElement(run, f"{_W}vertAlign", {f"{_W}val": kind})
        for ruby in list(self.root.iter(f"{_W}ruby")):  # a word, and its reading in brackets
            runs = [run for base in ruby.iter(f"{_W}rubyBase") for run in base]
            read = "".join(text for part in ruby.iter(f"{_W}rt") for text in part.itertext(f"{_W}t"))
            _replace(ruby.getparent(), runs + ([_paragraph(f"({read})")[0]] if read else []))
        for node in list(self.root.iter(*_UNWRAPPED)):
            _replace(node, [child for child in node if not str(child.tag).endswith("Pr")])
        self._open_fields()
        for paragraph in [p for p in self.root.iter(f"{_W}p") if next(p.iter(f"{_W}txbxContent"), None) is not None]:
            boxes = paragraph.xpath(".//w:txbxContent[not(ancestor::w:txbxContent)]", namespaces={"w": _W[1:-1]})
            contents = [node for box in boxes for node in box]
            for box in boxes:
                _replace(box, [])
            for drawing in list(paragraph.iter(f"{_W}drawing", f"{_W}pict", f"{_W}object")):
                if not any(local(str(node.tag)) in ("blip", "imagedata") for node in drawing.iter()):
                    _replace(drawing, [])
            for node in reversed(contents):
                paragraph.addnext(node)
        for chunk in list(self.root.iter(f"{_W}altChunk")):
            name = self._targets.get(_get(chunk, "id"), "")
            _replace(chunk, [_paragraph(f"lmmchunk{len(self.chunks)}.")] if name in self._archive.names else [])
            self.chunks += [self._archive.read(name)] if name in self._archive.names else []
        for diagram in [node for node in self.root.iter() if local(str(node.tag)) == "relIds"]:  # SmartArt
            name = self._targets.get(_get(diagram, "dm"), "")
            points = self._archive.xml(name).iter() if name in self._archive.names else ()
            texts = ["".join(part.text or "" for part in point.iter() if local(part.tag) == "t")
                     for point in points if local(point.tag) == "pt"]  # fmt: skip
            for text in reversed([" ".join(text.split()) for text in texts if text.strip()]):
                next(node for node in diagram.iterancestors(f"{_W}p")).addnext(_paragraph(text))

    def _unseen(self) -> Iterator[str]:
        """Take out second forms of text boxes, deleted rows, what was moved elsewhere, and hidden or white text;
        iterate over its words."""
        for group in list(self.root.iter(f"{_MC}AlternateContent")):
            choice, fallback = group.find(f"{_MC}Choice"), group.find(f"{_MC}Fallback")
            if choice is not None and next(choice.iter(f"{_W}txbxContent"), None) is not None and fallback is not None:
                group.remove(fallback)
        for node in list(self.root.iter(f"{_W}del", f"{_W}moveFrom")):
            box = local(node.getparent().tag)
            if box == "trPr" or (local(node.tag) == "moveFrom" and box != "rPr"):
                _replace(node.getparent().getparent() if box == "trPr" else node, [])
        for run in list(self.root.iter(f"{_W}r")):
            own, paragraph = run.find(f"{_W}rPr"), next(run.iterancestors(f"{_W}p"), run)
            marks = [*run.iterfind(f"{_W}rPr/{_W}rStyle"), *paragraph.iterfind(f"{_W}pPr/{_W}pStyle")]
            is_hidden = any(_get(mark, "val") in self._hidden_styles for mark in marks)
            if own is not None and own.find(f"{_W}vanish") is not None:
                is_hidden = _is_on(_value(own, "vanish"))
            if is_hidden or _is_white(run):
                yield from "".join(run.itertext(f"{_W}t")).split()
                _replace(run, [])

    def _open_fields(self) -> None:
        """Write what fields show that Pandoc does not: check boxes, choices, symbols, the code of formulas; take out
        fields within the code of others."""
        for node in self.root.iter(f"{_W}cr"):
            node.tag = f"{_W}br"
        for art in list(self.root.iter("{*}textpath")):
            next(art.iterancestors(f"{_W}r")).addprevious(_paragraph(art.get("string", ""))[0])
        starts = list[Any]()  # of the fields whose code has not ended
        for node in list(self.root.iter(f"{_W}fldChar", f"{_W}instrText", f"{_W}t", f"{_W}sym")):
            kind, code, run = node.get(f"{_W}fldCharType"), (node.text or "").strip(), node.getparent()
            if kind == "begin":
                starts.append(run)
                if shown := _shown_by_form(node):
                    starts[0].addprevious(_paragraph(shown)[0])
            elif kind is not None:
                starts = starts[:-1]
            elif node.tag == f"{_W}instrText" and re.match(r"(?i)eq\s", code) and starts:
                starts[0].addprevious(_paragraph(code)[0])
            elif node.tag == f"{_W}t" and starts:
                node.text = ""
            elif node.tag == f"{_W}sym" and not re.match("(?i)f0", letter := node.get(f"{_W}char", "")):
                node.tag, node.text = f"{_W}t", chr(int(letter, 16)) if re.fullmatch("[0-9a-fA-F]{4}", letter) else ""


def _shown_by_form(field: Any) -> str:
    """Return what a field of a form shows, which is a check box or a choice."""
    for box in field.iter(f"{_W}checkBox"):
        return "☒" if _is_on(_value(box, "checked" if box.find(f"{_W}checked") is not None else "default")) else "☐"
    for choice in field.iter(f"{_W}ddList"):
        entries, at = choice.findall(f"{_W}listEntry"), _value(choice, "result") or "0"
        return _get(entries[int(at)], "val") if at.isdecimal() and int(at) < len(entries) else ""
    return ""


def _paragraph(text: str) -> Any:
    from lxml import etree

    paragraph = etree.Element(f"{_W}p")
    etree.SubElement(etree.SubElement(paragraph, f"{_W}r"), f"{_W}t").text = text
    return paragraph


# -- OpenDocument ----------------------------------------------------------------------------------------


_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_HIDEABLE = ("p", "h", "span", "section", "hidden-text", "hidden-paragraph")
# What Pandoc reads within a paragraph, or what has no text; all other elements there are fields, whose text it drops.
_NO_FIELDS = ("span", "a", "note", "s", "tab", "line-break", "bibliography-mark", "bookmark-ref", "reference-ref",
              "note-ref", "script", "change", "tracked-changes")  # fmt: skip


def open_text(archive: Archive) -> tuple[dict[str, bytes], dict[str, str]]:
    """Open what Pandoc does not in an OpenDocument text: text boxes, fields, tables in cells, headings that are only
    styled so; return the changed member, and the hidden text, which is taken out.

    Raises:
        FileReadError: the file is damaged, or declares entities.
    """
    content = _parsed(archive, "content.xml")
    roots = [content, *(_parsed(archive, name) for name in {"styles.xml"} & archive.names)]
    styles = {_get(node, "name"): node for root in roots for node in root.iter() if local(str(node.tag)) == "style"}
    hidden = list[str]()
    for node in [node for node in content.iter() if local(str(node.tag)) in _HIDEABLE]:
        style = styles.get(_get(node, "style-name"))
        is_off = style is not None and any(_get(each, "display") == "none" for each in style)
        if is_off or _get(node, "is-hidden") == "true" or _get(node, "display") == "none":
            target = node.getparent() if local(node.tag) == "hidden-paragraph" else node
            hidden.append("".join(target.itertext()) + _get(target, "string-value"))
            target.text, target[:] = "", []
        elif node.tag == f"{_TEXT}p" and (level := _level(style, styles)):
            node.tag = f"{_TEXT}h"
            node.set(f"{_TEXT}outline-level", level)
    for shape in reversed([node for node in content.iter() if "drawing:1.0}" in str(node.tag)]):
        boxes = (shape, *shape.iterchildren("{*}text-box"))
        blocks = [block for box in boxes for block in box if local(str(block.tag)) in ("p", "h", "list", "table")]
        anchor = next(shape.iterancestors(f"{_TEXT}p", f"{_TEXT}h"), shape)
        for block in reversed(blocks if local(shape.tag) != "text-box" else ()):
            anchor.addnext(block)
    for item in list(content.iter(f"{_TEXT}numbered-paragraph")):
        _replace(item, [*item])
    for ruby in content.iter(f"{_TEXT}ruby-text"):
        ruby.text = f"({ruby.text or ''})"
    for table in [table for cell in content.iter("{*}table-cell") for table in cell.iterchildren("{*}table")]:
        _replace(table, [*table.iter(f"{_TEXT}p", f"{_TEXT}h")])
    for node in content.iter():
        kind, parent = local(str(node.tag)), node.getparent()
        is_inner = parent is not None and local(str(parent.tag)) in ("p", "h", "span", "a")
        if is_inner and str(node.tag).startswith(_TEXT) and kind not in _NO_FIELDS:
            node.tag = f"{_TEXT}span"
        elif kind == "object":
            for name, address in node.items():
                node.set(name, address.rstrip("/"))
    return {"content.xml": _source(content)}, {"hidden text": "\n".join(hidden)} if hidden else {}


def _level(style: Any, styles: dict[str, Any]) -> str:
    """Return the level of a heading for a style, or those that it is based on; else the empty string."""
    for _ in range(20):
        if style is None:
            break
        named = re.fullmatch(r"Heading_20_(\d)", _get(style, "name"))
        if level := _get(style, "default-outline-level") or (named[1] if named else ""):
            return level
        style = styles.get(_get(style, "parent-style-name"))
    return ""
