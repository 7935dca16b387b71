"""Prompt lines: the part of a metadata block that is read literally, before YAML.

``?:`` or ``query:`` starts a chat, ``+:`` or ``message:`` continues it, ``=:`` or ``edit:`` asks for an
edit. They count only at column 0. The rest of the line and the indented lines under it are the
prompt, as typed: ``?: is this right: yes or no? # honestly`` is that whole text, although YAML would
refuse it. Block scalars (``|``, ``>``) and complete quoted scalars keep their YAML meaning.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

import yaml

from lmm.errors import MetadataError
from lmm.markdown import yaml_core

WORDS = {"?": "query", "query": "query", "+": "message", "message": "message", "=": "edit", "edit": "edit"}

_PROMPT = re.compile(
    r"^(?P<word>[?+=]|query|message|edit):(?:(?<=[?+=]:)|(?=[ \t\r\n]|\Z))"
    r"(?P<text>[^\n]*(?:\n|\Z)(?:(?:[ \t]*\r?\n)*[ \t]+[^ \t\r\n][^\n]*(?:\n|\Z))*)",
    re.MULTILINE,
)
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]{0,2}[ \t]*(?:#[^\n]*)?\r?\n")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One pending prompt line of a metadata block.

    `word` is ``query``, ``message`` or ``edit``; `spelling` is what the author typed before the colon;
    `start` and `end` delimit its lines in the block's body, in characters; `line` counts from 1 there.
    """

    word: str
    spelling: str
    text: str
    start: int
    end: int
    line: int


def find_prompts(body: str) -> tuple[Prompt, ...]:
    """The prompt lines of a metadata body, in order.

    >>> [(p.word, p.text) for p in find_prompts("title: x\\n?: right: yes or no? # honestly\\n+: more\\n")]
    [('query', 'right: yes or no? # honestly'), ('message', 'more')]
    """
    if ":" not in body:
        return ()
    prompts: list[Prompt] = []
    at, line = 0, 1
    for match in _PROMPT.finditer(body):
        start, end = match.span()
        line += body.count("\n", at, start)
        at = start
        prompts.append(Prompt(WORDS[match["word"]], match["word"], _prompt_text(match["text"]), start, end, line))
    return tuple(prompts)


def mask_prompts(body: str, prompts: tuple[Prompt, ...]) -> str:
    """`body` with prompt lines turned into YAML comments of the same length.

    Comments and not blanks, because a comment at column 0 also ends a block scalar.
    """
    parts, at = [], 0
    for prompt in prompts:
        parts += [body[at : prompt.start], re.sub(r"[^\r\n]", "#", body[prompt.start : prompt.end])]
        at = prompt.end
    return "".join(parts) + body[at:]


def add_prompt(body: str, word: str, text: str, *, newline: str = "\n") -> str:
    """`body` with a prompt line at its end that reads back as `text`.

    >>> add_prompt("type: x\\n", "edit", "shorter: please")
    'type: x\\n=: shorter: please\\n'
    """
    spelling = next(spelling for spelling, meant in WORDS.items() if meant == word)
    lines = "".join(f"  {line}".rstrip() + newline for line in text.split("\n"))
    for written in (f" {text}{newline}", f" |{newline}{lines}", f" {yaml_core.quoted(text)}{newline}"):
        prompts = find_prompts(f"{spelling}:{written}")
        if [(prompt.text, prompt.end) for prompt in prompts] == [(text, len(spelling) + 1 + len(written))]:
            break
    separator = newline if body and not body.endswith("\n") else ""
    return f"{body}{separator}{spelling}:{written}"


def _prompt_text(source: str) -> str:
    if source.lstrip(" \t")[:1] in {'"', "'"} or _BLOCK_SCALAR.match(source.lstrip(" \t")):
        value = _yaml_text(source)
        if value is not None:
            return value
    first, _, rest = source.replace("\r\n", "\n").partition("\n")
    more = textwrap.dedent(rest).rstrip()
    return "\n".join(part for part in (first.strip(" \t"), more) if part)


def _yaml_text(source: str) -> str | None:
    """The value if `source` is exactly one quoted or block scalar, else None."""
    try:
        node = yaml_core.compose("k: " + source)
    except MetadataError:
        return None
    if not isinstance(node, yaml.MappingNode) or len(node.value) != 1:
        return None
    value = node.value[0][1]
    if not isinstance(value, yaml.ScalarNode) or value.style not in tuple("'\"|>"):
        return None
    return str(value.value).rstrip("\n") if value.style in "|>" else str(value.value)
