"""Metadata bodies (the text between the two ``---`` lines): read as values, and edited one key at a time.

A body is a YAML mapping, or a list of mappings that is read as one. Prompt lines are removed before
the body is parsed as YAML (see `find_prompts`). Edits splice the text of one entry and leave every
other character alone, including comments, quoting, order and style; each edit is read back before it
is returned.

Keys have three spellings: ``key`` and the locked ``key=`` are the author's, ``~key`` was written by a
model, ``~~key`` is the program's bookkeeping.

Prompt lines count only at column 0: ``?:`` or ``query:`` starts a chat, ``+:`` or ``message:`` continues it, ``=:`` or
``edit:`` asks for an edit. The rest of the line and the indented lines under it are the prompt, as typed: ``?: is this
right: yes or no? # honestly`` is that whole text, although YAML would refuse it. Block scalars (``|``, ``>``) and
complete quoted scalars keep their YAML meaning.
"""

from __future__ import annotations

import contextlib
import re
import textwrap
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from lmm.errors import Finding, MetadataError
from lmm.markdown import yaml_core

CLOSE = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:#[^\n]*)?(?:\r?\n|\r?\Z)", re.MULTILINE)
"""The line below a body."""
# A value, or a line of one, of words that mean nothing to YAML; a prompt is none.
_PLAIN_LINE = re.compile(
    r"^([ ]*(?:- )?)(?!query:|message:|edit:)(~{0,2}[A-Za-z][\w.-]*=?:[ ])?\w[\w ,.;/()-]*$", re.MULTILINE
)
_STARTS_LIKE_METADATA = re.compile(
    r"(?:[ \t\r]*(?:#[^\n]*)?\n)*+(?:-[ \t]+)?(?:[\"']?[\w.~\-]+=?[\"']?[ \t]*:(?=\s|\Z))"
)
_MEANT = re.compile(
    r"^(?:-[ \t]+)?[\"']?(?:~{1,2}[\w.-]+|model|skip|type|frozen)=?[\"']?[ \t]*:(?=\s|\Z)", re.MULTILINE
)
# The seed writes `frozen = True`; it is read as `frozen: true`, and reported.
_BOOLEAN_ASSIGNMENT = re.compile(r"^([A-Za-z_~][\w.~\-]*) = (?=(?:True|False|true|false)[ \t]*\r?$)", re.MULTILINE)
# A byte order mark and blank lines before a document's first block belong to that block's source.
PREFIX = re.compile(r"\ufeff?(?:[ \t]*\r?\n)*")


def prefix_end(source: str) -> int:
    """Return the offset at which the content of a document's first block begins."""
    prefix = PREFIX.match(source)
    return prefix.end() if prefix else 0


def check(body: str) -> Finding | None:
    """Check whether `body` is metadata; return None if it is, else the reason (see `explain`).

    >>> check("title: x\\n") is None
    True
    >>> check("just prose\\n").message
    "expected 'key: value' lines, found plain text"
    """
    shape = _PLAIN_LINE.sub(r"\1\2a", body)  # which plain words a line holds makes no difference
    return None if _checked(shape) is None else _checked(body)


@lru_cache(maxsize=10_000)  # a document is parsed again after each change
def _checked(body: str) -> Finding | None:
    try:
        read(body)
    except MetadataError as error:
        return Finding(error.line, error.column, error.message, error.hint)
    return None


_NEARLY_A_KEY = re.compile(r"([\w~][\w.~-]*)(?:[ \t]*=[ \t]*(?=\S)|:(?=[^\s:])|[ \t]+(?!.*:\s))")
_LONG = 80  # characters of a line that a hint repeats
_LOOK_BACK = 50  # lines above that where YAML stops


def explain(body: str) -> Finding:
    """Return why a body is not metadata, with the line that is to be changed: YAML may stop far below it.

    >>> found = explain("title: T\\ndate 2026-11-01\\nlang: de\\n")
    >>> found.line, found.message, found.hint
    (2, "could not find expected ':'", "write 'date: 2026-11-01', with a colon")
    >>> [explain(body).hint for body in ("tags: [a, b\\nlang: de\\n", "title: R: the exam\\n")]
    ["close the bracket: 'tags: [a, b]'", 'quote it: title: "R: the exam"']
    """
    problem, lines = _checked(body), as_yaml(body).split("\n")
    assert problem is not None
    if problem.hint:
        return problem
    above = range(problem.line - 1, max(problem.line - _LOOK_BACK, 0) - 1, -1)
    at = next((i for i in above if _checked("\n".join(lines[:i]) + "\n") is None), problem.line - 1)
    line = body.split("\n")[at].rstrip("\r") if at < len(lines) else ""
    column = problem.column if at == problem.line - 1 else len(line) - len(line.lstrip()) + 1
    return Finding(at + 1, column, problem.message, _hint(line, lines[at - 1] if at else "", body))


def _hint(line: str, above: str, body: str) -> str:
    """Return what to write in place of the line of a body that YAML cannot read."""
    bare, margin = line.strip(), len(line) - len(line.lstrip())
    if "\t" in line[:margin]:
        return "indent it by spaces, not by a tab"
    if re.search(r"^- ", body, re.MULTILINE) and re.search(r"^[\w~]+:", body, re.MULTILINE):
        return "a list and 'key: value' lines cannot be mixed: drop the leading '- '"
    if re.search(r":[ \t]*[|>][-+]?[ \t]*$", above):
        return "indent this line by two spaces: it belongs to the text above"
    if pair := _NEARLY_A_KEY.match(bare):
        space = " and a space" * (bare[pair.end() - 1] == ":")
        return f"write '{pair[1]}: {bare[pair.end() :]}', with a colon{space}"
    key, colon, value = bare.partition(":")
    value = value.strip()
    if not (colon and value) or len(bare) > _LONG:
        return "quote values that contain ': ' or ' #', or start with a special character"
    for opening, closing in ("[]", "{}"):
        if value.startswith(opening) and value.count(opening) > value.count(closing):
            return f"close the bracket: '{bare}{closing}'"
    if margin and re.match(r"[^\s#-][^:]*:[ \t]+[^\s|>&*]", above.lstrip()):
        return "indent it like the line above"
    if value[0] in "\"'" and value.count(value[0]) == 1:
        return f"close the quotation mark: {bare}{value[0]}"
    text = value[1:-1] if value[0] in "\"'" and value[-1] == value[0] and len(value) > 1 else value
    return f"quote it: {key}: {yaml_core.quoted(text)}"


def is_meant(body: str, *, header: bool = False) -> bool:
    """Return whether a body that cannot be read was clearly meant as metadata: it has a prompt, a key that a program
    wrote, or one that says what may be done with the text; or it is the document's `header`, and begins with a key.

    >>> is_meant("type: a: b\\n"), is_meant("Note: see: this\\n"), is_meant("Note: see: this\\n", header=True)
    (True, False, True)
    """
    if header and _STARTS_LIKE_METADATA.match(body):
        return True
    return _MEANT.search(body) is not None or bool(find_prompts(body))


def as_yaml(body: str) -> str:
    """Return `body` as valid YAML of the same length: prompt lines hidden, ``key = True`` as ``key:  True``."""
    return _BOOLEAN_ASSIGNMENT.sub(r"\1:  ", mask_prompts(body, find_prompts(body)))


@lru_cache(maxsize=64)  # the same few blocks are read a dozen times while a document is prepared
def _composed(body: str) -> yaml.Node | None:
    """Return the YAML of a body; nobody changes its nodes."""
    return yaml_core.compose(as_yaml(body))


def boolean_assignments(body: str) -> list[tuple[str, int]]:
    """Return the keys written as ``key = True``, with their lines (from 1)."""
    masked = mask_prompts(body, find_prompts(body))
    return [(m[1], masked.count("\n", 0, m.start()) + 1) for m in _BOOLEAN_ASSIGNMENT.finditer(masked)]


def read(body: str) -> dict[str, Any]:
    """Parse a metadata body into values, without prompt lines.

    Raises:
        MetadataError: it is not a YAML mapping, nor a list of mappings.

    >>> read("- model:\\n  - major: OpenAI/gpt-4.1-mini\\n- lang: de\\n")
    {'model': [{'major': 'OpenAI/gpt-4.1-mini'}], 'lang': 'de'}
    """
    return _normalise(_composed(body))


def _normalise(node: yaml.Node | None) -> dict[str, Any]:
    value = yaml_core.to_value(node)
    if value is None and (node is None or node.value == ""):
        return {}
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return {key: inner for item in value for key, inner in item.items()}
    kind = "a list" if isinstance(value, list) else "plain text"
    raise MetadataError(f"expected 'key: value' lines, found {kind}", hint="start the block with 'key: value'")


def duplicate_keys(body: str) -> list[tuple[str, int]]:
    """Return the top-level keys that `body` repeats, with the line (from 1) of each repetition."""
    found, seen = list[tuple[str, int]](), set[str]()
    for key, _ in _pairs(_composed(body)):
        name = yaml_core.key_text(key)
        found += [(name, _line(body, key))] if name in seen else []
        seen.add(name)
    return found


def key_line(body: str, name: str) -> int | None:
    """Return the line (from 1) of the top-level key `name` in `body`."""
    return next((_line(body, key) for key, _ in _pairs(_composed(body)) if key.value == name), None)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of a body that is neither a mapping nor a list.

    `path` are the keys that lead to it; `line` and `column` (from 1) those of the last of them; `start` and `end`
    delimit the value in the body.
    """

    path: tuple[str, ...]
    line: int
    column: int
    text: str
    start: int
    end: int


def scalars(body: str) -> list[Scalar]:
    """Return every scalar value of a body at any depth, in order.

    >>> [(value.path, value.text, value.line) for value in scalars("a: 1\\nb:\\n  - c: 2\\n")]
    [(('a',), '1', 1), (('b', 'c'), '2', 3)]
    """
    found: list[Scalar] = []
    seen: set[int] = set()

    def visit(node: yaml.Node, path: tuple[str, ...], key: yaml.Node) -> None:
        if id(node) in seen:  # an alias
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                visit(value, (*path, yaml_core.key_text(name)), name)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                visit(item, path, key if isinstance(item, yaml.MappingNode) or path == () else item)
        elif path:
            at, start = key.start_mark.index, node.start_mark.index
            end = start + len(body[start : node.end_mark.index].rstrip())
            column = at - body.rfind("\n", 0, at)
            found.append(Scalar(path, _line(body, key), column=column, text=str(node.value), start=start, end=end))

    if (root := _composed(body)) is not None:
        visit(root, (), root)
    return found


def run_when_knit(body: str) -> list[Scalar]:
    """Return the values under a model's keys (``~…``) that contain code which knitr or Quarto would run."""
    if not yaml_core.runs_in_knitr(body):
        return []
    # The first line of a value stands behind its key.
    ours = [value for value in scalars(body) if value.path[0].startswith("~")]
    return [value for value in ours if yaml_core.runs_in_knitr("." + body[value.start : value.end])]


def without_running_code(body: str) -> str:
    """Return `body` with the values of `run_when_knit` escaped so that their code is not run; the values stay equal.

    >>> print(without_running_code("~summary: |-\\n  `r 1+1`\\nb: 2\\n"), end="")
    ~summary: "\\x60r 1+1\\x60"
    b: 2

    Raises:
        MetadataError: a value cannot be escaped without changing something else.
    """
    found, changed = run_when_knit(body), body
    for value in reversed(found):
        changed = changed[: value.start] + yaml_core.quoted(value.text) + changed[value.end :]
    return _check_edit(body, changed, read(body), found[0].path[0]) if found else body


def _line(body: str, node: yaml.Node) -> int:
    return body.count("\n", 0, node.start_mark.index) + 1


def _pairs(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """The keys and values at the top of a body, in order."""
    if isinstance(node, yaml.MappingNode):
        return list(node.value)
    if isinstance(node, yaml.SequenceNode):
        return [pair for item in node.value if isinstance(item, yaml.MappingNode) for pair in item.value]
    return []


# -- ownership -----------------------------------------------------------------------------------


def lookup(values: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """Return the effective value of `key`: locked, else the author's, else a model's (``~key_``, formerly ``~key``).

    >>> lookup({"~questions_": "model's", "questions=": "mine"}, "questions")
    'mine'
    """
    for spelling in (*locked_keys(key), key, generated_key(key), f"~{key}"):
        if spelling in values:
            return values[spelling]
    return default


def base_name(key: str) -> str:
    """Return `key` without its ownership marks: ``~key_``, ``~key``, ``~~key`` and ``key=`` are all ``key``.

    >>> base_name("~summary_"), base_name("~summary"), base_name("note_"), base_name("titles=")
    ('summary', 'summary', 'note_', 'titles')
    """
    bare = key.lstrip("~").removesuffix("=")
    return bare.removesuffix("_") if key.startswith("~") else bare


def is_slip(written: str, word: str) -> bool:
    """Return whether two words differ by one letter inserted, deleted or replaced, or by two swapped letters."""
    for i, (a, b) in enumerate(zip(f"{written}\0", f"{word}\0", strict=False)):
        if a != b:
            one, two = written[i:], word[i:]
            swapped = one[:2] == two[1::-1] and one[2:] == two[2:]
            return swapped or one[1:] == two or one == two[1:] or one[1:] == two[1:]
    return True


def bare_key(key: str) -> str:
    """Return the letters of a key in lower case, without what was typed around them, and what cannot be seen.

    >>> bare_key("“Type”"), bare_key("1. type"), bare_key("\xa0type_"), bare_key("ty\u200bpe")
    ('type', 'type', 'type', 'type')
    """
    seen = unicodedata.normalize("NFKC", "".join(char for char in key if char.isprintable()))
    first = next((i for i, char in enumerate(seen) if char.isalpha()), 0)
    last = next((i for i in range(len(seen), 0, -1) if seen[i - 1].isalnum()), 0)
    return seen[first:last].casefold()


def generated_key(name: str) -> str:
    """Return the key under which a model's value for `name` is written.

    Pandoc reads every string in metadata as markdown (a heading in a summary gave a section's id to it, a citation an
    entry to the bibliography), but for keys that end in an underscore.
    """
    return f"~{name}_"


def locked_keys(name: str) -> tuple[str, ...]:
    """Return the keys whose value for `name` is never overwritten."""
    return f"{name}=", f"~{name}=", f"~{name}_="


# -- editing -------------------------------------------------------------------------------------


IN_BRACES = "keys in { } cannot be edited or added"
NO_BRACES = "write 'key: value' lines, without the braces"


def is_in_braces(body: str) -> bool:
    """Return whether a body is a mapping in ``{ }``, which can be read but not edited."""
    node = _composed(body) if "{" in body else None
    return isinstance(node, yaml.MappingNode) and bool(node.flow_style)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The place of a top-level entry: `start` is the offset of its key, `end` the end of its last line."""

    key: str
    start: int
    end: int
    column: int
    node: yaml.Node


def set_key(body: str, key: str, value: Any, *, newline: str = "\n", before: int | None = None) -> str:
    """Return `body` with `key` set to `value`; every line of other keys stays byte for byte.

    A new key goes to the end, or before the offset `before` (the start of a line).

    Raises:
        MetadataError: the entry cannot be rewritten without touching others (say, it holds an anchor
            that another entry uses).

    >>> set_key("a: 1   # one\\nb:   2\\n", "b", "two")
    'a: 1   # one\\nb: two\\n'
    """
    masked = as_yaml(body)
    node = yaml_core.compose(masked)
    expected = _normalise(node)
    entries = _entries(masked, node)
    if old := next((entry for entry in reversed(entries) if entry.key == key), None):
        text, start, end = yaml_core.entry(key, value, indent=old.column), old.start, old.end
    else:
        column = node.start_mark.column if node is not None and node.value else 0
        is_list = isinstance(node, yaml.SequenceNode)
        text = yaml_core.item({key: value}, indent=column)
        text = text if is_list else " " * column + yaml_core.entry(key, value, indent=column)
        # Under a prompt line at the end, indented text would be more of the prompt.
        start = end = entries[-1].end if column else len(body) if before is None else before
        if start and not body.endswith("\n", 0, start):
            text = "\n" + text
    return _check_edit(body, body[:start] + text.replace("\n", newline) + body[end:], expected | {key: value}, key)


def remove_key(body: str, key: str) -> str:
    """Return `body` without the entries of `key`; unchanged if there is none."""
    masked = as_yaml(body)
    node = yaml_core.compose(masked)
    expected = _normalise(node)
    if key not in expected:
        return body
    del expected[key]
    changed = body
    for old in reversed([e for e in _entries(masked, node) if e.key == key]):
        changed = changed[: body.rfind("\n", 0, old.start) + 1] + changed[old.end :]
    return _check_edit(body, without_blank_start(changed), expected, key)


def append_item(body: str, key: str, value: Any, *, newline: str = "\n", before: int | None = None) -> str:
    """Return `body` with `value` appended to the list under `key`; the items before it stay untouched.

    A new list goes to the end, or before the offset `before`.
    """
    masked = as_yaml(body)
    node = yaml_core.compose(masked)
    expected = _normalise(node)
    old = next((e for e in reversed(_entries(masked, node)) if e.key == key), None)
    items = expected.get(key)
    if old is None or not isinstance(items, list) or not items or not isinstance(old.node, yaml.SequenceNode):
        before_it = [] if items is None else items if isinstance(items, list) else [items]
        return set_key(body, key, [*before_it, value], newline=newline, before=before)
    if old.node.flow_style or not old.start < old.node.start_mark.index < old.end:
        return set_key(body, key, [*items, value], newline=newline)
    text = yaml_core.item(value, indent=old.node.start_mark.column)
    text = text if body.endswith("\n", 0, old.end) else "\n" + text
    changed = body[: old.end] + text.replace("\n", newline) + body[old.end :]
    return _check_edit(body, changed, expected | {key: [*items, value]}, key)


def remove_prompt(body: str, prompt: Prompt) -> str:
    """Return `body` without the lines of one pending prompt.

    >>> remove_prompt("?: why?\\n\\ntitle: T\\n", find_prompts("?: why?\\n\\ntitle: T\\n")[0])
    'title: T\\n'
    """
    return without_blank_start(body[: prompt.start] + body[prompt.end :])


def without_blank_start(body: str) -> str:
    """Return `body` without leading blank lines: before one, the block's ``---`` would be a horizontal rule."""
    return body[prefix_end(body) :]


def _entries(masked: str, node: yaml.Node | None) -> list[_Entry]:
    """Return the top-level entries in order. An entry ends where only blank lines and comments at its margin follow."""
    if isinstance(node, yaml.MappingNode) and node.flow_style:
        raise MetadataError(IN_BRACES, line=node.start_mark.line + 1, hint=NO_BRACES)
    pairs = _pairs(node)
    starts = [key.start_mark.index for key, _ in pairs]
    if starts != sorted(starts):
        raise MetadataError("keys that are aliases cannot be edited", hint="write the keys out")
    bounds = [*(masked.rfind("\n", 0, start) + 1 for start in starts[1:]), len(masked)]
    entries = []
    for (key, value), start, bound in zip(pairs, starts, bounds, strict=False):
        line_start = masked.rfind("\n", 0, start) + 1
        if masked[line_start:start].strip(" -\t"):
            raise MetadataError(
                f"'{key.value}' is written in a way that cannot be edited",
                line=key.start_mark.line + 1,
                hint="write it as 'key: value' on its own line",
            )
        column, lines = start - line_start, re.findall(r"[^\n]*\n|[^\n]+\Z", masked[start:bound])
        while len(lines) > 1 and (
            not (last := lines[-1]).strip(" \t\r\n") or last[: column + 1].lstrip(" ")[:1] == "#"
        ):
            lines.pop()
        entries.append(_Entry(yaml_core.key_text(key), start, start + sum(map(len, lines)), column, value))
    return entries


def _check_edit(body: str, changed: str, expected: dict[str, Any], key: str) -> str:
    """Check that an edit reads back as the expected values, with prompts and everything else unchanged."""
    try:
        found = read(changed)
    except MetadataError as error:
        raise MetadataError(
            f"'{key}' cannot be changed without breaking the block: {error.message}",
            line=error.line,
            column=error.column,
            hint="edit the block by hand",
        ) from error
    same_prompts = [p.text for p in find_prompts(changed)] == [p.text for p in find_prompts(body)]
    if not same_prompts or repr(sorted(found.items())) != repr(sorted((k, _plain(v)) for k, v in expected.items())):
        raise MetadataError(f"'{key}' cannot be changed without changing other keys", hint="edit the block by hand")
    return changed


def _plain(value: Any) -> Any:
    """Return a value as it reads back: tuples as lists, other mappings as dicts, keys as text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


# -- prompt lines, read literally before YAML ------------------------------------------------------


WORDS = {"?": "query", "query": "query", "+": "message", "message": "message", "=": "edit", "edit": "edit"}
PROMPT_START = re.compile(r"[?+=]:(?![=-])|(?:query|message|edit):(?=[ \t\r\n]|\Z)")
"""How a line begins that authors mean as a prompt, wherever it is."""

_PROMPT = re.compile(
    r"^(?P<word>[?+=]|query|message|edit):(?:(?<=[?+=]:)|(?=[ \t\r\n]|\Z))"
    r"(?P<text>[^\n]*(?:\n|\Z)(?:(?:[ \t]*\r?\n)*[ \t]+[^ \t\r\n][^\n]*(?:\n|\Z))*)",
    re.MULTILINE,
)


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
    """Return the prompt lines of a metadata body, in order.

    >>> [(p.word, p.text) for p in find_prompts("title: x\\n?: right: yes or no? # honestly\\n+: more\\n")]
    [('query', 'right: yes or no? # honestly'), ('message', 'more')]
    """
    if ":" not in body:
        return ()
    prompts: list[Prompt] = []
    at, line = 0, 1
    for match in _PROMPT.finditer(body):
        (start, end), word = match.span(), match["word"]
        line += body.count("\n", at, start)
        at = start
        prompts.append(Prompt(WORDS[word], word, _prompt_text(match["text"]), start=start, end=end, line=line))
    return tuple(prompts)


def mask_prompts(body: str, prompts: tuple[Prompt, ...]) -> str:
    """Return `body` with prompt lines turned into YAML comments of the same length.

    Comments and not blanks, because a comment at column 0 also ends a block scalar.
    """
    parts, at = [], 0
    for prompt in prompts:
        parts += [body[at : prompt.start], re.sub(r"[^\r\n]", "#", body[prompt.start : prompt.end])]
        at = prompt.end
    return "".join(parts) + body[at:]


def add_prompt(body: str, word: str, text: str, *, newline: str = "\n") -> str:
    """Return `body` with a prompt line at its end that reads back as `text`.

    >>> add_prompt("type: x\\n", "edit", "shorter: please")
    'type: x\\n=: shorter: please\\n'
    """
    spelling = next(spelling for spelling, word_of in WORDS.items() if word_of == word)
    lines = "".join(f"  {line}".rstrip() + newline for line in text.split("\n"))
    for written in (f" {text}{newline}", f" |{newline}{lines}", f" {yaml_core.quoted(text)}{newline}"):
        prompts = find_prompts(f"{spelling}:{written}")
        if [(prompt.text, prompt.end) for prompt in prompts] == [(text, len(spelling) + 1 + len(written))]:
            break
    separator = newline if body and not body.endswith("\n") else ""
    return f"{body}{separator}{spelling}:{written}"


def _prompt_text(source: str) -> str:
    """Return the text of a prompt: the value of exactly one quoted or block scalar, else what was typed."""
    if source.lstrip(" \t").startswith(('"', "'", "|", ">")):
        with contextlib.suppress(MetadataError):
            match yaml_core.compose("k: " + source):
                case yaml.MappingNode(value=[(_, yaml.ScalarNode(style=style, value=value))]) if style:
                    return str(value).rstrip("\n") if style in "|>" else str(value)
    first, _, rest = source.replace("\r\n", "\n").partition("\n")
    more = textwrap.dedent(rest).rstrip()
    return "\n".join(part for part in (first.strip(" \t"), more) if part)
