"""A model at any server with OpenAI's Chat Completions protocol: OpenAI, Mistral, Ollama, vLLM, llama.cpp, ….

Spoken without a vendor's library: each piece of a stream costs 10 µs here and 400 µs there, and what servers do
differently needs all of their bytes. A server that refuses an optional field is asked again without it, and the field
is not sent again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lmm import errors
from lmm.config import ModelSettings
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
)
from lmm.models.adapter import Adapter
from lmm.models.outgoing import ANY_ID, NINE, Outgoing, fit_request, is_strict, schema_key
from lmm.models.server import ModelServer
from lmm.models.tokens import estimated, price

if TYPE_CHECKING:
    import httpx2

_ADDRESSES = {"OpenAI": "https://api.openai.com/v1", "Mistral": "https://api.mistral.ai/v1"}


class ChatCompletions(Adapter):
    """A model behind our port."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(str(settings.model))
        self._settings = settings
        provider = settings.model.provider
        self._server = ModelServer.of(settings, "/chat/completions", _ADDRESSES.get(provider, ""))
        self._source = f"{settings.model.model} at {self._server.base}"
        self._is_openai = provider == "OpenAI"
        if provider == "Mistral":
            self.learned |= {"ids", "order", "stream_options"}
        self._open: dict[Any, tuple[httpx2.AsyncClient, int]] = {}  # by event loop, with the number of users

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[httpx2.AsyncClient]:
        """Keep connections open: opening one takes 20 ms, mostly for certificates. Entries are counted and may nest."""
        loop = asyncio.get_running_loop()
        client, users = self._open.get(loop) or (self._server.client(), 0)
        self._open[loop] = client, users + 1
        try:
            yield client
        finally:
            client, users = self._open.pop(loop)
            if users > 1:
                self._open[loop] = client, users - 1
            else:
                await client.aclose()

    # -- what is sent ----------------------------------------------------------------------------------

    def fitted(self, request: ChatRequest) -> Outgoing:
        """Return the request with ids of the form that this server takes, without tools that it refuses."""
        without = [one.removeprefix("tool ") for one in self.learned if one.startswith("tool ")]
        return fit_request(request, ids=NINE if "ids" in self.learned else ANY_ID, without=without)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        settings = self._settings
        limit = "max_completion_tokens" if self._is_openai != ("limit" in self.learned) else "max_tokens"
        body: dict[str, Any] = {
            "model": settings.model.model,
            "messages": list(self._history(request.messages)),
            "stream": True,
            "stream_options": {"include_usage": True},
            limit: settings.max_tokens,
            "temperature": settings.temperature,
            "reasoning_effort": settings.reasoning_effort or None,
        }
        if request.tools:
            functions = [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
                | ({"strict": True} if tool.strict and self._is_openai else {})
                for tool in request.tools
            ]
            body["tools"] = [{"type": "function", "function": function} for function in functions]
            body["parallel_tool_calls"] = None if self._is_openai else True  # OpenAI's default, which some refuse
        if request.schema is not None and schema_key(request) not in self.learned:
            schema = {"name": "reply", "schema": dict(request.schema)}
            strict = {"strict": is_strict(request.schema)} if self._is_openai else {}
            body["response_format"] = {"type": "json_schema", "json_schema": schema | strict}
        body = {key: value for key, value in body.items() if value is not None and key not in self.learned}
        return body | dict(settings.parameters or {})

    def _history(self, messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
        last = ""
        for one in (one for message in messages for one in self._messages(message)):
            if last == "tool" and one["role"] == "user" and "order" in self.learned:
                yield {"role": "assistant", "content": "OK"}
            last = one["role"]
            yield one

    def _messages(self, message: Message) -> Iterator[dict[str, Any]]:
        if message.role == "assistant":
            yield self._assistant(message)
        elif message.role == "tool":
            for result in message.results:
                yield {"role": "tool", "tool_call_id": result.call, "content": result.text or "(see the picture)"}
            if pictures := [part for result in message.results for part in _pictures_of(result)]:
                yield {"role": "user", "content": pictures}
        else:
            parts = list(message_parts(message))
            if all(isinstance(part, str) for part in parts):
                yield {"role": message.role, "content": "".join(map(str, parts))}
            else:
                yield {"role": message.role, "content": list(map(_content, parts))}

    def _assistant(self, message: Message) -> dict[str, Any]:
        text = "\n".join(part for part in message_parts(message) if isinstance(part, str))
        no_text = "" if "null" in self.learned else None
        sent: dict[str, Any] = {"role": "assistant", "content": text or no_text}
        for thought in message.reasoning:
            if thought.provider == self._source and thought.signature:
                sent[thought.id] = json.loads(thought.signature)
            elif thought.provider == self._source and thought.id:
                sent[thought.id] = sent.get(thought.id, "") + thought.text
        if message.calls:
            if (field := next((one for one in self.learned if one in _THOUGHTS), "")) and field not in sent:
                sent[field] = ""  # another model's: the server insists on the field
            sent["tool_calls"] = list(map(self._call, message.calls))
        return sent

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.arguments}
        extra = json.loads(call.signature) if call.signature and call.provider == self._source else {}
        return {"id": call.id, "type": "function", "function": function, **extra}

    def refused(self, error: errors.ModelError, sent: Outgoing) -> str:
        """Return what a refusal is about, if it can be left out or sent in another form; else the empty string."""
        said, body = error.message, self._body(sent.request)
        low = said.lower()
        for name in ("temperature", "top_p", "reasoning_effort", "parallel_tool_calls", "stream_options"):
            if name in body and name not in (self._settings.parameters or {}) and name in low:
                return name
        if "max_tokens" in low or "max_completion_tokens" in low:
            sent_as, other = ("max_tokens", "max_completion_tokens")[:: 1 if "max_tokens" in body else -1]
            if sent_as in body and (other in low or "unsupported" in low or "unknown" in low):
                return "limit"
        for name in _THOUGHTS:
            if name in low and any(message.calls for message in sent.request.messages):
                return name
        for form, (refusal, occurs) in _FORMS.items():
            if re.search(refusal, low) and occurs(body):
                return form
        if tool := _tool_in(said, body, sent.names):
            return f"tool {tool}"
        return schema_key(sent.request) if "response_format" in body else ""

    # -- what comes ------------------------------------------------------------------------------------

    async def once(self, request: ChatRequest, sent: Outgoing) -> AsyncGenerator[ChatEvent]:
        """Send a request, and read the stream, or the whole answer of a server that does not stream."""
        used = {call.id for message in request.messages for call in message.calls}
        reply = _Incoming(self._server, self._source, sent.names, used)
        async with self.connected() as client, self._server.post(client, self._body(sent.request)) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip()
            if kind == "text/html":
                raise self._server.sent_page()
            if kind == "application/json":
                for event in reply.add(_read(await response.aread())):
                    yield event
                reply.ended = True
            else:
                async for data in server_sent_events(response):
                    for event in reply.add(_read(data)):
                        yield event
                    if reply.done:
                        break
        for last in reply.end(self.name, request, self._settings.base_url):
            yield last


_THOUGHTS = ("reasoning_content", "reasoning_details", "reasoning")


def _pictures_of(result: ToolResult) -> Iterator[dict[str, Any]]:
    if result.images:
        yield {"type": "text", "text": f"What {result.name or 'the tool'} returned:"}
        yield from map(_content, result.images)


def _content(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    # A URL is passed through: the provider fetches it, never we.
    url = part.url or f"data:{part.media_type};base64,{base64.b64encode(part.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _has_ids(body: Mapping[str, Any]) -> bool:
    calls = (call for message in body["messages"] for call in message.get("tool_calls", ()))
    return any(not re.fullmatch(NINE, call["id"]) for call in calls)


def _has_null(body: Mapping[str, Any]) -> bool:
    return any(message["content"] is None for message in body["messages"])


_FORMS: dict[str, tuple[str, Callable[[Mapping[str, Any]], bool]]] = {
    "ids": (r"tool[ _]?(?:call|use)[ _.]?ids?\b|tool_calls\S*\.id\b", _has_ids),
    "order": (r"after role \W?tool", lambda body: True),  # Mistral's templates
    "null": (r"(?s)(?=.*content).*(?:null|none|string|missing|required)", _has_null),
}
"""What can be sent in another form: how servers refuse it, and whether it is in a request."""


def _tool_in(said: str, body: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the offered tool whose schema a refusal is about."""
    if not re.search("schema|parameters|function|tool", said, re.IGNORECASE):
        return ""
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    if at := re.search(r"(?:tools|function_declarations)(?:\.|\[)(\d+)", said):
        listed = [int(at[1])] if int(at[1]) < len(tools) else []
        return next((names[tools[number]] for number in listed), "")
    quoted = (name for name in tools if re.search(rf"['\"`]{re.escape(name)}['\"`]", said))
    return next((names[name] for name in quoted), "")


async def server_sent_events(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Iterate over the data of server-sent events. Lines end at line feeds only: JSON may contain other separators."""
    rest, data = b"", list[bytes]()
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line.strip() and data:
                yield b"\n".join(data)
                data = []
    if rest.startswith(b"data:"):
        data.append(rest[5:].strip())
    if data:
        yield b"\n".join(data)


def _read(data: bytes) -> dict[str, Any] | None:
    """Return a chunk; None for the mark of the end."""
    if data == b"[DONE]":
        return None
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return chunk if isinstance(chunk, dict) else {}


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


@dataclass(slots=True)
class _Incoming:
    """A reply as it arrives: its text, thoughts by the field they come in, and calls, of which servers send pieces."""

    server: ModelServer
    source: str
    names: Mapping[str, str]
    used: set[str]  # ids of earlier calls
    text: list[str] = field(default_factory=list)
    thoughts: dict[str, str] = field(default_factory=dict)
    details: list[dict[str, Any]] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    by_index: dict[int, _Call] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    half: str = ""
    finish: str = ""
    ended: bool = False
    done: bool = False

    def add(self, chunk: dict[str, Any] | None) -> Iterator[ChatEvent]:
        """Add a chunk, or a whole answer; iterate over what of it can be shown."""
        if chunk is None:
            self.ended = self.done = True
            return
        if error := chunk.get("error"):
            code = error.get("code") if isinstance(error, Mapping) else None
            status = code if isinstance(code, int) and code >= 400 else 0
            raise self.server.refusal(status if status < 500 else 0, json.dumps({"error": error}))
        self.usage = chunk.get("usage") or self.usage
        for choice in (chunk.get("choices") or ())[:1]:
            self.finish = choice.get("finish_reason") or self.finish
            delta = choice.get("delta") or choice.get("message") or {}
            yield from self._add_thought(delta)
            for kind, text in _texts(delta.get("content")):
                if kind == "text":
                    yield from self._add_text(text)
                else:
                    self.thoughts[""] = self.thoughts.get("", "") + text
                    yield ReasoningDelta(encodable(text))
            if delta.get("refusal"):
                self.finish = "content_filter"
            for piece in delta.get("tool_calls") or ():
                self._add_call(piece)

    def _add_text(self, text: str) -> Iterator[TextDelta]:
        text = self.half + text
        self.half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""  # of a character cut between two pieces
        if text := text.removesuffix(self.half):
            self.text.append(text)
            yield TextDelta(text)

    def _add_thought(self, delta: Mapping[str, Any]) -> Iterator[ChatEvent]:
        found = {name: text for name in _THOUGHTS if isinstance(text := delta.get(name), str) and text}
        for detail in delta.get("reasoning_details") or ():
            self._add_detail(detail)
            if not found and isinstance(text := detail.get("text") or detail.get("summary"), str):
                found = {"reasoning_details": text}
        for number, (name, text) in enumerate(found.items()):
            self.thoughts[name] = self.thoughts.get(name, "") + text
            if not number:
                yield ReasoningDelta(encodable(text))

    def _add_detail(self, detail: dict[str, Any]) -> None:
        """Add a detail, or a piece of the last one: the list goes back as it would have come without a stream."""
        last = self.details[-1] if self.details else {}
        if not last or any(last.get(key) != detail.get(key) for key in ("type", "index")) or "index" not in detail:
            self.details.append(dict(detail))
            return
        for key, value in detail.items():
            joins = key in ("text", "summary", "data") and isinstance(value, str)
            last[key] = (last.get(key) or "") + value if joins else (value if value is not None else last.get(key))

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function") or {}
        arguments, name = function.get("arguments"), function.get("name") or ""
        arguments = json.dumps(arguments) if isinstance(arguments, dict | list) else arguments or ""
        given, index = piece.get("id") or "", piece.get("index")
        index = index if isinstance(index, int) else None
        call = self.by_index.get(index) if index is not None else self._called(given, name)
        if call is not None and self._is_another(call, given, name, arguments):
            call = None
        if call is None:
            call = _Call(given, name)
            self.calls.append(call)
            if index is not None:
                self.by_index[index] = call
        call.id, call.name = call.id or given, call.name or name
        call.extra |= {key: piece[key] for key in piece.keys() - {"index", "id", "type", "function"} if piece[key]}
        placeholder = call.arguments.strip() == "{}" and arguments.strip() not in ("", "{}")
        if not (call.arguments.strip() == "{}" and arguments.strip() == "{}"):
            call.arguments = arguments if placeholder else call.arguments + arguments

    def _called(self, given: str, name: str) -> _Call | None:
        """Return the call that a piece without an index continues."""
        if given:
            return next((call for call in reversed(self.calls) if call.id == given), None)
        return self.calls[-1] if self.calls and not (name and self.calls[-1].is_whole) else None

    @staticmethod
    def _is_another(call: _Call, given: str, name: str, arguments: str) -> bool:
        """Return whether a piece begins another call, although it has the place of this one."""
        if given and call.id and given != call.id:
            return True
        whole = call.is_whole and call.arguments.strip() != "{}"
        return bool(name and arguments.strip() and whole) or bool(name and call.name and name != call.name)

    def end(self, model: str, request: ChatRequest, base_url: str) -> Iterator[ChatEvent]:
        """Iterate over what is complete now, the reply last.

        Raises:
            ModelUnavailable: the stream broke off.
            ModelRejected: the provider's filter stopped it.
        """
        if not (self.ended or self.finish) or self.finish == "error":
            raise self.server.broke_off()
        if self.finish == "content_filter":
            fact = f"{model}: the provider's filter stopped the reply"
            raise errors.ModelRejected(fact, hint="ask in other words")
        if self.half:
            self.text.append(encodable(self.half))
            yield TextDelta(self.half)
        thoughts, calls = tuple(self._reasoning()), tuple(map(self._finished, self.calls))
        yield from thoughts
        yield from calls
        used = Usage(
            int(self.usage.get("prompt_tokens") or 0), int(self.usage.get("completion_tokens") or 0), None, 1,
            cached_tokens=int((self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0),
        )  # fmt: skip
        reply = Reply("".join(self.text), model, used, self.finish == "length", calls, thoughts)
        if used.input_tokens or used.output_tokens:
            yield replace(reply, usage=replace(used, cost=price(model, used, base_url)))
        else:
            yield replace(reply, usage=estimated(request, reply))

    def _reasoning(self) -> Iterator[Reasoning]:
        name, text = next(iter(self.thoughts.items()), ("", ""))
        if self.details:
            yield Reasoning(encodable(text), "reasoning_details", json.dumps(self.details), self.source)
        elif text:
            yield Reasoning(encodable(text), name, "", self.source if name else "")

    def _finished(self, call: _Call) -> ToolCall:
        if not call.id or call.id in self.used:
            call.id = f"call_{uuid.uuid4().hex[:20]}"
        self.used.add(call.id)
        extra = json.dumps(call.extra) if call.extra else ""
        name = self.names.get(call.name, call.name)
        return ToolCall(
            call.id, name, encodable(call.arguments.strip() or "{}"), "", extra, self.source if extra else ""
        )


def _texts(content: Any) -> Iterator[tuple[str, str]]:
    """Iterate over the pieces of a content, as ``text`` or ``thought``; Mistral sends a list of parts."""
    if isinstance(content, str) and content:
        yield "text", content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and isinstance(text := part.get("text"), str) and text:
            yield "text", text
        elif isinstance(part, Mapping) and (thought := part.get("thinking")):
            inside = [thought] if isinstance(thought, str) else [one.get("text", "") for one in thought]
            yield "thought", "".join(inside)
