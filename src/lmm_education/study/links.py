"""The local files that a document shows or links to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from lmm.markdown.blocks import HeaderBlock, TextBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm_education.ingestion.kinds import is_comment, kind_of

_TARGET = r"(?:<(?P<angled>[^<>\n]+)>|(?P<bare>[^\s()<>]+(?:\([^\s()]*\)[^\s()<>]*)*))"
_IN_TEXT = (
    re.compile(rf"\]\([ \t]*{_TARGET}"),
    re.compile(rf"^[ ]{{0,3}}\[[^\]\n^]+\]:[ \t]*{_TARGET}", re.MULTILINE),
    re.compile(r"""<(?:img|a|source|video|audio|iframe)\b[^<>]*?\b(?:src|href)=["'](?P<bare>[^"'\n]+)["']"""),
)
# In code that knitr runs: pictures, and documents that are knitted into this one.
_IN_CODE = (
    re.compile(r"""include_graphics\(\s*["'](?P<bare>[^"'\n]+)["']"""),
    re.compile(r"""\bchild\s*=\s*["'](?P<bare>[^"'\n]+)["']"""),
)
_INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_INCLUDE = re.compile(r"""\{\{<\s*include\s+["']?(?P<bare>[^\s"'>]+)["']?\s*>\}\}""")
_IN_HEADER = ("bibliography", "csl", "css", "logo", "cover-image")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//|#|@")


@dataclass(frozen=True, slots=True)
class Link:
    """A relative path as one would open it, with ``/``, and the line on which it begins."""

    target: str
    line: int


def local_links(text: str) -> list[Link]:
    """The relative paths in a markdown text, each once, in order; not those in code that only shows them.

    >>> [link.target for link in local_links("![A](img/a%20b.png) and [web](https://x.org), `[no](no.png)`\\n")]
    ['img/a b.png']
    """
    found = [Link(path, line) for target, line in _targets(text) if (path := _local(target))]
    return list({link.target: link for link in reversed(found)}.values())[::-1]


def _targets(text: str) -> Iterator[tuple[str, int]]:
    for block in parse_markdown_text(text):
        if isinstance(block, HeaderBlock):
            yield from ((name, block.line) for name in _in_header(block.values()))
        elif isinstance(block, TextBlock) and not is_comment(content := block.content):
            is_code = kind_of(content) == "code"
            patterns = (*_IN_CODE, _INCLUDE) if is_code else (*_IN_TEXT, *_IN_CODE, _INCLUDE)
            shown = content if is_code else _INLINE_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), content)
            matches = (match for pattern in patterns for match in pattern.finditer(shown))
            line, at = block.line, 0
            for match in sorted(matches, key=lambda match: match.start()):
                line, at = line + shown.count("\n", at, match.start()), match.start()
                groups = match.groupdict()
                yield groups.get("angled") or groups["bare"], line


def _in_header(values: dict[str, Any]) -> Iterator[str]:
    for name in _IN_HEADER:
        value = values.get(name)
        yield from (str(item) for item in (value if isinstance(value, list) else [value]) if item)


def _local(target: str) -> str:
    """The path that a target means, if it is a relative one."""
    if _ELSEWHERE.match(target) or target.startswith(("/", "\\")):
        return ""
    return unquote(re.split("[?#]", target, maxsplit=1)[0])
