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
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

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
    Usage,
    encodable,
    message_parts,
)
from lmm.models.adapter import Adapter, batches
from lmm.models.outgoing import ANY_ID, NINE, Outgoing, fit_request, is_strict, schema_key
from lmm.models.server import ModelServer
from lmm.models.tokens import priced

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
            "messages": self._history(request.messages),
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

    def _history(self, messages: Iterable[Message]) -> list[dict[str, Any]]:
        sent = list[dict[str, Any]]()

        def add(role: str, content: Any, **more: Any) -> None:
            if role == "user" and sent and sent[-1]["role"] == "tool" and "order" in self.learned:
                sent.append({"role": "assistant", "content": "OK"})
            sent.append({"role": role, "content": content, **more})

        for message in messages:
            parts = list(message_parts(message))
            texts = [part for part in parts if isinstance(part, str)]
            if message.role == "assistant":
                sent.append(self._assistant(message, "\n".join(texts)))
            elif message.role != "tool":
                add(message.role, "".join(texts) if len(texts) == len(parts) else list(map(_content, parts)))
            pictures = list[str | Image]()
            for result in message.results:
                follows = ["(the picture follows in the next message)"] if result.images else []
                add("tool", "\n".join([*([result.text] if result.text else []), *follows]), tool_call_id=result.call)
                name = [f"What {result.name or 'the tool'} returned:"] if result.images else []
                pictures += [*name, *result.images]
            if pictures:
                add("user", list(map(_content, pictures)))
        return sent

    def _assistant(self, message: Message, text: str) -> dict[str, Any]:
        sent: dict[str, Any] = {"role": "assistant", "content": text or ("" if "null" in self.learned else None)}
        for thought in message.reasoning:
            if thought.provider == self._source and thought.signature:
                sent[thought.id] = json.loads(thought.signature)
            elif thought.provider == self._source and thought.id:
                sent[thought.id] = sent.get(thought.id, "") + thought.text
        if not message.calls:
            return sent
        if (field := next((one for one in self.learned if one in _THOUGHTS), "")) and field not in sent:
            sent[field] = ""  # another model's: the server insists on the field
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            | (json.loads(call.signature) if call.signature and call.provider == self._source else {})
            for call in message.calls
        ]
        return sent

    def refused(self, error: errors.ModelError, sent: Outgoing) -> str:
        """Return what a refusal is about, if it can be left out or sent in another form; else the empty string."""
        said, body = error.message, self._body(sent.request)
        low = said.lower()
        for name in ("temperature", "top_p", "reasoning_effort", "parallel_tool_calls", "stream_options"):
            if name in body and name not in (self._settings.parameters or {}) and name in low:
                return name
        if "max_tokens" in low or "max_completion_tokens" in low:
            sent_as, other = ("max_tokens", "max_completion_tokens")[:: 1 if "max_tokens" in body else -1]
            if sent_as in body and (other in low or _UNKNOWN.search(low)):
                return "limit"
        for name in _THOUGHTS:
            if name in low and any(message.calls for message in sent.request.messages):
                return name
        for form, (refusal, occurs) in _FORMS.items():
            if re.search(refusal, low) and occurs(body["messages"]):
                return form
        if tool := _tool_in(said, body, sent.names):
            return f"tool {tool}"
        return schema_key(sent.request) if "response_format" in body else ""

    # -- what comes ------------------------------------------------------------------------------------

    async def once(self, request: ChatRequest, sent: Outgoing) -> AsyncGenerator[ChatEvent]:
        """Send a request, and read the stream, or the whole answer of a server that does not stream."""
        used = {call.id for message in request.messages for call in message.calls}
        reply = _Incoming(self._server, self._source, sent.names, used)
        async with (
            self.connected() as client,
            self._server.post(client, self._body(sent.request)) as response,
            aclosing(server_sent_events(response)) as arriving,
        ):
            async for batch in arriving:
                for event in reply.add(batch):
                    yield event
                if reply.ended:
                    break
        for last in reply.end(self.name, request, self._settings.base_url):
            yield last


_THOUGHTS = ("reasoning_content", "reasoning_details", "reasoning")
_NAMES_OF_THOUGHTS = frozenset(_THOUGHTS)


def _content(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    # A URL is passed through: the provider fetches it, never we.
    url = part.url or f"data:{part.media_type};base64,{base64.b64encode(part.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


_UNKNOWN = re.compile(r"unsupported|unknown|unrecogni[sz]ed|unexpected|not (?:supported|permitted|allowed)")
_FORMS: dict[str, tuple[str, Callable[[Sequence[Mapping[str, Any]]], bool]]] = {
    "ids": (
        r"tool[ _]?(?:call|use)[ _.]?ids?\b|tool_calls\S*\.id\b",
        lambda sent: any(not re.fullmatch(NINE, call["id"]) for one in sent for call in one.get("tool_calls", ())),
    ),
    "order": (r"after role \W?tool", lambda sent: True),  # Mistral's templates
    "null": (
        r"(?s)(?=.*content).*(?:null|none|string|missing|required)",
        lambda sent: any(one["content"] is None for one in sent),
    ),
}
"""What can be sent in another form: how servers refuse it, and whether it is in the messages."""


def _tool_in(said: str, body: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the offered tool whose schema a refusal is about."""
    if not re.search("schema|parameters|function|tool", said, re.IGNORECASE):
        return ""
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    if at := re.search(r"(?:tools|function_declarations)(?:\.|\[)(\d+)", said):
        return names[tools[int(at[1])]] if int(at[1]) < len(tools) else ""
    return next((names[name] for name in tools if re.search(rf"['\"`]{re.escape(name)}['\"`]", said)), "")


async def server_sent_events(response: httpx2.Response) -> AsyncGenerator[list[bytes]]:
    """Iterate over the data of server-sent events, in lists of those that arrive together; what is none, such as a
    whole answer, is one piece of data.

    Lines end at line feeds only: JSON may contain other separators.
    """
    rest, data, other = b"", list[bytes](), list[bytes]()
    async with aclosing(batches(response.aiter_bytes())) as arriving:
        async for pieces in arriving:
            found = list[bytes]()
            *lines, rest = b"".join((rest, *pieces)).removeprefix(b"\xef\xbb\xbf").split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    data.append(line[5:].strip())
                elif not line.strip() and data:
                    found.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data, other = [], []
                else:
                    other.append(line)
            if found:
                yield found
    if rest.startswith(b"data:"):
        data.append(rest[5:].strip())
    if data or b"".join(other).lstrip()[:1] in (b"{", b"<") or rest.lstrip()[:1] in (b"{", b"<"):
        yield [b"\n".join(data or [*other, rest])]


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
    other: bytes = b""  # what is no piece of a reply
    half: str = ""
    failure: errors.ModelError | None = None
    finish: str = ""
    is_refused: bool = False
    ended: bool = False

    def add(self, batch: Iterable[bytes]) -> Iterator[ChatEvent]:
        """Add chunks, a whole answer, or the mark of the end; iterate over what of it can be shown, joined.

        Raises:
            ModelError: one of them is an error.
        """
        pieces = (piece for data in batch if not self.ended for piece in self._pieces(data))
        for is_text, group in groupby(pieces, itemgetter(0)):
            text = "".join(text for _, text in group)
            if not is_text:
                yield ReasoningDelta(encodable(text))
                continue
            text = self.half + text
            self.half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""  # of a character cut between two pieces
            if text := text.removesuffix(self.half):
                self.text.append(text)
                yield TextDelta(text)
        if self.failure:
            raise self.failure

    def _pieces(self, data: bytes) -> Iterator[tuple[bool, str]]:
        """Read one of them; iterate over pieces of text, or of thoughts that are to be shown."""
        if data == b"[DONE]":
            self.ended = True
            return
        chunk = _object(data)
        if "choices" not in chunk:
            self.other = data
        if error := chunk.get("error") or ("choices" not in chunk and chunk.get("message") and chunk):  # vLLM
            code = error.get("code") if isinstance(error, Mapping) else None
            status = code if isinstance(code, int) and 400 <= code < 500 else 0
            self.failure, self.ended = self.server.refusal(status, json.dumps({"error": error})), True
            return
        self.usage = chunk.get("usage") or self.usage
        for choice in (chunk.get("choices") or ())[:1]:
            self.ended = "message" in choice and "delta" not in choice
            self.finish = choice.get("finish_reason") or self.finish
            delta = choice.get("delta") or choice.get("message") or {}
            if not _NAMES_OF_THOUGHTS.isdisjoint(delta):
                yield from self._thoughts(delta)
            content = delta.get("content")
            for is_text, text in ((True, content),) if isinstance(content, str) else _texts(content):
                if not is_text:
                    self.thoughts[""] = self.thoughts.get("", "") + text
                if text:
                    yield is_text, text
            self.is_refused = self.is_refused or bool(delta.get("refusal"))
            called = delta.get("function_call")  # the protocol's earlier form
            for piece in delta.get("tool_calls") or ([{"index": 0, "function": called}] if called else ()):
                self._add_call(piece)

    def _thoughts(self, delta: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
        found = {name: text for name in _THOUGHTS if isinstance(text := delta.get(name), str) and text}
        for detail in delta.get("reasoning_details") or ():
            last = self.details[-1] if self.details else {}
            if not last or any(last.get(key) != detail.get(key) for key in ("type", "index")) or "index" not in detail:
                self.details.append(dict(detail))
            else:  # a piece of the last one: the list goes back as it would have come without a stream
                for key, value in detail.items():
                    joins = key in ("text", "summary", "data") and isinstance(value, str)
                    known = last.get(key)
                    last[key] = (known or "") + value if joins else (value if value is not None else known)
            if not found and isinstance(text := detail.get("text") or detail.get("summary"), str):
                found = {"reasoning_details": text}
        for name, text in found.items():
            self.thoughts[name] = self.thoughts.get(name, "") + text
        yield from ((False, text) for text in [*found.values()][:1])

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Add a call, or a piece of one: of that with its index, else with its id, else of the last one.

        A piece may also begin another call, although it has the place of an earlier one.
        """
        function = piece.get("function") or {}
        arguments, name = function.get("arguments"), function.get("name") or ""
        arguments = json.dumps(arguments) if isinstance(arguments, dict | list) else arguments or ""
        given, index = piece.get("id") or "", piece.get("index")
        call = self.calls[-1] if self.calls and not (name and self.calls[-1].is_whole) else None
        if isinstance(index, int):
            call = self.by_index.get(index)
        elif given:
            call = next((call for call in reversed(self.calls) if call.id == given), None)
        if (
            call is None
            or (given and call.id and given != call.id)
            or (name and call.name and name != call.name)
            or (name and arguments.strip() and call.arguments.strip() != "{}" and call.is_whole)
        ):
            call = _Call(given, name)
            self.calls.append(call)
            if isinstance(index, int):
                self.by_index[index] = call
        call.id, call.name = call.id or given, call.name or name
        call.extra |= {key: piece[key] for key in piece.keys() - {"index", "id", "type", "function"} if piece[key]}
        is_placeholder = call.arguments.strip() == "{}" and arguments.strip()
        call.arguments = arguments if is_placeholder else call.arguments + arguments

    def end(self, model: str, request: ChatRequest, base_url: str) -> Iterator[ChatEvent]:
        """Iterate over what is complete now, the reply last.

        Raises:
            ModelUnavailable: the stream broke off.
            NoValidReply: it was something else than a reply.
            ModelRejected: the provider's filter stopped it.
        """
        if not (self.ended or self.finish) or self.finish == "error":
            raise (
                self.server.no_reply(self.other, "answer") if self.other and not self.text else self.server.broke_off()
            )
        if self.finish == "content_filter" or self.is_refused:
            raise self.server.filtered()
        if self.half:
            self.text.append(encodable(self.half))
            yield TextDelta(self.half)
        name, thought = next(iter(self.thoughts.items()), ("", ""))
        thoughts = (Reasoning(encodable(thought), name, "", self.source if name else ""),) if thought else ()
        if self.details:
            details = json.dumps(self.details)
            thoughts = (Reasoning(encodable(thought), "reasoning_details", details, self.source),)
        calls = tuple(map(self._finished, self.calls))
        yield from thoughts
        yield from calls
        used = Usage(
            int(self.usage.get("prompt_tokens") or 0), int(self.usage.get("completion_tokens") or 0), None, 1,
            cached_tokens=int((self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0),
        )  # fmt: skip
        yield priced(
            Reply("".join(self.text), model, used, self.finish == "length", calls, thoughts), request, base_url
        )

    def _finished(self, call: _Call) -> ToolCall:
        if not call.id or call.id in self.used:
            call.id = f"call_{uuid.uuid4().hex[:20]}"
        self.used.add(call.id)
        extra, name = json.dumps(call.extra) if call.extra else "", self.names.get(call.name, call.name)
        arguments = encodable(call.arguments.strip() or "{}")
        return ToolCall(call.id, name, arguments, "", extra, self.source if extra else "")


def _object(data: bytes) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        try:  # half of a character, which only the other half makes valid
            value = json.loads(data)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _texts(content: Any) -> Iterator[tuple[bool, str]]:
    """Iterate over the parts of a content, of which Mistral sends a list: whether each is text, or a thought."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and isinstance(text := part.get("text"), str):
            yield True, text
        elif isinstance(part, Mapping) and (thought := part.get("thinking")):
            inside = [thought] if isinstance(thought, str) else [one.get("text", "") for one in thought]
            yield False, "".join(inside)
