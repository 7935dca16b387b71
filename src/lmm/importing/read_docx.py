"""Word documents: mammoth reads them to HTML; formulas, code by its font, title and language are our part."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

from lmm.errors import FileReadError
from lmm.importing.archive import Archive, as_element, local
from lmm.importing.elements import Element, Node, element, find, rewrite, words_of
from lmm.importing.formulas import to_tex
from lmm.importing.html_tree import parse_html
from lmm.importing.imported import IMAGE, Context, Image, Imported
from lmm.importing.read_html import SUFFIXES
from lmm.importing.to_markdown import to_markdown
from lmm.importing.web_page import with_marked_formulas

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_CODE_STYLES = ("Source Code", "HTML Preformatted", "Preformatted Text", "Code", "Plain Text", "macro")
_CODE_WORDS = ("Verbatim Char", "Source Text", "HTML Code", "Code Char", "HTML Typewriter")
_QUOTE_STYLES = ("Quote", "Intense Quote", "Block Text", "Quotations")
_MONOSPACED = re.compile(r"mono|courier|consolas|menlo|monaco|typewriter|fixed", re.IGNORECASE)
STYLES = "\n".join(
    [
        "p[style-name='Title'] => p.document-title:fresh",
        *(f"p[style-name='heading {level}'] => h6:fresh" for level in (7, 8, 9)),
        *(f"p[style-name='{name}'] => pre:separator('\\n')" for name in _CODE_STYLES),
        *(f"r[style-name='{name}'] => code" for name in _CODE_WORDS),
        *(f"p[style-name='{name}'] => blockquote > p:fresh" for name in _QUOTE_STYLES),
        "strike => s",
        "u => ",
    ]
)


def read(data: bytes, context: Context) -> Imported:
    """A Word document as markdown.

    Raises:
        FileReadError: it is none, is damaged or encrypted, or has nothing in it.
    """
    with Archive(data, kind="Word") as archive:
        for name in archive.names:
            if name.endswith((".xml", ".rels")):
                archive.xml(name)  # what mammoth will parse has been looked at
        clean, formulas = _without_formulas(archive)
        title, language = _properties(archive)
    html, images, missing = _convert(clean)
    body = _with_formulas(parse_html(f"<body>{html}"), formulas)
    shown, body = _take_title(with_marked_formulas(body))
    markdown = to_markdown(body)
    if not markdown:
        raise FileReadError("there is no text in this document", hint="text in drawings cannot be imported")
    notes = (f"left out: {missing} image{'s' * (missing > 1)} in a format for printers or on the network",) * (
        missing > 0
    )
    return Imported(markdown, shown or title, language, images, notes)


def _convert(data: bytes) -> tuple[str, tuple[Image, ...], int]:
    """The document as HTML, its images, and how many could not be had."""
    import mammoth

    images: list[Image] = []
    missing = 0

    def take(image: Any) -> dict[str, str]:
        nonlocal missing
        suffix = SUFFIXES.get(str(image.content_type).removeprefix("image/"))
        try:
            with image.open() as stream:
                content = stream.read()
        except Exception:  # linked, or not in the archive: mammoth has no error of its own for it
            suffix = None
        if suffix is None:
            missing += 1
            return {"src": ""}
        images.append(Image(content, suffix))
        return {"src": f"{IMAGE}{len(images) - 1}"}

    try:
        result = mammoth.convert_to_html(
            io.BytesIO(data),
            style_map=STYLES,
            convert_image=mammoth.images.img_element(take),
            transform_document=mammoth.transforms.paragraph(_code_by_font),
        )
    except (KeyError, ValueError, AttributeError, IndexError, TypeError, OSError, RecursionError) as error:
        hint = "open it in a word processor and save it again as .docx"
        raise FileReadError("this Word document cannot be read", hint=hint) from error
    return str(result.value), tuple(images), missing


def _code_by_font(paragraph: Any) -> Any:
    """Text in a typewriter font is code, whatever its style: a line if all of a paragraph is, else a word."""
    runs = [child for child in paragraph.children if type(child).__name__ == "Run"]
    code = [run for run in runs if run.font and _MONOSPACED.search(run.font) and run.style_name not in _CODE_WORDS]
    if not code or paragraph.style_name in _CODE_STYLES:
        return paragraph
    if len(code) == len(runs) == len(paragraph.children) and not paragraph.numbering and not paragraph.style_name:
        return paragraph.copy(style_name=_CODE_STYLES[0])
    children = [child.copy(style_name=_CODE_WORDS[0]) if child in code else child for child in paragraph.children]
    return paragraph.copy(children=children)


# -- formulas ------------------------------------------------------------------------------------------


def _without_formulas(archive: Archive) -> tuple[bytes, list[Element]]:
    """The document with a mark in place of each formula, and the formulas; mammoth knows none."""
    formulas: list[Element] = []
    changed: dict[str, bytes] = {}
    for name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
        if name in archive.names and b"oMath" in archive.read(name):
            root = archive.xml(name)
            _mark_formulas(root, formulas)
            changed[name] = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return archive.rewritten(changed), formulas


def _mark_formulas(node: ElementTree.Element, formulas: list[Element]) -> None:
    for place, child in enumerate(list(node)):
        name = local(child.tag)
        if name == "oMathPara":
            runs = [_mark(formula, "block", formulas) for formula in child if local(formula.tag) == "oMath"]
            node[place] = _run("".join(runs), child.tail)
        elif name == "oMath":
            node[place] = _run(_mark(child, "inline", formulas), child.tail)
        else:
            _mark_formulas(child, formulas)


def _mark(formula: ElementTree.Element, display: str, formulas: list[Element]) -> str:
    tex = to_tex(as_element(formula))
    formulas.append(element("math", tex, display=display))
    return _marker(len(formulas) - 1)


def _marker(number: int) -> str:
    # A private character, which no text has a use for; a document that has it nevertheless keeps it.
    return f"\ue0f1formula {number}\ue0f1"


def _run(text: str, tail: str | None) -> ElementTree.Element:
    run = ElementTree.Element(f"{_WORD}r")
    ElementTree.SubElement(run, f"{_WORD}t").text = text
    run.tail = tail
    return run


def _with_formulas(root: Element, formulas: list[Element]) -> Element:
    """The tree with the formulas back in place of their marks."""
    pattern = re.compile("\ue0f1formula (\\d+)\ue0f1")

    def change(node: Element) -> Iterable[Node]:
        children: list[Node] = []
        for child in node.children:
            if isinstance(child, Element):
                children.append(child)
                continue
            for place, part in enumerate(pattern.split(child)):
                if place % 2 and int(part) < len(formulas):
                    children.append(formulas[int(part)])
                elif part:
                    children.append(part)
        return [Element(node.tag, node.attributes, tuple(children))]

    return next(node for node in rewrite(root, change) if isinstance(node, Element)) if formulas else root


# -- properties ----------------------------------------------------------------------------------------


def _properties(archive: Archive) -> tuple[str, str]:
    """Title and language as the document's properties name them; the language else of its default style."""
    title = language = ""
    if "docProps/core.xml" in archive.names:
        for node in archive.xml("docProps/core.xml"):
            title = (node.text or "").strip() if local(node.tag) == "title" else title
            language = (node.text or "").strip() if local(node.tag) == "language" else language
    if not language and "word/styles.xml" in archive.names:
        defaults = archive.xml("word/styles.xml").find(f"{_WORD}docDefaults")
        declared = defaults.iter(f"{_WORD}lang") if defaults is not None else iter(())
        language = next((node.get(f"{_WORD}val", "") for node in declared), "")
    return title, language


def _take_title(root: Element) -> tuple[str, Element]:
    """The text in the style Title, and the tree without it: the header says it."""
    titles = [node for node in find(root, "p") if "document-title" in node.classes]
    if len(titles) != 1:
        return "", root
    kept = rewrite(root, lambda node: [] if node is not root and "document-title" in node.classes else [node])
    return words_of(titles[0]), next(node for node in kept if isinstance(node, Element))
