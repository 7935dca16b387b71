"""Compact a conversation: plan, have the older part summarised, put the summary in its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from chatmd.compaction.plan import CompactOptions, Plan, plan_compaction
from chatmd.compaction.summary import Summary, carried_over, is_summary, read_summary
from chatmd.compaction.telling import Expanded, notes_of, parts_of, shown_in, tokens_of
from chatmd.errors import ChatmdError, NothingToCompact
from chatmd.language.items import Item, MessageItem
from chatmd.language.transcript import storable
from lmm.disk.journal import key_of
from lmm.messages import Attachment, ChatRequest, Message, Reply, Usage, render
from lmm.models.client import ask_once
from lmm.models.port import ChatModel
from lmm.models.tokens import count_tokens
from lmm.prompts.templates import Prompts

# The part of the model's window that a request may take; the rest is for the reply, and for tokens counted wrongly.
_SHARE = 0.7
_LEAST_ROOM = 300
_FENCED = re.compile(r"\A\s*```\w*\n(.*)\n```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What came of it: the `message` that stands for what is gone, and the conversation as `items`.

    `before` and `after` are tokens of the conversation, as far as its contents are known; `was` are its items before.
    """

    plan: Plan
    message: Message
    items: tuple[Item, ...]
    before: int
    after: int
    usage: Usage
    model: str
    was: tuple[Item, ...] = ()


async def compacted(
    items: Sequence[Item],
    model: ChatModel,
    prompts: Prompts,
    *,
    window: int,
    options: CompactOptions = CompactOptions(),
    expanded: Expanded | None = None,
    fixed: Collection[int] = (),
    source: str = "",
) -> Compaction:
    """The conversation with its older part in a summary by `model`, whose window has `window` tokens.

    `expanded` is what documents stand for, `fixed` the indices that must stay, `source` where the whole is kept.

    Raises:
        NothingToCompact: nothing can go, or the summary is no shorter than what it stands for.
        ChatmdError: the model has no language to write in, or its window or its output limit is too small.
        ModelError: the model did not answer.
    """
    contents: Expanded = expanded or {}
    sizes = [tokens_of(item, contents, count_tokens) for item in items]
    plan = plan_compaction(items, sizes, options, fixed)
    if not plan.told:
        raise NothingToCompact("there is nothing to compact", hint=_hint(options))
    gone = [items[index] for index in plan.gone]
    words = words_for(sum(sizes[index] for index in plan.gone), options)
    text, usage = await _summarised([[items[i] for i in group] for group in plan.told], model, prompts, window, words,
                                    contents)  # fmt: skip
    message = Summary(text, notes_of(gone, contents), shown_in(gone), source).as_message()
    new = MessageItem("user", (render(message),))
    size = count_tokens(render(message))
    before, after = sum(sizes), sum(sizes[index] for index in plan.stays) + size
    if after >= before:
        raise NothingToCompact(
            f"a summary would be no shorter: {after:,} tokens instead of {before:,}", hint="it stays as it is"
        )
    made = tuple(_with_summary(items, plan, new))
    return Compaction(plan, message, made, before, after, usage, model.name, tuple(items))


def _hint(options: CompactOptions) -> str:
    if options.to is not None or not options.keep:
        return "it stays as it is"
    stays = "the last turn stays" if options.keep == 1 else f"the last {options.keep} turns stay"
    return f"{stays}; keep fewer: --keep {options.keep - 1}, or say how much: --to 20000"


def _with_summary(items: Sequence[Item], plan: Plan, summary: Item) -> list[Item]:
    last = plan.gone[-1]
    gone = set(plan.gone)
    return [
        summary if index == last else item for index, item in enumerate(items) if index == last or index not in gone
    ]


def words_for(tokens: int, options: CompactOptions) -> int:
    """How many words a summary of so many tokens may have: an eighth, but between 120 and 900.

    >>> words_for(40_000, CompactOptions()), words_for(2000, CompactOptions()), words_for(9000, CompactOptions(to=1000))
    (900, 250, 125)
    """
    most = 900 if options.to is None else max(options.to // 8, 60)
    return min(max(tokens // 8, 120), most)


async def _summarised(
    groups: Sequence[Sequence[Item]],
    model: ChatModel,
    prompts: Prompts,
    window: int,
    words: int,
    contents: Expanded,
) -> tuple[str, Usage]:
    """The summary of groups, made in as many parts as the window asks for, each with the summary so far."""
    if model.name.startswith("Builtin/"):
        raise ChatmdError(
            f"{model.name} cannot summarise a conversation",
            hint="name a language model under [aux] in config.toml, or with --model",
        )
    prompt = prompts.fill("compact", words=str(words))
    room = int(window * _SHARE) - count_tokens(prompt) - 3 * words
    if room < _LEAST_ROOM:
        raise ChatmdError(
            f"{model.name} with a window of {window:,} tokens has no room to summarise a conversation",
            hint="name a larger model, or correct 'context_window' under [aux] in config.toml",
        )
    text, usage = "", Usage()
    earlier = [read_summary(item).text for group in groups for item in group if is_summary(item)]
    for documents in parts_of(groups, contents, room, count_tokens):
        so_far = (Attachment(text, "conversation-summary"),) if text else ()
        reply = await _ask(model, ChatRequest((Message("user", prompt, (*so_far, *documents)),), task="summary"))
        new = _cleaned(reply.text)
        for old in earlier:
            new = carried_over(old, new)
        text, earlier, usage = new, [new], usage + reply.usage
    return text, usage


async def _ask(model: ChatModel, request: ChatRequest) -> Reply:
    """The reply, from the journal if it was paid for already."""
    key = key_of("compact", model.name, [render(message) for message in request.messages])
    reply = await ask_once(model, request, key)
    if reply.cut:
        raise ChatmdError(
            f"the summary by {model.name} broke off at its output limit",
            hint="raise 'max_tokens' under [aux] in config.toml",
        )
    return reply


def _cleaned(reply: str) -> str:
    """A reply as it can stand in a file, without a code fence around all of it."""
    fenced = _FENCED.match(reply)
    return storable(fenced[1] if fenced and "\n```" not in fenced[1] else reply).strip()
