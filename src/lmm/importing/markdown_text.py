"""Making text and markdown from elsewhere safe for our documents, which are in Pandoc's markdown.

Elsewhere ``---`` is a rule or underlines a heading, every cell of a notebook is a separate document, and nothing is
metadata or a prompt. Here it might become one, or swallow the text after it.
"""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import quote

from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, MetadataBlock, TextBlock, fenced, serialize
from lmm.markdown.metadata import PROMPT_START
from lmm.markdown.parse_markdown import parse_markdown_text, unclosed_construct
from lmm.markdown.spans import replace_spans, spans

# Characters that do not belong in text and would not survive YAML, a terminal or XML, and invisible ones such as the
# soft hyphen.
_CONTROLS = (*range(9), *range(14, 32), *range(0x7F, 0xA0), *range(0xD800, 0xE000))
_INVISIBLE = (*_CONTROLS, 0xAD, 0x200B, 0x2060, 0xFEFF, 0xFFFE, 0xFFFF)
_PLAIN = {**dict.fromkeys(_INVISIBLE), **dict.fromkeys(map(ord, "\r\x0b\x0c\x85\u2028\u2029"), "\n")}
_URL_UNSAFE = re.compile(r"[\s<>\[\]\\\"`{}|^]")


def plain(text: str) -> str:
    """Remove invisible characters from a text, and convert all line ends to newlines.

    >>> plain("hy\\u00adphen\\r\\nnext")
    'hyphen\\nnext'
    """
    return text.replace("\r\n", "\n").translate(_PLAIN)


def escaped(text: str) -> str:
    """Escape the text of a line, so that nothing in it is markup.

    >>> print(escaped("a_b [c]"))
    a\\_b \\[c\\]
    """
    return re.sub(r"([\\`*_{}\[\]<>#~^$!@&|])", r"\\\1", text)


def link_target(address: str) -> str:
    """Return a link's target, quoted so that it is read as a whole.

    >>> link_target("a b.html"), link_target("a(1).html")
    ('a%20b.html', '<a(1).html>')
    """
    safe = _URL_UNSAFE.sub(lambda match: quote(match[0], safe=""), plain(address).strip())
    return f"<{safe}>" if "(" in safe or ")" in safe else safe


_UNDERLINED = re.compile(
    r"(?P<before>\A|\n)(?P<title> {0,3}[^\s>#|`~<*+\-=][^\n]*)\n {0,3}(?P<line>=+|-+)[ \t]*(?=\n|\Z)"
)
_RULE = re.compile(r"(?m)^ {0,3}(?:-[ \t]*){3,}$")
_LIKE_PROMPT = re.compile(rf"(?m)^[ \t>]*(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?P<start>{PROMPT_START.pattern})")
_LITERAL = ("code_block", "code", "comment", "math", "raw")


def front_matter(text: str) -> tuple[dict[str, str], str]:
    """Split a text into title and language of the metadata block at its start, and the rest.

    >>> front_matter("---\\ntitle: T\\n---\\n\\nText")
    ({'title': 'T'}, 'Text')
    """
    blocks = parse_markdown_text(text)
    if not blocks or not isinstance(blocks[0], HeaderBlock):
        return {}, text
    values = {key: blocks[0].get(key) for key in ("title", "lang")}
    return {key: str(value) for key, value in values.items() if value}, serialize(blocks[1:])


def defused(text: str) -> str:
    """Return `text` without anything that our parser would read as metadata, or `lmm scan` as meant as a prompt, and
    with all constructs closed.

    Underlined headings become ``#`` headings.

    >>> print(defused("Title\\n=====\\nText\\n\\n---\\na: b\\n---"))
    # Title
    <BLANKLINE>
    Text
    <BLANKLINE>
    * * *
    a: b
    <BLANKLINE>
    * * *
    """
    text = _closed(plain(text))
    for _ in range(3):  # the text after a changed block may be read differently now
        blocks = [_safe(block) for block in parse_markdown_text(text)]
        text, before = "".join(blocks), text
        if text == before:
            break
    text = _unasked(text)
    if any(isinstance(block, MetadataBlock | ErrorBlock) for block in parse_markdown_text(text)):
        return fenced(text.strip("\n"), "markdown")
    return text


def _safe(block: Block) -> str:
    if isinstance(block, MetadataBlock | ErrorBlock):
        return _RULE.sub("\n* * *", block.source).lstrip("\n")
    return _underlined(block.source) if isinstance(block, TextBlock) else block.source


def _unasked(text: str) -> str:
    """Escape the colon of lines that begin like a prompt: `lmm scan --fix` would make questions of a stranger's text.

    >>> _unasked("?: why\\n\\n- edit: it\\n")
    '?\\\\: why\\n\\n- edit\\\\: it\\n'
    """
    if not _LIKE_PROMPT.search(text):
        return text
    shown = replace_spans(text, lambda span: "." * (span.end - span.start) if span.kind in _LITERAL else None)
    places = [match.end("start") - 1 for match in _LIKE_PROMPT.finditer(shown)]
    return "\\".join(text[start:end] for start, end in pairwise([0, *places, len(text)]))


def _underlined(source: str) -> str:
    """Convert underlined headings in a text block to ``#`` headings, and rules of hyphens to stars."""

    def heading(match: re.Match[str]) -> str:
        mark = "#" if match["line"][0] == "=" else "##"
        return f"{match['before']}{mark} {match['title'].strip()}\n"

    if not _is_verbatim(source):
        first = _UNDERLINED.match(source)
        if first is not None:
            rest = source[first.end() :]
            source = heading(first).removesuffix("\n" if re.match(r"\n[ \t]*(?:\n|\Z)", rest) else "") + rest
    return _RULE.sub("* * *", source, count=1) if _RULE.match(source) else source


def _is_verbatim(source: str) -> bool:
    """Return whether a line of a block begins code, a displayed formula, a comment, or a row of a table."""
    found = (span for span in spans(source) if span.kind in ("code_block", "comment") or span.target == "display")
    lines = (source[: span.start].rpartition("\n")[2] for span in found)
    return any(not line.strip() for line in lines) or re.search(r"(?m)^[ \t]*\|", source) is not None


def _closed(text: str) -> str:
    """Close unclosed fences in `text`, and escape the marks of unclosed formulas and comments."""
    for _ in range(20):
        opened = unclosed_construct(text)
        if opened is None:
            return text
        at, mark = opened
        if mark[0] in "`~":
            indent = re.match(r"[ \t]*", text[text.rfind("\n", 0, at) + 1 :])
            margin = indent[0] if indent else ""
            return f"{text.rstrip()}\n{margin}{mark}\n"
        text = text[:at] + "".join(f"\\{char}" for char in mark[:2]) + text[at + 2 :]
    return fenced(text.strip("\n"), "markdown")
