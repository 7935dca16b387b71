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
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass

from lmm.models.port import ChatEvent, ChatRequest, Document, Message, Reply, TextDelta, Usage, render

NAME = "Builtin/extractive"
NOTICE = "*Quoted by Builtin/extractive: it finds sentences that share words with the question, no more.*"
MAX_QUOTES = 3
_CENTRAL_SENTENCES = 400
_STOP = frozenset(
    ["a", "about", "an", "and", "any", "are", "as", "at", "be", "because", "been", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "more", "my", "no", "not", "of", "on", "one", "or", "our", "please", "say", "she", "he", "should", "so", "some", "tell", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "up", "us", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your", "text", "section", "paragraph", "explain", "describe", "clear", "mean", "means", "aber", "als", "am", "an", "auch", "auf", "aus", "bei", "bin", "bis", "das", "dass", "dem", "den", "der", "des", "die", "doch", "du", "ein", "eine", "einem", "einen", "einer", "eines", "er", "es", "für", "hat", "haben", "ich", "ihr", "im", "in", "ist", "ja", "kann", "mit", "nach", "nicht", "noch", "nur", "oder", "sich", "sie", "sind", "so", "um", "und", "uns", "vom", "von", "vor", "war", "was", "wie", "wir", "wird", "zu", "zum", "zur"]
)
_WORD = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")
_SENTENCE_END = re.compile(
    r"(?<=[.!?:])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)[*_)\"'”]*\s+(?=[*_(\"'“$\[]?[A-ZÀ-Þ0-9$\\])"
)
_FENCE = re.compile(r"^[ \t]*(```+|~~~+)")
_NOT_PROSE = re.compile(r"^\s*(?:\||\+[-=]|\$\$|<!--|:?-{3,}|\\begin|\\end|!\[)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document, the heading it stands under, and its stems."""

    text: str
    heading: str
    stems: tuple[str, ...]


class ExtractiveModel:
    """The built-in model behind the port."""

    name = NAME

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Answer the last user message from the documents of the request, a sentence at a time."""
        text = answer(request.messages)
        for piece in re.findall(r"[^\n]*\n*", text):
            if piece:
                yield TextDelta(piece)
        sent = sum(_count_tokens(render(message)) for message in request.messages)
        yield Reply(text, NAME, Usage(sent, _count_tokens(text), 0.0, 1))


def _count_tokens(text: str) -> int:
    """Words and marks: an order of magnitude, for the usage line."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def answer(messages: Sequence[Message]) -> str:
    """The reply to the last user message.

    >>> text = Document("# Leaves\\n\\nA leaf is green. Roots are brown.")
    >>> print(answer([Message("user", "Which colour is a leaf?", (text,))]).splitlines()[0])
    > A leaf is green. (*Leaves*)
    """
    users = [m for m in messages if m.role == "user"]
    question = users[-1].text if users else ""
    documents = [d for m in messages for d in m.documents]
    said = "\n".join(m.text for m in messages if m.role == "assistant")
    sentences = [s for s in _sentences(documents, "text") if s.text not in said]
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
    return f"> {sentence.text}{heading}"


def _sentences(documents: Sequence[Document], label: str) -> list[Sentence]:
    return [s for d in documents if d.label == label for s in split_sentences(d.text)]


def split_sentences(markdown: str) -> list[Sentence]:
    """The prose sentences of a markdown text; code, tables, displayed equations and comments left out."""
    found = []
    for heading, paragraph in _paragraphs(markdown):
        for piece in _SENTENCE_END.split(" ".join(paragraph.split())):
            text = re.sub(r"^(?:[-*+]|\d+[.)])\s+", "", piece.strip())
            stems = tuple(stems_of(text))
            if len(stems) >= 2:
                found.append(Sentence(text, heading, stems))
    return found


def _paragraphs(markdown: str) -> Iterator[tuple[str, str]]:
    heading, lines, closer = "", list[str](), ""
    for line in [*markdown.replace("\r\n", "\n").split("\n"), ""]:
        if closer:
            closer = "" if closer in line else closer
            continue
        fence = _FENCE.match(line)
        title = re.match(r" {0,3}#{1,6}\s+(.*?)\s*#*\s*(?:\{[^}]*\})?\s*$", line)
        starts_item = re.match(r"\s*(?:[-*+]|\d+[.)])\s", line)
        if lines and (fence or title or starts_item or not line.strip() or _NOT_PROSE.match(line)):
            yield heading, "\n".join(lines)
            lines = []
        if fence:
            closer = fence[1]
        elif line.strip().startswith("$$") and line.count("$$") == 1:
            closer = "$$"
        elif line.strip().startswith("<!--") and "-->" not in line:
            closer = "-->"
        elif title:
            heading = title[1]
        elif line.strip() and not _NOT_PROSE.match(line):
            lines.append(line)


def stems_of(text: str) -> list[str]:
    """The telling words of a text, lower case, common English and German endings taken off.

    >>> stems_of("The fitted models were fitting")
    ['fitt', 'model', 'fitt']
    """
    words = (word.lower() for word in _WORD.findall(text))
    return [_stem(word) for word in words if word not in _STOP and (len(word) > 1 or word.isdigit())]


def _stem(word: str) -> str:
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "ly", "en", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def best_sentences(sentences: Sequence[Sentence], question: str, earlier: str = "") -> list[Sentence]:
    """Up to three sentences that fit the question best, in the order of the text; empty if none does.

    Words of earlier questions count a third: a continuation is about the same thing.
    """
    weights = Counter(dict.fromkeys(stems_of(earlier), 1 / 3)) | Counter(dict.fromkeys(stems_of(question), 1.0))
    idf = _inverse_frequency(sentences)
    mean = sum(len(s.stems) for s in sentences) / len(sentences) if sentences else 1.0
    asked = set(stems_of(question))
    scored = []
    for position, sentence in enumerate(sentences):
        counts = Counter(sentence.stems)
        norm = 1.2 * (0.5 + 0.5 * len(sentence.stems) / mean)
        score = sum(w * idf.get(t, 0.0) * counts[t] * 2.2 / (counts[t] + norm) for t, w in weights.items() if counts[t])
        in_heading = sum(w for t, w in weights.items() if t in stems_of(sentence.heading))
        if score > 0 and (asked & set(sentence.stems) or not asked):
            scored.append((score * (1 + 0.3 * in_heading), -position))
    best = sorted(scored, reverse=True)[:MAX_QUOTES]
    kept = sorted(-position for score, position in best if score >= 0.5 * best[0][0])
    return [sentences[position] for position in kept]


def central_sentences(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """The sentences that share the most telling words with all others, in the order of the text."""
    pool = list(sentences[:_CENTRAL_SENTENCES])
    idf = _inverse_frequency(pool)
    totals = Counter(stem for s in pool for stem in set(s.stems))
    scores = [sum(idf[t] * (totals[t] - 1) for t in set(s.stems)) / math.sqrt(8 + len(s.stems)) for s in pool]
    best = sorted(range(len(pool)), key=lambda i: (-scores[i], i))[:count]
    return [pool[i] for i in sorted(best)]


def _inverse_frequency(sentences: Sequence[Sentence]) -> dict[str, float]:
    counts = Counter(stem for s in sentences for stem in set(s.stems))
    return {t: math.log(1 + (len(sentences) - n + 0.5) / (n + 0.5)) for t, n in counts.items()}
