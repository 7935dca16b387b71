"""Near misses: texts that an author meant as a prompt, but that are not read as one.

Three things are compared with the correct form: the line of a prompt (``Query:``, ``? why``), the lines ``---``
around it, and the place of the block. Other content is left alone: code, comments, the text of other values, fields
such as ``question:``, and rules.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile, zip_longest

from lmm.markdown import metadata
from lmm.markdown.blocks import Block, ErrorBlock, MetadataBlock, TextBlock
from lmm.markdown.metadata import WORDS, find_prompts
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.spans import spans
from lmm.notebook.problem import Finding, Replacement, apply_fixes

# Characters typed in place of others, one for one, so that offsets stay the same.
_ALIKE = str.maketrans("？﹖¿＋﹢＝﹦：﹕；“”„‟«»‘’‚\xa0\u202f\u200b\u2060\ufeff", '???++==::;""""""\'\'\'     ')
_LEAD = r"""(?P<lead>[ \t]*(?:-[ \t]+)?[~*_\\]*[ \t]*["']?)(?P<first>:?)"""
_AFTER = r"""["'*_]*[ \t]*(?P<colon>[:;]+|=:?|)(?P<more>["'*_]*)"""
_PROMPT = re.compile(rf"{_LEAD}(?P<mark>[?+=]|[A-Za-z]{{3,9}})(?:(?<=[?+=])(?P=mark))?{_AFTER}")
_WORDS = ("query", "message", "edit")
_OTHER_WORDS = {"queries", "messages", "edits", "exit", "emit", "jquery"}
_NO_TEXT = re.compile(r"(?:true|false|yes|no|null|~|[-+\d.]+|[\[{&*!].*|)\Z", re.IGNORECASE)
_EXACT = metadata.PROMPT_START
_DASH = "-‐‑‒–—―−─"
_LIKE_FENCE = re.compile(
    rf"(?!-\s*\Z|-[ \t]+--)(?:[{_DASH}][ \t]*)+\r?\n?\Z|(?:\*[ \t]*){{3,}}\r?\n?\Z|_{{3,}}\s*\Z|\+{{3}}\s*\Z"
)
_MARGIN = " \t>"
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_KEY = re.compile(r"""[#\-\]}]|["']?[\w~][\w.~ -]*=?["']?[ \t]*:(?:\s|\Z)""")
_CANDIDATE = re.compile(rf"^[ \t>]*(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:{_EXACT.pattern}|[{_DASH}*_+])", re.MULTILINE)
_AT_MARGIN = "put it at the start of the line, between blank lines"
_WRITE_FENCE = "write '---' at the start of the line"
_ROUNDS = 5  # a correction may reveal further near misses
_HIDING = ("code_block", "code", "comment", "math", "raw")


def find_near_misses(blocks: Sequence[Block]) -> list[Finding]:
    """Find texts that were meant as prompts but are not read as such, each with the correct form, in order.

    >>> from lmm.markdown.parse_markdown import parse_markdown_text
    >>> (miss,) = find_near_misses(parse_markdown_text("# A\\n\\n---\\nQuery: why?\\n---\\nText.\\n"))
    >>> miss.line, miss.column, miss.hint, miss.fix
    (4, 1, "write 'query: why?'", (Replacement(start=9, end=21, text='query: why?\\n'),))
    """
    found, at, line = list[Finding](), 0, 1
    run, broken, count = list[str](), list[int](), 0
    for block, following in zip_longest(blocks, blocks[1:]):
        run.append(block.source)
        lines = block.source.count("\n")
        if isinstance(block, ErrorBlock):
            broken += range(count + 1, count + lines)
        count += lines
        if isinstance(block, TextBlock | ErrorBlock) and isinstance(following, TextBlock | ErrorBlock):
            continue
        part = _Lines("".join(run), at, line, broken)
        found += part.in_metadata(block) if isinstance(block, MetadataBlock) else part.in_text()
        at, line = at + len(part.text), line + count
        run, broken, count = [], [], 0
    return found


def without_near_misses(text: str) -> tuple[str, int]:
    """Correct the near misses that are certain; return the new text and their number.

    >>> without_near_misses("A leaf.\\n---\\nQuery: why?\\n---\\n")
    ('A leaf.\\n\\n---\\nquery: why?\\n---\\n', 2)
    """
    count = 0
    for _ in range(_ROUNDS):
        problems = [problem for problem in find_near_misses(parse_markdown_text(text)) if problem.fix]
        text, count = apply_fixes(text, problems), count + len(problems)
        if not problems:
            break
    return text, count


@dataclass(slots=True)
class _Draft:
    """Lines that are, or may be meant as, metadata: their issues, and the corrected lines."""

    body: range
    lines: list[str]  # of the body, at the margin
    issues: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)  # by line and column: message, hint
    edits: dict[int, str] = field(default_factory=dict)
    before: str = ""  # text to be inserted above, and below
    after: str = ""
    certain: bool = True

    def say(self, line: int, column: int, message: str, hint: str) -> None:
        """Add an issue, unless its place has one already."""
        self.issues.setdefault((line, column), (message, hint))


class _Lines:
    """The lines of a part of a document; `at` and `line` are the offset and line where it begins."""

    def __init__(self, text: str, at: int, line: int, broken: Collection[int] = ()) -> None:
        self.text, self.at, self.line = text, at, line
        self.lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
        self.starts = list(accumulate(map(len, self.lines), initial=0))
        self.hidden = set[int]()  # lines in code, comments and the like
        self.broken = set(broken)  # lines in metadata that cannot be read, except its first
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def in_metadata(self, block: MetadataBlock) -> list[Finding]:
        """Find near misses in a metadata block that can be read."""
        first, body = self.text.count("\n", 0, len(block.around()[0])) + 1, block.body
        lines = self.lines[first : first + body.count("\n")]
        if not any(_slips(lines, ())):
            return []
        own = set[int]()  # lines in the texts of other values
        for value in metadata.scalars(body):
            start = body.count("\n", 0, value.start)
            own |= set(range(start + 1, start + 1 + body.count("\n", value.start, value.end)))
        draft = _Draft(range(first, first + len(lines)), lines)
        self._compare_lines(draft, own)
        return self._problems(draft)

    def in_text(self) -> list[Finding]:
        """Find text that is meant as metadata with a prompt but is not read as such."""
        found = list[Finding]()
        if not _CANDIDATE.search(self.text):
            return found
        for span in spans(self.text, in_list=True):
            if span.kind in _HIDING:
                i = bisect_right(self.starts, span.start) - 1
                begins = not self.text[self.starts[i] : span.start].strip(" \t>")
                self.hidden.update(range(i if begins else i + 1, bisect_left(self.starts, span.end)))
        i = 0
        while i < len(self.lines):
            i, problems = self._read_draft(i)
            found += problems
        return found

    def _rest(self, i: int) -> str:
        """Return a line without its margin (blanks and quotation marks ``>``); empty for lines in code."""
        return "" if i in self.hidden or i >= len(self.lines) else self.lines[i].lstrip(_MARGIN)

    def _read_draft(self, i: int) -> tuple[int, list[Finding]]:
        """Read metadata that may be meant to begin on a line; return the line to continue at, and the findings."""
        rest = self._rest(i)
        item = None if _LIKE_FENCE.match(rest) else _ITEM.match(rest)
        rest = rest[item.end() :] if item else rest
        margin = self.lines[i].removesuffix(rest)
        opens = _LIKE_FENCE.match(rest) is not None or _opens(rest)
        if not opens and not _EXACT.match(rest):
            return i + 1, []
        start = i + opens
        while _opens(rest) and start < len(self.lines) and not self.lines[start].strip():
            start += 1
        end = self._end(start + (not opens), opens=opens)
        draft = _Draft(range(start, end), [rest] if not opens else [])
        draft.lines += [_outdented(self.lines[k], margin) for k in range(start + (not opens), end)]
        problems = []
        if draft.lines and self._is_meant(draft, i, margin, opens=opens):
            self._compare_place(draft, i, margin, rest)
            self._compare_fences(draft, i, len(margin) + 1, rest if opens else "")
            self._compare_lines(draft, ())
            problems = self._problems(draft)
        return max(i + 1, end + bool(problems and self._closing(end))), problems

    def _end(self, k: int, *, opens: bool) -> int:
        """Return the line that ends a body continuing at line `k`: fence, blank line, or, if unopened, heading."""
        while k < len(self.lines) and k not in self.hidden and not self._closing(k):
            if not opens and self.lines[k].lstrip("#")[:1] in (" ", "\t") and self.lines[k][0] == "#":
                break
            if not self.lines[k].strip():
                following = k
                while following < len(self.lines) and not self.lines[following].strip():
                    following += 1
                if not self.text.startswith((" ", "\t"), self.starts[following]):
                    break
                k = following
            k += 1
        return k

    def _closing(self, k: int) -> str:
        """Return the line if it closes metadata or is meant to, else an empty string."""
        rest = self._rest(k)
        return rest if metadata.CLOSE.match(rest) or _LIKE_FENCE.match(rest) else ""

    def _is_meant(self, draft: _Draft, i: int, margin: str, *, opens: bool) -> bool:
        """Return whether these lines are meant as metadata with a prompt, not as a rule, a heading or a list."""
        closing, above = self._closing(draft.body.stop), self._is_text(i - 1)
        if opens:
            return any(_EXACT.match(line) for line in draft.lines) or (closing != "" and any(_slips(draft.lines, ())))
        closes = closing.startswith("---")
        if draft.lines[0][0].isalpha() or margin.strip():
            return closes and not above
        return closes or not above

    def _is_text(self, i: int) -> bool:
        return i >= 0 and self.lines[i].strip() != "" and i not in self.hidden

    def _compare_place(self, draft: _Draft, i: int, margin: str, rest: str) -> None:
        """Compare the place of a draft with the places where metadata is read."""
        draft.certain = i not in self.broken
        if margin.strip():
            where = "a quotation" if ">" in margin else "a list"
            draft.certain = False
            draft.say(i, len(margin) + 1, f"metadata in {where} is not read", _AT_MARGIN)
        elif margin:
            draft.say(i, len(margin) + 1, "metadata that is indented is not read", _AT_MARGIN)
            draft.edits |= {i: rest} | dict(zip(draft.body, draft.lines, strict=True))
        if self._is_text(i - 1):
            draft.before = self.newline
            if draft.body.start > i:
                message = "a metadata block directly below text is read as part of that text"
                draft.say(i, len(margin) + 1, message, "put a blank line above it")

    def _compare_fences(self, draft: _Draft, i: int, column: int, opening: str) -> None:
        """Compare the lines around a draft's body with those that open and close metadata."""
        end, fence = draft.body.stop, f"---{self.newline}"
        closing = self._closing(end)
        if not opening:
            below = "" if closing else " and below"
            draft.say(i, column, "this prompt is not in a metadata block", f"put a line '---' above{below} it")
            draft.before += fence
        elif not _opens(opening):
            draft.say(i, column, f"'{opening.strip()}' does not open metadata", _WRITE_FENCE)
            draft.edits[i] = fence
        elif draft.body.start > i + 1:
            message = "'---' and a blank line are a rule, and the prompt below is text"
            draft.say(i, column, message, "delete the blank line")
            draft.edits |= dict.fromkeys(range(i + 1, draft.body.start), "")
        line = self.lines[end].rstrip() if closing else ""
        if closing and not (metadata.CLOSE.match(closing) and (column > 1 or line == closing.rstrip())):
            draft.say(end, line.index(closing.rstrip()) + 1, f"'{line}' does not close metadata", _WRITE_FENCE)
            draft.edits[end] = fence
        elif closing and column > 1:
            draft.edits[end] = closing
        elif not closing:
            draft.after = fence if self.lines[end - 1].endswith("\n") else self.newline + fence
            if opening:
                draft.say(i, column, "this metadata block never closes", "put a line '---' below the prompt")
            draft.certain = draft.certain and not self._goes_on(end)

    def _goes_on(self, end: int) -> bool:
        """Return whether the text after an unclosed body may be a part of it."""
        while end < len(self.lines) and not self.lines[end].strip():
            end += 1
        if end >= len(self.lines) or self._closing(end):
            return False
        return bool(_KEY.match(self.lines[end]) or self._closing(end + 1))

    def _compare_lines(self, draft: _Draft, own: Collection[int]) -> None:
        """Compare the lines of a body with prompts."""
        for k, column, message, hint, right in _slips(draft.lines, own):
            i = draft.body.start + k
            margin = len(self.lines[i]) - len(draft.lines[k])
            draft.say(i, margin + column, message, hint)
            draft.edits[i] = right

    def _problems(self, draft: _Draft) -> list[Finding]:
        """Return the findings about a draft; their fix corrects all of them at once."""
        lines = zip(draft.body, draft.lines, strict=True)
        body = "".join(draft.edits.get(i, line) for i, line in lines) if draft.issues else ""
        fix = []
        if draft.certain and find_prompts(body) and metadata.check(body) is None:
            places = [(self.starts[i], self.starts[i + 1], new) for i, new in draft.edits.items()]
            first = min(i for i, _ in (*draft.issues, (draft.body.start, 0)))
            places += [(self.starts[first],) * 2 + (draft.before,)] if draft.before else []
            places += [(self.starts[draft.body.stop],) * 2 + (draft.after,)] if draft.after else []
            fix = sorted(Replacement(self.at + start, self.at + end, new) for start, end, new in places)
        return [
            Finding(self.line + i, column, message, hint, fix=tuple(fix))
            for (i, column), (message, hint) in draft.issues.items()
        ]


def _opens(line: str) -> bool:
    return line.startswith("---") and metadata.CLOSE.match(line) is not None


# -- the lines of a body ---------------------------------------------------------------------------


def _outdented(line: str, margin: str) -> str:
    """Remove the margin from a line, as far as it has one."""
    if margin.strip():
        return line.lstrip(_MARGIN)
    return line[min(len(margin), len(line) - len(line.lstrip(" \t"))) :]


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
            column = len(line) - len(line.lstrip()) + 1
            yield k, column, f"'{_beginning(line)}' is not a prompt", f"write '{_shown(right)}'", right
        elif below and not (indented or _KEY.match(line) or (k and line.startswith(":"))):  # ": value" of a "? key"
            readable = metadata.check(body) is None if readable is None else readable
            if not readable:
                yield k, 1, "this line of a prompt is not indented", f"write '  {_shown(line)}'", f"  {line}"
        below = bool(right) or (below and (indented or not _KEY.match(line)))


def _right_form(lines: Sequence[str], k: int) -> str:
    """Return the prompt that a line is meant to be; empty if it is not meant as one."""
    line = lines[k].translate(_ALIKE)
    match = _PROMPT.match(line)
    word = _word_of(match["mark"]) if match else ""
    if match is None or not word:
        return ""
    lead, text = match["lead"], lines[k][match.end() :]
    indented, listed = line[0] in " \t", "-" in lead
    if not (match["first"] or match["colon"]) and not _may_lack_colon(lines, k, match, text.strip()):
        return ""
    if word.isalpha() and (_NO_TEXT.match(text.strip()) or (indented and lines[0][0] not in " \t")):
        return ""
    if listed and (indented or not lines[0].startswith("-")):
        return ""
    if lead[-1:] in ("'", '"') and not re.search(r"[\"']", line[match.end("mark") : match.end()]):
        text = text.rstrip().removesuffix(lines[k][match.start("mark") - 1]).rstrip("\"'”’»") + "\n"
    return f"{word}: {text.strip()}".rstrip() + lines[k][len(lines[k].rstrip("\r\n")) :]


def _word_of(mark: str) -> str:
    """Return the word or the sign of a prompt that is meant by `mark`; empty if none is."""
    mark = mark.lower()
    if mark in (*WORDS, *_WORDS):
        return mark
    return next((word for word in _WORDS if mark not in _OTHER_WORDS and _is_slip(mark, word)), "")


def _is_slip(written: str, word: str) -> bool:
    """Return whether two words differ by one letter inserted, deleted or replaced, or by two swapped letters."""
    start = _same(written, word)
    end = _same(written[start:][::-1], word[start:][::-1])
    one, two = written[start : len(written) - end], word[start : len(word) - end]
    return max(len(one), len(two)) <= 1 or (len(one) == 2 and one == two[::-1])


def _same(one: str, two: str) -> int:
    """Return the length of the common prefix of two texts."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def _may_lack_colon(lines: Sequence[str], k: int, match: re.Match[str], text: str) -> bool:
    """Return whether a line is a prompt without its colon: ``? why``, or ``+ more`` as the only line of a block."""
    if match.start("mark") > 0 or (k + 1 < len(lines) and lines[k + 1].startswith(":")):
        return False
    if match["mark"] == "?":
        return text == "" or text[0].isalnum()
    alone = len(lines) == 1 and (text == "" or match.string[match.end("mark")].isspace())
    return alone and (match["mark"] in WORDS)


def _beginning(line: str) -> str:
    """Return the part of a line in place of a prompt's word: up to the colon, or the first word."""
    found = re.match(r"\s*(?:[^:：\s]*[:：;；]+|\S+)", line)
    return found[0].strip() if found else line.strip()


def _shown(line: str) -> str:
    words = line.strip()
    return words if len(words) <= 60 else f"{words[:58].rstrip()} …"
