"""Messages as a transcript has them, for tests that begin with a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chatmd.language.nodes import Attribute, Element, Text, joined
from chatmd.language.transcript import (
    call_element,
    element_text,
    image_element,
    reply_elements,
    result_element,
)
from lmm.messages import Message, message_parts


def transcript_text(messages: Iterable[Message]) -> str:
    """Return the text of messages in a transcript, one element after the other, each ending its line.

    Raises:
        NotStorable: a message contains a NUL or half of a surrogate pair.

    >>> print(transcript_text([Message("assistant", "Close with |RAW</user>.", item="m1")]), end="")
    <assistant id="m1">
    RAW|Close with ||RAWRAW|RAW</user>.|RAW</assistant>
    """
    return "".join(f"{element_text(element)}\n" for element in elements_of(messages))


def elements_of(messages: Iterable[Message]) -> tuple[Element, ...]:
    """Return the elements for messages. Adjacent texts of a message become one."""
    return tuple(element for message in messages for element in _elements(message))


def _elements(message: Message) -> Iterator[Element]:
    if message.role == "tool":
        yield from (result_element(result) for result in message.results)
    elif message.role == "assistant":
        yield from reply_elements(message.reasoning)
        text = "\n".join(part for part in message_parts(message) if isinstance(part, str))
        if text or message.item or not message.calls:
            yield Element(
                "assistant",
                (Attribute("id", message.item),) if message.item else (),
                (Text(text, raw=True),) if text else (),
            )
        yield from (call_element(call) for call in message.calls)
    else:
        parts = (Text(part) if isinstance(part, str) else image_element(part) for part in message_parts(message))
        yield Element(message.role, (), joined(parts))
