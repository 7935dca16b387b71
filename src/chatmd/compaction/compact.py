"""Compact a conversation: choose the older part, let a model summarise it, and replace it by the summary."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath

from chatmd.content.expand import Expansions
from chatmd.context import Run, settings_of
from chatmd.errors import ChatmdError, NothingToCompact
from chatmd.language.agent import (
    CallItem,
    Doc,
    Expandable,
    Img,
    Item,
    MessageItem,
    OutputItem,
    Part,
    ReasoningItem,
    SubAgent,
    answers_in,
    content_of,
    read_agent,
    text_of,
)
from chatmd.language.nodes import Element, SyntaxTree, Text
from chatmd.language.syntax import parse, serialize
from chatmd.language.transcript import NOTE_TAG, items_of, notes_in, storable, user_text
from chatmd.prompts.templates import chatmd_prompts
from chatmd.sidecar import FOLDER, ExpansionRecord, free_name, occurrences, write_private
from chatmd.tools.registry import FunctionTool
from chatmd.tools.text_files import cut
from lmm import terminal
from lmm.config import ModelSettings, Settings
from lmm.disk.files import read_document
from lmm.disk.folder import Folder
from lmm.disk.journal import key_of
from lmm.disk.names import is_secret_file
from lmm.errors import LmmError, TooLong
from lmm.markdown import spans
from lmm.messages import Attachment, ChatRequest, Image, Message, ToolDefinition, Usage, object_schema, render
from lmm.models.budget import BudgetedModel
from lmm.models.client import ask_once
from lmm.models.port import ChatModel, ModelLike, given_model
from lmm.models.tokens import count_tokens, learn, surely_fits, window_of

# -- The message with the summary of a conversation ------------------------------------------------------------


LABEL, NOTE, SHOWN = "conversation-summary", NOTE_TAG, "shown"
NOTICE = (
    "The conversation up to here was longer than can be kept. This is a summary of it, for your information. "
    "It asks nothing: do not answer it, go on with what follows."
)
SHOWN_NOTICE = " <shown> names documents that you saw; read them again if you need them."
NOTES_NOTICE = f" <{NOTE}> has what the user said while tools ran."
MOST_SHOWN = 50

_OPENING = re.compile(rf'<(?P<label>{LABEL}|{NOTE}|{SHOWN})(?P<more>-\d+)?(?: from="(?P<source>[^"]*)")?>\n')


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary: its `text` in markdown; `notes` that the user sent while tools ran; `document_names` of those shown.

    `source` is the file with the whole conversation.
    """

    text: str
    notes: tuple[str, ...] = ()
    document_names: tuple[str, ...] = ()
    source: str = ""

    def as_message(self) -> Message:
        """Return the summary as a user message for the conversation; `read_summary` parses it."""
        documents = [Attachment(self.text, LABEL, self.source), *(Attachment(note, NOTE) for note in self.notes)]
        documents += [Attachment("\n".join(self.document_names[-MOST_SHOWN:]), SHOWN)] if self.document_names else []
        return Message(
            "user",
            NOTICE + NOTES_NOTICE * bool(self.notes) + SHOWN_NOTICE * bool(self.document_names),
            tuple(documents),
        )


def is_summary(item: Item) -> bool:
    """Return whether an item is a message with a summary.

    >>> is_summary(MessageItem("user", ("<conversation-summary>\\nShort.\\n</conversation-summary>\\n",)))
    True
    """
    if not isinstance(item, MessageItem) or item.role != "user":
        return False
    opening = _OPENING.match(_text(item))
    return opening is not None and opening["label"] == LABEL


def read_summary(item: Item) -> Summary:
    """Parse a message for which `is_summary` is true."""
    text, at = _text(item), 0
    found: dict[str, list[str]] = {LABEL: [], NOTE: [], SHOWN: []}
    source = ""
    while opening := _OPENING.match(text, at):
        end = text.find(f"\n</{opening['label']}{opening['more'] or ''}>", opening.end())
        if end < 0:
            break
        found[opening["label"]].append(text[opening.end() : end])
        source = source or opening["source"] or ""
        at = text.find(">", end) + 1
        at += len(text[at:]) - len(text[at:].lstrip("\n"))
    document_names = tuple(line for names in found[SHOWN] for line in names.splitlines())
    return Summary("\n\n".join(found[LABEL]) if found[LABEL] else text, tuple(found[NOTE]), document_names, source)


def _text(item: Item) -> str:
    return text_of(item.content).lstrip() if isinstance(item, MessageItem) else ""


# -- Items of a conversation as attachments for the model that summarises, cut to fit its window --------------


Expanded = Mapping[Expandable, str | Image]
"""The contents of documents and agents, as far as they are known; for others, only the name is given."""
IMAGE_TOKENS = 1000
_SHORTEST = 80  # characters: texts are not cut below this length


def attachment_of(item: Item, expanded: Expanded, limit: int) -> Attachment | None:
    """Return an item for the model, with its text cut in the middle to `limit` characters; None if it is empty.

    >>> attachment_of(CallItem("c1", "read_file", ('{"file": "a.md"}',)), {}, 100)
    Attachment(text='{"file": "a.md"}', label='call', source='read_file', number=0, more=())
    """
    if is_summary(item):
        return Attachment(read_summary(item).text, LABEL)
    text = "\n".join(item.summaries) if isinstance(item, ReasoningItem) else content_text(content_of(item), expanded)
    label, source = "thought", ""
    if isinstance(item, MessageItem):
        label, source = item.role, item.name
    elif isinstance(item, CallItem):
        label, source = "call", item.name
    elif isinstance(item, OutputItem):
        label, source = "result", f"{item.name}{' (failed)' * item.failed}"
    return Attachment(cut(text.strip(), limit), label, source) if text.strip() else None


def content_text(content: Iterable[Part], expanded: Expanded) -> str:
    """Join the texts of a content, with the contents of documents as far as they are known."""
    return "\n".join(_part(part, expanded) for part in content)


def _part(part: Part, expanded: Expanded) -> str:
    if isinstance(part, str):
        return part
    value = expanded.get(part)
    return value if isinstance(value, str) else f"[{name_of(part)}]"


def name_of(part: Expandable) -> str:
    """Return the name of a document, an image or an agent.

    >>> name_of(Doc("notes.md", local=True)), name_of(Img("data:image/png;base64,AAAA"))
    ('document notes.md', 'image, inline')
    """
    what = {Doc: "document", Img: "image", SubAgent: "agent"}[type(part)]
    return f"{what}, inline" if part.src.startswith("data:") else f"{what} {part.src}"


def cut_to_tokens(text: str, limit: int) -> str:
    """Cut a text in the middle to about `limit` tokens, with a note about how much is missing."""
    if len(text) <= limit or (tokens := count_tokens(text)) <= limit:  # a token has one character or more
        return text
    return cut(text, len(text) * limit // tokens)


def shown_in(items: Iterable[Item]) -> tuple[str, ...]:
    """Return the names of all documents and images of a conversation, each once, in the order of their last use.

    Stored arguments and results of tools are not included.
    """
    names: dict[str, None] = {}
    for item in items:
        parts = item.content if isinstance(item, MessageItem) else ()
        named = (name_of(part) for part in parts if not isinstance(part, str))
        for name in read_summary(item).document_names if is_summary(item) else named:
            names.pop(name, None)
            names[name] = None
    return tuple(names)


def notes_of(items: Iterable[Item], expanded: Expanded) -> tuple[str, ...]:
    """Return the notes that a user sent while tools ran, including those of earlier summaries."""
    found: list[str] = []
    for item in items:
        if is_summary(item):
            found += read_summary(item).notes
        elif isinstance(item, OutputItem):
            found += notes_in(content_text(item.content, expanded))
    return tuple(dict.fromkeys(found))


def tokens_of(item: Item, expanded: Expanded) -> int:
    """Return the number of tokens of an item, as far as its contents are known."""
    if isinstance(item, ReasoningItem):
        return sum(map(count_tokens, item.summaries))
    total = count_tokens(item.name) if isinstance(item, CallItem) else 0
    for part in content_of(item):
        value = part if isinstance(part, str) else expanded.get(part)
        total += count_tokens(value) if isinstance(value, str) else IMAGE_TOKENS if isinstance(part, Img) else 0
    return total


def fitting(items: Sequence[Item], expanded: Expanded, room: int) -> tuple[Attachment, ...]:
    """Return the items as attachments with at most `room` tokens together.

    Long texts are cut in the middle, as little as possible; if that is not enough, only the last ones are kept.
    Earlier summaries are not cut.
    """
    limit = room * 4  # characters
    while True:
        documents = [d for item in items if (d := attachment_of(item, expanded, limit)) is not None]
        if limit == _SHORTEST or _size(documents) <= room:
            break
        limit = max(limit * 3 // 4, _SHORTEST)
    attachments: list[Attachment] = []
    room -= _size(document for document in documents if document.label == LABEL)
    for document in reversed(documents):
        room -= 0 if document.label == LABEL else _size((document,))
        attachments += [document] if room >= 0 or document.label == LABEL else []
    return tuple(reversed(attachments))


def _size(documents: Iterable[Attachment]) -> int:
    return sum(count_tokens(document.text) + 12 for document in documents)  # and its tags


KEEP = 3
SUMMARY_TOKENS = 1500
"""The number of tokens that are reserved for the summary, if `to` is large enough."""


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """Options: `keep` is the number of turns that stay; fewer stay if the conversation would exceed `to` tokens."""

    keep: int = KEEP
    to: int | None = None


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Indices of items, in order: those that stay, and those that go; the summary replaces the last one `removed`."""

    retained: tuple[int, ...]
    removed: tuple[int, ...]


def plan_compaction(
    items: Sequence[Item], sizes: Sequence[int], options: CompactOptions, fixed: Collection[int] = ()
) -> CompactionPlan:
    """Choose which `items` stay; `sizes` are their tokens, `fixed` the indices that have to stay.

    The user's last message stays while it is unanswered, whatever the options, and with it the last reply and the
    results of its calls. If a single turn is longer than `to`, its beginning is summarised too.

    >>> items = [MessageItem("system", ("Be brief.",)), MessageItem("user", ("1",)), MessageItem("assistant", ("2",)),
    ...     MessageItem("user", ("3",)), MessageItem("assistant", ("4",))]
    >>> plan_compaction(items, [5] * 5, CompactOptions(keep=1))
    CompactionPlan(retained=(0, 3, 4), removed=(1, 2))
    """
    groups = group_items(items)
    pinned = {index for index, item in enumerate(items) if is_pinned(item)}
    fixed_groups = {number for number, group in enumerate(groups) if any(i in fixed and i not in pinned for i in group)}
    weights = [sum(sizes[i] for i in group if i not in pinned) for group in groups]
    always = sum(sizes[i] for i in pinned) + sum(weights[number] for number in fixed_groups)
    end = len(groups)
    while end and all(_is_blank(items[i]) for i in groups[end - 1]):  # the blank message for the user
        end -= 1
    is_open = end > 0 and not _is_assistant(items[groups[end - 1][-1]])
    retained_groups = {*range(end, len(groups))}
    if options.keep or is_open:  # the last turns stay; fewer, or the end of the last one, if that is what fits
        turns = _turns(items, groups)
        last = turns[-1] if turns else 0
        firsts = [turns[-count] if count <= len(turns) else 0 for count in range(options.keep, 0, -1)] or [last]
        asked = {n for n in range(last, end) if all(_is_user(items[i]) for i in groups[n])}  # these stay in any case
        room = None if options.to is None else options.to - always - min(SUMMARY_TOKENS, options.to // 4)
        for first in (*firsts, *range(last + 1, end)):
            retained_groups = {*range(first, len(groups)), *(asked if first > last else ())}
            if room is None or sum(weights[number] for number in retained_groups) <= room:
                break
    retained_groups |= fixed_groups
    retained = pinned | {i for number in retained_groups for i in groups[number]}
    removed = tuple(i for i in range(len(items)) if i not in retained)
    if all(is_summary(items[i]) or _is_blank(items[i]) for i in removed):
        return CompactionPlan(tuple(range(len(items))), ())
    return CompactionPlan(tuple(sorted(retained)), removed)


def is_pinned(item: Item) -> bool:
    """Return whether an item is an instruction, which always stays."""
    return isinstance(item, MessageItem) and item.role in ("system", "developer")


def group_items(items: Sequence[Item]) -> tuple[tuple[int, ...], ...]:
    """Split the indices of `items` into groups that must not be separated, in order.

    A call and its output are in one group with everything between them; thoughts and a text are in one group with the
    calls that follow them.

    >>> group_items([MessageItem("user"), ReasoningItem("r"), CallItem("c", "f", ()), OutputItem("c")])
    ((0,), (1, 2, 3))
    """
    ends = answers_in(items)
    groups, start, reach = [], 0, 0
    for index, item in enumerate(items):
        reach = max(reach, ends.get(index, index))
        if index >= reach and (index + 1 == len(items) or not _goes_on(item, items[index + 1])):
            groups.append(tuple(range(start, index + 1)))
            start = index + 1
    return tuple(groups)


def _goes_on(item: Item, following: Item) -> bool:
    """Return whether two adjacent items belong together, as parts of one reply or as calls and results."""
    if isinstance(item, ReasoningItem):
        return isinstance(following, (ReasoningItem, CallItem)) or _is_assistant(following)
    if _is_assistant(item):
        return isinstance(following, CallItem)
    return isinstance(item, CallItem) and isinstance(following, (CallItem, OutputItem))


def _is_assistant(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.role == "assistant"


def _is_blank(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.role == "user" and item.is_blank


def _is_user(item: Item) -> bool:
    """Return whether an item is a user message with content, and not a summary."""
    return isinstance(item, MessageItem) and item.role == "user" and not item.is_blank and not is_summary(item)


def _turns(items: Sequence[Item], groups: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the numbers of the groups that begin a turn: user messages that do not follow another one."""
    found, before_is_user = [], False
    for number, group in enumerate(groups):
        if all(is_pinned(items[i]) for i in group):
            continue
        is_user = all(_is_user(items[i]) for i in group)
        if is_user and not before_is_user:
            found.append(number)
        before_is_user = is_user
    return found


# -- Replace elements of a file by a summary; everything else stays byte for byte


def replace_elements(document: SyntaxTree, removed: Collection[int], summary: str) -> str:
    """Remove the elements that begin at the offsets `removed` from a document; `summary` replaces the last of them.

    White space after an element is removed with it; comments stay.

    >>> from chatmd.language.syntax import parse
    >>> document = parse("<system>S</system> <user>1</user> <assistant>2</assistant> <user/>")
    >>> replace_elements(document, [19, 34], "<user>3</user>")
    '<system>S</system> <user>3</user> <user/>'
    """
    last, made, follows_removed = max(removed, default=-1), list[str](), False
    for node in document.children:
        if isinstance(node, Element) and node.span.start in removed:
            follows_removed = node.span.start != last
            made += [] if follows_removed else [summary]
            continue
        if not (follows_removed and isinstance(node, Text) and node.is_blank):
            made.append(serialize([node]))
        follows_removed = False
    return "".join(made)


# The share of the model's window for a request; the rest is for the reply, and for errors in the count of tokens.
_SHARE = 0.7
_LEAST_ROOM = 300


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction: the new conversation as `items`, and its new `text`.

    `before` and `after` are tokens of the conversation, as far as its contents are known; `was` are its items before.
    `original` is the path of the copy of the old text, if it is a file's.
    """

    plan: CompactionPlan = field(repr=False)
    was: tuple[Item, ...] = field(repr=False)
    items: tuple[Item, ...] = field(repr=False)
    text: str = field(repr=False)
    before: int
    after: int
    usage: Usage
    model: str
    original: Path | None = None


async def _summarise(
    items: Sequence[Item], tokens: int, model: ChatModel, settings: Settings, options: CompactOptions, known: Expanded
) -> tuple[str, Usage]:
    """Ask for a summary of items with so many `tokens` in one request; a reply that was paid for before is reused.

    If the model refuses the request as too long, a smaller window is tried.

    Raises:
        ChatmdError: the model cannot write text, its window or output limit is too small, or it wrote no summary.
        ModelError: the model did not answer.
    """
    if model.name.startswith("Builtin/"):
        hint = "set a language model under [aux] in config.toml, or choose one with --model"
        raise ChatmdError(f"{model.name} cannot summarise a conversation", hint=hint)
    # An eighth of the tokens, but between 120 and 900.
    words = min(max(tokens // 8, 120), 900 if options.to is None else max(options.to // 8, 60))
    prompt = chatmd_prompts(settings.prompts.folder).fill("compact", words=str(words))
    window, reply = (await window_of(settings.aux)).tokens, None
    while reply is None:
        room = int(window * _SHARE) - count_tokens(prompt) - words
        if room < _LEAST_ROOM:
            problem = f"{model.name} with a window of {window:,} tokens has no room to summarise a conversation"
            hint = "set a larger model, or correct 'context_window' under [aux] in config.toml"
            raise ChatmdError(problem, hint=hint)
        message = Message("user", prompt, fitting(items, known, room))
        # Servers may have different models of the same name.
        key = key_of("compact", model.name, settings.aux.base_url, [render(message)])
        try:
            reply = await ask_once(model, ChatRequest((message,), task="summary"), key)
        except TooLong as refusal:
            window = min(refusal.window or window // 2, window - 1)
    if reply.cut:
        hint = "raise 'max_tokens' under [aux] in config.toml"
        raise ChatmdError(f"the summary by {reply.model} was cut off at its output limit", hint=hint)
    text = reply.text.strip()  # perhaps in a code fence around all of it
    code = next((span for span in spans(text) if span.kind == "code_block"), None)
    text = storable(code.text if code and (code.start, code.end) == (0, len(text)) else text).strip()
    if reply.calls or not text:
        what = "called a tool" if reply.calls else "an empty text"
        hint = "set another model under [aux] in config.toml, or choose one with --model"
        raise ChatmdError(f"{reply.model} wrote no summary, but {what}", hint=hint)
    return text, reply.usage


# -- Compact the conversation in a text


_LARGEST = 10_000_000  # bytes of a document that is read to count its tokens


async def compact_text(
    text: str, run: Run, options: CompactOptions = CompactOptions(), *, model: ModelLike = "", path: Path | None = None
) -> Compaction:
    """Compact the conversation in a text; `path` is its file on disk.

    `model` writes the summary; by default the aux model, or the file's own if no other was chosen. With a path, a copy
    of the original is written beside it; the caller replaces the file, and carries over the contents of documents
    (`chatmd.sidecar.ExpansionRecord.carry_over`).

    Raises:
        NothingToCompact: it cannot be made shorter.
        InvalidDocument: the text has errors.
        ConfigError, ChatmdError, ModelError: there is no such model, or it wrote no summary.
    """
    document = parse(text, file=str(path or ""))
    spec = read_agent(run.rules.imported(document))
    items, original = spec.items, free_name(path) if path else None
    named, chosen_model = given_model(model)
    settings = run.configuration.settings(overrides={"aux": named} if named else None)
    if not settings.is_chosen("aux"):
        settings = settings_of(spec.config, run.configuration, own=len(run.chain) == 1)
    chosen = chosen_model or BudgetedModel(run.open_model(settings.aux), run.tally)
    known = known_texts(items, path or run.folder / "text")
    sizes = [tokens_of(item, known) for item in items]
    # Imported items are in other files, and cannot be removed from this one.
    fixed = {index for index, item in enumerate(items) if item.span.source is not document.source}
    plan = plan_compaction(items, sizes, options, fixed)
    if not plan.removed:
        hint = "it stays unchanged"
        if options.to is None and options.keep:
            stays = "the last turn stays" if options.keep == 1 else f"the last {options.keep} turns stay"
            hint = f"{stays}; keep fewer: --keep {options.keep - 1}, or say how much: --to 20000"
        raise NothingToCompact("there is nothing to compact", hint=hint)
    removed = [items[index] for index in plan.removed]
    written, usage = await _summarise(removed, sum(sizes[i] for i in plan.removed), chosen, settings, options, known)
    source = f"{FOLDER}/{original.name}" if original else ""
    message = render(Summary(written, notes_of(removed, known), shown_in(removed), source).as_message())
    before, after = sum(sizes), sum(sizes[index] for index in plan.retained) + count_tokens(message)
    if after >= before:
        hint = "it stays unchanged"
        raise NothingToCompact(f"a summary would not be shorter: {after:,} tokens instead of {before:,}", hint=hint)
    if original is not None:
        await asyncio.to_thread(write_private, text, original)
    summary, last = MessageItem("user", (message,)), plan.removed[-1]
    made = tuple(summary if n == last else item for n, item in enumerate(items) if n == last or n in plan.retained)
    text = replace_elements(document, [item.span.start for item in removed], user_text(message))
    return Compaction(plan, items, made, text, before, after, usage, chosen.name, original)


def known_texts(items: Iterable[Item], path: Path) -> Expanded:
    """Return the contents of documents and agents of a transcript in `path`, as a model saw them, or as they are now.

    This includes results that are stored beside it; files that may contain keys are not read.
    """
    recorded, folder = ExpansionRecord(path, writable=False), path.resolve().parent
    found = list[tuple[Expandable, str | Image]]()
    for part, key in ((one.part, one.key) for one in occurrences(items)):
        if part.local and is_secret_file(PurePath(part.src)):
            continue
        with contextlib.suppress(OSError, ValueError, LmmError):
            value = recorded.find(key) if key else None
            if value is None and isinstance(part, Doc) and part.local:
                real = (folder / part.src).resolve()
                secret = is_secret_file(real.relative_to(folder))  # raises ValueError if it is outside of the folder
                if not secret and real.is_file() and real.stat().st_size <= _LARGEST:
                    value = read_document(real)
            found += [(part, value)] if value is not None else []
    return Expansions(found)


# -- Automatic compaction before a conversation exceeds the window of its model


_SMALL = 1_000  # tokens below which the window is not looked up if the text surely fits

_COUNTED, _PIECES = 40_000, 20  # characters; the pieces are spread evenly


@dataclass(slots=True)
class Compactor:
    """Compacts a conversation with `model` before it exceeds the window. `path` is its file, if it has one.

    The aux model of the `run` summarises. After a failure, it is not tried again in this run. `used` are the tokens of
    the last request and its reply.
    """

    model: ModelSettings
    run: Run
    path: Path | None = None
    used: int = 0
    failed: bool = False

    async def is_due(self, text: str) -> bool:
        """Return whether `text`, the whole conversation, should be compacted; before the first request, by estimate."""
        share = self.run.rules.compact_at
        if self.failed or not share or (self.used < _SMALL and surely_fits(self.model, text)):
            return False
        window = (await window_of(self.model)).tokens
        if not self.used and len(text) > window * share:  # a token has one character or more
            self.used = estimate(text)
        return self.used >= window * share

    async def room_for_results(self) -> int | None:
        """Return the number of tokens that the results of a reply may have together; None if nobody knows the window.

        What comes before the reply can be compacted to a quarter of the window.
        """
        window = await window_of(self.model)
        return max(int(window.tokens * _SHARE) - self.used, window.tokens // 3) if window.is_known else None

    def can_make_room(self, refusal: TooLong, text: str) -> bool:
        """Return whether compaction can help after the model refused `text` as too long; remember its window."""
        learn(self.model, refusal, max(self.used, estimate(text)))
        return bool(self.run.rules.compact_at) and not self.failed

    async def compact(self, text: str) -> Compaction:
        """Compact the conversation to a quarter of the window; a copy of the original is written beside the file.

        Raises:
            LmmError: there is no summary; `text` stays as it is.
        """
        try:
            options = CompactOptions(to=(await window_of(self.model)).tokens // 4)
            done = await compact_text(text, self.run, options, path=self.path)
        except LmmError:
            self.failed = True
            raise
        self.used = 0
        return done


def estimate(text: str) -> int:
    """Estimate the number of tokens of a text, from samples if it is long."""
    if len(text) <= _COUNTED:
        return count_tokens(text)
    step = len(text) // _PIECES
    pieces = "".join(text[at : at + _COUNTED // _PIECES] for at in range(0, step * _PIECES, step))
    return count_tokens(pieces) * len(text) // len(pieces)


# -- The tool `look_back`, with which the model searches the part of a conversation that was summarised ----


LOOK_BACK = "look_back"
_MOST_ORIGINALS, _MOST_FOUND, _LONGEST_FOUND = 20, 5, 3000
_LOOK_BACK = (
    "Find what was said and done in the part of this conversation that a summary stands for: the messages, calls and "
    "results that contain a text, the latest first, as they were."
)
_WANTED = {
    "type": "string",
    "minLength": 1,
    "description": "The words to look for, as they were written; not a pattern.",
}


def look_back_in(items: Sequence[Item], folder: Path | None) -> FunctionTool | None:
    """Return the tool `look_back`, if a summary in `items` names the file of the original conversation."""
    if folder is None or not any(_sources(items)):
        return None
    whole: Path = folder

    async def look_back(text: str) -> str:
        folded, lost = _folded(items, whole)
        found = [one for one in folded if text.casefold() in one.text.casefold()][-_MOST_FOUND:]
        if not found and lost:
            problem = f"{terminal.count(lost, 'file')} of it cannot be read any more"
            return f"Nothing in what is left of what was summarised contains this text: {problem}."
        if not found:
            return "Nothing in what was summarised contains this text. Try fewer words."
        return render(Message("user", "", tuple(reversed(found)))).strip()

    return FunctionTool(ToolDefinition(LOOK_BACK, _LOOK_BACK, object_schema(("text",), text=_WANTED)), look_back)


def _sources(items: Sequence[Item]) -> Iterator[str]:
    for item in items:
        source = PurePosixPath(read_summary(item).source if is_summary(item) else "")
        if source.parent == PurePosixPath(FOLDER):
            yield str(source)


def _folded(items: Sequence[Item], folder: Path) -> tuple[list[Attachment], int]:
    """What was said and done before, oldest first, in all conversations that were compacted into this one.

    With it, how many of them cannot be read.
    """
    pending, seen, found, lost = list(_sources(items)), set[str](), list[Attachment](), 0
    while pending and len(seen) < _MOST_ORIGINALS:
        source = pending.pop()
        if source in seen:
            continue
        seen.add(source)
        try:
            before = items_of(Folder(folder).read(source).decode("utf-8", "replace"))
            texts = known_texts(before, folder / PurePosixPath(source).name)
        except LmmError:  # it was deleted
            lost += 1
            continue
        pending += _sources(before)
        attachments = (attachment_of(item, texts, _LONGEST_FOUND) for item in before if not is_summary(item))
        found = [*(one for one in attachments if one is not None), *found]
    return found, lost
