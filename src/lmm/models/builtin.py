"""Chat models without weights, network or understanding: ``Builtin/extractive`` and ``Recorded/FILE``.

``Builtin/extractive`` answers by quoting: the sentences of the given documents that share the most telling words with
the question, in the order of the text, each with its heading. Asked for a summary, it quotes the sentences that share
the most with all others. It is deterministic, and every reply says what it is. It exists so that everything runs on a
fresh laptop and in tests. Scoring is BM25 over sentences (Robertson and Zaragoza 2009), with k1 = 1.2 and b = 0.5.

``Recorded/FILE`` replays replies that were recorded before, for demonstrations and tutorials. The file is JSON: a list
of objects with ``prompt`` and ``reply``, ``calls`` (objects with ``name`` and ``arguments``), or both; ``"cut": true``
marks a reply that stops at the output limit. A request gets the first record whose prompt its last message contains,
be it what the user said or what a tool returned; the same calls are not made twice in a turn. Every reply carries the
name ``Recorded/…``, so that nobody takes it for a model's.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from lmm.disk.files import read_document
from lmm.errors import ModelNotFound, ModelRejected
from lmm.markdown.blocks import HeadingBlock
from lmm.markdown.sentences import CLOSERS, sentences_of
from lmm.markdown.spans import replace_spans, without
from lmm.messages import Attachment, ChatEvent, ChatRequest, Message, Reply, TextDelta, ToolCall, Usage, render
from lmm.terminal import clipped

NAME = "Builtin/extractive"
NOTICE = "*Quoted by Builtin/extractive: it finds sentences that share words with the question, no more.*"
STAND_IN = (
    f"No language model is set, so {NAME} answers: it quotes documents, and can neither talk nor use tools. "
    'Choose a model: `export OPENAI_API_KEY=…`, `--model`, `major` in config.toml, or `<config model="…"/>`.'
)
MAX_QUOTES = 3
_CENTRAL_SENTENCES = 400
_DEFINES = {"is", "are", "means", "ist", "sind", "heißt"}


class ExtractiveModel:
    """The built-in chat model ``Builtin/extractive``."""

    name = NAME

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Answer the last user message from the documents of the request, a sentence at a time."""
        text = self._reply(request)
        for piece in re.findall(r"[^\n]*\n*", text):
            if piece:
                yield TextDelta(piece)
        sent = sum(_count_tokens(render(message)) for message in request.messages)
        yield Reply(text, NAME, Usage(sent, _count_tokens(text), 0.0, 1))

    def _reply(self, request: ChatRequest) -> str:
        task, choose = request.task, "choose a language model: --model, config.toml, or"
        if request.tools:
            raise ModelRejected(f"{NAME} cannot use tools", hint=f'{choose} <config model="…"/>')
        if task in ("edit", "extract"):
            cannot = "extract data" if task == "extract" else "edit or write"
            raise ModelRejected(f"{NAME} cannot {cannot}", hint=f"{choose} the header")
        if task == "answer":
            return answer(request.messages)
        sent = [d for m in request.messages for d in m.attachments]
        sentences = _sentences(sent, "text", without=_MADE)
        if not sentences:
            raise ModelRejected(f"{NAME} found no prose in this text", hint="mark the section with 'skip: true'")
        names = (request.schema or {}).get("properties", [task])
        prose = _sentences(sent, "text", without=_MADE_LISTS) or sentences
        kinds = {name: name if task == "annotate" else task for name in names}
        made = {name: _annotation(k, prose if k == "summary" else sentences) for name, k in kinds.items()}
        value = made.get(task, "")
        return json.dumps(made) if request.schema else value if isinstance(value, str) else "\n".join(value)


def _annotation(name: str, sentences: Sequence[Sentence]) -> str | list[str]:
    if name == "summary":
        return " ".join(s.text for s in central_sentences(sentences, 2))
    if name == "keywords":
        return key_terms(sentences, 8)
    headings = list(dict.fromkeys(s.heading for s in sentences if s.heading))[:3]
    about = headings + key_terms(sentences, 5 - len(headings))
    return [f"What does the text say about {topic}?" for topic in about]


def key_terms(sentences: Sequence[Sentence], count: int) -> list[str]:
    """Return the most frequent words, each in its most frequent form, those in headings first.

    >>> key_terms(split_sentences("# Leaves\\n\\nA leaf is green. The leaf of an oak falls. An oak is tall."), 2)
    ['leaf', 'oak']
    """
    forms: dict[str, Counter[str]] = {}
    for sentence in sentences:
        for word in words_of(sentence.text):
            forms.setdefault(stem_of(word), Counter())[word] += 1
    headings = {stem for s in sentences for stem in stems_of(s.heading)}
    weight = {stem: sum(words.values()) * (2 if stem in headings else 1) for stem, words in forms.items()}
    best = sorted(forms, key=lambda stem: -weight[stem])[:count]
    return [forms[stem].most_common(1)[0][0] for stem in best]


def _count_tokens(text: str) -> int:
    """Count words and punctuation marks: an order of magnitude, for the usage line."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def answer(messages: Sequence[Message]) -> str:
    """Return the reply to the last user message.

    >>> text = Attachment("# Leaves\\n\\nA leaf is green. Roots are brown.")
    >>> print(answer([Message("user", "Which colour is a leaf?", (text,))]).splitlines()[0])
    > A leaf is green. (*Leaves*)
    """
    users = [m for m in messages if m.role == "user"]
    question = users[-1].text if users else ""
    documents = [d for m in messages for d in m.attachments]
    said = "\n".join(m.text for m in messages if m.role == "assistant")
    sentences = [s for s in _sentences(documents, "text", "source") if s.text not in said]
    earlier = " ".join(m.text for m in users[:-1])
    chosen = best_sentences(sentences, question, earlier)
    if not chosen:
        chosen = best_sentences([s for s in _sentences(documents, "context") if s.text not in said], question)
    if chosen:
        return "\n\n".join([*map(_quote, chosen), NOTICE])
    central = central_sentences(sentences, 2)
    if not documents:
        return f"{STAND_IN}\n\n{NOTICE}"
    if not central:
        return f"There is no {'sentence left' if said else 'prose'} to quote.\n\n{NOTICE}"
    opening = "No sentence shares a significant word with the question. Central to the text:"
    return "\n\n".join([opening, *map(_quote, central), NOTICE])


def _quote(sentence: Sentence) -> str:
    heading = f" (*{sentence.heading}*)" if sentence.heading else ""
    equation = "".join(f"\n> {line}".rstrip() for line in ["", *sentence.equation.splitlines()] if sentence.equation)
    number = f" [{sentence.source}]" if sentence.source else ""
    return f"> {sentence.text}{heading}{number}{equation}"


# What is made of the sections below has its name above it in a request for annotations.
_MADE = re.compile(r"^(?:Summary|Keywords|Questions):\n", re.MULTILINE)
_MADE_LISTS = re.compile(r"^(?:Summary:\n|(?:Keywords|Questions):\n(?:[^\n]+(?:\n|\Z))*)", re.MULTILINE)


def _sentences(documents: Sequence[Attachment], *labels: str, without: re.Pattern[str] | None = None) -> list[Sentence]:
    return [
        replace(s, source=d.number) if d.number else s
        for d in documents
        if d.label in labels
        for s in split_sentences(without.sub("", d.text) if without else d.text)
    ]


def best_sentences(sentences: Sequence[Sentence], question: str, earlier: str = "") -> list[Sentence]:
    """Return up to three sentences that fit the question best, in the order of the text; empty if none does.

    Words of earlier questions count a third: a continuation is about the same thing. Each chosen sentence
    lowers the weight of its words, so that all parts of a question are covered.
    """
    sentences = list(dict.fromkeys(sentences))  # one that occurs twice is quoted once
    asked = dict.fromkeys(stems_of(question), 1.0)
    wanted = dict.fromkeys(stems_of(earlier), 1 / 3) | asked
    idf = _inverse_frequency(sentences)
    mean = sum(len(s.stems) for s in sentences) / len(sentences) if sentences else 1.0
    pool = [s for s in sentences if not asked or asked.keys() & set(s.stems)]
    chosen: list[Sentence] = []
    first = 0.0
    while pool and len(chosen) < MAX_QUOTES:
        best = max(pool, key=lambda s: _score(s, wanted, idf, mean))
        score = _score(best, wanted, idf, mean)
        first = first or score
        if score <= 0 or score < 0.4 * first:
            break
        chosen.append(best)
        pool.remove(best)
        wanted = {stem: weight * (0.4 if stem in best.stems else 1) for stem, weight in wanted.items()}
    return [s for s in sentences if s in chosen]


def _score(sentence: Sentence, wanted: Mapping[str, float], idf: Mapping[str, float], mean: float) -> float:
    """Return the BM25 score of a sentence; higher under a heading that was asked about, or if it defines the word."""
    counts = Counter(sentence.stems)
    norm = 1.2 * (0.5 + 0.5 * len(sentence.stems) / mean)
    score = sum(w * idf.get(t, 0.0) * counts[t] * 2.2 / (counts[t] + norm) for t, w in wanted.items() if counts[t])
    in_heading = sum(w for t, w in wanted.items() if t in stems_of(sentence.heading))
    defines = not _DEFINES.isdisjoint(sentence.text[:60].split()) and sentence.stems[0] in wanted
    return score * (1 + 0.3 * in_heading) * (1.5 if defines else 1)


def central_sentences(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """Return the sentences that share the most content words with all others, in the order of the text."""
    pool = list(dict.fromkeys(sentences))[:_CENTRAL_SENTENCES]
    idf = _inverse_frequency(pool)
    totals = Counter(stem for s in pool for stem in set(s.stems))
    scores = [sum(idf[t] * (totals[t] - 1) for t in set(s.stems)) / math.sqrt(8 + len(s.stems)) for s in pool]
    best = sorted(range(len(pool)), key=lambda i: (-scores[i], i))[:count]
    return [pool[i] for i in sorted(best)]


def _inverse_frequency(sentences: Sequence[Sentence]) -> dict[str, float]:
    counts = Counter(stem for s in sentences for stem in set(s.stems))
    return {t: math.log(1 + (len(sentences) - n + 0.5) / (n + 0.5)) for t, n in counts.items()}


# -- sentences -------------------------------------------------------------------------------------


_COMMON_WORDS = """
a about an and any are as at be because been but by can could did do does for from had has have how i if in into is it
its me more my no not of on one or our please say she he should so some tell than that the their them then there these
they this those to up us was we were what when where which who why will with would you your
all also both each every many most much only other same such very while
paragraph explain clear
aber als am an auch auf aus bei bin bis das dass dem den der des die doch du ein eine einem einen einer eines er es für
hat haben ich ihr im in ist ja kann mit nach nicht noch nur oder sich sie sind so um und uns vom von vor war was wie wir
wird zu zum zur
"""
STOP_WORDS = frozenset(_COMMON_WORDS.split())
_WORD = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")
_NO_PROSE = {"code_block": "\n", "comment": ""}
_PIECE = re.compile(
    r"^[ \t]*(?P<equation>\$\$.*?\$\$)[^\n]*"
    r"|^(?P<heading> {0,3}#{1,6}[ \t][^\n]*)"
    r"|^[ \t]*(?P<other>\||\+[-=]|:?-{3,}|\\begin|\\end|!\[)[^\n]*"
    r"|^[ \t]*(?P<item>(?:[-*+]|\d+[.)])[ \t]+[^\n]*)"
    r"|^[ \t]*(?P<prose>[^\s][^\n]*)"
    r"|^(?P<blank>[ \t]*)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document, the heading above it, its stems, and the equation it leads to.

    `source` is the number of the document, if documents have one.
    """

    text: str
    heading: str
    stems: tuple[str, ...]
    equation: str = ""
    source: int = 0


def split_sentences(markdown: str) -> list[Sentence]:
    """Return the prose sentences of a markdown text, without code, tables and comments.

    A displayed equation stays with the sentence that leads to it.

    >>> [s.text for s in split_sentences("# Leaves\\n\\nA leaf is green. Roots are brown.\\n")]
    ['A leaf is green.', 'Roots are brown.']
    """
    found: list[Sentence] = []
    for heading, paragraph in _paragraphs(markdown.replace("\r\n", "\n")):
        if paragraph.startswith("$$"):
            if found and found[-1].heading == heading and found[-1].text.rstrip(CLOSERS)[-1:] not in tuple(".!?"):
                found[-1] = replace(found[-1], equation=paragraph)
            continue
        for text in sentences_of(paragraph):
            stems = tuple(stems_of(text))
            if stems:
                found.append(Sentence(text, heading, stems))
    return found


def _paragraphs(markdown: str) -> Iterator[tuple[str, str]]:
    """Iterate over pieces of prose and displayed equations, each with the heading above it."""
    heading, lines = "", list[str]()
    prose = replace_spans(markdown, lambda span: _NO_PROSE.get(span.kind))
    for piece in _PIECE.finditer(f"{prose}\n\n"):
        kind = str(piece.lastgroup)
        if kind != "prose" and lines:
            yield heading, "\n".join(lines)
            lines = []
        if kind == "equation":
            yield heading, piece[kind]
        elif kind == "heading":
            heading = HeadingBlock(piece[kind], 0).title
        elif kind in ("prose", "item"):
            lines.append(piece[kind])


def stems_of(text: str) -> list[str]:
    """Return the content words of a text in lower case, without common English and German endings.

    >>> stems_of("The fitted models were fitting")
    ['fitt', 'model', 'fitt']
    """
    return [stem_of(word) for word in words_of(text)]


def words_of(text: str) -> list[str]:
    """Return the content words of a text, in lower case."""
    prose = without(text, "code", "math") if "`" in text or "$" in text else text
    words = map(str.lower, _WORD.findall(prose))
    return [word for word in words if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())]


def stem_of(word: str) -> str:
    """Return a word without its common ending."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "ly", "en", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


# -- Recorded/FILE ---------------------------------------------------------------------------------

_SHOWN = 80  # columns of a text in an error


class _RecordedCall(msgspec.Struct):
    name: str
    arguments: dict[str, Any]


class _Record(msgspec.Struct):
    prompt: str
    reply: str | None = None
    calls: tuple[_RecordedCall, ...] = ()
    cut: bool = False

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The names and arguments of the calls."""
        return [(call.name, json.dumps(call.arguments)) for call in self.calls]


def _read_records(file: Path) -> list[_Record]:
    text, at, records = read_document(file), 0, list[_Record]()

    def wrong(fact: str, hint: str = 'write [{"prompt": "…", "reply": "…"}]') -> ModelNotFound:
        line = text.count("\n", 0, at) + 1
        return ModelNotFound(fact, where=f"{file}:{line}", hint=hint)

    try:
        values = json.loads(text)  # not msgspec's reader, which refuses half a surrogate pair
    except json.JSONDecodeError as error:
        at = error.pos
        raise wrong(
            f"recorded replies are JSON, and this is not: {error.msg}", "correct it here or just before"
        ) from None
    except RecursionError:
        raise wrong("recorded replies are not nested so deeply") from None
    if not isinstance(values, list):
        raise wrong("recorded replies are a list")
    at = text.index("[") + 1
    for number, value in enumerate(values, 1):
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        try:
            records.append(msgspec.convert(value, _Record))
        except msgspec.ValidationError as error:
            raise wrong(f"record {number}: {error}") from None
        if not records[-1].calls and records[-1].reply is None:
            raise wrong(f"record {number} has neither a reply nor calls", 'add "reply": "…", or "calls": […]')
        _, at = _DECODER.raw_decode(text, at)
    return records


_BETWEEN, _DECODER = re.compile(r"[\s,]*"), json.JSONDecoder()


class RecordedModel:
    """A model that answers from a file of recorded replies.

    Raises:
        ModelNotFound: the file is not a list of prompts and replies.
    """

    def __init__(self, file: Path) -> None:
        self.name, self._records = f"Recorded/{file}", _read_records(file)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Stream the recorded reply to this request, word by word; raise `ModelRejected` if there is none."""
        last = request.messages[-1]
        parts = [last.text, *(part for part in last.content if isinstance(part, str))]
        asked = "\n".join([*parts, *(result.text for result in last.results)])
        fits = [record for record in self._records if record.prompt in asked]
        # Since the user said something: results of calls may contain the same prompt again.
        since = itertools.takewhile(lambda message: message.role in ("assistant", "tool"), reversed(request.messages))
        made = [[(call.name, call.arguments) for call in message.calls] for message in since]
        record = next((one for one in fits if not one.calls or one.pairs not in made), None)
        if record is None:
            import difflib  # 3 ms

            def overlap(prompt: str) -> float:
                pair = difflib.SequenceMatcher(None, prompt[:500], asked[:2000], autojunk=False)
                return pair.find_longest_match().size / max(len(prompt[:500]), 1)

            near = max((one.prompt for one in self._records), key=overlap, default="")
            hint = f"the nearest of {len(self._records)} recorded prompts is '{clipped(near, _SHOWN)}'"
            if fits:
                hint = f"its calls for '{fits[0].prompt}' were made already: record a reply to their results"
            shown = clipped(" ".join(asked.split()), _SHOWN)
            raise ModelRejected(f"{self.name} has no reply to '{shown}'", hint=hint)
        reply = record.reply or ""
        for piece in re.findall(r"\S+\s*|\s+", reply):
            yield TextDelta(piece)
        turn = len(request.messages)  # makes a call's id unique in the whole conversation
        calls = tuple(ToolCall(f"call-{turn}-{n}", *call) for n, call in enumerate(record.pairs, 1))
        for call in calls:
            yield call
        yield Reply(reply, self.name, Usage(0, 0, 0.0, 1), cut=record.cut, calls=calls)
