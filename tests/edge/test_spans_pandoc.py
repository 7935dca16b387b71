"""`spans` finds in real books what Pandoc finds in them, kind by kind.

The documents are each fifth of ``../shared/corpus``, and those of a folder that `LMM_TEST_BOOKS` names (checkouts of
r4ds, adv-r, TMwR, dsbook and quarto-web: with all of the corpus, 6 of 68,048 spans in 1,157 files differ); without
either there is nothing to test. Pandoc is the one that the extra `import` brings.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from edge.test_pandoc_chapters import AT_ONCE, SHARED, chapters, handed_over, newest
from pandoc_trees import trees

from lmm.markdown import parse_markdown_text, read_attributes, spans
from lmm.markdown.blocks import MetadataBlock

LEAST = {"link": 0.995, "image": 0.995, "citation": 0.995}  # else:
LEAST_OF_OTHERS = 0.998
FEW = 400  # of a kind with fewer, three may differ
READER = "markdown-auto_identifiers-implicit_figures-native_divs-native_spans-yaml_metadata_block-pandoc_title_block"
_MADE_BY_PANDOC = {"uri", "email", "underline", "smallcaps"}
_TAG = re.compile(
    r"<!--(?P<comment>.*?)-->|<(?P<verbatim>pre|script|style|textarea)\b.*?</(?P=verbatim)>"
    r"|</?(?P<name>[A-Za-z][\w:.-]*)(?:\"[^\"]*\"|'[^']*'|[^>\"'])*>",
    re.DOTALL | re.IGNORECASE,
)
Found = dict[str, list[Any]]


def words(text: str) -> str:
    """A text without what white space and chunk headers differ in."""
    return " ".join(handed_over(text).split())


def prose(path: Path) -> str:
    """A document without its metadata, with LF."""
    text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "")
    return "".join(b.source for b in parse_markdown_text(text) if not isinstance(b, MetadataBlock))


def tags(html: str, found: Found) -> None:
    """Add the tags and comments of raw HTML."""
    for tag in _TAG.finditer(html):
        if tag["comment"] is not None:
            found["comment"].append(words(tag["comment"]))
        else:
            found["html"].append((tag["verbatim"] or tag["name"]).lower())


def address(target: str) -> str:
    """A link's address: one within the document says the same, as Pandoc makes no ids here."""
    return "#" if target.startswith("#") else urllib.parse.unquote(re.sub(r"\\([^\w\s])", r"\1", target))


class PandocSpans:
    """What Pandoc's tree of a document holds, kind by kind."""

    def __init__(self, blocks: list[Any]) -> None:
        self.found: Found = defaultdict(list)
        self.html = ""
        self.read(blocks)
        tags(self.html, self.found)

    def read(self, node: Any) -> None:
        """Take what a part of the tree holds."""
        if isinstance(node, list):
            for part in node:
                self.read(part)
        elif isinstance(node, dict):
            self.element(node.get("t", ""), node.get("c"))

    def element(self, kind: str, content: Any) -> None:
        """Take an element, and what is in it."""
        if kind in ("Code", "CodeBlock"):
            self.found["code" if kind == "Code" else "code_block"].append(words(content[1]))
            if kind == "Code":
                self.attributes(content[0])
        elif kind == "Math":
            self.found["math"].append((content[0]["t"].removesuffix("Math").lower(), words(content[1])))
        elif kind in ("Link", "Image"):
            self.found[kind.lower()].append(address(content[2][0]))
            self.attributes(content[0])
            self.read(content[1])
        elif kind in ("RawInline", "RawBlock"):
            self.raw(*content)
        else:
            self.container(kind, content)

    def container(self, kind: str, content: Any) -> None:
        """Take an element that holds others."""
        if kind == "Cite":
            self.found["citation"] += [cited["citationId"] for cited in content[0]]
            content = [[cited["citationPrefix"], cited["citationSuffix"]] for cited in content[0]]
        elif kind in ("Note", "Div"):
            self.found["footnote" if kind == "Note" else "div"].append(True)
        if kind in ("Span", "Header"):
            self.attributes(content[1 if kind == "Header" else 0])
        self.read(content)

    def raw(self, form: str, text: str) -> None:
        """Take what Pandoc does not read."""
        if form == "html":
            self.html += text
        else:
            self.found["raw"] += commands(text)

    def attributes(self, group: list[Any]) -> None:
        """Take an attribute group, without the classes that Pandoc gives itself."""
        classes = tuple(name for name in group[1] if name not in _MADE_BY_PANDOC)
        if group[0] or classes:
            self.found["attributes"].append((group[0], classes))


def commands(tex: str) -> list[str]:
    """The commands in TeX; Pandoc joins neighbours."""
    return re.findall(r"\\(?:begin\{\w+|[A-Za-z]+)", tex)


def ours(text: str) -> Found:
    """What `spans` finds, kind by kind, in the form of `PandocSpans`."""
    found: Found = defaultdict(list)
    for span in spans(text):
        kind = span.kind
        if kind in ("code", "role", "code_block"):
            found["code_block" if kind == "code_block" else "code"].append(words(span.text.expandtabs(4)))
        elif kind == "math":
            found[kind].append((span.target, words(span.text)))
        elif kind in ("link", "image"):
            found[kind].append(address(span.target))
        elif kind == "citation":
            found[kind] += span.target.split(";")
        elif kind in ("footnote", "div"):
            found[kind].append(True)
        elif kind == "comment":
            found[kind].append(words(span.text))
        elif kind in ("html", "raw"):
            _take_raw(kind if kind == "html" else span.target, span.text, found)
        group = read_attributes(span.attributes) if kind in ("attributes", "code", "link", "image") else None
        classes = tuple(name for name in group.classes if name not in _MADE_BY_PANDOC) if group else ()
        if group and (group.id or classes):
            found["attributes"].append((group.id, classes))
    return found


def _take_raw(form: str, text: str, found: Found) -> None:
    if form == "html":
        tags(text, found)
    else:
        found["raw"] += commands(text)


def disagreements(paths: Iterable[Path]) -> tuple[Counter[str], dict[str, list[str]]]:
    """How many spans of each kind there are, and which differ: the file, what Pandoc finds alone, what we do."""
    shelf = list(paths)
    total: Counter[str] = Counter()
    differ: dict[str, list[str]] = defaultdict(list)
    for first in range(0, len(shelf), AT_ONCE):
        group = shelf[first : first + AT_ONCE]
        texts = [prose(path) for path in group]
        for path, text, tree in zip(group, texts, trees([*map(handed_over, texts)], newest(), READER), strict=True):
            theirs, own = PandocSpans(tree or []).found, ours(text)
            for kind in (theirs.keys() | own.keys()) if tree is not None else ():
                there, here = Counter(theirs[kind]), Counter(own[kind])
                total[kind] += max(there.total(), here.total())
                differ[kind] += [f"{path}: only Pandoc: {what!s:.80}" for what in (there - here).elements()]
                differ[kind] += [f"{path}: only spans: {what!s:.80}" for what in (here - there).elements()]
    return total, differ


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("of", ["corpus", "LMM_TEST_BOOKS"])
def test_spans_are_those_of_pandoc(of: str) -> None:
    """At least 99.8 % of each kind; 99.5 % of links, pictures and citations."""
    folder = SHARED if of == "corpus" else Path(os.environ.get("LMM_TEST_BOOKS", ""))
    if not (of == "corpus" or os.environ.get("LMM_TEST_BOOKS")) or not folder.is_dir():
        pytest.skip(f"there are no documents: {of}")
    total, differ = disagreements(chapters([folder])[:: 5 if of == "corpus" else 1])
    for kind, count in sorted(total.items()):
        allowed = 3 if count < FEW else count * (1 - LEAST.get(kind, LEAST_OF_OTHERS))
        assert len(differ[kind]) <= allowed, f"{kind}: {len(differ[kind])} of {count}\n" + "\n".join(differ[kind][:20])
