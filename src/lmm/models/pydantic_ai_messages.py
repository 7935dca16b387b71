"""Our port's messages in pydantic-ai's form, and the parts of its responses in ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic_ai import messages as vendor
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition as VendorTool

from lmm.messages import (
    ChatEvent,
    ChatRequest,
    Image,
    Message,
    Reasoning,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolResult,
    encodable,
    message_parts,
    render,
)


def history_of(messages: Sequence[Message], *, thinking_of: str = "") -> list[vendor.ModelMessage]:
    """The conversation; neighbours of the same side become one request, as vendors want it.

    `thinking_of` names the provider whose reasoning is sent back, where it can recognise it; any other
    reasoning would go out as text of the answer, and is left out.
    """
    history: list[vendor.ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            history.append(vendor.ModelResponse(parts=_response_parts(message, thinking_of)))
            continue
        parts = _request_parts(message)
        if history and isinstance(history[-1], vendor.ModelRequest):
            history[-1] = vendor.ModelRequest(parts=[*history[-1].parts, *parts])
        else:
            history.append(vendor.ModelRequest(parts=parts))
    return history


def _response_parts(message: Message, thinking_of: str) -> list[vendor.ModelResponsePart]:
    known = [r for r in message.reasoning if thinking_of and r.provider == thinking_of and (r.id or r.signature)]
    parts: list[vendor.ModelResponsePart] = [
        vendor.ThinkingPart(r.text, id=r.id or None, signature=r.signature or None, provider_name=r.provider)
        for r in known
    ]
    if (text := _whole_text(message)) or not message.calls:
        parts.append(vendor.TextPart(text))
    parts += [vendor.ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.calls]
    return parts


def _whole_text(message: Message) -> str:
    return "\n".join(part for part in message_parts(message) if isinstance(part, str))


def _request_parts(message: Message) -> list[vendor.ModelRequestPart]:
    if message.role == "tool":
        return [_tool_return(result) for result in message.results]
    if message.role in ("system", "developer"):
        return [vendor.SystemPromptPart(_whole_text(message))]
    if not message.content:
        return [vendor.UserPromptPart(render(message))]
    parts = message_parts(message)
    return [vendor.UserPromptPart([part if isinstance(part, str) else _image(part) for part in parts])]


def _image(image: Image) -> vendor.ImageUrl | vendor.BinaryContent:
    if image.url:
        return vendor.ImageUrl(image.url)  # passed through: the provider fetches it, never we
    return vendor.BinaryContent(image.data, media_type=image.media_type)


def _tool_return(result: ToolResult) -> vendor.ToolReturnPart:
    images = [vendor.BinaryContent(i.data, media_type=i.media_type) for i in result.images if i.data]
    content = [result.text, *images] if images else result.text
    part = vendor.ToolReturnPart(result.name, content, tool_call_id=result.call)
    return replace(part, outcome="failed") if result.failed else part


def parameters_of(request: ChatRequest) -> ModelRequestParameters:
    """The tools that are offered, and the schema that the reply has to fit."""
    tools = [
        VendorTool(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(tool.parameters),
            strict=tool.strict or None,
        )
        for tool in request.tools
    ]
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    wanted = OutputObjectDefinition(json_schema=dict(request.schema), name="reply")
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=wanted)


def event_of(event: object) -> ChatEvent | None:
    """What a vendor's stream event says, if anything. The first piece of a part is in its start event."""
    match event:
        case vendor.PartStartEvent(part=vendor.TextPart(content=text, id=item)) if text or item:
            return TextDelta(text, item or "")
        case vendor.PartDeltaEvent(delta=vendor.TextPartDelta(content_delta=text)) if text:
            return TextDelta(text)
        case vendor.PartStartEvent(part=vendor.ThinkingPart(content=text)) if text:
            return ReasoningDelta(encodable(text))
        case vendor.PartDeltaEvent(delta=vendor.ThinkingPartDelta(content_delta=str(text))) if text:
            return ReasoningDelta(encodable(text))
        case vendor.PartEndEvent(part=vendor.ToolCallPart() as part):
            return call_of(part)
    return None


def is_thinking(event: object) -> bool:
    """Whether a vendor's stream event belongs to a thought: a seal, too, which has no text."""
    match event:
        case (
            vendor.PartStartEvent(part=vendor.ThinkingPart()) | vendor.PartDeltaEvent(delta=vendor.ThinkingPartDelta())
        ):
            return True
    return False


def call_of(part: vendor.ToolCallPart) -> ToolCall:
    """A call; a model that gives no arguments means an empty object."""
    arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
    return ToolCall(part.tool_call_id, part.tool_name, encodable(arguments.strip() or "{}"), part.id or "")


def reasoning_of(part: vendor.ThinkingPart) -> Reasoning:
    """What a response tells of the model's thinking."""
    return Reasoning(encodable(part.content), part.id or "", part.signature or "", part.provider_name or "")


_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTagParser:
    """Takes a thought out of the beginning of a text, where a server leaves it between tags.

    >>> text = ThinkTagParser()
    >>> events = [event for piece in ("<thi", "nk>Hm", ".</th", "ink>\\n\\nA leaf", ".") for event in text.feed(piece)]
    >>> [event.text for event in events], text.thought
    (['Hm', '.', 'Hm.', 'A leaf', '.'], 'Hm.')
    """

    def __init__(self) -> None:
        self.thought = ""
        self._held, self._next = "", self._begin

    def feed(self, piece: str) -> Iterator[ChatEvent]:
        """What is known by now to be a thought, or text."""
        self._held += piece
        return self._next()

    def end(self, text: str) -> tuple[list[ChatEvent], str]:
        """What was held back; and the whole `text` without the thought."""
        late: list[ChatEvent] = [TextDelta(self._held)] if self._held and self._next == self._begin else []
        if self._next == self._think:
            return late, ""
        return late, text.partition(_CLOSE)[2].lstrip() if self.thought else text

    def _begin(self) -> Iterator[ChatEvent]:
        start = self._held.lstrip()
        if start.startswith(_OPEN):
            self._held, self._next = start.removeprefix(_OPEN), self._think
            yield from self._think()
        elif not _OPEN.startswith(start):
            self._next = self._tell
            yield from self._tell()

    def _think(self) -> Iterator[ChatEvent]:
        thought, closed, rest = self._held.partition(_CLOSE)
        if not closed:
            begun = next((n for n in range(len(_CLOSE) - 1, 0, -1) if thought.endswith(_CLOSE[:n])), 0)
            thought, rest = thought[: len(thought) - begun], thought[len(thought) - begun :]
        self._held, self.thought = rest, self.thought + thought
        if thought:
            yield ReasoningDelta(encodable(thought))
        if closed:
            self.thought = encodable(self.thought.strip())
            self._next = self._after
            yield Reasoning(self.thought)
            yield from self._after()

    def _after(self) -> Iterator[ChatEvent]:
        self._held = self._held.lstrip()
        if self._held:
            self._next = self._tell
            yield from self._tell()

    def _tell(self) -> Iterator[ChatEvent]:
        text, self._held = self._held, ""
        yield TextDelta(text)
