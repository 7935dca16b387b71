"""The adapter to vendors with protocols of their own: our port, implemented with pydantic-ai's direct request API.

These are Anthropic, Google and OpenAI's Responses; Chat Completions are spoken by `lmm.models.completions`.
Imported only when such a model is called: importing pydantic-ai takes about a second. Facts it works around (each was
seen on the wire): thinking parts of others would be sent back to the model as text; the first piece of a stream arrives
in the start event of its part; connections are closed only by leaving the model.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any, cast

import httpx2
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
    Notice,
    Reasoning,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCall,
    Usage,
    encodable,
    message_parts,
    render,
)
from lmm.models.adapter import CHOSEN, Adapter, batches
from lmm.models.outgoing import Outgoing, fit_request, schema_key
from lmm.models.server import ModelServer
from lmm.models.tokens import priced
from lmm.providers import PROVIDERS, ModelName

PARAMETERS = ("top_p", "top_k", "seed", "presence_penalty", "frequency_penalty", "stop_sequences")
"""The parameters that can be sent to Google, whose library sends no others."""
_PARTS = ("models", "providers")


class PydanticAIModel(Adapter):
    """A vendor's model behind our port."""

    def __init__(self, settings: ModelSettings) -> None:
        name = settings.model
        super().__init__(str(name))
        extra = PROVIDERS[name.provider.lower()].extra
        self._responds = not extra
        self._server = ModelServer.of(settings, "/responses" if self._responds else "")
        takes_all = self._responds or name.provider == "Anthropic"
        if not takes_all and (unknown := sorted(set(settings.parameters) - set(PARAMETERS))):
            hint = errors.nearest(unknown[0], PARAMETERS)
            raise errors.ModelRejected(f"{name} takes no parameter '{unknown[0]}'", hint=hint)
        try:
            self._model = self._open(name, settings.base_url or None, self._server.key or None)
        except ImportError as error:
            missing = f"{name} needs a package that is not installed"
            raise errors.ModelNotInstalled(missing, hint=install_command(extra or "openai")) from error
        sent: dict[str, Any] = {one: getattr(settings, one) for one in ("temperature", "max_tokens", "timeout")}
        sent |= {"extra_body": dict(settings.parameters) or None} if takes_all else settings.parameters
        if effort := settings.reasoning_effort:
            thinks = effort != "none"
            summary = {"openai_reasoning_summary": "auto"} if thinks else {}  # it has to be asked for
            sent |= {"openai_reasoning_effort": effort} | summary if self._responds else {"thinking": thinks and effort}
        self._settings = cast(VendorSettings, {key: value for key, value in sent.items() if value is not None})
        self._refused = refused_by(settings) if self._responds else []

    def _open(self, name: ModelName, base_url: str | None, key: str | None) -> Model:
        """Make a model; the classes of vendors are named alike in pydantic-ai."""
        owner, kind = ("OpenAI", "OpenAIResponses") if self._responds else (name.provider, name.provider)
        models, providers = (importlib.import_module(f"pydantic_ai.{one}.{owner.lower()}") for one in _PARTS)
        key = key or "no-key" if self._responds else key
        provider = getattr(providers, f"{owner}Provider")(base_url=base_url, api_key=key)
        if owner != "Google":
            provider.client.max_retries = 0  # retries are ours: lmm.models.chat
        opened: Model = getattr(models, f"{kind}Model")(name.model, provider=provider)
        return opened

    def connected(self) -> AbstractAsyncContextManager[object]:
        """Keep connections open: opening one takes 20 ms, mostly for certificates. Entries are counted and may nest."""
        return self._model

    def fitted(self, request: ChatRequest) -> Outgoing:
        """Return the request without what the provider refuses."""
        takes = self._model.profile.get("supports_json_schema_output") and schema_key(request) not in self.learned
        schema = request.schema if takes else None
        return fit_request(replace(request, schema=schema))

    def learn(self, field: str) -> bool:
        """Record what is not sent again; return False if it was known."""
        for key in _SETTINGS_OF.get(field, (field,)):
            self._settings.pop(key, None)  # type: ignore[misc]
        return super().learn(field)

    def refused(self, error: errors.ModelError, sent: Outgoing) -> str:
        """Return what a refusal is about, if it can be left out; else the empty string."""
        if not isinstance(error.__cause__, exceptions.ModelHTTPError):
            return ""
        low = error.message.lower()
        if "summary" in low and "openai_reasoning_summary" in self._settings:  # of organizations that are not verified
            return "summary"
        named = next((field for field in CHOSEN if field in low or field.replace("_", ".") in low), "")
        if named and any(key in self._settings for key in _SETTINGS_OF.get(named, (named,))):
            return named
        return schema_key(sent.request)

    async def once(self, request: ChatRequest, sent: Outgoing) -> AsyncGenerator[ChatEvent]:
        """Send a request; raise what the provider answers instead of a reply."""
        async with aclosing(batches(self._events(request, sent))) as arriving:
            async for batch in arriving:
                for event in _joined(batch):
                    yield event

    async def _events(self, request: ChatRequest, sent: Outgoing) -> AsyncGenerator[ChatEvent]:
        for field in self._refused:  # pydantic-ai would leave it out in silence
            if self.learn(field):
                yield Notice(f"{self.name} does not take {field}, which is left out")
        # The next request repeats a conversation; of a single question, only the instructions may be repeated.
        goes_on = bool(request.tools) or any(message.role == "assistant" for message in request.messages)
        settings = VendorSettings(cache=True if goes_on else {"messages": False}) | self._settings
        # Where the protocol cannot carry earlier reasoning, it would be sent back to the model as text.
        sealed = self._model.profile.get("openai_supports_encrypted_reasoning_content", False)
        system = self._model.system if sealed or not self._responds else ""
        try:
            # Entering the model opens its connections; they are closed when no call of it is in flight.
            async with (
                self._model,
                model_request_stream(
                    self._model,
                    history_of(sent.request.messages, thinking_of=system),
                    model_settings=settings,
                    model_request_parameters=parameters_of(sent.request),
                ) as stream,
            ):
                told, thinks = 0, False  # thoughts that were told whole; whether there may be others, without text too
                async for event in stream:
                    part = getattr(event, "part", None) or getattr(event, "delta", None)
                    thinks = thinks or isinstance(part, ThinkingPart | vendor.ThinkingPartDelta)
                    ours = event_of(event, sent.names)
                    if thinks and isinstance(ours, TextDelta | ToolCall):
                        for thought in _thoughts(stream.get())[told:]:
                            told, thinks = told + 1, False
                            yield thought
                    if ours:
                        yield ours
                reply = self._reply(stream.get(), request, sent.names)
            for thought in reply.reasoning[told:]:
                yield thought
            yield reply
        except exceptions.ModelAPIError as error:
            raise model_error(self._server, error) from error
        except (exceptions.UnexpectedModelBehavior, exceptions.UserError) as error:
            if "ended without content" in str(error):
                raise self._server.no_reply(b"", "answer; it may be a web page") from error
            raise errors.ModelRejected(f"{self.name}: {error}", hint="see the server's log") from error

    def _reply(self, response: ModelResponse, request: ChatRequest, names: Mapping[str, str]) -> Reply:
        if response.finish_reason is None and (response.text or response.tool_calls or not response.parts):
            raise self._server.broke_off()
        if response.finish_reason == "content_filter":
            raise self._server.filtered()
        used = response.usage
        reply = Reply(
            response.text or "",
            self.name,
            Usage(used.input_tokens, used.output_tokens, None, 1, cached_tokens=used.cache_read_tokens),
            cut=response.finish_reason == "length",
            calls=tuple(call_of(part, names) for part in response.tool_calls),
            reasoning=_thoughts(response),
            item=next((part.id for part in response.parts if isinstance(part, TextPart) and part.id), ""),
        )
        return priced(reply, request)


def model_error(server: ModelServer, error: Exception, what: str = "") -> errors.ModelError:
    """Return our error for one of pydantic-ai's or of the vendor's client below it. `what` is the content that a reply
    should have had, where an error without a status means that it had none."""
    if isinstance(error, exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout | httpx2.TimeoutException):
        return server.silent()
    if isinstance(error, exceptions.ModelConnectionError | httpx2.TransportError):
        return server.unreachable(error)
    cause = error.__cause__ if isinstance(error, exceptions.ModelAPIError) and error.__cause__ else error
    response = getattr(cause, "response", None)
    seen = cause if response is None else response
    stated = (getattr(one, name, None) for one in (error, seen) for name in ("status_code", "http_status", "code"))
    status = next((one for one in stated if isinstance(one, int)), 0)
    bodies = (error, "body"), (cause, "body"), (cause, "http_body"), (cause, "doc")
    said = next(filter(None, (getattr(one, name, None) for one, name in bodies)), str(cause if what else error))
    said = said if isinstance(said, str) else json.dumps(said, default=str)
    if what and status < 300:
        return server.no_reply(said.encode(), what)
    found = server.refusal(status, said, getattr(seen, "headers", None) or {})
    found.retry_after = getattr(error, "retry_after", None)
    if isinstance(error, exceptions.ModelContextWindowExceededError) and not isinstance(found, errors.TooLong):
        return errors.TooLong(found.message, hint=found.hint)
    return found


def _joined(events: Iterable[ChatEvent]) -> list[ChatEvent]:
    found = list[ChatEvent]()
    for event in events:
        match found[-1:], event:
            case [TextDelta(before, item)], TextDelta(text, ""):
                found[-1] = TextDelta(before + text, item)
            case [ReasoningDelta(before)], ReasoningDelta(text):
                found[-1] = ReasoningDelta(before + text)
            case _:
                found.append(event)
    return found


_SETTINGS_OF = {
    "reasoning_effort": ("openai_reasoning_effort", "openai_reasoning_summary", "thinking"),
    "summary": ("openai_reasoning_summary",),
}


def refused_by(settings: ModelSettings) -> list[str]:
    """Return which settings a model of OpenAI does not take, as far as that is published.

    >>> refused_by(ModelSettings(ModelName("OpenAI", "gpt-5"), temperature=0.2))
    ['temperature']
    """
    from pydantic_ai.profiles.openai import openai_model_profile

    profile = openai_model_profile(settings.model.model) or {}
    effort, can = settings.reasoning_effort, profile.get("openai_supports_reasoning", False)
    reasons = can and (effort != "none" if effort else profile.get("thinking_enabled_by_default", False))
    refused = {
        "temperature": reasons and settings.temperature is not None,
        "reasoning_effort": bool(effort) and not can,
    }
    return [field for field, is_refused in refused.items() if is_refused]


def _thoughts(response: ModelResponse) -> tuple[Reasoning, ...]:
    return tuple(
        Reasoning(encodable(part.content), part.id or "", part.signature or "", part.provider_name or "")
        for part in response.parts
        if isinstance(part, ThinkingPart)
    )


# -- our messages in its form, and the parts of its responses in ours ------------------------------


def history_of(messages: Sequence[Message], *, thinking_of: str = "") -> list[vendor.ModelMessage]:
    """Convert a conversation; what lies between two messages of the model is one request.

    `thinking_of` names the provider whose reasoning is sent back, where it can recognise it; any other
    reasoning would go out as text of the answer, and is left out.
    """
    history: list[vendor.ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            history.append(vendor.ModelResponse(parts=_response_parts(message, thinking_of)))
        elif history and isinstance(history[-1], vendor.ModelRequest):
            history[-1] = vendor.ModelRequest(parts=[*history[-1].parts, *_request_parts(message)])
        else:
            history.append(vendor.ModelRequest(parts=_request_parts(message)))
    return history


def _response_parts(message: Message, thinking_of: str) -> list[vendor.ModelResponsePart]:
    parts: list[vendor.ModelResponsePart] = [
        vendor.ThinkingPart(r.text, id=r.id or None, signature=r.signature or None, provider_name=r.provider)
        for r in message.reasoning
        if thinking_of and r.provider == thinking_of and (r.id or r.signature)
    ]
    if (text := _whole_text(message)) or not message.calls:
        parts.append(vendor.TextPart(text))
    for call in message.calls:
        part = vendor.ToolCallPart(call.name, call.arguments, tool_call_id=call.id)
        if call.signature and call.provider == thinking_of:
            part = replace(part, provider_name=thinking_of, provider_details={_SIGNATURE: call.signature})
        parts.append(part)
    return parts


def _whole_text(message: Message) -> str:
    return "\n".join(part for part in message_parts(message) if isinstance(part, str))


def _request_parts(message: Message) -> list[vendor.ModelRequestPart]:
    if message.role == "system":
        return [vendor.SystemPromptPart(_whole_text(message))]
    if message.role != "tool":
        parts = [part if isinstance(part, str) else _image(part) for part in message_parts(message)]
        return [vendor.UserPromptPart(parts if message.content else render(message))]
    returned: list[vendor.ModelRequestPart] = []
    for result in message.results:
        images = [vendor.BinaryContent(i.data, media_type=i.media_type) for i in result.images if i.data]
        content = [result.text, *images] if images else result.text
        part = vendor.ToolReturnPart(result.name, content, tool_call_id=result.call)
        returned.append(replace(part, outcome="failed") if result.failed else part)
    return returned


def _image(image: Image) -> vendor.ImageUrl | vendor.BinaryContent:
    if image.url:
        return vendor.ImageUrl(image.url)  # passed through: the provider fetches it, never we
    return vendor.BinaryContent(image.data, media_type=image.media_type)


def parameters_of(request: ChatRequest) -> ModelRequestParameters:
    """Convert the offered tools, and the schema that the reply has to fit."""
    tools = [
        VendorTool(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(tool.parameters),
            strict=tool.strict,  # None would close objects that are free
        )
        for tool in request.tools
    ]
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    wanted = OutputObjectDefinition(json_schema=dict(request.schema), name="reply")
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=wanted)


def event_of(event: object, names: Mapping[str, str]) -> ChatEvent | None:
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
            return call_of(part, names)
    return None


_SIGNATURE = "thought_signature"  # Google's, which belongs to a call


def call_of(part: vendor.ToolCallPart, names: Mapping[str, str]) -> ToolCall:
    """Convert a tool call; missing arguments count as an empty object."""
    arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
    signature = str((part.provider_details or {}).get(_SIGNATURE, ""))
    provider = (part.provider_name or "") if signature else ""
    name = names.get(part.tool_name, part.tool_name)
    text = encodable(arguments.strip() or "{}")
    return ToolCall(part.tool_call_id, name, text, part.id or "", signature, provider)
