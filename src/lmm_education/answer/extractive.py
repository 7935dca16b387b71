"""The answer without a language model: sentences of what was found, word for word, that explain.

Candidates are the sentences of the best passages. How well one fits is what it shares with the question, in words that
count the more, the rarer they are in the course and in these passages, and in meaning; its neighbours count a tenth, a
passage the less, the later it was found. Quoted is what fits best, in the order of the text, each part under its
heading, with the code, the list, the table or the formula that it points to. A sentence that needs what is not shown is
not quoted.

Of such answers, 86 in a hundred hold the right one where SQuAD's questions are asked in the words of the documents, 16
where they are asked in others, in 680 to 790 characters; with MiniLM 89 and 42 (``benchmarks/own_words.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lmm.markdown import prose_of, spans, without
from lmm.markdown.blocks import fenced
from lmm.markdown.inline import BLANK_LINES, unquoted
from lmm.markdown.sentences import CLOSERS, sentences_of
from lmm_education.ingestion.outline import ITEM, ITEM_START, is_comment, kind_of
from lmm_education.search.ranking import Term, term_of

PASSAGES = (1.0, 0.85, 0.7, 0.55, *(0.5,) * 8)
"""How much the sentences of the first, second, … passage count; from the fifth on, definitions only."""
FAMILIAR, IN_OTHER_WORDS = 0.5, (1.0, 1.0, 0.85, 0.7, *(0.5,) * 8)
"""The same where no passage fits so well (`SearchView.fits`): a learner's words are not the book's then, and the first
two are about equally often right. Half of SQuAD's questions as asked fit better than 0.71, in other words than 0.31."""
FOUND, SECTIONS = 4, 3
LEAST = 0.16
"""How well the best of the first `FOUND` passages has to fit (`SearchView.fits`). Of questions that a course answers, 1
to 3 in a hundred fit less; of those about something else (SQuAD's asked of the Rust book, pizza), 71 to 87."""
SENTENCES, CHARACTERS = 5, 900
"""The most that is quoted; what a sentence points to comes on top."""
LONGEST = 1_500
"""Characters of code, or of another block, that are shown with the sentence that points to it."""
NOTICE = "*Quoted from the course, word for word, because no language model is set.*"
_NEIGHBOURS, _LENGTH, _SHORT = 0.1, 150, 60
_BY_THE_WAY = 0.6  # of a question, or of what tells what comes next
_DEFINES, _NAMES = 2.0, 1.3  # of a sentence that says what is asked for, and of one in which it is emphasized
_LEAST, _LEAST_BEYOND = 0.35, 0.55  # of the best one's score, in its passage and in others
Fits = Callable[[Sequence[str]], Sequence[float]]
"""How well each of some sentences fits the question."""

# What only makes sense after the sentence before it.
_NEEDS_BEFORE = re.compile(
    r"[\W_]*(?:(?:This|That|These|Those|It|Its|They|Their|He|She|His|Her|Such|However|But|And|So|Or|Thus|Therefore|Then"
    r"|Hence|Also|Instead|Otherwise|For example|For instance|In (?:this|that|these|those|other words|contrast|addition)"
    r"|(?:While|If|When|Although|Because|Since|With|After|For|From|To|At|On|Using|By|(?:One|Each|All|Some|Most) of) "
    r"(?:this|that|these|those|it|they|them)|[^.,]{1,50}, (?:so |and )?(?:this|that) (?:is|was|works|means)"
    r"|Here|Because of th|As a result|Similarly|Likewise|Moreover|Furthermore|Finally|Both|Neither|Rather"
    r"|Dies|Diese[rs]?|Er|Sie|Es|Aber|Und|Also|Daher|Deshalb|Dann|Hier|Zum Beispiel|Jedoch)\b|[a-zà-þ])"
)
# What points to the block after it: a colon, no mark at the end, the name of a listing.
_POINTS = re.compile(
    r":[*_)\"'”]*$|\b(?:Listing|Figure|Fig\.|Table|Equation|Abbildung|Abb\.|Tabelle|Gleichung)\s+\(?\d"
    r"|\bfollowing (?:code|example|listing|program|list|table)|[^.!?…*_)\"'”’»\]`]$"
)
_ASIDE = re.compile(
    r".*\?[*_)\"'”]*$|(?:[Ii]n (?:this|the next|the previous) (?:chapter|section)|[Ww]e[’']ll\b|[Ll]et[’']s\b"
    r"|(?:[Nn]ext|[Nn]ow|[Aa]fter that),? (?:we|let)"
    r"|[Ss]ee (?:Appendix|Chapter|also)|[Ww]e (?:will|saw)|[Ww]e[’']ve )",
    re.DOTALL,
)
_NO_PROSE = re.compile(r"\s*(?:\[[^\]\n]+\]:|!\[|#{1,6}[ \t]|:::)")
_NESTED = re.compile(rf"\n(?=[ \t]+{ITEM})")


@dataclass(frozen=True, slots=True)
class QuotedPassage:
    """A text that was found, the heading it stands under, and the number of the source that it belongs to."""

    text: str
    heading: str
    number: int


@dataclass(slots=True)
class _Sentence:
    """A sentence in its place: the number of its passage and block, and its own in the text that is quoted.

    `shown` is what it points to; `before` is the sentence that it needs; `instead` the one in whose list it is shown.
    One that needs what is not there is not `whole`.
    """

    passage: int
    block: int
    text: str
    shown: str = ""
    before: _Sentence | None = None
    instead: _Sentence | None = None
    whole: bool = True
    place: int = 0

    @property
    def all(self) -> list[_Sentence]:
        """The sentence with those that it needs, in order."""
        if self.instead:
            return self.instead.all
        return [*(self.before.all if self.before else []), self]


def quote(question: str, passages: Sequence[QuotedPassage], fits: Fits, *, familiar: bool = True) -> str:
    """The sentences of passages, the best passage first, that fit best; empty where there are none to quote.

    `familiar` is whether the question has the passages' own words: then the first passage counts most.

    >>> text = "A leaf is green. Its colour comes from this:\\n\\n$$x$$\\n\\nIt falls in autumn."
    >>> leaf = QuotedPassage(text, "Leaves", 2)
    >>> print(quote("Which colour?", [leaf], lambda texts: [float("colour" in text) for text in texts]))
    **Leaves**
    <BLANKLINE>
    > A leaf is green. Its colour comes from this: [2]
    >
    > $$x$$
    """
    given = passages[: len(PASSAGES)]
    every = [sentence for number, each in enumerate(given) for sentence in _sentences(number, each.text)]
    for place, sentence in enumerate(every):
        sentence.place = place
    sentences = list({sentence.text: sentence for sentence in reversed(every)}.values())[::-1]  # each text once
    if not sentences:
        return ""
    term = term_of(question)
    sentences = [s for s in sentences if s.passage < FOUND or _said(term, s.text) == _DEFINES]
    texts = [sentence.text for sentence in sentences]
    worth = [fit * _said(term, text) for fit, text in zip(fits(texts), texts, strict=True)]
    chosen = _chosen(sentences, worth, PASSAGES if familiar else IN_OTHER_WORDS)
    return "\n\n".join(_shown(given, [sentence for sentence in every if any(sentence is each for each in chosen)]))


def _said(term: Term | None, text: str) -> float:
    """How much more a sentence counts that says what the question asks for."""
    if term is None:
        return 1.0
    return _DEFINES if term.defined(text) else _NAMES if term.emphasized(text) else 1.0


# -- choosing --------------------------------------------------------------------------------------


def _chosen(sentences: Sequence[_Sentence], fits: Sequence[float], passages: Sequence[float]) -> list[_Sentence]:
    """What to quote, the best sentence first, with what each needs; nothing where nothing fits."""
    own = [fit * passages[each.passage] * _worth(each.text) for each, fit in zip(sentences, fits, strict=True)]
    there = [*(each.passage for each in sentences), -1]  # before the first and after the last there is none
    scores = [
        value + _NEIGHBOURS * sum(own[j] for j in (i - 1, i + 1) if there[j] == there[i]) for i, value in enumerate(own)
    ]
    chosen: list[_Sentence] = []
    order = sorted(range(len(sentences)), key=lambda i: -scores[i])
    order = [i for i in order if all(each.whole for each in sentences[i].all)] or order
    for i in order:
        least = _LEAST if any(sentences[i].passage == each.passage for each in chosen) else _LEAST_BEYOND
        if scores[i] <= least * scores[order[0]]:
            continue
        more = [each for each in sentences[i].all if not any(each is other for other in chosen)]
        together = [*chosen, *more]
        fitting = len(together) <= SENTENCES and sum(len(each.text) for each in together) <= CHARACTERS
        fitting &= len({each.passage for each in together}) <= SECTIONS
        if more and (fitting or not chosen):
            chosen = together
    return chosen


def _worth(text: str) -> float:
    length: float = (max(_SHORT, len(text)) / _LENGTH) ** 0.3  # a long one shares words by being long
    return (_BY_THE_WAY if _ASIDE.match(text) else 1) / length


# -- reading ---------------------------------------------------------------------------------------


def _sentences(passage: int, text: str) -> list[_Sentence]:
    """The sentences of a passage, each with what it points to and what it needs."""
    found: list[_Sentence] = []
    last: list[_Sentence] = []  # those of the block before
    for number, block in enumerate(_unquoted(_blocks(text))):
        kind = kind_of(block)
        if is_comment(block) or _NO_PROSE.match(block) or (kind == "html" and not _clean(block)):
            continue
        if kind in ("code", "equation", "table"):
            pointing = next((each for each in reversed(last) if _POINTS.search(each.text)), None)
            shown = _code_alone(block) if kind == "code" else block
            if pointing and len(pointing.shown) + len(shown) <= LONGEST:
                pointing.shown = f"{pointing.shown}\n\n{shown}".strip()
            continue
        if kind == "list":
            last = _items(passage, number, block, last)
        else:
            last = _linked([_Sentence(passage, number, each) for each in sentences_of(_clean(block)) if each], found)
        found += last
    for sentence in found:
        sentence.whole &= bool(sentence.shown) or not _POINTS.search(sentence.text)
    return found


def _linked(sentences: list[_Sentence], found: Sequence[_Sentence]) -> list[_Sentence]:
    """Sentences with the ones that they need: before them in their block, or at the end of what was `found` so far."""
    before = found[-1] if found else None
    for sentence in sentences:
        if _NEEDS_BEFORE.match(sentence.text):
            sentence.before, sentence.whole = before, before is not None
        before = sentence
    return sentences


def _items(passage: int, block: int, text: str, last: Sequence[_Sentence]) -> list[_Sentence]:
    """The items of a list, which belongs to the sentence that leads to it."""
    lead = last[-1] if last and last[-1].text.rstrip(CLOSERS).endswith(":") else None
    begins = [match.start() for match in ITEM_START.finditer(text)]
    parts = (text[start:end] for start, end in pairwise([0, *begins, len(text)]))
    items = [_item(item) for item in parts if item.strip()]
    if lead is not None and len(text) <= LONGEST // 2:
        lead.shown = "\n".join(items)
        return [_Sentence(passage, block, item, lead.shown, instead=lead) for item in items]
    return [_Sentence(passage, block, item, item[:0], before=lead) for item in items if len(item) <= CHARACTERS]


def _item(text: str) -> str:
    """An item as it is read, those below it each on a line.

    >>> _item("- Leaves\\n  fall:\\n    - in <b>autumn</b>\\n    - at last")
    '- Leaves fall:\\n    - in autumn\\n    - at last'
    """
    first, *below = _NESTED.split(text)
    return "\n".join([_clean(first), *(f"{each[: -len(each.lstrip())]}{_clean(each)}" for each in below)])


def _blocks(text: str) -> Iterator[str]:
    """The blocks of a markdown text: what blank lines part, code and formulas whole."""
    at = 0
    for span in spans(text, in_list=True):
        start, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end) + 1 or len(text)
        is_block = span.kind == "code_block" or (span.target == "display" and "\n" in span.text)
        if is_block and start >= at and not text[start : span.start].strip():
            yield from _paragraphs_of(text[at:start])
            yield text[start:end].rstrip("\n")
            at = end
    yield from _paragraphs_of(text[at:])


def _paragraphs_of(text: str) -> Iterator[str]:
    yield from (lines.strip("\n") for lines in BLANK_LINES.split(text) if lines.strip())


def _unquoted(blocks: Iterator[str]) -> Iterator[str]:
    """Blocks, those of a quotation like any other."""
    for block in blocks:
        if kind_of(block) == "quote":
            yield from _unquoted(_blocks(unquoted(f"\n{block}")[1:]))
        else:
            yield block


def _clean(text: str) -> str:
    """Prose as it is read: without comments, tags, marks for an index, and the addresses of links.

    >>> _clean("See [the *book*](b.html) <!-- ignore --> on leaves.")
    'See the *book* on leaves.'
    >>> _clean("A <b>`Vec<T>`</b>, see <https://a.org>")
    'A `Vec<T>`, see <https://a.org>'
    """
    return " ".join(prose_of(text).split())


def _code_alone(block: str) -> str:
    """Code with the language of its fence, without the options of a chunk; nothing where it only includes a file.

    >>> _code_alone("```{r plot, echo=FALSE}\\nplot(x)\\n```").splitlines()[0]
    '```r'
    """
    code = next(iter(spans(block)), None)
    if code is None or code.kind != "code_block" or not code.attributes:
        return block
    return fenced(code.text, code.language) if without(code.text, "shortcode").strip() else ""


# -- showing ---------------------------------------------------------------------------------------


def _shown(passages: Sequence[QuotedPassage], chosen: Sequence[_Sentence]) -> Iterator[str]:
    """What was chosen, in order: a quotation for each source, under its heading."""
    groups: dict[int, list[_Sentence]] = {}
    for sentence in chosen:
        groups.setdefault(passages[sentence.passage].number, []).append(sentence)
    for number, sentences in groups.items():
        if heading := passages[sentences[0].passage].heading.replace("**", ""):
            yield f"**{heading}**"
        text = "\n\n".join(_paragraphs(sentences, f" [{number}]"))
        yield "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _paragraphs(sentences: Sequence[_Sentence], cited: str) -> Iterator[str]:
    """The sentences of a source, those of a block together, an ellipsis where some are left out, each block that they
    point to after them."""
    said = ""
    for sentence, after in zip(sentences, [*sentences[1:], None], strict=True):
        said += sentence.text if after else f"{sentence.text}{cited}"
        if not after or sentence.shown or (after.passage, after.block) != (sentence.passage, sentence.block):
            yield said
            said = ""
        else:
            said += " …" if after.place > sentence.place + 1 else ""
            said += "\n" if ITEM_START.match(after.text) else " "
        if sentence.shown:
            yield sentence.shown
