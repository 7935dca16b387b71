"""The chat log in a metadata block: prompts and replies, in order.

Answered prompts are stored under ``~chat_``, a list of exchanges. The trailing underscore makes Pandoc ignore
the field, so that nothing in a reply reaches the rendered document. A flat ``~chat`` list of alternating prompts
and replies, as another program writes it, is read, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmm.markdown import metadata
from lmm.markdown.blocks import Block, HeaderBlock, MetadataBlock
from lmm.markdown.metadata import Prompt
from lmm.notebook.staleness import is_unneeded

LOG = "~chat_"
OLD_LOG = "~chat"
LOG_KEYS = (LOG, OLD_LOG)
WARNING = "~~warning"
_CHUNK = re.compile(r"^((?:[^\S\n]|>)*+`{3,}+[^\S\n]*+)(\{++)(\w[^{}\n]*+)(\}++)", re.MULTILINE)
ABOUT = "~~text"


@dataclass(frozen=True, slots=True)
class ChatExchange:
    """One prompt with its keyword (``query`` or ``message``), its reply, and the model that replied.

    `warning` describes a problem of the reply, if there is one; `about` is the hash of the text it is about, if known.
    """

    word: str
    prompt: str
    reply: str
    model: str = ""
    warning: str = ""
    about: str = ""

    def as_metadata(self) -> dict[str, str]:
        """Return the exchange as it is written to metadata."""
        written = {self.word: self.prompt, "~reply": quote_chunks(self.reply)}
        more = {"~~model": self.model, ABOUT: self.about, WARNING: self.warning}
        return written | {key: value for key, value in more.items() if value}


def read_log(values: Mapping[str, Any]) -> tuple[ChatExchange, ...]:
    """Return the exchanges recorded in a block's values, oldest first; entries of another form are left out.

    >>> read_log({"~chat_": [{"query": "Why?", "~reply": "Because."}]})
    (ChatExchange(word='query', prompt='Why?', reply='Because.', model='', warning='', about=''),)
    """
    log = values.get(OLD_LOG)
    texts = [str(item) for item in log] if isinstance(log, list) else []
    old = (ChatExchange("query", q, a) for q, a in zip(texts[::2], texts[1::2], strict=False))
    return (*old, *_exchanges(values.get(LOG)))


def _exchanges(log: Any) -> list[ChatExchange]:
    found = []
    for item in log if isinstance(log, list) else []:
        if not isinstance(item, dict):
            continue
        word = "message" if metadata.lookup(item, "message") is not None else "query"
        prompt, reply = metadata.lookup(item, word), metadata.lookup(item, "reply")
        if prompt is not None and reply is not None:
            more = [str(item.get(key, "")) for key in ("~~model", WARNING, ABOUT)]
            found.append(ChatExchange(word, str(prompt), unquote_chunks(str(reply)), *more))
    return found


def logged_warnings(body: str) -> list[metadata.Scalar]:
    """Return the warnings about replies in the log of a metadata body."""
    if WARNING not in body:
        return []
    return [value for value in metadata.scalars(body) if value.path[0] in LOG_KEYS and value.path[-1] == WARNING]


def logged_line(block: Block, exchange: ChatExchange) -> int:
    """Return the line of an exchange's prompt in the log of a block, from 0; 0 if it is not found."""
    if not isinstance(block, MetadataBlock):
        return 0
    prompts = (v for v in metadata.scalars(block.body) if v.path == (LOG, exchange.word) and v.text == exchange.prompt)
    return max((value.line for value in prompts), default=0)


def current_chat(log: tuple[ChatExchange, ...]) -> tuple[ChatExchange, ...]:
    """Return the exchanges that a continuation refers to: those from the last ``query`` on."""
    return log[max((i for i, exchange in enumerate(log) if exchange.word == "query"), default=0) :]


def log_exchange(block: MetadataBlock, exchange: ChatExchange, prompt: Prompt | None = None) -> MetadataBlock:
    """Append an exchange to the log of `block`, in place of the pending `prompt`, if any; all other lines stay.

    Raises:
        MetadataError: nothing can be added to the block in its form.
    """
    before = waiting_prompt(block, prompt).start if prompt else None
    body = metadata.append_item(block.body, LOG, exchange.as_metadata(), newline=block.newline, before=before)
    return without_prompt(block.with_body(body), prompt) if prompt else block.with_body(body)


def quote_chunks(text: str) -> str:
    """Return a reply as it is stored: with one more pair of braces around the header of each chunk, as knitr and Quarto
    show chunks without running them. `unquote_chunks` takes it off again.

    >>> quote_chunks("```{r fit, echo=FALSE}\\nplot(1)\\n```")
    '```{{r fit, echo=FALSE}}\\nplot(1)\\n```'
    """
    return _CHUNK.sub(r"\1{\2\3\4}", text)


def unquote_chunks(text: str) -> str:
    """Return a stored reply as the model gave it.

    >>> unquote_chunks("```{{r}}\\n1\\n```\\n```{r}\\n2\\n```")
    '```{r}\\n1\\n```\\n```{r}\\n2\\n```'
    """

    def without_a_pair(match: re.Match[str]) -> str:
        fence, opening, header, closing = match.groups()
        quoted = len(opening) > 1 and len(closing) > 1
        return f"{fence}{opening[1:]}{header}{closing[1:]}" if quoted else match[0]

    return _CHUNK.sub(without_a_pair, text)


def unrepeated(log: Sequence[ChatExchange]) -> list[ChatExchange]:
    """Return the exchanges of a log whose prompt was not asked again later, in order."""
    last = {(exchange.word, exchange.prompt): i for i, exchange in enumerate(log)}
    return [log[i] for i in sorted(last.values())]


def logged(blocks: Sequence[Block]) -> list[tuple[int, ChatExchange]]:
    """Return all exchanges in the logs of a document, with the positions of their blocks."""
    logs = [(i, b) for i, b in enumerate(blocks) if isinstance(b, MetadataBlock) and LOG in b.body]
    return [(i, exchange) for i, block in logs for exchange in _exchanges(block.values().get(LOG))]


def waiting_texts(blocks: Iterable[Block]) -> Iterator[str]:
    """Iterate over the texts of the pending prompts in a document."""
    return (prompt.text for b in blocks if isinstance(b, MetadataBlock) for prompt in b.prompts if prompt.text)


def waiting_prompt(block: MetadataBlock, prompt: Prompt) -> Prompt:
    """Return the prompt at its present position in `block`: answers to others may have moved it."""
    return next(p for p in block.prompts if (p.word, p.text) == (prompt.word, prompt.text))


def without_prompt(block: MetadataBlock, prompt: Prompt) -> MetadataBlock:
    """Remove the lines of a prompt from `block`."""
    return block.with_body(metadata.remove_prompt(block.body, waiting_prompt(block, prompt)))


def clear_chat(block: MetadataBlock, *, pending: bool = False) -> MetadataBlock:
    """Remove the log from `block` and, with `pending`, its unanswered prompts."""
    body = block.body
    for key in LOG_KEYS:
        body = metadata.remove_key(body, key)
    changed = block.with_body(body)
    while pending and (prompts := changed.prompts):
        changed = changed.with_body(metadata.remove_prompt(changed.body, prompts[0]))
    return changed


def unless_emptied(block: MetadataBlock, following: Block | None) -> list[Block]:
    """Return `block` in a list, or an empty list if the block is empty.

    An empty header stays before another metadata block, which would take its place, and if it contains the
    document's byte order mark.
    """
    needed = isinstance(following, MetadataBlock) or block.source.startswith("\ufeff")
    return [block] if not is_unneeded(block) or (isinstance(block, HeaderBlock) and needed) else []


def cleared(blocks: Sequence[Block], clear: Callable[[MetadataBlock], MetadataBlock]) -> list[Block]:
    """Apply `clear` to all metadata blocks of a document; blocks that become empty are removed, and a header of ours
    that is not needed any more."""
    result: list[Block] = []
    for block in reversed(blocks):
        changed = clear(block) if isinstance(block, MetadataBlock) else None
        if changed is None or (changed.source == block.source and not changed.body.strip()):
            result.append(block)
        else:
            result += unless_emptied(changed, result[-1] if result else None)
    return result[::-1]
