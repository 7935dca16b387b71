"""Read YAML with the YAML 1.2 core schema, and write entries that survive any reader.

Reading goes through PyYAML's composed nodes (libyaml where it is installed), because they carry
marks: where each key stands in the text. Types are decided here: only ``true``, ``false``, ``null``,
integers and floats are typed, everything else is the text that was typed, so that ``yes``, ``on``
and ``2025-05-21`` stay what they are (YAML 1.2.2, section 10.3).

Writing picks the plainest spelling that reads back exactly: plain, literal block (``|-``), or
double-quoted, a line for each of theirs. A text that knitr would run even inside YAML is double-quoted with the
backticks of those lines written as ``\\x60``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import yaml

from lmm.errors import MetadataError

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TYPED: dict[str, bool | None] = {
    **dict.fromkeys(("~", "null", "Null", "NULL", "")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
_UNREADABLE = re.compile(r"[^\t\n\r\x85 -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)

# libyaml composes recursively in C: a hundred thousand brackets end the process, not the parse.
MAX_DEPTH = 100
# Nine aliases of nine aliases of ... fit on ten lines and hold a billion values.
MAX_REPEATED = 100_000
# At the margin of a metadata block these words start a prompt line, unless they are quoted.
PROMPT_WORDS = frozenset({"query", "message", "edit"})


class _CoreLoader(_BaseLoader):  # type: ignore[misc]  # the C or the Python loader, chosen at import
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own protocol
    DEFAULT_SCALAR_TAG = "?"  # so that "!!str 1" is told from "1"


def compose(text: str) -> yaml.Node | None:
    """Compose one YAML document to nodes whose marks count characters of `text`.

    Raises:
        MetadataError: it is not YAML, holds several documents, or nests too deeply.
    """
    if text.startswith("\ufeff"):
        raise MetadataError("there is a byte order mark inside metadata", hint="delete the invisible first character")
    loader = None
    try:
        _check_depth(text)
        loader = _CoreLoader(text)
        node: yaml.Node | None = loader.get_single_node()
        return node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = _place(text, mark.index) if mark else (1, 1)
        raise MetadataError(str(error.problem or error.context), line=line, column=column) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # YAML's own offset is in characters or in bytes, depending on the loader.
        unreadable = next((match.start() for match in _UNREADABLE.finditer(text)), None)
        line, column = (1, 1) if unreadable is None else _place(text, unreadable)
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MetadataError(message, line=line, column=column) from error
    finally:
        if loader is not None:
            loader.dispose()


def _place(text: str, index: int) -> tuple[int, int]:
    """Return line and column (from 1) of an offset. YAML itself counts U+2028 and lone CRs as line ends."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _check_depth(text: str) -> None:
    """Raise if the nesting is too deep for the recursive composer."""
    openers = sum(text.count(mark) for mark in ("[", "{", "- ", "? ", "\n ", "-\t", "?\t"))
    if openers < MAX_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, _CoreLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise MetadataError(f"nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def to_value(node: yaml.Node | None) -> Any:
    """Return the plain Python value of a node: dict, list, str, int, float, bool or None.

    >>> to_value(compose("{a: yes, b: 1.5, c: 2025-05-21, d: true, 1: null}"))
    {'a': 'yes', 'b': 1.5, 'c': '2025-05-21', 'd': True, '1': None}
    """
    return None if node is None else _value(node, {}, set())[0]


def _value(node: yaml.Node, done: dict[int, tuple[Any, int]], open_: set[int]) -> tuple[Any, int]:
    """Return the value of a node, and the number of values with aliases expanded."""
    key = id(node)
    if key in done:  # an alias: share the object
        return done[key]
    if key in open_:
        raise MetadataError("an alias that contains itself", line=node.start_mark.line + 1)
    open_.add(key)
    value: Any
    size = 1
    if isinstance(node, yaml.MappingNode):
        pairs = [(key_text(k), *_value(v, done, open_)) for k, v in node.value]
        value = {name: inner for name, inner, _ in pairs}
        size += sum(count for _, _, count in pairs)
    elif isinstance(node, yaml.SequenceNode):
        items = [_value(item, done, open_) for item in node.value]
        value = [inner for inner, _ in items]
        size += sum(count for _, count in items)
    elif isinstance(node, yaml.ScalarNode) and not node.style and str(node.tag) == _CoreLoader.DEFAULT_SCALAR_TAG:
        value = scalar_value(node.value)
    else:
        value = node.value
    if size > len(done) + MAX_REPEATED:
        raise MetadataError("aliases that repeat too much", line=node.start_mark.line + 1)
    open_.discard(key)
    done[key] = value, size
    return value, size


def key_text(node: yaml.Node) -> str:
    """Return a mapping key as it was typed; keys are never numbers, booleans or null."""
    if not isinstance(node, yaml.ScalarNode):
        raise MetadataError("a key that is a list or a mapping", line=node.start_mark.line + 1)
    return str(node.value)


def scalar_value(text: str) -> Any:
    """Type one plain scalar by the YAML 1.2 core schema.

    >>> [scalar_value(s) for s in ("yes", "017", "0x1F", "1.10", ".5", "~", "12:30")]
    ['yes', 17, 31, 1.1, 0.5, None, '12:30']
    """
    if text in _TYPED:
        return _TYPED[text]
    if INT.match(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        # Python refuses to read integers beyond 4,300 digits; they stay text.
        return int(text.removeprefix("0o"), base) if len(text) < 1000 else text
    if FLOAT.match(text):
        return float(text if text[-1] not in "fFnN" else text.replace(".", "", 1))
    return text


class OneLine(dict[str, Any]):
    """A mapping of scalars that is written in braces, on one line.

    >>> print(entry("~txthash_", OneLine(titles="a b c")), end="")
    ~txthash_: {titles: a b c}
    """


# -- writing -------------------------------------------------------------------------------------

_PLAIN = re.compile(
    r"[A-Za-z0-9_\u00c0-\u024f\u0370-\u1fff]"  # a first character that means nothing in YAML
    r"(?:[^\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff:#]|:(?=[^\s:])|(?<=[^\s#])#)*\Z"
)
# What YAML 1.1 readers (R, Pandoc, most editors) would take for a boolean, number or date.
_YAML_1_1 = re.compile(r"(?:y|n|yes|no|on|off|true|false|null)\Z|[0-9][0-9_,.:+\-beotxz ]*\Z|0x[0-9a-f_]*\Z", re.I)
# What knitr or Quarto acts on even inside metadata; wider than `knitr::all_patterns` where it costs nothing.
# ``\Sexpr`` and the like belong to other formats, but knitr given a text and no file name goes by the first
# format it recognises, runs that code, and skips the document's own chunks.
_KNITR = re.compile(
    r"^(?:[^\S\n]|>)*+`{3,}+[^\S\n]*\{\w"  # a chunk: ```{r}, also indented or quoted; not ```{.r}, ```{=html}
    r"|`r[ \t#]"  # inline code: `r 1+1`, `r#...`, an indented "```r title"; not `r`, not "```r" alone on its line
    r"|(?<!`)`\{\w+\}[ \t]"  # Quarto's inline code: `{r} 1`, `{python} x`
    r"|^[^\S\n]*\{\{<"  # Quarto's include; other shortcodes wait until Pandoc has dropped the field
    r"|^[^\S\n]*<<.*>>=|\\Sexpr\{|\\rinline\{|<%=?\s|^[^\S\n]*%+[^\S\n]*begin.rcode|<!--[^\S\n]*(?:begin.rcode|rinline)",
    re.MULTILINE,
)
_KNITR_MARKS = re.compile(r"`|<(?=<|%|!--)|\\\\(?=Sexpr|rinline)")
_NEEDS_ESCAPE = re.compile(r'[\x00-\x1f\x7f-\xa0"\\\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]')
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_LITERAL = frozenset('\t\n\xa0"\\')  # of these, what stands in a literal block as it is
_PLAIN_KEY = re.compile(r"~{0,2}[A-Za-z_][\w.\-]*=?\Z", re.ASCII)
LINE_WIDTH = 80


def runs_in_knitr(text: str) -> bool:
    """Return whether knitr or Quarto would act on something in `text`, even inside a YAML block.

    Both look at lines without regard for YAML: chunks and inline code were seen to run inside metadata.

    >>> [runs_in_knitr(s) for s in ("> ```{r}", "`r 1+1`", "the correlation `r`", "```{.r}")]
    [True, True, False, False]
    """
    return _KNITR.search(text) is not None


def quoted(text: str) -> str:
    """Return `text` as one double-quoted YAML line.

    >>> print(quoted('say "hi"\\n`r 1+1`'))
    "say \\"hi\\"\\n\\x60r 1+1\\x60"
    """
    return f'"{_escaped(text)}"'


def quoted_lines(text: str, *, indent: int) -> str:
    r"""`text` as a double-quoted scalar with a line for each of its own, for those that cannot be a literal block.

    >>> print(quoted_lines("So:\n```{r}\n  plot(x)\n```\n", indent=2), end="")
    "So:\n\
      \x60\x60\x60{r}\n\
      \  plot(x)\n\
      ```\n"
    """
    *lines, last = (_escaped(line) for line in text.split("\n"))
    written = [f"{line}\\n" for line in lines] + ([last] if last else [])  # the closing quote follows the last break
    head, *rest = (_at_line_start(line) for line in written)
    return '"' + f"\\\n{' ' * indent}".join((head, *rest)) + '"\n'


def _at_line_start(line: str) -> str:
    """An escaped line so that it may stand at the beginning of a line: its indentation is kept, nothing runs there."""
    if runs_in_knitr(line):  # by what it begins with, such as "{{<" or "% begin.rcode"
        line = re.sub(r"\S", lambda mark: f"\\x{ord(mark[0]):02x}", line, count=1)
    return f"\\{line}" if line.startswith(" ") else line


def _escaped(text: str) -> str:
    def code(match: re.Match[str]) -> str:
        return _SHORT.get(match[0]) or f"\\x{ord(match[0]):02x}" if match[0] < "\u0100" else f"\\u{ord(match[0]):04x}"

    escaped = _NEEDS_ESCAPE.sub(code, text)
    if runs_in_knitr(text):
        escaped = _KNITR_MARKS.sub(lambda mark: f"\\x{ord(mark[0][0]):02x}", escaped)
    return escaped


def scalar(value: Any) -> str:
    """Return a scalar on one line: plain where that is unambiguous, else double-quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(repr(value), repr(value))
    if isinstance(value, int):
        return str(value)
    text = str(value)
    plain = _PLAIN.match(text) and text[-1:] not in " :" and not _YAML_1_1.match(text) and not runs_in_knitr(text)
    return text if plain else quoted(text)


def key_source(key: str) -> str:
    """Return the source of a mapping key: plain for names, else double-quoted."""
    return key if _PLAIN_KEY.match(key) and not _YAML_1_1.match(key) else quoted(key)


def entry(key: str, value: Any, *, indent: int = 0) -> str:
    """Return the lines of one ``key: value`` entry, without indentation before the key itself.

    `indent` is the column of the key in spaces; further lines are indented relative to it.

    >>> print(entry("~summary_", "one\\ntwo"), end="")
    ~summary_: |-
      one
      two
    >>> print(entry("a", [1, {"b": "yes"}]), end="")
    a:
      - 1
      - b: "yes"
    """
    name = quoted(key) if indent == 0 and key in PROMPT_WORDS else key_source(key)
    return name + ":" + _after(value, indent, dash=False)


def item(value: Any, *, indent: int) -> str:
    """Return the lines of one ``- value`` list item at column `indent`, with its indentation."""
    return " " * indent + "-" + _after(value, indent, dash=True)


def _after(value: Any, indent: int, *, dash: bool) -> str:
    """Return what follows the colon of an entry at column `indent`, or the `dash` of an item."""
    if isinstance(value, OneLine):
        return f" {{{', '.join(f'{key_source(name)}: {scalar(inner)}' for name, inner in value.items())}}}\n"
    if isinstance(value, Mapping) and value:
        pad = " " * (indent + 2)
        entries = [entry(str(k), v, indent=indent + 2) for k, v in value.items()]
        return " " + pad.join(entries) if dash else "\n" + pad + pad.join(entries)
    if isinstance(value, Mapping):
        return " {}\n"
    if isinstance(value, (list, tuple)):
        return "\n" + "".join(item(v, indent=indent + 2) for v in value) if value else " []\n"
    line, block = scalar(value), None
    if isinstance(value, str):
        if "\n" in value or (line.startswith('"') and len(line) > LINE_WIDTH):
            block = literal(value, indent=indent + 2)
        if block is None and "\n" in value and (runs_in_knitr(value) or len(line) > LINE_WIDTH):
            block = quoted_lines(value, indent=indent + 2)
    return " " + (block or line + "\n")


def literal(text: str, *, indent: int) -> str | None:
    """Return `text` as a literal block scalar, or None where that would not read back exactly."""
    if not text or text[0] in " \t\n" or not _LITERAL.issuperset(_NEEDS_ESCAPE.findall(text)) or runs_in_knitr(text):
        return None
    body = text.removesuffix("\n")
    if not body.rpartition("\n")[2].strip(" \t"):  # a blank last line would depend on what follows ("|+")
        return None
    pad = " " * indent
    lines = "".join(f"{pad}{line}\n" if line else "\n" for line in body.split("\n"))
    block = ("|\n" if text.endswith("\n") else "|-\n") + lines
    with contextlib.suppress(MetadataError):
        return block if to_value(compose(f"k: {block}")) == {"k": text} else None
    return None
