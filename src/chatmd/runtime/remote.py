"""What an agent that comes from a URL may do: answer, and no more than that unless it was allowed."""

from __future__ import annotations

from dataclasses import replace

from chatmd.errors import ChatmdError
from chatmd.language.items import AgentSpec, CallItem, Doc, Img, MessageItem, OutputItem, Part, SubAgent
from chatmd.language.nodes import Element, Node, Span, SyntaxTree


def confined(spec: AgentSpec, *, tools: bool) -> AgentSpec:
    """The agent without its tools, unless `tools` allows them.

    Raises:
        ChatmdError: it refers to files on this machine.

    >>> from chatmd.language.agent import read_agent
    >>> from chatmd.language.parser import parse
    >>> confined(read_agent(parse('<tool name="read_file"/><user>Hi</user>')), tools=False).tools
    ()
    """
    for item in spec.items:
        if isinstance(item, CallItem):
            _refuse_local(item.arguments)
        elif isinstance(item, MessageItem | OutputItem):
            _refuse_local(item.content)
    if tools:
        for tool in spec.tools:
            if tool.local:
                raise _refusal(tool.agent, tool.span)
        return spec
    return replace(spec, tools=())


def refuse_imports(document: SyntaxTree) -> None:
    """See to it that nothing is imported.

    Raises:
        ChatmdError: something would be.
    """
    for element in _imports(document.children):
        raise _refusal(element.get("src") or "", element.span)


def _imports(children: tuple[Node, ...]) -> list[Element]:
    elements = [node for node in children if isinstance(node, Element)]
    return [found for one in elements for found in ([one] if one.tag == "import" else _imports(one.children))]


def _refuse_local(content: tuple[Part, ...]) -> None:
    for part in content:
        if isinstance(part, Doc | Img | SubAgent) and part.local:
            raise _refusal(part.src, part.span)
        if isinstance(part, SubAgent):
            _refuse_local(part.content)


def _refusal(src: str, span: Span) -> ChatmdError:
    return ChatmdError(
        f"an agent that comes from a URL may not read '{src}' on this machine", where=span.where,
        hint="save it to a file, if you trust it",
    )  # fmt: skip
