"""What Pandoc does not open in Word files: text boxes, simple fields, furigana, diagrams, embedded documents.

They are opened in the package's XML, before Pandoc reads it. What readers of the document do not see, such as rows
deleted with tracked changes and hidden text, is taken out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from lmm.errors import FileReadError
from lmm.importing.archive import Archive, local

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_W = f"{{{_WORD}}}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_PARTS = re.compile(r"word/(?:document\d*|footnotes|endnotes)\.xml")
_UNWRAPPED = tuple(f"{_W}{name}" for name in ("fldSimple", "dir", "bdo", "customXml", "smartTag"))


def open_wrappers(archive: Archive) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Open the wrappers in a Word file; return the changed members, and notes about what was left out.

    Raises:
        FileReadError: the file is damaged, or declares entities.
    """
    changed, hidden, charts = dict[str, bytes](), list[str](), 0
    styles = _hidden_styles(archive)
    for name in sorted(filter(_PARTS.fullmatch, archive.names)):
        part = _Part(archive, name, styles)
        part.open()
        changed[name] = part.xml()
        hidden += part.hidden
        charts += part.charts
    notes = (f"left out: hidden text ({len(hidden)} words: {' '.join(hidden[:8])} …)",) if hidden else ()
    return changed, notes + ((f"left out: {charts} chart(s)",) if charts else ())


def _hidden_styles(archive: Archive) -> frozenset[str]:
    """Return the ids of the styles whose text is hidden."""
    if "word/styles.xml" not in archive.names:
        return frozenset()
    styles = (node for node in archive.xml("word/styles.xml") if local(node.tag) == "style")
    return frozenset(node.get(f"{_W}styleId", "") for node in styles if _is_set(node.find(f"{_W}rPr/{_W}vanish")))


def _is_set(mark: Any) -> bool:
    return mark is not None and mark.get(f"{_W}val", "1") not in ("0", "false", "off")


class _Part:
    """The XML of one member of a Word file."""

    def __init__(self, archive: Archive, name: str, hidden_styles: frozenset[str]) -> None:
        from lxml import etree

        self._etree: Any = etree
        self._archive, self._name, self._hidden_styles = archive, name, hidden_styles
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        try:
            self.root: Any = etree.fromstring(archive.checked(name), parser)
        except etree.XMLSyntaxError as error:
            raise FileReadError(f"'{name}' in it is not valid XML: {error}", hint="the file is damaged") from error
        self.hidden: list[str] = []
        self.charts = sum(local(str(node.tag)) == "chart" for node in self.root.iter())

    def xml(self) -> bytes:
        """Return the part as it is now."""
        return bytes(self._etree.tostring(self.root, xml_declaration=True, encoding="UTF-8", standalone=True))

    def open(self) -> None:
        """Take out what readers do not see, and open all wrappers."""
        self._take_out_unseen()
        for mark in self.root.iter(f"{_W}position"):  # raised and smaller, as LibreOffice writes some superscripts
            run, height = mark.getparent(), mark.get(f"{_W}val", "0")
            if run.find(f"{_W}sz") is not None and run.find(f"{_W}vertAlign") is None and height != "0":
                kind = "subscript" if height.startswith("-") else "superscript"
                self._etree.SubElement(run, f"{_W}vertAlign", {f"{_W}val": kind})
        for ruby in list(self.root.iter(f"{_W}ruby")):
            self._replace(ruby.getparent(), self._furigana(ruby))
        for node in list(self.root.iter(*_UNWRAPPED)):
            if node.tag != f"{_W}fldSimple" or "HYPERLINK" not in node.get(f"{_W}instr", ""):
                self._replace(node, [child for child in node if not str(child.tag).endswith("Pr")])
        for paragraph in [p for p in self.root.iter(f"{_W}p") if next(p.iter(f"{_W}txbxContent"), None) is not None]:
            self._take_boxes_out(paragraph)
        for chunk in list(self.root.iter(f"{_W}altChunk")):
            self._replace(chunk, list(self._embedded(chunk.get(f"{_R}id", ""))))
        for diagram in [node for node in self.root.iter() if local(str(node.tag)) == "relIds"]:
            paragraph = next(node for node in diagram.iterancestors(f"{_W}p"))
            for text in reversed(list(self._diagram(diagram.get(f"{_R}dm", "")))):
                paragraph.addnext(self._paragraph(text))

    def _take_out_unseen(self) -> None:
        """Take out second forms of text boxes, deleted rows, what was moved elsewhere, and hidden text."""
        for group in list(self.root.iter(f"{_MC}AlternateContent")):
            choice, fallback = group.find(f"{_MC}Choice"), group.find(f"{_MC}Fallback")
            if choice is not None and next(choice.iter(f"{_W}txbxContent"), None) is not None and fallback is not None:
                group.remove(fallback)
        for mark in list(self.root.iter(f"{_W}del")):
            if mark.getparent().tag == f"{_W}trPr":
                _remove(mark.getparent().getparent())
        for node in list(self.root.iter(f"{_W}moveFrom")):
            if node.getparent().tag != f"{_W}rPr":
                _remove(node)
        for run in [run for run in self.root.iter(f"{_W}r") if self._is_hidden(run)]:
            self.hidden += "".join(run.itertext(f"{_W}t")).split()
            _remove(run)

    def _is_hidden(self, run: Any) -> bool:
        mark = run.find(f"{_W}rPr/{_W}vanish")
        if mark is not None:
            return _is_set(mark)
        paragraph = next(run.iterancestors(f"{_W}p"), None)
        styles = [run.find(f"{_W}rPr/{_W}rStyle")]
        styles += [paragraph.find(f"{_W}pPr/{_W}pStyle")] if paragraph is not None else []
        return any(style is not None and style.get(f"{_W}val") in self._hidden_styles for style in styles)

    def _take_boxes_out(self, paragraph: Any) -> None:
        """Put the paragraphs of text boxes behind the paragraph to which the boxes are anchored."""
        contents = []
        for box in list(paragraph.iter(f"{_W}txbxContent")):
            if not any(True for _ in box.iterancestors(f"{_W}txbxContent")):
                contents += list(box)
                _remove(box)
        for drawing in list(paragraph.iter(f"{_W}drawing", f"{_W}pict", f"{_W}object")):
            if not any(local(str(node.tag)) in ("blip", "imagedata") for node in drawing.iter()):
                _remove(drawing)
        for node in reversed(contents):
            paragraph.addnext(node)

    def _furigana(self, ruby: Any) -> list[Any]:
        """Return the runs of a word and of its reading, in brackets."""
        base, reading = ruby.find(f"{_W}rubyBase"), ruby.find(f"{_W}rt")
        read = "".join(reading.itertext(f"{_W}t")) if reading is not None else ""
        runs = [*base] if base is not None else []
        return runs + ([self._paragraph(f"({read})")[0]] if read else [])

    def _embedded(self, id: str) -> Iterator[Any]:
        """Iterate over the paragraphs of an embedded document, which may be HTML, text or another Word file."""
        name = self._targets().get(id, "")
        data = self._archive.read(name) if name in self._archive.names else b""
        if data.startswith(b"PK"):
            with Archive(data, kind="Word") as inner:
                part = _Part(inner, "word/document.xml", _hidden_styles(inner))
            yield from (node for body in part.root for node in body if node.tag != f"{_W}sectPr")
            return
        from selectolax.lexbor import LexborHTMLParser

        page = LexborHTMLParser(data.decode("utf-8", "replace"))
        page.strip_tags(["script", "style", "head"])
        for line in (page.body.text(separator="\n") if page.body is not None else "").splitlines():
            if line.strip():
                yield self._paragraph(" ".join(line.split()))

    def _diagram(self, id: str) -> Iterator[str]:
        """Iterate over the texts of a diagram (SmartArt)."""
        name = self._targets().get(id, "")
        root = self._archive.xml(name) if name in self._archive.names else None
        for point in (node for node in root.iter() if local(node.tag) == "pt") if root is not None else ():
            words = "".join(node.text or "" for node in point.iter() if local(node.tag) == "t")
            if words.strip():
                yield " ".join(words.split())

    def _targets(self) -> Mapping[str, str]:
        """Return the members that this part refers to, by their ids."""
        folder, _, file = self._name.rpartition("/")
        name = f"{folder}/_rels/{file}.rels"
        nodes = self._archive.xml(name) if name in self._archive.names else ()
        return {
            node.get("Id", ""): posixpath.normpath(posixpath.join(f"/{folder}", node.get("Target", "")))[1:]
            for node in nodes
        }

    def _paragraph(self, text: str) -> Any:
        source = f'<w:p xmlns:w="{_WORD}"><w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'
        return self._etree.fromstring(source)

    def _replace(self, node: Any, others: list[Any]) -> None:
        for other in reversed(others):
            node.addnext(other)
        _remove(node)


def _remove(node: Any) -> None:
    """Remove an element, but not the text after it."""
    parent = node.getparent()
    if parent is not None:
        parent.remove(node)
