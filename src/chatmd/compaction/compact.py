"""Compact a conversation: plan, have the older part summarised, put the summary in its place."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from chatmd.compaction.memory import memory_of
from chatmd.compaction.plan import CompactionPlan, CompactOptions, plan_compaction
from chatmd.compaction.summary import (
    Expanded,
    Summary,
    fitting,
    headings_of,
    notes_of,
    shown_in,
    tokens_of,
)
from chatmd.content.expand import Expansions
from chatmd.context import Configuration, Run, settings_of
from chatmd.errors import ChatmdError, NothingToCompact
from chatmd.language.agent import Doc, Item, MessageItem, interpret, read_agent
from chatmd.language.imports import resolve_imports
from chatmd.language.nodes import Element, Node, SyntaxTree, Text
from chatmd.language.syntax import parse, serialize
from chatmd.language.transcript import storable, transcript_text
from chatmd.prompts.templates import chatmd_prompts
from chatmd.sidecar import FOLDER, Expandable, ExpansionRecord, free_name, keep, occurrences
from lmm.config import ModelSettings, Settings, is_chosen
from lmm.disk.files import read_document
from lmm.disk.journal import key_of
from lmm.disk.secrets import is_secret_file
from lmm.errors import LmmError, TooLong
from lmm.markdown import spans
from lmm.messages import ChatRequest, Image, Message, Reply, Usage, render
from lmm.models.budget import BudgetedModel
from lmm.models.chat import shared_chat
from lmm.models.client import ask_once
from lmm.models.context_window import learn, surely_fits, window_of
from lmm.models.port import ChatModel
from lmm.models.tokens import count_tokens
from lmm.prompts.templates import Prompts

# -- A file with a summary in place of elements; everything else stays as it is written, byte for byte


def foreign_items(document: SyntaxTree, items: Sequence[Item]) -> frozenset[int]:
    """Indices of the items that were imported: they stand in other files, and cannot be taken out of this one."""
    return frozenset(n for n, item in enumerate(items) if item.span.source is not document.source)


def replace_elements(document: SyntaxTree, gone: Collection[int], summary: str) -> str:
    """The text of `document` without the elements that begin at the offsets `gone`, the last replaced by `summary`.

    White space after an element goes with it; comments stay.

    >>> from chatmd.language.syntax import parse
    >>> document = parse("<system>S</system> <user>1</user> <assistant>2</assistant> <user/>")
    >>> replace_elements(document, [19, 34], "<user>3</user>")
    '<system>S</system> <user>3</user> <user/>'
    """
    return "".join(_pieces(document.children, gone, summary, max(gone, default=-1)))


def _pieces(nodes: Sequence[Node], gone: Collection[int], summary: str, last: int) -> Iterator[str]:
    before_is_gone = False
    for node in nodes:
        start = node.span.start if node.span is not None else -1
        if isinstance(node, Element) and start in gone:
            if start == last:
                yield summary
            before_is_gone = start != last
            continue
        if not (before_is_gone and isinstance(node, Text) and node.is_blank):
            yield serialize([node])
        before_is_gone = False


# The part of the model's window that a request may take; the rest is for the reply, and for tokens counted wrongly.
_SHARE = 0.7
_LEAST_ROOM = 300
_KEPT = 6  # characters that are carried over by code, for each word that the summary may have


@dataclass(frozen=True, slots=True)
class Compaction:
    """What came of it: the `message` that stands for what is gone, and the conversation as `items`.

    `before` and `after` are tokens of the conversation, as far as its contents are known; `was` are its items before.
    `text` is the new one, and the `original` is kept there, if it is a file's.
    """

    plan: CompactionPlan
    message: Message
    items: tuple[Item, ...]
    before: int
    after: int
    usage: Usage
    model: str
    was: tuple[Item, ...] = ()
    text: str = ""
    original: Path | None = None


async def compact_items(
    items: Sequence[Item],
    model: ChatModel,
    prompts: Prompts,
    *,
    window: int,
    options: CompactOptions = CompactOptions(),
    expanded: Expanded | None = None,
    fixed: Collection[int] = (),
    source: str = "",
    server: str = "",
) -> Compaction:
    """The conversation with its older part in a summary by `model`, whose window has `window` tokens.

    `expanded` is what documents stand for, `fixed` the indices that must stay, `source` where the whole is kept,
    `server` the address of the model's, which may have another one under that name.

    Raises:
        NothingToCompact: nothing can go, or the summary is no shorter than what it stands for.
        ChatmdError: the model has no language to write in, or its window or its output limit is too small.
        ModelError: the model did not answer.
    """
    contents: Expanded = expanded or {}
    sizes = [tokens_of(item, contents, count_tokens) for item in items]
    plan = plan_compaction(items, sizes, options, fixed)
    if not plan.gone:
        raise NothingToCompact("there is nothing to compact", hint=_hint(options))
    gone = [items[index] for index in plan.gone]
    told = sum(sizes[index] for index in plan.gone)
    words = words_for(told, options.to)
    text, usage = await _summarise(gone, model, prompts, window, words, contents, server)
    kept = memory_of(gone, contents, text, min(words * _KEPT, told))  # a quarter of it, at most
    message = Summary(text, notes_of(gone, contents), shown_in(gone), source, kept).as_message()
    new = MessageItem("user", (render(message),))
    size = count_tokens(render(message))
    before, after = sum(sizes), sum(sizes[index] for index in plan.stays) + size
    if after >= before:
        raise NothingToCompact(
            f"a summary would not be shorter: {after:,} tokens instead of {before:,}", hint="it stays unchanged"
        )
    made = tuple(_with_summary(items, plan, new))
    return Compaction(plan, message, made, before=before, after=after, usage=usage, model=model.name, was=tuple(items))


def _hint(options: CompactOptions) -> str:
    if options.to is not None or not options.keep:
        return "it stays unchanged"
    stays = "the last turn stays" if options.keep == 1 else f"the last {options.keep} turns stay"
    return f"{stays}; keep fewer: --keep {options.keep - 1}, or say how much: --to 20000"


def _with_summary(items: Sequence[Item], plan: CompactionPlan, summary: Item) -> list[Item]:
    last = plan.gone[-1]
    gone = set(plan.gone)
    return [
        summary if index == last else item for index, item in enumerate(items) if index == last or index not in gone
    ]


def words_for(tokens: int, to: int | None) -> int:
    """How many words a summary of so many tokens may have: an eighth, but between 120 and 900.

    >>> words_for(40_000, None), words_for(2000, None), words_for(9000, 1000)
    (900, 250, 125)
    """
    most = 900 if to is None else max(to // 8, 60)
    return min(max(tokens // 8, 120), most)


async def _summarise(
    items: Sequence[Item],
    model: ChatModel,
    prompts: Prompts,
    window: int,
    words: int,
    contents: Expanded,
    server: str,
) -> tuple[str, Usage]:
    """The summary of items by one request, of which the journal knows what was paid for already.

    Where the model refuses it as too long, its window is smaller than it was thought to be.
    """
    if model.name.startswith("Builtin/"):
        raise ChatmdError(
            f"{model.name} cannot summarise a conversation",
            hint="set a language model under [aux] in config.toml, or choose one with --model",
        )
    prompt = prompts.fill("compact", words=str(words))
    while True:
        room = int(window * _SHARE) - count_tokens(prompt) - words
        if room < _LEAST_ROOM:
            raise ChatmdError(
                f"{model.name} with a window of {window:,} tokens has no room to summarise a conversation",
                hint="set a larger model, or correct 'context_window' under [aux] in config.toml",
            )
        message = Message("user", prompt, fitting(items, contents, room, count_tokens))
        key = key_of("compact", model.name, server, [render(message)])
        try:
            reply = await ask_once(model, ChatRequest((message,), task="summary"), key)
        except TooLong as refusal:
            window = min(refusal.window or window // 2, window - 1)
            continue
        return _checked(reply, prompt), reply.usage


def _checked(reply: Reply, prompt: str) -> str:
    """The summary that a reply is.

    Raises:
        ChatmdError: it broke off, or has none of the headings that the prompt asks for.
    """
    if reply.cut:
        raise ChatmdError(
            f"the summary by {reply.model} was cut off at its output limit",
            hint="raise 'max_tokens' under [aux] in config.toml",
        )
    text, asked = _clean(reply.text), headings_of(prompt)
    if asked and not asked & headings_of(text):
        raise ChatmdError(
            f"the summary by {reply.model} has none of the required headings",
            hint="set another model under [aux] in config.toml, or choose one with --model",
        )
    return text


def _clean(reply: str) -> str:
    """A reply as it can stand in a file, without a code fence around all of it."""
    reply = reply.strip()
    code = next((span for span in spans(reply) if span.kind == "code_block"), None)
    return storable(code.text if code and (code.start, code.end) == (0, len(reply)) else reply).strip()


# -- The conversation in a text


_LARGEST = 10_000_000  # bytes of a document that is read to count its tokens


async def compact_text(
    text: str,
    settings: Settings,
    options: CompactOptions = CompactOptions(),
    *,
    model: ChatModel | None = None,
    path: Path | None = None,
    folder: Path | None = None,
    roots: Sequence[Path] = (),
) -> Compaction:
    """The conversation in a text that somebody holds, as a run does; `path` is where it is on disk.

    `model` summarises, else the aux model. Without a path, what the text names is relative to `folder`.
    With a path, the original is written beside it, and the caller replaces the file, and carries over what documents
    stood for (`chatmd.sidecar.ExpansionRecord.carry_over`).

    Raises:
        NothingToCompact: it is as short as it can be made.
        InvalidDocument: the text has errors.
        ChatmdError, ModelError: no summary came.
    """
    document = parse(text, file=str(path or ""))
    items = read_agent(resolve_imports(document, roots=roots)).items
    original = free_name(path) if path else None
    done = await compact_items(
        items,
        model or shared_chat(settings.aux),
        chatmd_prompts(settings.prompts_folder),
        window=(await window_of(settings.aux)).tokens,
        options=options,
        expanded=known_texts(items, path or (folder or Path()) / "text"),
        server=settings.aux.base_url,
        fixed=foreign_items(document, items),
        source=f"{FOLDER}/{original.name}" if original else "",
    )
    if original is not None:
        await asyncio.to_thread(keep, text, original)
    gone = [items[index].span.start for index in done.plan.gone]
    text = replace_elements(document, gone, transcript_text([done.message]))
    return dataclasses.replace(done, text=text, original=original)


def known_texts(items: Iterable[Item], path: Path) -> Expanded:
    """What documents and agents of a transcript in `path` stood for when a model saw them, else what files hold now.

    Results that are kept beside it are such files; what may contain keys is not read.
    """
    recorded, folder = ExpansionRecord(path, keeps=False), path.resolve().parent
    found: list[tuple[Expandable, str | Image]] = []
    for one in occurrences(items):
        with contextlib.suppress(OSError, ValueError, LmmError):
            value = recorded.find(one.key) if one.key else None
            if value is None and isinstance(one.part, Doc) and one.part.local:
                value = _file_text(folder / one.part.src, folder)
            if value is not None and not (one.part.local and is_secret_file(PurePath(one.part.src))):
                found.append((one.part, value))
    return Expansions(found)


def _file_text(path: Path, folder: Path) -> str | None:
    real = path.resolve()
    secret = is_secret_file(real.relative_to(folder))  # or ValueError: it lies outside
    return read_document(real) if not secret and real.is_file() and real.stat().st_size <= _LARGEST else None


# -- writing -------------------------------------------------------------------------------------


# -- Automatic compaction: before a conversation outgrows its model, its older part becomes a summary


_SMALL = 1_000  # tokens, with which no window is asked for

_COUNTED, _PIECES = 40_000, 20  # characters; the pieces are spread evenly


@dataclass(slots=True)
class Compactor:
    """Watches how much of its window a conversation takes with `model`. `path` is its file, if it has one.

    The aux model of the `run` summarises. After a failure nothing more is tried in this run.
    """

    model: ModelSettings
    run: Run
    path: Path | None = None
    _used: int = 0
    _failed: bool = False

    def note(self, usage: Usage) -> None:
        """What the last request took, and what it added."""
        self._used = usage.input_tokens + usage.output_tokens

    async def is_due(self, text: str) -> bool:
        """Whether it is time, with `text` as the whole conversation. Before the first request, that is estimated."""
        share = self.run.rules.compact_at
        if self._failed or not share or self._is_small(text):
            return False
        window = (await window_of(self.model)).tokens
        if not self._used and len(text) > window * share:  # a token has one character or more
            self._used = estimate(text)
        return self._used >= window * share

    def _is_small(self, text: str = "") -> bool:
        return self._used < _SMALL and surely_fits(self.model, text)

    def can_make_room(self, refusal: TooLong, text: str) -> bool:
        """Whether there is a way out after the model refused `text` as too long, from which its window is learnt."""
        learn(self.model, refusal, max(self._used, estimate(text)))
        return bool(self.run.rules.compact_at) and not self._failed

    async def compact(self, text: str) -> Compaction:
        """The conversation with a summary in it, a quarter of the window long; the original is beside the file.

        Raises:
            LmmError: there is no summary, and `text` stays as it is.
        """
        try:
            options = CompactOptions(to=(await window_of(self.model)).tokens // 4)
            model = BudgetedModel(self.run.open_model(self.run.settings.aux), self.run.tally)
            done = await compact_text(
                text, self.run.settings, options,
                model=model, path=self.path, folder=self.run.folder, roots=self.run.rules.roots,
            )  # fmt: skip
        except LmmError:
            self._failed = True
            raise
        self._used = 0
        return done


def summarising(
    text: str, path: Path, configuration: Configuration, *, model: str = "", roots: Sequence[Path] = ()
) -> Settings:
    """The settings with which the conversation in a file is compacted by its aux model; `model` names another.

    Unless somebody chose an aux model, it is the file's own that summarises.

    Raises:
        ConfigError: there is no such model.
    """
    configured = configuration.settings(overrides={"aux": model} if model else None)
    if is_chosen(configured, "aux"):
        return configured
    spec = interpret(resolve_imports(parse(text, file=str(path)), roots=roots))[0]  # however much is wrong with it
    return settings_of(spec.config, configuration)


def estimate(text: str) -> int:
    """About how many tokens a text has; of a long one, pieces of it are counted."""
    if len(text) <= _COUNTED:
        return count_tokens(text)
    step = len(text) // _PIECES
    pieces = "".join(text[at : at + _COUNTED // _PIECES] for at in range(0, step * _PIECES, step))
    return count_tokens(pieces) * len(text) // len(pieces)
