"""Near misses: lines that an author meant as a prompt, but that are not read as one, each with the form that works.

A table of rules says which lines of metadata are meant as prompts; `lmm.markdown.lookalikes` says where there are
metadata, or what looks like them. Code, comments and the text of other values are none; a field ``question:`` may be.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from lmm.errors import Finding
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, HeaderBlock, MetadataBlock, serialize
from lmm.markdown.lookalikes import CONFLICT, Lookalike, outdented
from lmm.markdown.metadata import WORDS, find_prompts, is_slip

# Characters typed in place of others, one for one, so that offsets stay the same.
_ALIKE = str.maketrans("？﹖¿＋﹢＝﹦：﹕；“”„‟«»‘’‚\xa0\u202f\u200b\u2060\ufeff", '???++==::;""""""\'\'\'     ')
_LEAD = r"""[ \t]*(?P<item>-[ \t]+)?[~*_\\]*[ \t]*(?P<quote>["']?)"""
_COLON = r"""["'*_]*[ \t]*(?:[:;]+|=:?)["'*_]*"""
_RULES = {
    "a sign": rf"{_LEAD}(?::(?P<first>[?+=])|(?P<mark>[?+=])(?P=mark)?{_COLON})",
    "a word": rf"{_LEAD}(?P<mark>[A-Za-z]{{3,9}}){_COLON}",
    "no colon": r"(?P<mark>\?)(?=[ \t]*[^\W_]|\s*\Z)(?P<item>)(?P<quote>)",
    "no colon, alone": r"(?P<mark>[+=]|query|message|edit)(?=[ \t]|\Z)(?P<item>)(?P<quote>)",
}
_READ = {name: re.compile(rule) for name, rule in _RULES.items()}
_OTHER_WORDS = {"queries", "messages", "edits", "exit", "emit", "jquery"}
_FIELD = re.compile(r"(question|ask)[ \t]*:[ \t]+[\"']?(\S[^\n]*\?)[\"']?[ \t]*\r?\n?\Z", re.IGNORECASE)
_NO_TEXT = re.compile(r"(?:true|false|yes|no|null|~|[-+\d.]+|[\[{&*!].*|)\Z", re.IGNORECASE)
_KEY = re.compile(r"""[#\-\]}]|["']?[\w~][\w.~ -]*=?["']?[ \t]*:(?:\s|\Z)""")


def find_near_misses(blocks: Sequence[Block], lookalikes: Sequence[Lookalike]) -> list[Finding]:
    """Find what was meant as a prompt but is not read as one, in order; `lookalikes` are those of the document.

    >>> from lmm.markdown.parse_markdown import parse_markdown_text
    >>> (miss,) = find_near_misses(parse_markdown_text("# A\\n\\n---\\nQuery: why?\\n---\\nText.\\n"), ())
    >>> miss.line, miss.column, miss.hint, miss.fix
    (4, 1, "write 'query: why?'", 'query: why?')
    """
    found = [slip for block in blocks if isinstance(block, MetadataBlock) for slip in _in_metadata(block)]
    page = serialize(blocks).split("\n") if lookalikes else []
    for one in (one for one in lookalikes if one.reason != CONFLICT):
        start, end = one.body
        lines = [f"{outdented(line, one.margin)}\n" for line in page[start - 1 : end - 1]]
        columns = [len(line) - len(bare) + 1 for line, bare in zip(page[start - 1 :], lines, strict=False)]
        slips = list(_slips(lines, ())) if lines and lines[0].strip() and (one.closed or one.has_prompts) else []
        if one.has_prompts or slips:
            found += [Finding(one.line, one.column, one.reason, one.hint)]
            found += [Finding(start + k, columns[k] + at, message, hint, fix=None) for k, at, message, hint, _ in slips]
    return sorted(found, key=lambda miss: (miss.line, miss.column))


def _in_metadata(block: MetadataBlock) -> Iterator[Finding]:
    """Iterate over the near misses in a metadata block."""
    body = block.body
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", body)
    for k, match in enumerate(map(_FIELD.match, lines if not isinstance(block, HeaderBlock) else ())):
        if match and not re.search(r"^(?:answer|reply|options|choices)\w*[ \t]*:", body, re.MULTILINE | re.IGNORECASE):
            text = _shortened(match[2])
            hint = f"write 'query: {text}' or '?: {text}'"
            yield Finding(block.body_line + k, 1, f"'{match[1]}:' is not a prompt", hint, "warning")
    if not any(_slips(lines, ())):
        return
    own = set[int]()  # lines in the texts of other values
    for value in metadata.scalars(body):
        start = body.count("\n", 0, value.start)
        own |= set(range(start + 1, start + 1 + body.count("\n", value.start, value.end)))
    for k, column, message, hint, right in _slips(lines, own):
        yield Finding(block.body_line + k, column, message, hint, fix=right)


def _slips(lines: Sequence[str], own: Collection[int]) -> Iterator[tuple[int, int, str, str, str]]:
    """Iterate over lines of a body that are nearly prompts: index, column, message, hint, and the corrected line.

    `own` are those in the texts of other values.
    """
    body = "".join(lines)
    prompts = find_prompts(body)
    asked = {prompt.line - 1 + k for prompt in prompts for k in range(body.count("\n", prompt.start, prompt.end) or 1)}
    readable = None if prompts else True  # checked only when needed
    below = False  # whether the line above belongs to a prompt
    for k, line in enumerate(lines):
        if k in own or k in asked or not line.strip():
            below = below or k in asked
            continue
        right = _right_form(lines, k)
        indented = line[0] in " \t"
        if right:
            found = re.match(r"\s*(?:[^:：\s]*[:：;；]+|\S+)", line)
            column = len(line) - len(line.lstrip()) + 1
            yield (
                k,
                column,
                f"'{(found[0] if found else line).strip()}' is not a prompt",
                f"write '{_shortened(right)}'",
                right,
            )
        elif below and not (indented or _KEY.match(line) or (k and line.startswith(":"))):  # ": value" of a "? key"
            readable = metadata.check(body) is None if readable is None else readable
            if not readable:
                yield (
                    k,
                    1,
                    "this line of a prompt is not indented",
                    f"write '  {_shortened(line)}'",
                    f"  {line.rstrip()}",
                )
        below = bool(right) or (below and (indented or not _KEY.match(line)))


def _right_form(lines: Sequence[str], k: int) -> str:
    """Return the prompt that a line is meant to be; empty if it is not meant as one."""
    line, indented = lines[k].translate(_ALIKE), lines[k][0] in " \t"
    name, match = next(((name, match) for name, rule in _READ.items() if (match := rule.match(line))), ("", None))
    if match is None:
        return ""
    mark = match["mark"] or match["first"]
    text, mark = lines[k][match.end() :].strip(), mark.lower()
    slips = () if mark in _OTHER_WORDS else (one for one in ("query", "message", "edit") if is_slip(mark, one))
    word = mark if mark in WORDS else next(iter(slips), "")
    if not word or (word.isalpha() and (_NO_TEXT.match(text) or (indented and lines[0][0] not in " \t"))):
        return ""
    if name == "no colon" and k + 1 < len(lines) and lines[k + 1].startswith(":"):
        return ""  # a key of YAML
    if name == "no colon, alone" and len(lines) > 1:
        return ""
    if match["item"] and (indented or not lines[0].startswith("-")):
        return ""
    if match["quote"] and not re.search(r"[\"']", line[match.end("quote") : match.end()]):
        text = text.rstrip("\"'”’»“")
    return f"{word}: {text}".rstrip()


def _shortened(line: str) -> str:
    words = line.strip()
    return words if len(words) <= 60 else f"{words[:58].rstrip()} …"
