"""What a ChatMD document means, as values: configuration, tools, and the items of the conversation.

Contents are not expanded: a `Doc`, an `Img`, a `SubAgent` says what has to be fetched, and where it stands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from chatmd.language.nodes import BLANK, NOWHERE, Span

ItemRole = Literal["user", "assistant", "system", "developer"]

# What can be asked of a model's reasoning. The published example says "detailed", which asks for detailed
# summaries and no particular effort; it is read as the most that every provider offers.
EFFORTS = {
    **{name: name for name in ("none", "minimal", "low", "medium", "high", "xhigh")},
    "detailed": "high",
}


@dataclass(frozen=True, slots=True)
class Config:
    """`<config>`; what is None or empty was not said. `reasoning_effort` is a value of `EFFORTS`."""

    model: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str = ""
    show_tool_call: bool = False
    id: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """`<tool>`: a built-in one by its name, a program, another agent, or tools of an MCP server.

    Of a declaration that stands for several tools, `include` names those that are offered; none means all. An
    MCP server's get names that begin with `prefix`; `issuer` is who may see its client's secret. `roots` are the
    folders that a file tool may touch, `cwd` and `env` folder and variables of a command, all relative to the
    prompt's folder and as written; `timeout` is in seconds, `max_output` in characters; `course` is the folder of
    a course.
    """

    kind: Literal["builtin", "command", "agent", "mcp"]
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
    env: tuple[str, ...] = ()
    timeout: float | None = None
    max_output: int | None = None
    course: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Doc:
    """`<doc>`: the text of a document. Stripped of tags or converted to markdown, not both."""

    src: str
    local: bool = False
    strip: bool = False
    markdown: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Img:
    """`<img>`: an image on disk (`local`), or the address that the provider fetches it from."""

    src: str
    local: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SubAgent:
    """`<agent>`: the answer of another ChatMD file, with `content` as further input of its user."""

    src: str
    local: bool = False
    content: tuple[Part, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Part = str | Doc | Img | SubAgent
Content = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class MessageItem:
    """What somebody said. `name` is a label; `id` the provider's, of an assistant's message."""

    role: ItemRole
    content: Content = ()
    name: str = ""
    id: str = ""
    status: str = ""
    phase: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def is_blank(self) -> bool:
        """Whether nothing is said: the place where the user is to write.

        >>> MessageItem("user", ("\\n\\n",)).is_blank
        True
        """
        return all(isinstance(part, str) and not part.strip(BLANK) for part in self.content)


@dataclass(frozen=True, slots=True)
class CallItem:
    """A call of a tool: `arguments` are JSON, or with `custom` free text, as the model wrote them."""

    call: str
    name: str
    arguments: Content
    id: str = ""
    custom: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OutputItem:
    """What the call with the id `call` returned. `name` is the function's, if it is told here."""

    call: str
    content: Content = ()
    name: str = ""
    failed: bool = False
    custom: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """What a model thought, in the order in which it thought."""

    id: str
    summaries: tuple[str, ...] = ()
    status: str = ""
    signature: str = ""
    provider: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Item = MessageItem | CallItem | OutputItem | ReasoningItem


def references(item: Item) -> Iterator[Doc | Img | SubAgent]:
    """What an item refers to and does not hold itself."""
    if isinstance(item, CallItem):
        content = item.arguments
    else:
        content = item.content if isinstance(item, MessageItem | OutputItem) else ()
    for part in content:
        if not isinstance(part, str) and not (isinstance(part, Img) and (not part.local or is_inline(part))):
            yield part


def is_inline(img: Img) -> bool:
    """Whether an image stands in the text itself."""
    return img.src[:5].lower() == "data:"


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """What a document means: how the model is called, its tools, and the conversation so far.

    `imported` names the files that parts of it come from.
    """

    config: Config = Config()
    tools: tuple[Tool, ...] = ()
    items: tuple[Item, ...] = ()
    file: str = ""
    imported: frozenset[str] = frozenset()

    @property
    def waits_for_user(self) -> bool:
        """Whether it is the user's turn: what comes last is no question, and no result for the model.

        >>> AgentSpec(items=(MessageItem("user", ("\\n",)),)).waits_for_user
        True
        >>> AgentSpec(items=(MessageItem("user", ("Why?",)),)).waits_for_user
        False
        """
        last = self.items[-1] if self.items else None
        return last is None or (isinstance(last, MessageItem) and (last.role != "user" or last.is_blank))

    def unanswered(self) -> tuple[CallItem, ...]:
        """The calls that no later output answers: a run was interrupted. Ids may come again and again."""
        waiting: dict[str, deque[CallItem]] = {}
        for item in self.items:
            if isinstance(item, CallItem):
                waiting.setdefault(item.call, deque()).append(item)
            elif isinstance(item, OutputItem) and waiting.get(item.call):
                waiting[item.call].popleft()
        left = {id(item) for items in waiting.values() for item in items}
        return tuple(item for item in self.items if id(item) in left and isinstance(item, CallItem))
