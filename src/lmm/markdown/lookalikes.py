"""Text that looks like metadata but is not read as metadata: where it is, why, which keys it has, the form that works.

One rule: a line ``---`` or one like it, and below it a line ``key: value`` or a prompt. Whoever acts on metadata (which
model may be asked, what students must not see) asks `find_lookalikes` before, so that a slip of the author's is never
taken for the absence of what was written. Code, comments and formulas are none.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any

from lmm.config_tables import TIERS
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, ForeignHeader, HeaderBlock, HeadingBlock, MetadataBlock
from lmm.markdown.foreign_headers import foreign_problem
from lmm.markdown.metadata import bare_key, is_slip
from lmm.markdown.spans import spans
from lmm.providers import ALIASES, PROVIDERS

CONTROLS = ("model", "skip", "type", "frozen")
"""The keys that say what may be done with a text."""
_DASH = "-‐‑‒–—―−─－﹣"
_SPACE = r"[ \t\xa0\u200b\u2060\ufeff]*"
FENCE_LIKE = re.compile(
    rf"{_SPACE}\\?(?:(?:[{_DASH}]{{2,}}|[{_DASH[1:]}]|[{_DASH}](?:[ \t]+[{_DASH}]){{2,}})(?:[ \t]*(?:ya?ml|json|toml))?"
    rf"|(?:\*[ \t]*){{3,}}|_{{3,}}|\+{{3}}|(?!={{7}}\s*\Z)={{3,}}){_SPACE}(?:#.*|<!--.*)?\s*\Z",
    re.IGNORECASE,
)
MARGIN = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?=-{3}|[?+=]:))?")
_KEY = re.compile(
    r"""(?:[-*+][ \t]+)?["'“”‘’*_\\{]*~{0,2}(?P<key>[A-Za-z][\w.\\-]*)["'“”‘’*_]*=?[ \t]*"""
    r"(?:[:：](?!//)(?P<space>[ \t]|\s*\Z)?|=(?!=)|;[ \t]|[-=]>[ \t])"
)
_CONTROL_ALONE = re.compile(r"(?:skip|frozen):[ \t]+(?:true|yes|on)|type:[ \t]+[a-z]+", re.IGNORECASE)
_ON_ONE_LINE = re.compile(
    r"-{2,}[ \t]*(?:(?=[^\n]*--\s*\Z)[A-Za-z][\w-]*[ \t]*:[^\n]*[,;][ \t]*)?"
    r"(model|skip|type|frozen)[ \t]*[:=][ \t]*\S.*"
)
_IN_BRACES = re.compile(r"""[{,][ \t]*["']?(model|skip|type|frozen)["']?[ \t]*:""")
_CONFLICT = re.compile(r"(?:<{7}|>{7}|\|{7})(?:[ \t].*)?\s*\Z|={7}\s*\Z")
_TAG = re.compile(r"\s*(?:\{%|\{\{|<%|<#|<\?|@\{)")
_FORMATTED = re.compile(r"[-*+]?[ \t]*(?:\\~|~{1,2}[\w.-]*\\_|[\w.-]*~?\\_:)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(?=\S)")
_CANDIDATE = re.compile(
    rf"^[ \t>\d.)+*\xa0\u200b\u2060\ufeff]*"
    rf"(?:[{_DASH}*_+?=~`\\]|(?:query|message|edit|skip|type|frozen):|\"?[Mm]odels?\"?[ \t]*[:=]|\{{[ \t]*(?:\"|\r?$))",
    re.MULTILINE,
)
_HIDING = ("code_block", "code", "comment", "math", "raw")
_LONGEST = 200  # lines of a body
_HEADER_KEYS = ("title", "docid", "author", "date", "model")
_PROVIDERS = {*PROVIDERS, *ALIASES}
_PROVIDER = re.compile(rf"\b(?:{'|'.join(map(re.escape, _PROVIDERS))})/", re.IGNORECASE)
_TORN = re.compile(r"(?<=\n)[ \t]*\r?\n#{1,6}[ \t]+\S[^\n]*\n[ \t]*\r?\n\s*\Z")
_JSON = re.compile(r"\{\s*\"[^\"\n]*\"\s*:")
_BARE_MODEL = re.compile(
    rf"^[ \t]*(?:(?:\{{(?:.*,)?[ \t]*)?[\"'“]?models?[\"'”]?[ \t]*[:=][ \t]*[\"'“]?"
    rf"(?:{'|'.join(map(re.escape, _PROVIDERS))})/"
    rf"|models?:[ \t]*\r?\n[ \t]+(?:{'|'.join(TIERS)})[ \t]*:[ \t]*\S)",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Lookalike:
    """Text that looks like metadata: its place, why it is not read, and what to do.

    `controls` are those of its keys that say what may be done with the text, `header` is whether it was meant as the
    document's header. `body` are the lines (from 1, the last one excluded) between its
    markers, `margin` what stands before them, `closed` whether there is a closing marker. If it is not `is_sure`, these
    are lines between rules, which are metadata only if one of them is nearly a prompt.
    """

    line: int
    column: int
    reason: str
    hint: str
    controls: frozenset[str] = frozenset()
    has_prompts: bool = False
    body: tuple[int, int] = (0, 0)
    margin: str = ""
    closed: bool = False
    header: bool = False
    is_sure: bool = True


def find_lookalikes(blocks: Sequence[Block], *, unsure: bool = False) -> list[Lookalike]:
    """Find what looks like metadata in a document and is not read as such, in order; with `unsure`, also lines between
    rules.

    >>> from lmm.markdown import parse_markdown_text
    >>> (one,) = find_lookalikes(parse_markdown_text("---\\ntitle: R: the exam\\nskip: true\\n---\\n# A\\n"))
    >>> one.line, one.reason, sorted(one.controls)
    (2, 'mapping values are not allowed in this context', ['skip'])
    """
    return [one for one in _all_lookalikes(tuple(blocks)) if one.is_sure or unsure]


@functools.lru_cache(maxsize=1)
def _all_lookalikes(blocks: tuple[Block, ...]) -> list[Lookalike]:
    found = list(_displaced(blocks))
    if _CANDIDATE.search("".join(block.source for block in blocks if not isinstance(block, MetadataBlock))):
        found += _Page(blocks).lookalikes()
    return sorted(found, key=lambda one: one.line)


def _displaced(blocks: Sequence[Block]) -> Iterator[Lookalike]:
    """Metadata that can be read, but not where or as what they were meant: a header that is not at the top."""
    top, only_noise = not any(isinstance(block, HeaderBlock) for block in blocks), True
    for block in blocks:
        if isinstance(block, ForeignHeader):
            yield from _in_other_notation(block)
        elif isinstance(block, MetadataBlock):
            yield from _misplaced_keys(block)
            values = block.values()
            controls = frozenset(CONTROLS).intersection(values)
            is_header = ("docid" in values or only_noise or controls) and not values.keys().isdisjoint(_HEADER_KEYS)
            if top and is_header:
                hint = "move it to the first line of the file"
                reason = "this header is not the first thing in the file"
                yield Lookalike(block.line, 1, reason, hint, controls, header=True)
            top = False
        elif isinstance(block, HeadingBlock):
            top = False
        else:
            only_noise = only_noise and all(map(_is_noise, block.content.split("\n")))


def _in_other_notation(block: ForeignHeader) -> Iterator[Lookalike]:
    if problem := foreign_problem(block.content):
        line, reason = problem
        yield Lookalike(block.line + line - 1, 1, reason, _CHECK_QUOTES, header=True)
    values, text = block.values, block.content
    names_model = _names_model(values.get("model")) or re.search(r"^\W*model\W*[:=]", text, re.M | re.I)
    if not names_model and not values:  # it cannot be read
        keys = map(bare_key, re.findall(r"^\W*(\w+)", text, re.M))
        is_model = any(key in ("llm", "models") or is_slip(key, "model") for key in keys)
        names_model = _PROVIDER.search(text) if is_model else None
    if names_model or any(_model_meant(key, value) for key, value in values.items()):
        hint = "write a header of '---' lines and 'key: value' lines, or name the model in config.toml"
        yield Lookalike(block.line, 1, f"'model' in a header of {block.form} is not read", hint, _MODEL)


def _misplaced_keys(block: MetadataBlock) -> Iterator[Lookalike]:
    """Keys that mean a model but do not set it, and a header that goes on over a heading."""
    is_header = isinstance(block, HeaderBlock)
    if is_header and (torn := _TORN.search(block.body)):
        line = block.body_line + block.body.count("\n", 0, torn.start()) - 1
        reason = "this header goes on over a heading, up to the next line '---'"
        yield Lookalike(line, 1, reason, f"put a line '---' below line {line}", header=True)
    for key, value in block.values().items():
        if (name := _model_meant(key, value)) and not (is_header and key in _MODEL_KEYS):
            line = block.body_line + (metadata.key_line(block.body, key) or 1) - 1
            reason, hint = "'model' counts only in the header", "make this block the first thing in the file"
            if is_header:
                reason = f"'{key}' is not 'model'" if name == "model" else f"'{key}' is not under 'model:'"
                hint = "write 'model:'" if name == "model" else f"write 'model:', and under it '  {name}: …'"
            yield Lookalike(line, 1, reason, hint, _MODEL)


_MODEL = frozenset({"model"})
_MODEL_KEYS = ("model", "model=", "~model", "~model_")


def _model_meant(key: str, value: Any) -> str:
    """Return which key is meant by one with this value: ``model``, or a tier; an empty string if neither.

    >>> _model_meant("Models", "Ollama/x"), _model_meant("modle", {"major": "a/b"}), _model_meant("model", "Toyota")
    ('model', 'model', '')
    >>> _model_meant("\xa0major", "ollama/x"), _model_meant("mode", "on/off"), _model_meant("major", "Art/Design")
    ('major', '', '')
    """
    bare = bare_key(key)
    if bare in ("model", "models", "modell") and _names_model(value):
        return "model"
    tiers = value.keys() & {*TIERS, "system"} if isinstance(value, dict) else set()
    is_known = bool(tiers) or (isinstance(value, str) and value.partition("/")[0].strip().lower() in _PROVIDERS)
    if is_known and (bare == "llm" or is_slip(bare, "model")):
        return "model"
    return bare if is_known and bare in TIERS else ""


def _names_model(value: Any) -> bool:
    """Return whether a value names a model, and not, say, a car."""
    return bool(value) and (isinstance(value, dict | list) or "/" in str(value) or str(value).casefold() == "default")


class _Page:
    """The lines of a document, and which of them are metadata or code."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        text = "".join(block.source for block in blocks)
        self.lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text.removeprefix("\ufeff"))
        self.kinds = bytearray(len(self.lines) + 1)  # 1: metadata; 2: code and the like; 3: comments
        self.headings = {block.line - 1 for block in blocks if isinstance(block, HeadingBlock)}
        at = 0
        for is_read, run in groupby(blocks, lambda block: isinstance(block, MetadataBlock | ForeignHeader)):
            together = list(run)
            first, text = at, "" if is_read else "".join(block.source for block in together)
            for block in together:
                last = at + (block.around()[0] + block.content).count("\n") + 1 if is_read else at
                self.kinds[at:last] = b"\1" * (last - at)
                at += block.source.count("\n")
            starts = list(accumulate(map(len, re.findall(r"[^\n]*\n|[^\n]+\Z", text)), initial=0))
            top = 0 if first else len(text) - len(text.lstrip())
            for span in spans(text, in_list=True):
                i = bisect_right(starts, span.start) - 1
                is_one = span.target == "indented" and ("\n" not in span.text or (not first and span.start <= top))
                if span.kind not in _HIDING or is_one:
                    continue  # only the line --- is indented, or all of the header is
                whole = not text[starts[i] : span.start].strip(" \t>")
                for k in range(i if whole else i + 1, bisect_left(starts, span.end)):
                    self.kinds[first + k] = 3 if span.kind == "comment" else 2

    def lookalikes(self) -> Iterator[Lookalike]:
        """Iterate over what looks like metadata, in order."""
        i, top = 0, True
        while i < len(self.lines):
            may_begin = not self.kinds[i] and (top or _CANDIDATE.match(self.lines[i]))
            found, end = self._read(i, top=top) if may_begin else (None, i + 1)
            begins = top and found is None and i <= min(self.headings, default=i) and not _is_noise(self.lines[i])
            if begins and self.kinds[i] in (0, 2):
                found, end = self._bare_header(i)
            if found is not None:
                yield found
            noise = self.kinds[i] == 3 or (not self.kinds[i] and _is_noise(self.lines[i]))
            top = top and noise and not (found and found.is_sure)
            i = max(end, i + 1)

    def _rest(self, i: int) -> str:
        return self.lines[i][len(self._margin(i)) :] if i < len(self.lines) else ""

    def _margin(self, i: int) -> str:
        line = self.lines[i]
        match = None if FENCE_LIKE.match(line.lstrip(" \t>")) else MARGIN.match(line)
        return match[0] if match else line[: len(line) - len(line.lstrip(" \t>"))]

    def _closes(self, i: int) -> bool:
        rest = self.lines[i].lstrip(" \t>")
        return metadata.CLOSE.match(rest) is not None or FENCE_LIKE.match(rest) is not None

    def _is_text(self, i: int) -> bool:
        return i >= 0 and not self.kinds[i] and bool(self.lines[i].strip()) and i not in self.headings

    def _read(self, i: int, *, top: bool) -> tuple[Lookalike | None, int]:
        """Read what may begin on a line; return it, and the line at which to go on."""
        rest, margin = self._rest(i), self._margin(i)
        if not FENCE_LIKE.match(rest):
            return self._prompt_alone(i, rest, margin, top=top)
        if rest.startswith("=") and self._is_text(i - 1):  # the line under a heading
            return None, i + 1
        start = i + 1
        while start < len(self.lines) and (self.kinds[start] == 3 or not self.lines[start].strip()):
            start += 1
        end = self._end(start, top=top)
        closed = end < len(self.lines) and not self.kinds[end] and self._closes(end)
        body = ["\n" if self.kinds[k] == 3 else outdented(self.lines[k], margin) for k in range(start, end)]
        found = self._judge(i, (start, end), body, top=top, closed=closed)
        return found, end + (found is not None and found.is_sure and closed)

    def _end(self, start: int, *, top: bool) -> int:
        """Return the line that ends a body: one like ``---``, code, a heading, or a blank line that no key follows."""
        k, size = start, min(len(self.lines), start + _LONGEST)
        while k < size and self.kinds[k] in (0, 3) and not self._closes(k):
            if not self.lines[k].strip():
                following = k
                while following < size and not self.lines[following].strip():
                    following += 1
                after = self.lines[following] if following < size and not self.kinds[following] else ""
                is_body = top and (_KEY.match(after) or self._closes(following) or _is_noise(after)) if after else False
                if not after.startswith((" ", "\t")) and not is_body:
                    break
                k = following
                continue
            after = self.lines[k + 1] if k + 1 < len(self.lines) else ""
            # Without a blank line around it, it is a comment of YAML.
            is_comment = after.strip() and ((k > start and self.lines[k - 1].strip()) or (top and _KEY.match(after)))
            if _HEADING.match(self.lines[k]) and not is_comment:
                return k + (k == start)  # a formatter makes a heading of a key
            k += 1
        return k

    def _judge(self, i: int, where: tuple[int, int], body: list[str], *, top: bool, closed: bool) -> Lookalike | None:
        """Return the metadata that a line like ``---`` opens, if it looks like metadata."""
        start, end = where
        if not body:
            return None
        heading = _HEADING.match(body[0])
        if heading:
            body = [body[0][heading.end() :], *body[1:]]
        first = next((line for line in body if not _is_noise(line)), "")
        lines = [match for line in body if (match := _KEY.match(line.strip(" \t>")))]
        begins, strict = _KEY.match(first.strip(" \t>")), start > i + 1 or not closed
        names = [match["key"].replace("\\", "") for match in lines if not match[0].startswith("~~")]
        names += re.findall(r"(?<![\w~])(\w+):", body[0]) if heading else []  # a formatter joins the lines
        loose = top or not strict
        controls = {name.casefold() if loose else name for name in names}.intersection(CONTROLS)
        if body[0].startswith("{"):
            controls |= set(_IN_BRACES.findall("".join(body)))
        has_prompts = any(metadata.PROMPT_START.match(line) for line in body)
        formatted = any(_FORMATTED.match(line.strip()) for line in body) or (heading is not None and start > i + 1)
        formatted = formatted or (start > i + 1 and re.match(r"[ \t>]*~{1,2}[\w.-]+:", first) is not None)
        unsure = not loose and (begins is None or (not begins["space"] and not closed))
        if unsure or (self._is_text(i - 1) and not (closed and begins)):
            controls = set()
        is_key = begins is not None and (begins["space"] is not None or self.lines[i].startswith("+++"))
        other = is_key and ((top and (closed or start == i + 1)) or formatted)
        is_sure = bool(controls or has_prompts or other or (formatted and begins is not None))
        is_sure = is_sure and bool(not heading or controls or has_prompts or first.startswith("~"))
        if not (is_sure or closed):
            return None
        reason = self._reason(i, where, body, closed=closed, formatted=formatted)
        found = Lookalike(*reason, frozenset(controls), has_prompts, header=top and is_sure, is_sure=is_sure)
        return replace(found, body=(start + 1, end + 1), margin=self._margin(i), closed=closed)

    def _reason(
        self, i: int, where: tuple[int, int], body: list[str], *, closed: bool, formatted: bool
    ) -> tuple[int, int, str, str]:
        """Return line, column, why metadata that begin on a line are not read, and what to do."""
        start, end = where
        line, column = self.lines[i], len(self._margin(i)) + 1
        marker, margin = line.strip(" \t\r\n>"), self._margin(i).strip()
        around = enumerate(self.lines[max(i - 1, 0) : end + 1], max(i - 1, 0) + 1)
        marked = next((k for k, one in around if one[0] in "<|>" and _CONFLICT.match(one)), 0)
        tag = next((k for k, one in enumerate(body, start + 1) if _TAG.match(one)), 0)
        opens = marker.startswith("---") and metadata.CLOSE.match(marker) is not None
        rules = (
            (marked, marked, 1, CONFLICT, RESOLVE),
            (formatted, i + 1, 1, "a formatter has rewritten this metadata", UNFORMAT),
            (tag, tag, 1, "there is a template's tag in this metadata", "put the tag below it, or delete it"),
            (">" in margin, i + 1, column, "metadata in a quotation is not read", _AT_MARGIN),
            (margin, i + 1, column, "metadata in a list is not read", _AT_MARGIN),
            (marker == "+++" and not closed, i + 1, column, "this header of TOML never closes", _CLOSE_TOML),
            (not opens, i + 1, column, f"'{marker}' does not open metadata", _WRITE_FENCE),
            (column > 1, i + 1, column, "metadata that is indented is not read", _AT_MARGIN),
            (self._is_text(i - 1), i + 1, column, _BELOW_TEXT, "put a blank line above it"),
            (start > i + 1, i + 1, column, _A_RULE, "delete the blank line"),
            (not closed, i + 1, column, "this metadata block never closes", "put a line '---' below its last line"),
        )
        if found := next((rule[1:] for rule in rules if rule[0]), None):
            return found
        close = self.lines[end]  # the line that opens them is right
        if not metadata.CLOSE.match(close):
            at = len(close) - len(close.lstrip(" \t>")) + 1
            return end + 1, at, f"'{close.strip()}' does not close metadata", _WRITE_FENCE
        if metadata.check("".join(body)) is None:
            return i + 1, 1, "this metadata is not where it is read", "put a blank line above it, and none below"
        problem = metadata.explain("".join(body))
        has_prompts = any(metadata.PROMPT_START.match(line) for line in body)
        reason = (
            f"there is a question in a block that cannot be read: {problem.message}" if has_prompts else problem.message
        )
        return end - len(body) + problem.line, problem.column, reason, problem.hint

    def _bare_header(self, i: int) -> tuple[Lookalike | None, int]:
        """Return the header without lines ``---``, or in code, that a document begins with on a line."""
        kind, end = self.kinds[i], i
        while end < len(self.lines) and self.kinds[end] == kind and (kind or self.lines[end].strip()):
            end += 1
        text = "".join(self.lines[i:end])
        match = _BARE_MODEL.search(text)
        if not kind and _JSON.match(text):  # else it would be a header
            controls = _MODEL if re.search(r"\"(?:models?|modell|llm)\"\s*:", text, re.I) else frozenset[str]()
            reason = "this header of JSON cannot be read"
            return Lookalike(i + 1, 1, reason, _CHECK_QUOTES, controls, header=True), end
        is_prose = re.search(r"\w", self.lines[i]) and not _KEY.match(self.lines[i])
        if match is None or (kind == 0 and match.start() and is_prose):
            return None, i + 1
        reason = "a header in code is not read" if kind else "this header is not between lines '---'"
        hint = "write it between lines '---'" + ", or put a heading above it if it is an example" * bool(kind)
        return Lookalike(i + 1, 1, reason, hint, _MODEL, header=True), end

    def _prompt_alone(self, i: int, rest: str, margin: str, *, top: bool) -> tuple[Lookalike | None, int]:
        """Return a prompt, or who may read a text, without a line ``---`` above it, and the line at which to go on."""
        if match := _ON_ONE_LINE.match(rest):
            hint = f"write '---', the line '{match[1]}: …', and '---', one below the other"
            reason = "a line '---' has something else on it"
            return Lookalike(i + 1, 1, reason, hint, frozenset([match[1]]), header=top), i + 1
        has_prompts = metadata.PROMPT_START.match(rest) is not None
        if not has_prompts and not (_CONTROL_ALONE.fullmatch(rest.strip()) and rest[0].islower()):
            return None, i + 1
        end, lines = i + 1, self.lines
        while end < len(lines) and self._is_text(end) and not (self._closes(end) or _HEADING.match(lines[end])):
            end += 1
        closes = end < len(self.lines) and not self.kinds[end] and self._rest(end).startswith("---")
        below_text = self._is_text(i - 1)
        if not has_prompts:
            alone = closes and not below_text and end == i + 1
            controls = frozenset([rest.partition(":")[0]])
            hint = "put a line '---' above it, and a blank line above that"
            found = Lookalike(i + 1, 1, "this is not in a metadata block", hint, controls)
            return (found if alone else None), end + alone
        if not (closes and not below_text if rest[0].isalpha() or margin.strip() else closes or not below_text):
            return None, end
        hint, body = f"put a line '---' above{'' if closes else ' and below'} it", (i + 1, end + 1)
        found = Lookalike(i + 1, len(margin) + 1, "this prompt is not in a metadata block", hint, has_prompts=True)
        found = replace(found, body=body, margin=margin, closed=closes)
        return found, end + closes


_AT_MARGIN = "put it at the start of the line, between blank lines"
_BELOW_TEXT = "a metadata block directly below text is read as part of that text"
_A_RULE = "'---' and a blank line are a rule, and what is below is text"
_CHECK_QUOTES = "check quotes, brackets and commas"
_CLOSE_TOML = "put a line '+++' below its last line"
_WRITE_FENCE = "write '---' at the start of the line"
CONFLICT = "an unresolved conflict of git"
RESOLVE = "keep one side, and delete the lines <<<<<<<, ======= and >>>>>>>"
UNFORMAT = "take the formatter's change back, and exclude the file from it (docs/formats.md says how)"


def _is_noise(line: str) -> bool:
    """Return whether a line is blank, a comment, a template's tag or a mark of git."""
    bare = line.strip()
    return not bare or bare.startswith(("#", "<!--")) or bool(_TAG.match(line)) or bool(_CONFLICT.match(line))


def outdented(line: str, margin: str) -> str:
    """Remove the margin from a line, as far as it has one."""
    if margin.strip():
        return line.lstrip(" \t>")
    return line[min(len(margin), len(line) - len(line.lstrip(" \t"))) :]


def conflicts(text: str) -> list[int]:
    """Return the lines (from 1) on which an unresolved conflict of git begins, outside of code.

    >>> conflicts("A leaf\\n<<<<<<< HEAD\\nis green.\\n=======\\nis red.\\n>>>>>>> main\\n")
    [2]
    """
    if "<<<<<<<" not in text or not re.search(r"^>{7}(?:[ \t]|\r?$)", text, re.M):
        return []
    code = [(s.start, s.end) for s in spans(text) if s.kind == "code_block" and s.target != "indented"]
    found = (match.start() for match in re.finditer(r"^<{7}(?=[ \t]|\r?$)", text, re.M))
    return [text.count("\n", 0, at) + 1 for at in found if not any(a <= at < b for a, b in code)]
