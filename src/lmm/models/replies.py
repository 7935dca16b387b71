"""Read a model's reply: take thoughts out of its text, stop endless repetition, notice a call that is only text.

Everything that prints, streams, journals or writes a reply gets it from here, so that all have the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing
from dataclasses import replace

from lmm import errors
from lmm.messages import ChatEvent, ChatRequest, Reasoning, ReasoningDelta, Reply, Retrying, TextDelta, encodable


async def read_reply(events: AsyncGenerator[ChatEvent], request: ChatRequest, model: str) -> AsyncGenerator[ChatEvent]:
    """Iterate over the events of a model's stream, with thoughts between tags as reasoning.

    Raises:
        ModelRejected: the model repeats itself without end.
        EmptyReply: it said nothing.
    """
    text, guard = ThoughtTags(), RepetitionGuard(model)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TextDelta | ReasoningDelta):
                guard.hear(event.text)
            if isinstance(event, TextDelta):
                for one in text.feed(event.text, event.item):
                    yield one
            elif isinstance(event, Reply):
                late = list(() if text.fed else text.feed(event.text)) + list(text.end())
                for one in late:
                    if text.fed or not isinstance(one, TextDelta):
                        yield one
                reply = replace(event, text=text.text, reasoning=(*event.reasoning, *text.thoughts))
                yield _checked(reply, request)
            else:
                yield event


def _checked(reply: Reply, request: ChatRequest) -> Reply:
    if reply.calls:
        return reply
    if not reply.text.strip():
        if reply.cut and reply.reasoning:
            fact = f"{reply.model} reached its output limit while it was thinking"
            raise errors.ModelRejected(fact, hint="set a larger max_tokens, or a lower reasoning_effort")
        raise errors.EmptyReply(f"{reply.model} sent an empty reply", hint="try again, or rephrase the prompt")
    return replace(reply, stray_call=stray_call(reply.text, [tool.name for tool in request.tools]))


# -- thoughts between tags -------------------------------------------------------------------------

_TAGS = {
    "<think>": "</think>",  # DeepSeek, Qwen and most others
    "<thought>": "</thought>",  # Gemini's compatible server
    "<thinking>": "</thinking>",
    "<reasoning>": "</reasoning>",
    "<|channel>thought": "<channel|>",  # Gemma 4
    "[THINK]": "[/THINK]",  # Mistral
    "<seed:think>": "</seed:think>",
    "◁think▷": "◁/think▷",  # Kimi
    "<|START_THINKING|>": "<|END_THINKING|>",  # Cohere
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",  # gpt-oss
}
_CLOSING = tuple(_TAGS.values())
_FIRSTS = {tag[0] for tag in (*_TAGS, *_CLOSING)}
_TAG = re.compile("|".join(map(re.escape, (*_TAGS, *_CLOSING))))


class ThoughtTags:
    """A parser that takes thoughts out of a text that arrives in pieces.

    A thought begins the text, or a later line once there was one; it may also lack its opening tag, which some servers'
    templates put into the prompt. Tags in code are text.

    >>> text = ThoughtTags()
    >>> events = [one for piece in ("<thi", "nk>Hm.</th", "ink>\\n\\nA leaf", ".") for one in text.feed(piece)]
    >>> [event.text for event in events], text.text
    (['Hm.', 'Hm.', 'A leaf', '.'], 'A leaf.')
    """

    def __init__(self) -> None:
        self.fed, self.thoughts, self._parts = False, list[Reasoning](), list[str]()
        self._held, self._close, self._thought, self._item = "", "", "", ""
        self._begins = True  # nothing but blanks was said since the beginning, or since the last thought
        self._thinks = False  # there was a tag

    @property
    def text(self) -> str:
        """The text so far, without thoughts."""
        return "".join(self._parts)

    def feed(self, piece: str, item: str = "", *, ended: bool = False) -> Iterator[ChatEvent]:
        """Iterate over events for what can now be classified as thought or text."""
        self.fed, self._item = True, self._item or item
        self._held += piece
        if item and not piece:
            yield self._said("")
        while self._held and (yield from self._think(ended) if self._close else self._tell(ended)):
            continue

    def end(self) -> Iterator[ChatEvent]:
        """Iterate over events for what was held back, as nothing more comes."""
        yield from self.feed("", ended=True)
        if self._close:
            yield from self._thought_ends()

    def _think(self, ended: bool) -> Generator[ChatEvent, None, bool]:
        """Read a thought up to its end; return whether it ended."""
        thought, closed, rest = self._held.partition(self._close)
        kept = 0 if closed or ended else _beginning_of((self._close,), thought)
        thought, self._held = thought[: len(thought) - kept], rest or thought[len(thought) - kept :]
        self._thought += thought
        if thought.strip() or (thought and self._thought.strip()):
            yield ReasoningDelta(encodable(thought))
        if closed:
            yield from self._thought_ends()
        return bool(closed)

    def _thought_ends(self) -> Iterator[ChatEvent]:
        thought = encodable(self._thought.removesuffix("<|end|><|start|>assistant").strip())
        self._close, self._thought, self._thinks, self._begins = "", "", True, True
        if thought:
            self.thoughts.append(Reasoning(thought))
            yield self.thoughts[-1]

    def _tell(self, ended: bool) -> Generator[ChatEvent, None, bool]:
        """Read text up to the next tag; return whether there was one, and what follows can be read."""
        held = self._held
        blanks = len(held) - len(held.lstrip()) if self._begins else 0
        found = _TAG.search(held)
        end = found.start() if found else len(held) - (0 if ended else _beginning_of((*_TAGS, *_CLOSING), held))
        # Blanks before a thought, or after one, are no part of the text; else they are the reply's own.
        before, after = (self.text + held[: end if end > blanks else 0], held[found.end() :]) if found else ("", "")
        if found and found[0] in _CLOSING and not (self._thinks or ended or after.strip()):
            found = None  # what follows tells whether it ends a thought
        if not found and end <= blanks:
            return False  # it may go on as a tag
        if found and found[0] in _TAGS and self._opens(before, end <= blanks):
            self._close = _TAGS[found[0]]
        elif found and found[0] in _CLOSING and not self._thinks and _ends_thought(before, after):
            if any(part.strip() for part in self._parts):
                yield Retrying("what came so far were thoughts", None)
            self._thought, self._parts, self._held = before, [], after
            yield from self._thought_ends()
            return True
        elif found:  # it is text
            end = found.end()
        self._held = after if found else held[end:]
        if end > blanks:
            yield self._said(held[blanks if self._thinks else 0 : end])
        return bool(found)

    def _opens(self, before: str, is_first: bool) -> bool:
        """Return whether an opening tag begins a thought."""
        if self._begins and is_first:
            return True
        return self._thinks and before[-1:] in ("", "\n", ">") and not _in_code(before)

    def _said(self, text: str) -> TextDelta:
        delta, self._item = TextDelta(text, self._item), ""
        self._parts.append(delta.text)
        self._begins = self._begins and not text.strip()
        return delta


def _ends_thought(before: str, after: str) -> bool:
    """Return whether a closing tag without an opening one ends a thought: it is alone, not mentioned in a sentence."""
    if _in_code(before):
        return False
    glued = not before[-1:].isspace() and before[-1:] not in "`'\"" and after[:1] not in tuple(" \t`'\"*.,;:)")
    return before[-1:] in ("\n", "") or bool(after.strip() and (glued or after.lstrip(" \t")[0] == "\n"))


def _beginning_of(tags: tuple[str, ...], text: str) -> int:
    """Return how many characters at the end of a text may begin one of these tags.

    >>> _beginning_of(("</think>",), "Hm.</th")
    4
    """
    tail = text[1 - max(map(len, tags)) :]
    places = (i for i, char in enumerate(tail) if char in _FIRSTS)
    return next((len(tail) - i for i in places if any(tag.startswith(tail[i:]) for tag in tags)), 0)


def _in_code(before: str) -> bool:
    fences = sum(line.lstrip().startswith(("```", "~~~")) for line in before.split("\n"))
    return fences % 2 == 1 or before.rpartition("\n")[2].count("`") % 2 == 1


# -- calls that are only text ----------------------------------------------------------------------

_CALL_MARKS = (
    r"<tool_call>|<tool_calls>|\[TOOL_CALLS\]|\[TOOL_REQUEST\]|<\|python_tag\|>|<\|tool_call\|?>|<function=|<function_call"
    r"|<\|channel\|>commentary|<\|start\|>assistant|to=functions\.|<｜tool▁call|<\|tool_calls?_section_begin\|>"
    r"|<invoke name=|<minimax:tool_call>|<\|START_ACTION\|>|```tool_code|```tool_call|<start_function_call>|^Action:"
)
_NAMES = ("name", "function", "tool", "tool_name", "recipient_name")
_MARKED = re.compile(rf"(?:{_CALL_MARKS})(.{{0,200}})", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"(?:\A|\n)```\w*\s*\n([^`]*)\n```\Z")


def stray_call(text: str, tools: list[str]) -> str:
    """Return the offered tool that a text calls, in a form that its server should have turned into a call; else "".

    >>> stray_call('<tool_call>{"name": "read_file", "arguments": {}}</tool_call>', ["read_file"])
    'read_file'
    >>> stray_call("You can call `read_file` here.", ["read_file"])
    ''
    """
    if not tools:
        return ""
    name = "|".join(map(re.escape, sorted(tools, key=len, reverse=True)))
    word = rf"(?<![\w-])(?:functions\.)?({name})(?![\w-])"
    for marked in _MARKED.finditer(text):
        fence = marked[0].startswith("```")
        if (found := re.search(word, marked[1])) and (fence or not _in_code(text[: marked.start()])):
            return found[1]
    whole = text.strip()
    whole = fenced[1].strip() if (fenced := _FENCED.search(whole)) else whole.removeprefix("functools")  # Phi
    if called := re.fullmatch(rf"\[?(?:print\()?{word}\(.*\)\]?;?", whole, re.DOTALL):
        return called[1]
    try:
        value = json.loads(whole if whole[:1] in ("{", "[") else whole[whole.rfind("\n{") + 1 :])
    except (ValueError, RecursionError):
        return ""
    value = value.get("tool_calls", value) if isinstance(value, dict) else value
    value = value[0] if isinstance(value, list) and value else value
    if not isinstance(value, dict):
        return ""
    value = inside if isinstance(inside := value.get("function"), dict) else value
    names = [str(value.get(key, "")).removeprefix("functions.") for key in _NAMES]
    gives = value.keys() & {"arguments", "parameters", "args", "input"}
    return next((name for name in names if gives and name in tools), "")


def check_called(reply: Reply) -> None:
    """Check that a reply to which tools were offered does not end in a call that is only text.

    Raises:
        ModelRejected: it does. Nothing is carried out: only the server knows its model's notation.
    """
    if reply.stray_call:
        fact = f"{reply.model} calls '{reply.stray_call}' in its text: the server did not turn this into a call"
        hint = "start it with tool calling (llama.cpp: --jinja; vLLM: --enable-auto-tool-choice), or use another model"
        raise errors.ModelRejected(fact, hint=hint)


# -- endless repetition ----------------------------------------------------------------------------

_CIRCLE, _PERIOD, _TIMES, _END = 2_000, 4_000, 3, 40
_EQUAL_LINES = 10
_NUMBER, _WORD = re.compile(r"[0-9]{1,9}"), re.compile(r"[^\W\d_]{2,}")
_COUNTED, _SENTENCE = 20, 5
# A token of the model's template, at which its server should have ended the reply, again and again.
_TEMPLATE_TOKENS = re.compile(r"(?:<\|[^\s<|>]{1,30}\|>\s*+){20}\Z")


class RepetitionGuard:
    """A detector of endless repetition in the text or reasoning of a model."""

    def __init__(self, model: str) -> None:
        self.model, self.said, self.end = model, 0, ""

    def hear(self, text: str) -> None:
        """Check the next piece.

        Raises:
            ModelRejected: the model repeats itself without end.
        """
        before, self.said, self.end = self.said, self.said + len(text), (self.end + text)[-2 * _TIMES * _PERIOD :]
        of_template = "|>" in text and _TEMPLATE_TOKENS.search(self.end[-_PERIOD:])
        circles = "\n" in text and ends_in_equal_lines(self.end)
        if of_template or circles or (before // _CIRCLE != self.said // _CIRCLE and goes_in_circles(self.end)):
            raise errors.ModelRejected(
                f"{self.model} repeated itself and was stopped", hint="rephrase the prompt, or use another model"
            )


def ends_in_equal_lines(text: str) -> bool:
    """Return whether the last ten lines with text are the same, and say something.

    >>> ends_in_equal_lines("So:\\n" + "The leaf is green.\\n\\n" * 10), ends_in_equal_lines("| | |\\n" * 10)
    (True, False)
    """
    ended = text.rsplit("\n", 2 * _EQUAL_LINES + 2)[1:-1]
    lines = [line.strip() for line in ended if line.strip()][-_EQUAL_LINES:]
    return len(lines) == _EQUAL_LINES and len(set(lines)) == 1 and any(map(str.isalpha, lines[0]))


def goes_in_circles(text: str) -> bool:
    """Return whether a text ends in 2,000 or more characters that repeat one piece at least three times, or are blank.

    A piece of five words or more may differ from the one before in numbers that are one more, as in lists without end;
    then 20 are needed.

    >>> goes_in_circles("Well:" + " The leaf is green." * 200), goes_in_circles(" ".join(map(str, range(1000))))
    (True, False)
    >>> goes_in_circles("".join(f"{n}. What is the outcome of case {n + 3}?\\n" for n in range(60)))
    True
    >>> goes_in_circles("".join(f"- name: node{n}\\n" for n in range(600)))
    False
    """
    if not text[-_CIRCLE:].strip():
        return len(text) >= _CIRCLE
    near = _NUMBER.sub("0", " ".join(text[-2 * _PERIOD :].split()))[-_PERIOD - _END :]
    if near[-_END:] not in near[:-1]:  # repetition is possible only where the end recurs
        return False
    words = " ".join(text.split())
    shape, numbers = _NUMBER.sub("0", words), [int(number) for number in _NUMBER.findall(words)]
    for found in re.finditer(f"(?={re.escape(near[-_END:])})", near[:-1]):
        period = len(near) - _END - found.start()
        for times, most in ((_TIMES, 0), (_COUNTED, 1)):
            end = shape[-max(_CIRCLE, times * period) :]
            last = numbers[len(numbers) - end.count("0") :]
            pairs = zip(last, last[end[:period].count("0") :], strict=False)
            is_long = len(end) >= max(_CIRCLE, times * period)
            if is_long and end[period:] == end[:-period] and all(b - a in (0, most) for a, b in pairs):
                return not most or len(_WORD.findall(end[:period])) >= _SENTENCE
    return False
