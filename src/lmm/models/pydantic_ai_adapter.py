"""The adapter to model vendors: our port, implemented with pydantic-ai's direct request API.

Imported only when a model is called: importing pydantic-ai takes about a second. Facts it works
around (each was seen on the wire): a bare ``openai:`` name would use the Responses API; ``max_tokens``
must be sent under its old name to local servers or Ollama ignores it; thinking parts would be sent back
to the model as text; the first piece of a stream arrives in the start event of its part; one model
object must stay on one event loop; connections are closed only by leaving the model. Whether a stream came
to its end is seen in `lmm.models.event_stream`.
"""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from pydantic_ai import exceptions, messages as vendor
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings as VendorSettings
from pydantic_ai.tools import ToolDefinition as VendorTool

from lmm import errors
from lmm.config import ModelSettings
from lmm.extras import install_command
from lmm.messages import (
    ChatEvent,
    ChatRequest,
    Image,
    Message,
    Reasoning,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    encodable,
    message_parts,
    render,
)
from lmm.models.event_stream import watching
from lmm.models.tokens import estimated
from lmm.providers import PROVIDERS, ModelName
from lmm.terminal import clipped

Opener = Callable[[str, str | None, str | None], Model]


def _openai(model: str, base_url: str | None, api_key: str | None, *, responses: bool = False) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=base_url, api_key=api_key or "no-key")
    provider.client.max_retries = 0  # retries are ours: lmm.models.chat
    return (OpenAIResponsesModel if responses else OpenAIChatModel)(model, provider=provider)


def _compatible(model: str, base_url: str | None, api_key: str | None) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=False,
        openai_supports_strict_tool_definition=False,
        openai_chat_supports_multiple_system_messages=False,
        supports_json_schema_output=True,
    )
    profile["thinking_tags"] = cast(Any, None)  # tags are taken out here: these count only as pieces by themselves
    provider = OpenAICompatibleProvider("local", base_url=base_url or "", api_key=api_key or "no-key", profile=profile)
    provider.client.max_retries = 0
    return OpenAIChatModel(model, provider=provider)


_responses = partial(_openai, responses=True)
"""OpenAI's Responses protocol: the reasoning of its models can be sent back to them."""


def _vendor(name: str, model: str, base_url: str | None, api_key: str | None) -> Model:
    """Make a model of Anthropic, Google or Mistral, whose classes in pydantic-ai are named alike."""
    models, providers = (importlib.import_module(f"pydantic_ai.{part}.{name.lower()}") for part in _PARTS)
    provider = getattr(providers, f"{name}Provider")(base_url=base_url, api_key=api_key)
    if name == "Anthropic":
        provider.client.max_retries = 0
    opened: Model = getattr(models, f"{name}Model")(model, provider=provider)
    return opened


_PARTS = ("models", "providers")
OPENERS: dict[str, Opener] = {
    "OpenAI": _openai,
    **{name: partial(_vendor, name) for name in ("Anthropic", "Google", "Mistral")},
}
"""Providers with a protocol of their own; every other server uses OpenAI's Chat Completions."""
# Providers that speak OpenAI's protocols: `reasoning_effort` goes out under its own name.
_OPENAI_LIKE = (_openai, _compatible, _responses)
PARAMETERS = ("top_p", "top_k", "seed", "presence_penalty", "frequency_penalty", "stop_sequences")
"""The parameters that can be sent to Google and Mistral, whose libraries send no others."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


class PydanticAIModel:
    """A vendor's model behind our port.

    Raises (from `stream`): children of `lmm.errors.ModelError` only.
    """

    def __init__(self, settings: ModelSettings) -> None:
        name, effort = settings.model, settings.reasoning_effort
        self._name = name
        self._base_url = settings.base_url or None
        self._api_key = settings.api_key.reveal() if settings.api_key else None
        self.last_sign = 0.0  # of the server, in the time of `time.monotonic`
        self._refused: set[str] = set()  # schemas that the server does not accept
        given = {"temperature": settings.temperature, "max_tokens": settings.max_tokens}
        self._settings = cast(VendorSettings, {key: value for key, value in given.items() if value is not None})
        opener = OPENERS.get(name.provider, _compatible)
        self._api = settings.api if opener in _OPENAI_LIKE else ""
        if self._api == "responses":
            opener = _responses
        self._settings |= _effort(name, effort, openai_like=opener in _OPENAI_LIKE)
        self._settings |= _sent_as_is(
            name, settings.parameters, takes_all=opener in _OPENAI_LIKE or name.provider == "Anthropic"
        )
        try:
            self._model = opener(name.model, self._base_url, self._api_key)
        except ImportError as error:
            extra = PROVIDERS[name.provider.lower()].extra or "openai"
            missing = f"{name} needs a package that is not installed"
            raise errors.ModelNotInstalled(missing, hint=install_command(extra)) from error

        reasons = self._model.profile.get("openai_supports_reasoning", False) and effort not in ("", "none")
        if reasons and settings.temperature is not None:  # pydantic-ai would drop it with a warning
            raise errors.ModelRejected(
                f"{name} accepts no temperature while it reasons", hint="leave out 'temperature' or 'reasoning_effort'"
            )

    @property
    def name(self) -> str:
        """The model's name, ``Provider/model``."""
        return str(self._name)

    def _heard(self) -> None:
        self.last_sign = time.monotonic()

    @property
    def _returns_thinking(self) -> bool:
        """Whether the protocol can carry earlier reasoning; otherwise it would be sent back to the model as text."""
        sealed = self._model.profile.get("openai_supports_encrypted_reasoning_content", False)
        return bool(sealed) if self._api == "responses" else self._name.provider in ("Anthropic", "Google")

    def connected(self) -> AbstractAsyncContextManager[object]:
        """Keep connections open: opening one takes 20 ms, mostly for certificates. Entries are counted and may nest."""
        return self._model

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Send a request; yield pieces as they arrive, thoughts and calls when they are complete, then one `Reply`.

        A schema that the server refuses is left out: the request is repeated without it, as are all later ones.
        """
        schema = "" if request.schema is None else json.dumps(request.schema)
        if schema and (schema in self._refused or not self._model.profile.get("supports_json_schema_output")):
            schema, request = "", replace(request, schema=None)
        told = False
        try:
            async with aclosing(self._untagged(request)) as events:
                async for event in events:
                    told = True
                    yield event
            return
        except errors.ModelRejected as error:
            refused = isinstance(error.__cause__, exceptions.ModelHTTPError) and not isinstance(error, errors.TooLong)
            if not schema or told or not refused:
                raise
            refusal = error
        try:
            async with aclosing(self._untagged(replace(request, schema=None))) as events:
                async for event in events:
                    yield event
        except errors.ModelRejected:
            raise refusal from None  # the schema was not the reason
        self._refused.add(schema)

    async def _untagged(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Stream as `_stream` does, with a thought that a server leaves between tags removed from the text."""
        text = ThinkTagParser()
        async with aclosing(self._stream(request)) as events:
            async for event in events:
                if isinstance(event, TextDelta) and self._api == "chat":
                    for one in text.feed(event.text):
                        yield one
                elif isinstance(event, Reply) and self._api == "chat":
                    late, whole = text.end(event.text)
                    for one in late:
                        yield one
                    thoughts = (*event.reasoning, Reasoning(text.thought)) if text.thought else event.reasoning
                    yield replace(event, text=whole, reasoning=thoughts)
                else:
                    yield event

    async def _stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        # The next request repeats a conversation; of a single question, only the instructions may be repeated.
        goes_on = bool(request.tools) or any(message.role == "assistant" for message in request.messages)
        settings = VendorSettings(cache=True if goes_on else {"messages": False}) | self._settings
        if request.tools:  # else some servers refuse the field
            settings["parallel_tool_calls"] = True
        try:
            # Entering the model opens its connections; they are closed when no call of it is in flight.
            async with (
                self._model,
                model_request_stream(
                    watching(self._model, self.name, self._heard),
                    history_of(request.messages, thinking_of=self._model.system if self._returns_thinking else ""),
                    model_settings=settings,
                    model_request_parameters=parameters_of(request),
                ) as stream,
            ):
                told, thinks = 0, False  # thoughts that were told whole; whether there may be others
                circles = RepetitionGuard(self.name)
                async for event in stream:
                    thinks = thinks or is_thinking(event)
                    ours = event_of(event)
                    if isinstance(ours, TextDelta | ReasoningDelta):
                        circles.hear(ours.text)
                    if thinks and isinstance(ours, TextDelta | ToolCall):
                        for thought in _thoughts(stream.get())[told:]:
                            told, thinks = told + 1, False
                            yield thought
                    if ours:
                        yield ours
                reply = self._reply(stream.get(), request)
                for thought in reply.reasoning[told:]:
                    yield thought
                yield reply
        except exceptions.ModelAPIError as error:
            raise self._translate(error) from error
        except (exceptions.UnexpectedModelBehavior, exceptions.UserError) as error:
            raise errors.ModelRejected(f"{self.name}: {error}", hint="see the server's log") from error

    def _reply(self, response: ModelResponse, request: ChatRequest) -> Reply:
        ended = response.finish_reason is not None or self._api == "chat"
        if not ended and (response.text or response.tool_calls or not response.parts):
            raise errors.ModelUnavailable(f"{self.name} broke off in the middle of its reply", hint="try again")
        if response.finish_reason == "content_filter":
            raise errors.ModelRejected(
                f"{self.name}: the provider's filter stopped the reply", hint="ask in other words"
            )
        used = response.usage
        usage = Usage(used.input_tokens, used.output_tokens, _cost(response), 1, cached_tokens=used.cache_read_tokens)
        reply = Reply(
            response.text or "",
            self.name,
            usage,
            cut=response.finish_reason == "length",
            calls=tuple(call_of(part) for part in response.tool_calls),
            reasoning=_thoughts(response),
            item=next((part.id for part in response.parts if isinstance(part, TextPart) and part.id), ""),
        )
        return reply if usage.input_tokens or usage.output_tokens else replace(reply, usage=estimated(request, reply))

    def _translate(self, error: exceptions.ModelAPIError) -> errors.ModelError:
        message = f"{self.name}: {_summary(error)}"
        if self._api_key and len(self._api_key) > 7:  # some servers quote the key that they refuse
            message = message.replace(self._api_key, "…")
        if isinstance(error, exceptions.ModelContextWindowExceededError) or _TOO_LONG.search(message):
            return errors.TooLong(message, hint=_SHORTER, window=_window_in(error, message))
        for kinds, make, hint in _ERRORS:
            if isinstance(error, kinds):
                return make(
                    message, hint=hint.format(url=self._base_url or "its usual address"), retry_after=error.retry_after
                )
        # Without a category: an error event in the stream, or a stream that ended too early.
        return errors.ModelUnavailable(message, hint="try again later", retry_after=error.retry_after)


_CIRCLE, _PERIOD, _TIMES, _END = 2_000, 1_000, 4, 40
# A token of the model's template, at which its server should have ended the reply, again and again.
_TEMPLATE_TOKENS = re.compile(r"(?:<\|[^\s<|>]{1,30}\|>\s*+){20}\Z")


@dataclass(slots=True)
class RepetitionGuard:
    """A detector of endless repetition in the text or reasoning of a model."""

    model: str
    said: int = 0
    end: str = ""

    def hear(self, text: str) -> None:
        """Check the next piece.

        Raises:
            ModelRejected: the model repeats itself without end.
        """
        before, self.said, self.end = self.said, self.said + len(text), (self.end + text)[-2 * _TIMES * _PERIOD :]
        of_template = "|>" in text and _TEMPLATE_TOKENS.search(self.end[-_PERIOD:])
        if of_template or (before // _CIRCLE != self.said // _CIRCLE and goes_in_circles(self.end)):
            raise errors.ModelRejected(
                f"{self.model} repeated itself and was stopped",
                hint="rephrase the prompt, or use another model",
            )


def goes_in_circles(text: str) -> bool:
    """Return whether a text ends in 2,000 or more characters that repeat one piece at least four times, or are blank.

    >>> goes_in_circles("Well:" + " The leaf is green." * 200), goes_in_circles(" ".join(map(str, range(1000))))
    (True, False)
    """
    if not text[-_CIRCLE:].strip():
        return len(text) >= _CIRCLE
    words = " ".join(text.split())
    near = words[-_PERIOD - _END :]
    again = re.finditer(f"(?={re.escape(near[-_END:])})", near[:-1])  # repetition is possible only where the end recurs
    periods = (len(near) - _END - found.start() for found in again)
    ends = ((period, words[-max(_CIRCLE, _TIMES * period) :]) for period in periods)
    return any(len(end) >= max(_CIRCLE, _TIMES * period) and end[period:] == end[:-period] for period, end in ends)


_ERRORS: list[tuple[tuple[type[Exception], ...], type[errors.ModelError], str]] = [
    ((exceptions.ModelAuthenticationError,), errors.ModelKeyMissing, "check the API key: lmm status"),
    ((exceptions.ModelNotFoundError,), errors.ModelNotFound, "check the model's name and the server: lmm status"),
    ((exceptions.ModelQuotaExceededError,), errors.ModelRejected, "the account's quota or credit is used up"),
    ((exceptions.ModelRateLimitError,), errors.ModelBusy, "try again later"),
    (
        (exceptions.ModelTimeoutError, exceptions.ModelRequestTimeout),
        errors.ModelTimeout,
        "try again, or set a longer 'timeout'",
    ),
    ((exceptions.ModelConnectionError,), errors.ModelUnavailable, "is the server running at {url}?"),
    ((exceptions.ModelUnavailableError, exceptions.ModelServerError), errors.ModelUnavailable, "try again later"),
    ((exceptions.ModelHTTPError,), errors.ModelRejected, "change the request or the model"),
]


_SHORTER = "the text is too long for this model: ask about a smaller part, or set a model with a larger window"
# Servers that pydantic-ai does not know by their code: llama.cpp, Ollama, LM Studio, vLLM, text-generation-inference.
_TOO_LONG = re.compile(
    r"exceeds? (?:the )?(?:available |maximum )?context (?:size|length|window)"
    r"|context (?:size|length|window)(?: has been| is| was)? exceeded"
    r"|maximum (?:context|model) length|prompt is too long|too long to fit into the model|context the overflows"
    r"|cannot truncate prompt with n_keep|`?inputs`? (?:tokens )?\+ `?max_new_tokens`? must be",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"(?:context size|context length|context window|model length|tokens allowed)(?: is|:| of)?:? \(?(\d[\d,]*)"
    r"|(?:>|with) (\d[\d,]*) maximum",
    re.IGNORECASE,
)


def _window_in(error: exceptions.ModelAPIError, message: str) -> int:
    """Return the window that a server names when it refuses a request as too long; 0 if it names none.

    >>> _window_in(exceptions.ModelAPIError("m", "no"), "prompt is too long: 210000 tokens > 200000 maximum")
    200000
    """
    body = error.body
    body = body.get("error", body) if isinstance(body, dict) else body
    told = body.get("n_ctx") if isinstance(body, dict) else None
    if isinstance(told, int):
        return told
    found = _WINDOW.search(message)
    return int((found[1] or found[2]).replace(",", "")) if found else 0


def _summary(error: exceptions.ModelAPIError) -> str:
    """Return a vendor's error on one line, with its HTTP status."""
    status = f"HTTP {error.status_code}: " if isinstance(error, exceptions.ModelHTTPError) else ""
    body: Any = error.body
    if isinstance(body, dict):
        body = body.get("error", body)
        body = body.get("message", body) if isinstance(body, dict) else body
    return status + clipped(str(body if body else error), 300).removesuffix(".")


def _sent_as_is(name: ModelName, parameters: Mapping[str, Any], *, takes_all: bool) -> VendorSettings:
    """Return the settings that send these parameters; unless a provider takes all, refuse those not in `PARAMETERS`."""
    if takes_all:
        return VendorSettings(extra_body=dict(parameters)) if parameters else VendorSettings()
    if unknown := sorted(set(parameters) - set(PARAMETERS)):
        raise errors.ModelRejected(
            f"{name} takes no parameter '{unknown[0]}'", hint=errors.nearest(unknown[0], PARAMETERS)
        )
    return cast(VendorSettings, dict(parameters))


def _effort(name: ModelName, effort: str, *, openai_like: bool) -> VendorSettings:
    """Return the settings for a reasoning effort; every effort is mapped, or refused clearly."""
    if not effort:
        return VendorSettings()
    if effort not in EFFORTS:
        raise errors.ConfigError(f"unknown reasoning effort '{effort}'", hint="one of " + ", ".join(EFFORTS))
    if openai_like:
        return cast(VendorSettings, {"openai_reasoning_effort": effort})
    if name.provider == "Mistral":
        raise errors.ModelRejected(f"{name} does not support reasoning_effort", hint="leave out 'reasoning_effort'")
    return cast(VendorSettings, {"thinking": False if effort == "none" else effort})


def _thoughts(response: ModelResponse) -> tuple[Reasoning, ...]:
    return tuple(reasoning_of(part) for part in response.parts if isinstance(part, ThinkingPart))


def _cost(response: ModelResponse) -> float | None:
    """Return the price in US dollars, where pydantic-ai knows it."""
    try:
        return float(response.cost().total_price)
    except (LookupError, AssertionError, ValueError):
        return None


# -- our messages in its form, and the parts of its responses in ours ------------------------------


def history_of(messages: Sequence[Message], *, thinking_of: str = "") -> list[vendor.ModelMessage]:
    """Convert a conversation; adjacent messages of the same side become one request, as vendors require.

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
    """Convert the offered tools, and the schema that the reply has to fit."""
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
    """Convert a vendor's stream event, if it has content. The first piece of a part is in its start event."""
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
    """Return whether a vendor's stream event belongs to a thought, even if it is a signature without text."""
    match event:
        case (
            vendor.PartStartEvent(part=vendor.ThinkingPart()) | vendor.PartDeltaEvent(delta=vendor.ThinkingPartDelta())
        ):
            return True
    return False


def call_of(part: vendor.ToolCallPart) -> ToolCall:
    """Convert a tool call; missing arguments count as an empty object."""
    arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
    return ToolCall(part.tool_call_id, part.tool_name, encodable(arguments.strip() or "{}"), part.id or "")


def reasoning_of(part: vendor.ThinkingPart) -> Reasoning:
    """Convert a response part with the model's reasoning."""
    return Reasoning(encodable(part.content), part.id or "", part.signature or "", part.provider_name or "")


_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTagParser:
    """A parser that removes a thought from the beginning of a text, where a server leaves it between tags.

    >>> text = ThinkTagParser()
    >>> events = [event for piece in ("<thi", "nk>Hm", ".</th", "ink>\\n\\nA leaf", ".") for event in text.feed(piece)]
    >>> [event.text for event in events], text.thought
    (['Hm', '.', 'Hm.', 'A leaf', '.'], 'Hm.')
    """

    def __init__(self) -> None:
        self.thought = ""
        self._held, self._next = "", self._begin

    def feed(self, piece: str) -> Iterator[ChatEvent]:
        """Iterate over events for what can now be classified as thought or text."""
        self._held += piece
        return self._next()

    def end(self, text: str) -> tuple[list[ChatEvent], str]:
        """Return events for what was held back, and the whole `text` without the thought."""
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
