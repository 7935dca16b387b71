"""``Builtin/extractive``: a chat model without weights, network or understanding.

It answers by quoting: the sentences of the given documents that share the most telling words with the
question, in the order of the text, each with its heading. Asked for a summary, it quotes the sentences
that share the most with all others. It is deterministic, and every reply says what it is. It exists so
that everything runs on a fresh laptop and in tests.

Scoring is BM25 over sentences (Robertson and Zaragoza 2009), with k1 = 1.2 and b = 0.5.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace

from lmm.errors import ModelRejected
from lmm.messages import Attachment, ChatEvent, ChatRequest, Message, Reply, TextDelta, Usage, render
from lmm.models.sentences import Sentence, split_sentences, stem_of, stems_of, words_of

NAME = "Builtin/extractive"
NOTICE = "*Quoted by Builtin/extractive: it finds sentences that share words with the question, no more.*"
MAX_QUOTES = 3
_CENTRAL_SENTENCES = 400
_DEFINES = re.compile(r"\b(?:is|are|means|ist|sind|heißt)\b")


class ExtractiveModel:
    """The built-in model behind the port."""

    name = NAME

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Answer the last user message from the documents of the request, a sentence at a time."""
        text = _by_task(request)
        for piece in re.findall(r"[^\n]*\n*", text):
            if piece:
                yield TextDelta(piece)
        sent = sum(_count_tokens(render(message)) for message in request.messages)
        yield Reply(text, NAME, Usage(sent, _count_tokens(text), 0.0, 1))


def _by_task(request: ChatRequest) -> str:
    documents = [d for m in request.messages for d in m.attachments]
    sentences = _sentences(documents, "text")
    if request.tools:
        raise ModelRejected(
            f"{NAME} cannot use tools", hint="name a language model: --model, config.toml, or the header"
        )
    if request.task in ("edit", "extract"):
        raise ModelRejected(
            f"{NAME} cannot {'edit or write' if request.task == 'edit' else 'extract data'}",
            hint="name a language model: --model, config.toml, or the header",
        )
    if request.task != "answer" and not sentences:
        raise ModelRejected(f"{NAME} found no prose in this text", hint="mark the section with 'skip: true'")
    if request.task == "summary":
        return " ".join(s.text for s in central_sentences(sentences, 2))
    if request.task == "keywords":
        return "\n".join(key_terms(sentences, 8))
    if request.task == "questions":
        headings = list(dict.fromkeys(s.heading for s in sentences if s.heading))[:3]
        about = headings + key_terms(sentences, 5 - len(headings))
        return "\n".join(f"What does the text say about {topic}?" for topic in about)
    return answer(request.messages)


def key_terms(sentences: Sequence[Sentence], count: int) -> list[str]:
    """The words that occur most, each in its most frequent form, those that are in headings first.

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
    """Words and marks: an order of magnitude, for the usage line."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def answer(messages: Sequence[Message]) -> str:
    """The reply to the last user message.

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
    if not chosen and _sentences(documents, "context"):
        chosen = best_sentences([s for s in _sentences(documents, "context") if s.text not in said], question, "")
    if chosen:
        return "\n\n".join([*map(_quote, chosen), NOTICE])
    central = central_sentences(sentences, 2)
    if not central:
        return (
            f"There is no sentence left to quote.\n\n{NOTICE}" if said else f"There is no prose to quote.\n\n{NOTICE}"
        )
    opening = "No sentence shares a telling word with the question. Central to the text:"
    return "\n\n".join([opening, *map(_quote, central), NOTICE])


def _quote(sentence: Sentence) -> str:
    heading = f" (*{sentence.heading}*)" if sentence.heading else ""
    equation = "".join(f"\n> {line}".rstrip() for line in ["", *sentence.equation.splitlines()] if sentence.equation)
    number = f" [{sentence.source}]" if sentence.source else ""
    return f"> {sentence.text}{heading}{number}{equation}"


def _sentences(documents: Sequence[Attachment], *labels: str) -> list[Sentence]:
    return [
        replace(s, source=d.number) if d.number else s
        for d in documents
        if d.label in labels
        for s in split_sentences(d.text)
    ]


def best_sentences(sentences: Sequence[Sentence], question: str, earlier: str = "") -> list[Sentence]:
    """Up to three sentences that fit the question best, in the order of the text; empty if none does.

    Words of earlier questions count a third: a continuation is about the same thing. Each sentence that
    is chosen makes the words it has less wanted, so that all parts of a question get their share.
    """
    sentences = list(dict.fromkeys(sentences))  # one that stands twice is quoted once
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
    """BM25 of a sentence; more under a heading that was asked about, or if it says what the word is."""
    counts = Counter(sentence.stems)
    norm = 1.2 * (0.5 + 0.5 * len(sentence.stems) / mean)
    score = sum(w * idf.get(t, 0.0) * counts[t] * 2.2 / (counts[t] + norm) for t, w in wanted.items() if counts[t])
    in_heading = sum(w for t, w in wanted.items() if t in stems_of(sentence.heading))
    defines = _DEFINES.search(sentence.text[:60]) is not None and sentence.stems[0] in wanted
    return score * (1 + 0.3 * in_heading) * (1.5 if defines else 1)


def central_sentences(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """The sentences that share the most telling words with all others, in the order of the text."""
    pool = list(dict.fromkeys(sentences))[:_CENTRAL_SENTENCES]
    idf = _inverse_frequency(pool)
    totals = Counter(stem for s in pool for stem in set(s.stems))
    scores = [sum(idf[t] * (totals[t] - 1) for t in set(s.stems)) / math.sqrt(8 + len(s.stems)) for s in pool]
    best = sorted(range(len(pool)), key=lambda i: (-scores[i], i))[:count]
    return [pool[i] for i in sorted(best)]


def _inverse_frequency(sentences: Sequence[Sentence]) -> dict[str, float]:
    counts = Counter(stem for s in sentences for stem in set(s.stems))
    return {t: math.log(1 + (len(sentences) - n + 0.5) / (n + 0.5)) for t, n in counts.items()}
