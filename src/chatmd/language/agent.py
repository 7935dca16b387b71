"""Read a parsed document as an agent: its configuration, tools and conversation, and the problems found on the way."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar, Literal, cast

from chatmd.errors import ChatmdError, InvalidDocument
from chatmd.language.nodes import BLANK, NOWHERE, Attribute, Element, Node, Problem, SourceRange, SyntaxTree, Text, body
from chatmd.language.syntax import attribute_offsets, errors_of, parse, serialize
from chatmd.language.tags import ROLES, TAGS
from lmm.errors import nearest
from lmm.messages import Image

# -- Declared inputs: ``<input name="topic" default="leaves"/>``, and ``{{topic}}`` in the messages of a prompt
#
# Only declared names are filled in, and only in the prompt's own text outside of RAW: the messages of `Chat.say`, and
# the output of models and tools, are always taken literally.


TYPES = ("string", "integer", "number", "boolean")
_SLOT = re.compile(r"\{\{[ \t]*([A-Za-z_][\w-]*)[ \t]*\}\}")


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """`<input>`; `value` is the set value or the default; None if it has neither. `type` is one of `TYPES`."""

    name: str
    type: str = "string"
    description: str = ""
    value: str | None = None
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema, for callers of the agent."""
        default = {} if self.value is None else {"default": self.value if self.type == "string" else _read(self.value)}
        return {"type": self.type, **({"description": self.description} if self.description else {}), **default}

    def accepts(self, written: str) -> bool:
        """Return whether a text is a value of the input's type.

        >>> DeclaredInput("n", "integer").accepts("3"), DeclaredInput("n", "integer").accepts("x")
        (True, False)
        """
        value = _read(written)
        kinds: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}
        return self.type == "string" or type(value) in kinds[self.type]


def _read(written: str) -> object:
    try:
        return json.loads(written.lower(), parse_constant=str)
    except ValueError:
        return None


def slots_in(text: Text) -> Iterator[tuple[str, int, int]]:
    """Iterate over the names in double braces outside of RAW, with their start and end in the value."""
    for start, end in text.plain:
        yield from ((match[1], *match.span()) for match in _SLOT.finditer(text.value, start, end))


def fill(text: Text, values: Mapping[str, str]) -> Text:
    """Replace the names in double braces by their values.

    >>> fill(parse("<user>On {{ topic }}, RAW|not {{topic}}|RAW.</user>").children[0].children[0], {"topic": "<b>"})
    Text(value='On <b>, not {{topic}}.', raw=True)
    """
    pieces, at = [], 0
    for name, start, end in slots_in(text):
        if name in values:
            pieces += [text.value[at:start], values[name]]
            at = end
    return replace(text, value="".join([*pieces, text.value[at:]])) if pieces else text


def check_values(inputs: Iterable[DeclaredInput]) -> None:
    """Raise an error if an input has no value.

    Raises:
        ChatmdError: an input has no value.
    """
    for one in inputs:
        if one.value is None:
            hint = f"lmm run --set {one.name}=…; in Python run(inputs={{…}})"
            raise ChatmdError(f"the input '{one.name}' has no value", where=one.span.where, hint=hint)


def set_inputs(text: str, values: Mapping[str, object], known: Iterable[DeclaredInput], *, file: str = "") -> str:
    """Set the values of inputs in a document; an input from an import is declared again, at the top.

    Raises:
        ChatmdError: there is no such input, or the value is not of its type.

    >>> set_inputs('<input name="n" type="integer"/>', {"n": 3}, [DeclaredInput("n", "integer")])
    '<input name="n" type="integer" value="3"/>'
    """
    declared = {one.name: one for one in known}
    written = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    for name, value in written.items():
        if name not in declared:
            hint = (declared and nearest(name, declared)) or f'declare it: <input name="{name}"/>'
            raise ChatmdError(f"there is no input '{name}'", where=file, hint=hint)
        if not declared[name].accepts(value):
            hint = f"it is the input '{name}'"
            raise ChatmdError(f"'{value}' is not of the type {declared[name].type}", where=file, hint=hint)
    nodes, own, added = list[Node](), set[str](), ""
    for node in parse(text, file=file).children:
        name = (node.get("name") or "") if isinstance(node, Element) and node.tag == "input" else ""
        own.add(name)
        if isinstance(node, Element) and name in written:
            attributes = (attribute for attribute in node.attributes if attribute.name != "value")
            node = Element("input", (*attributes, Attribute("value", written[name])))
        nodes.append(node)
    for name, value in written.items():
        if name not in own:
            declared_again = Attribute("name", name), Attribute("type", declared[name].type), Attribute("value", value)
            added += serialize([Element("input", declared_again)]) + "\n"
    return added + serialize(nodes)


# -- What a ChatMD document means, as values: configuration, tools, and the items of the conversation
#
# Contents are not expanded: a `Doc`, an `Img`, a `SubAgent` says what has to be fetched, and where the element is.


ItemRole = Literal["user", "assistant", "system", "developer"]

# Accepted values of `reasoning_effort`, and the effort that is requested. The published example uses "detailed",
# which asks for detailed summaries and no particular effort; it is read as the most that every provider offers.
EFFORTS = {**{name: name for name in ("none", "minimal", "low", "medium", "high", "xhigh")}, "detailed": "high"}


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """`<config>`; None or empty means not set. `reasoning_effort` is a value of `EFFORTS`."""

    model: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str = ""
    show_tool_call: bool = False
    id: str = ""
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """`<tool>`: a built-in tool, a program, another agent, the tools of an MCP server; or a function of the caller.

    If a declaration stands for several tools, `include` names those that are offered; empty means all. The names of
    an MCP server's tools get the `prefix`; `issuer` is the authorization server that may get the client's secret.
    `roots` are the folders that a file tool, or a command in a `sandbox`, may touch; `cwd` and `env` are the folder
    and the variables of a command; folders are as written, relative to the prompt's folder. `timeout` is in seconds,
    `max_output` in characters; `course` is the folder of a course.
    """

    kind: Literal["builtin", "command", "agent", "mcp", "function"]
    name: str
    description: str = ""
    command: str = ""
    agent: str = ""
    local: bool = False
    server: str = ""
    include: tuple[str, ...] = ()
    strict: bool = False
    client_id_env: str = ""
    client_secret_env: str = ""
    issuer: str = ""
    prefix: str = ""
    roots: tuple[str, ...] = ()
    cwd: str = ""
    sandbox: bool = False
    env: tuple[str, ...] = ()
    timeout: float | None = None
    max_output: int | None = None
    course: str = ""
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DeclaredOutput:
    """`<output>`: a file with the JSON schema that the last reply must fit, and a program that must accept it."""

    schema: str = ""
    check: str = ""
    retries: int = 2
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)

    @property
    def tool(self) -> Tool:
        """The check as a command tool, so that it is run like one."""
        return Tool("command", "<output>", command=self.check, span=self.span)


@dataclass(frozen=True, slots=True)
class Doc:
    """`<doc>`: the text of a document, as it is, stripped of tags, or converted to markdown."""

    tag: ClassVar = "doc"
    src: str
    local: bool = False
    strip: bool = False
    markdown: bool = False
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Img:
    """`<img>`: an image on disk (`local`), inline, or at a URL from which the provider fetches it."""

    tag: ClassVar = "img"
    src: str
    local: bool = False
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SubAgent:
    """`<agent>`: the answer of another ChatMD file, which gets `content` as further user input."""

    tag: ClassVar = "agent"
    src: str
    local: bool = False
    content: tuple[Part, ...] = ()
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


Expandable = Doc | Img | SubAgent
Part = str | Expandable
Content = tuple[Part, ...]


def image_of(img: Img) -> Image | None:
    """Return an image that needs no file: an inline one, or a URL that the provider fetches; None for a local one.

    Raises:
        ChatmdError: an inline image that is not base64.
    """
    data = _DATA_URI.match(img.src)
    if data is None:
        return None if img.local else Image(url=img.src)
    try:
        return Image(base64.b64decode(img.src[data.end() :], validate=True), media_type=data[1] or "image/png")
    except binascii.Error as error:
        raise ChatmdError("this inline image is not base64", where=img.span.where, hint="encode its bytes") from error


@dataclass(frozen=True, slots=True)
class MessageItem:
    """A message of the conversation. `name` is a label; `id` is the provider's id of an assistant's message."""

    role: ItemRole
    content: Content = ()
    name: str = ""
    id: str = ""
    status: str = ""
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)

    @property
    def is_blank(self) -> bool:
        """Whether the message is empty, like the one in which the user is to write.

        >>> MessageItem("user", ("\\n\\n",)).is_blank
        True
        """
        return all(isinstance(part, str) and not part.strip(BLANK) for part in self.content)


@dataclass(frozen=True, slots=True)
class CallItem:
    """A tool call: `arguments` are JSON, or free text if `custom`, as the model wrote them. `signature` is what
    `provider` wants back with it."""

    call: str
    name: str
    arguments: Content
    id: str = ""
    signature: str = ""
    provider: str = ""
    custom: bool = False
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OutputItem:
    """The result of the call with the id `call`. `name` is the function's, if the document gives it here."""

    call: str
    content: Content = ()
    name: str = ""
    failed: bool = False
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """The reasoning that a model showed, as summaries in order."""

    id: str
    summaries: tuple[str, ...] = ()
    status: str = ""
    signature: str = ""
    provider: str = ""
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


Item = MessageItem | CallItem | OutputItem | ReasoningItem


def content_of(item: Item) -> Content:
    """Return the content of an item: of a message or result, or the arguments of a call; empty for reasoning."""
    if isinstance(item, CallItem):
        return item.arguments
    return item.content if isinstance(item, MessageItem | OutputItem) else ()


def text_of(content: Content) -> str:
    """Join the texts of a content; documents, images and agents are left out."""
    return "".join(part for part in content if isinstance(part, str))


def parts_in(content: Content) -> Iterator[Expandable]:
    """Iterate over the documents, images and agents of a content, and those in the content of its agents."""
    for part in content:
        if not isinstance(part, str):
            yield part
        if isinstance(part, SubAgent):
            yield from parts_in(part.content)


def answers_in(items: Sequence[Item]) -> dict[int, int]:
    """Map the index of each call to that of its output. If an id occurs again, calls and outputs pair up in order."""
    unanswered: dict[str, deque[int]] = {}
    found: dict[int, int] = {}
    for index, item in enumerate(items):
        if isinstance(item, CallItem):
            unanswered.setdefault(item.call, deque()).append(index)
        elif isinstance(item, OutputItem) and unanswered.get(item.call):
            found[unanswered[item.call].popleft()] = index
    return found


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The meaning of a document: the model's parameters, the tools, and the conversation so far.

    `imported` names the files that were imported. `unset` has a warning for each ``{{name}}`` that has no value.
    """

    config: AgentConfig = AgentConfig()
    tools: tuple[Tool, ...] = ()
    items: tuple[Item, ...] = ()
    file: str = ""
    imported: frozenset[str] = frozenset()
    inputs: tuple[DeclaredInput, ...] = ()
    output: DeclaredOutput | None = None
    unset: tuple[Problem, ...] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        tools = ", ".join(tool.name or tool.server for tool in self.tools)
        return f"<AgentSpec {self.file or 'in memory'}: {len(self.items)} items; tools: {tools or 'none'}>"

    @property
    def waits_for_user(self) -> bool:
        """Whether it is the user's turn: the last item, if any, is a message, but not a user's with text.

        >>> AgentSpec(items=(MessageItem("user", ("\\n",)),)).waits_for_user
        True
        >>> AgentSpec(items=(MessageItem("user", ("Why?",)),)).waits_for_user
        False
        """
        last = self.items[-1] if self.items else None
        return last is None or (isinstance(last, MessageItem) and (last.role != "user" or last.is_blank))

    @property
    def sent(self) -> tuple[Item, ...]:
        """The items that are sent to a model: all but blank messages."""
        return tuple(item for item in self.items if not (isinstance(item, MessageItem) and item.is_blank))

    @property
    def parts(self) -> Iterator[Expandable]:
        """The documents, images and agents in messages, calls and results, and those inside of these agents."""
        return (part for item in self.items for part in parts_in(content_of(item)))

    def unanswered(self) -> tuple[CallItem, ...]:
        """Return the calls without a later output; a run was interrupted."""
        answers = answers_in(self.items)
        return tuple(item for n, item in enumerate(self.items) if isinstance(item, CallItem) and n not in answers)


WRITING = ("write_file", "append_to_file", "find_and_replace", "apply_patch", "index_markdown_docs")
"""The built-in tools that write: they begin after all calls before them in the same reply."""
_KINDS = {"command": "command", "agent": "agent", "mcp_server": "mcp"}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_DATA_URI = re.compile(r"data:([\w.+/-]*)(?:;[\w=.-]+)*;base64,", re.IGNORECASE)
_CUSTOM = "custom_tool_call"


def read_agent(document: SyntaxTree) -> AgentSpec:
    """Return the agent that a document describes. Unresolved imports are left out: resolve them first.

    Raises:
        InvalidDocument: the document has errors.

    >>> from chatmd.language.syntax import parse
    >>> spec = read_agent(parse('<config model="m"/><tool name="read_file"/><user>Hi <doc src="a" local/></user>'))
    >>> spec.config.model, spec.tools[0].kind, spec.items[0].content
    ('m', 'builtin', ('Hi ', Doc(src='a', local=True, strip=False, markdown=False)))
    """
    spec, found = interpret(document)
    if errors := errors_of((*document.problems, *found)):
        raise InvalidDocument(errors)
    return spec


def interpret(document: SyntaxTree) -> tuple[AgentSpec, tuple[Problem, ...]]:
    """Return the agent as far as it can be read, and the problems of the document; never raises.

    A run reads its document several times, so the tree keeps the result.
    """
    known: tuple[AgentSpec, tuple[Problem, ...]] | None = document.meaning
    if known is not None:
        return known
    reader = _Reader()
    if (at := document.source.text.find("\0")) >= 0:
        span = SourceRange(document.source, at, at + 1)
        reader.problem(span, "this file contains a NUL character", "delete it, to make this a text file")
    for element in document.elements:
        if element.tag == "input":
            reader.input(element)
    reader.values = {one.name: one.value for one in reader.inputs.values() if one.value is not None}
    for node in document.children:
        if isinstance(node, Element) and node.tag in _READERS:
            _READERS[node.tag](reader, node)
        elif isinstance(node, Text) and node.value.strip(BLANK + "\ufeff") and not document.is_body:
            offset = len(node.value) - len(node.value.lstrip(BLANK)) if not node.raw else 0
            span = node.span._replace(start=min(node.span.start + offset, node.span.end))
            tag = re.search(r"</?([A-Za-z_][\w-]{0,30})", node.value)
            hint = "put it in <user>…</user> or another message, or in <!-- … -->"
            if tag and (suggestion := _meant_tag(tag[1])):
                hint = f"did you mean <{suggestion}>?"
            elif node.value.lstrip().startswith("---\n"):
                hint = "if it is a document with questions, run lmm messages; otherwise put the text in <user>…</user>"
            reader.problem(span, "this text is outside of any element, and would not be sent", hint)
    spec = AgentSpec(
        reader.config or AgentConfig(), tuple(reader.tools), tuple(reader.items), file=document.file,
        imported=document.imported, inputs=tuple(reader.inputs.values()), output=reader.output,
        unset=tuple(reader.unset),
    )  # fmt: skip
    known = spec, (*reader.problems, *spec.unset)
    object.__setattr__(document, "meaning", known)
    return known


def attribute_spans(element: Element) -> dict[str, SourceRange]:
    """Return the place of each attribute that an element has in its text; the last one, if a name occurs twice."""
    opening = element.opening
    inside = opening.start + 1 + len(element.tag)
    offsets = attribute_offsets(opening.source.text[inside : opening.end - 1])
    return {name: opening._replace(start=inside + offset) for name, offset in offsets.items()}


def attribute_span(element: Element, name: str) -> SourceRange:
    """Return the place of an attribute; that of the opening tag, if the element does not have it in a text."""
    return attribute_spans(element).get(name, element.opening)


@dataclass(slots=True)
class _Reader:
    """Converts elements to values; problems are collected in `problems`, and reading goes on."""

    config: AgentConfig | None = None
    output: DeclaredOutput | None = None
    tools: list[Tool] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    inputs: dict[str, DeclaredInput] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unset: list[Problem] = field(default_factory=list)

    # -- elements ------------------------------------------------------------------------------------

    def _config(self, element: Element) -> None:
        if self.config is not None:  # the first one counts
            return
        effort = (element.get("reasoning_effort") or "").strip().lower()
        if effort and effort not in EFFORTS:
            self._bad(element, "reasoning_effort", "is not a reasoning effort", f"one of {', '.join(EFFORTS)}")
        values = self._values(element) | {"reasoning_effort": EFFORTS.get(effort, "")}
        self.config = AgentConfig(**values, span=element.span)

    def _tool(self, element: Element) -> None:
        values = element.values
        kinds = [name for name in _KINDS if name in values]
        name = values.get("name", "").strip()
        if len(kinds) > 1:
            self.problem(
                attribute_span(element, kinds[1]), f"a tool cannot have both {' and '.join(kinds)}", "keep one of them"
            )
        if kinds and not values[kinds[0]].strip():
            self._bad(element, kinds[0], "is empty", "add the missing attribute")
        if not name and kinds[:1] != ["mcp_server"]:
            self.problem(element.span, "this tool has no name", 'write name="…"')
        elif name and any(tool.name == name for tool in self.tools):
            self._bad(element, "name", "is the name of another tool", "give each its own")
        fields, kind = self._values(element), cast(Any, _KINDS[kinds[0]] if kinds else "builtin")
        include, includes = fields.pop("include"), fields.pop("includes")
        include = (name,) if name and kind == "mcp" else include or includes  # the most specific
        fields |= {"server": fields.pop("mcp_server"), "include": include}
        tool = Tool(kind, span=element.span, **fields)
        if tool.sandbox and kind != "command":
            self._bad(element, "sandbox", "is for commands", "leave it out")
        if kind == "agent" and tool.agent and not tool.local and not _URL.match(tool.agent):
            self._bad(element, "agent", "is not a URL", "write 'local' for a file on disk", error=False)
        self.tools.append(tool)

    def input(self, element: Element) -> None:
        """Add the input that an ``<input>`` declares; of several with the same name, one that has a value counts."""
        values = element.values
        name, kind = self._required(element, "name", may_be_empty=False).strip(), values.get("type", "string")
        if kind not in TYPES:
            self._bad(element, "type", "is not a type", f"one of {', '.join(TYPES)}")
            kind = "string"
        value = values.get("value", values.get("default"))
        made = DeclaredInput(name, kind, values.get("description", ""), value, element.span)
        if value is not None and not made.accepts(value):
            self._bad(element, "value" if "value" in values else "default", f"is not of the type {kind}", "correct it")
        if name not in self.inputs or "value" in values:
            self.inputs[name] = made

    def _output(self, element: Element) -> None:
        schema, check = ((element.get(name) or "").strip() for name in ("schema", "check"))
        if not schema and not check:
            self.problem(element.span, "this <output> asks for nothing", 'write schema="….json" or check="…"')
        retries = 0 if element.get("retries") == "0" else self._integer(element, "retries")
        self.output = DeclaredOutput(schema, check, 2 if retries is None else retries, element.span)

    def _msg(self, element: Element) -> None:
        role = (element.get("role") or "").strip().lower()
        if not element.has("role"):
            self.problem(element.span, "this message has no role", f'write role="…": {", ".join(ROLES)}')
        elif role not in ROLES:
            self._bad(element, "role", "is not a role", f"one of {', '.join(ROLES)}")
        elif role == "tool":
            self._response(element)
        elif role == "assistant" and self._flag(element, "tool_call"):
            self._call(element)
        else:
            self._message(element, role)

    def _message(self, element: Element, role: str = "") -> None:
        texts = _texts(element, "name", "id", "status")
        said_by = cast(ItemRole, role or element.tag)
        self.items.append(MessageItem(said_by, self._content(element), **texts, span=element.span))

    def _call(self, element: Element) -> None:
        arguments = self._content(element)
        if not any(not isinstance(part, str) or part.strip(BLANK) for part in arguments):
            self.problem(element.span, "this call has no arguments", "write {} for none", error=False)
        call, name = (self._required(element, attribute) for attribute in ("tool_call_id", "function_name"))
        texts, custom = _texts(element, "id", "signature", "provider"), element.get("type") == _CUSTOM
        self.items.append(CallItem(call, name, arguments, **texts, custom=custom, span=element.span))

    def _response(self, element: Element) -> None:
        call, content = self._required(element, "tool_call_id"), self._content(element)
        texts, failed = _texts(element, "name"), element.get("status") == "failed"
        self.items.append(OutputItem(call, content, **texts, failed=failed, span=element.span))

    def _reasoning(self, element: Element) -> None:
        summaries = list[str]()
        for part in body(element.children):
            if isinstance(part, str):
                summaries += [part.strip(BLANK)] if part.strip(BLANK) else []
            elif part.tag == "summary":  # without the white space around it; text in RAW is kept as it is
                texts = [node for node in part.children if isinstance(node, Text)]
                value = "".join(node.value for node in texts)
                summaries.append(value if any(node.raw for node in texts) else value.strip(BLANK))
        more = _texts(element, "status", "signature", "provider")
        self.items.append(ReasoningItem(self._required(element, "id"), tuple(summaries), **more, span=element.span))

    # -- contents ------------------------------------------------------------------------------------

    def _content(self, element: Element) -> Content:
        parts = body(map(self._filled, element.children))
        return tuple(value for part in parts if (value := self._part(part)) is not None)

    def _filled(self, node: Node) -> Node:
        """Fill in the values of inputs; names without a value are added to `unset`."""
        if not isinstance(node, Text) or not node.plain:
            return node
        for name, *_ in slots_in(node):
            if name not in self.values:
                hint = f"lmm run --set {name}=…" if name in self.inputs else f'declare it: <input name="{name}"/>'
                found = re.search(rf"\{{\{{[ \t]*{name}[ \t]*\}}\}}", node.span.text)
                span = node.span._replace(start=node.span.start + (found.start() if found else 0))
                message = f"{{{{{name}}}}} is not set, so the model gets it literally"
                self.unset.append(Problem(span, message, f"{hint}; as text, put it in RAW|…|RAW", "warning"))
        return fill(node, self.values)

    def _part(self, part: str | Element) -> Part | None:
        """Return a part of a message, or None for an element that means nothing there."""
        if isinstance(part, str):
            return part
        if part.tag == "doc":
            return Doc(*self._src(part), self._flag(part, "strip"), self._flag(part, "markdown"), part.span)
        if part.tag == "agent":
            return SubAgent(*self._src(part), self._content(part), part.span)
        if part.tag != "img":
            return None
        src, local = self._src(part)
        img = Img(src, local and not _DATA_URI.match(src), part.span)
        try:
            image_of(img)
        except ChatmdError as error:
            self.problem(img.span, error.message, error.hint)
        return img

    def _src(self, element: Element) -> tuple[str, bool]:
        src, local = self._required(element, "src", may_be_empty=False), self._flag(element, "local")
        if src and local and src.lower().startswith(("http://", "https://")):
            self._bad(element, "src", "is a URL, and 'local' says that it is a file", "delete 'local'", error=False)
        elif src and not local and not _URL.match(src):
            self._bad(element, "src", "is not a URL", "write 'local' for a file on disk", error=False)
        return src, local

    # -- attributes ----------------------------------------------------------------------------------

    def _required(self, element: Element, name: str, *, may_be_empty: bool = True) -> str:
        value = element.get(name)
        if value is None:
            self.problem(element.span, f"<{element.tag}> has no {name}", f'write {name}="…"')
        elif not value.strip() and not may_be_empty:
            self._bad(element, name, "is empty", "give it a value")
        return value or ""

    def _flag(self, element: Element, name: str) -> bool:
        """Return whether a flag is set; ``"false"`` clears it, unlike in the reference, but for ``local``."""
        if (element.get(name) or "").strip().lower() != "false":
            return element.has(name)
        what, hint = "counts as not set", "delete it: other programs read its presence as true"
        if name == "local":
            what, hint = "sets the flag", "leave it out for a URL"
        self._bad(element, name, what, hint, error=False)
        return name == "local"

    def _values(self, element: Element) -> dict[str, Any]:
        """Return the attributes by their kinds in `TAGS`: stripped texts, lists, flags, numbers."""
        values = element.values
        readers: dict[str, Callable[[Element, str], Any]] = {
            "text": lambda element, name: values.get(name, "").strip(),
            "list": lambda element, name: tuple(filter(None, map(str.strip, values.get(name, "").split(",")))),
            "flag": self._flag,
            "integer": self._integer,
            "number": self._number,
        }
        return {rule.name: readers[rule.kind](element, rule.name) for rule in TAGS[element.tag].attributes}

    def _integer(self, element: Element, name: str) -> int | None:
        number = self._number(element, name)
        if number is None or (number == int(number) and number > 0):
            return None if number is None else int(number)
        self._bad(element, name, "is not a whole number above 0", 'write it as in max_tokens="1024"')
        return None

    def _number(self, element: Element, name: str) -> float | None:
        written = element.get(name)
        if written is None:
            return None
        try:
            number = float(written)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and number >= 0:
            return number
        self._bad(element, name, "is not a number", "write digits, such as 0.2 or 1024")
        return None

    # -- problems ------------------------------------------------------------------------------------

    def _bad(self, element: Element, name: str, what: str, hint: str, *, error: bool = True) -> None:
        self.problem(attribute_span(element, name), f'{name}="{element.get(name) or ""}" {what}', hint, error=error)

    def problem(self, span: SourceRange, message: str, hint: str, *, error: bool = True) -> None:
        """Add a problem."""
        self.problems.append(Problem(span, message, hint, "error" if error else "warning"))


_READERS: dict[str, Callable[[_Reader, Element], None]] = {
    "config": _Reader._config,
    "tool": _Reader._tool,
    "output": _Reader._output,
    "msg": _Reader._msg,
    **dict.fromkeys(("user", "assistant", "system", "developer"), _Reader._message),
    "tool_call": _Reader._call,
    "tool_response": _Reader._response,
    "reasoning": _Reader._reasoning,
}


def _texts(element: Element, *names: str) -> dict[str, Any]:
    """Return the named attributes as written; an empty text for those that are missing."""
    return {name: element.get(name) or "" for name in names}


@lru_cache(maxsize=1000)
def _meant_tag(name: str) -> str:
    """Return the element that may be meant by a tag outside of elements, or nothing."""
    close = next(iter(get_close_matches(name.lower(), list(_READERS), n=1, cutoff=0.75)), "")
    return close if close != name else ""
