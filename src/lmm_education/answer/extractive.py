"""Answer without a language model: quote sentences of the passages that were found, verbatim.

Candidates are the sentences of the best passages. Each is scored by what it shares with the question, in words,
weighted by their rarity in the course and in these passages, and in meaning; its neighbours add a tenth, and later
passages count less. The best ones are quoted in the order of the text, each part under its heading, with the code, the
list, the table or the formula that they refer to. A sentence that depends on something that is not shown is not quoted,
nor one with a value that was not computed.

86 % of these answers contain the right one for SQuAD's questions in the words of the documents, 15 % if they are
reworded, in 670 to 830 characters; with MiniLM 89 and 44 % (``benchmarks/own_words.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from lmm.disk.files import read_document
from lmm.errors import DocumentError
from lmm.markdown import prose_of, spans, without
from lmm.markdown.blocks import fenced
from lmm.markdown.comments import is_comment
from lmm.markdown.inline import BLANK_LINES, unquoted
from lmm.markdown.page_marks import PAGE_MARK, Pages
from lmm.markdown.sentences import CLOSERS, WORD, sentence_ends, sentences_of
from lmm.type_names import named_type
from lmm_education.answer.citations import without_citations
from lmm_education.answer.verification import Claim
from lmm_education.encode.bm25 import word_ids
from lmm_education.ingestion.block_kinds import ITEM, ITEM_START, OWN_WORDS, kind_of
from lmm_education.ingestion.splitting import frame, rows as rows_of
from lmm_education.material import KEPT_PASSAGES, Passage
from lmm_education.search.ranking import Term, term_of

PASSAGES = (1.0, 0.85, 0.7, 0.55, *(0.5,) * 8)
"""Weights of the sentences of the first, second, … passage; from the fifth on, only definitions are quoted."""
IN_OTHER_WORDS = (1.0, 1.0, 0.85, 0.7, *(0.5,) * 8)
"""The same if there is little evidence: then the learner's words are not the book's, and either of the first two is
about equally often right."""
FOUND, SECTIONS = 4, 3
LEAST = 0.3
"""The least evidence in the first `FOUND` passages (`SearchView.evidence`) for a quotation; below 1, the course is said
not to answer. Of questions about something else (SQuAD's asked of the Rust book), 58 to 65 % have less."""
_OF_TERM = 2  # words of a term
SENTENCES, CHARACTERS = 5, 900
"""The most that is quoted; code or lists that a sentence refers to are extra."""
LONGEST = 1_500
"""Characters of code, or of another block, that are shown with the sentence that refers to it."""
NOTICE = "*Quoted from the course, word for word, because no language model is set.*"
_ROWS = 5  # of a table that is quoted whole, with its columns and the rule below them
_NEIGHBOURS, _LENGTH, _SHORT = 0.1, 150, 60
_BY_THE_WAY = 0.6  # weight of a question, or of an announcement of what comes next
_DEFINES, _NAMES = 2.0, 1.3  # weight of a sentence that defines the term in question, and of one that emphasizes it
_LEAST_OF_PART = 0.6  # of the best one's score without the names of its entry, for others
_LEAST, _LEAST_BEYOND = 0.35, 0.55  # of the best one's score, for other sentences of its passage and of others
Evidence = Callable[[Sequence[tuple[str, Sequence[str]]]], float]
"""A function that returns how well the best of some sentences answers the question; they are given by passage, with
what this is called."""
Fits = Callable[[Sequence[str], bool], Sequence[float]]
"""A function that returns how well each of some sentences matches the question, and whether words that many of them
have count less (`SearchView.fits`)."""


class QuotedText(NamedTuple):
    """Quotations, which cite their sources as 1, 2, …, and the numbers that these had, in this order; an empty text if
    nothing matches. `covered`: they have enough of the question to answer it."""

    text: str = ""
    numbers: Sequence[int] = ()
    covered: bool = True


# Sentences that only make sense after the previous one.
_NEEDS_BEFORE = re.compile(
    r"(?:[^\w`]|_)*"  # a name in code may be in lower case
    r"(?:(?:This|That|These|Those|It|Its|They|Their|He|She|His|Her|Such|However|But|And|So|Or|Thus|Therefore|Then"
    r"|Hence|Also|Instead|Otherwise|For example|For instance|In (?:this|that|these|those|other words|contrast|addition)"
    r"|(?:While|If|When|Although|Because|Since|With|After|For|From|To|At|On|Using|By|(?:One|Each|All|Some|Most) of) "
    r"(?:this|that|these|those|it|they|them)|[^.,]{1,50}, (?:so |and )?(?:this|that) (?:is|was|works|means)"
    r"|Here|Because of th|As a result|Similarly|Likewise|Moreover|Furthermore|Finally|Both|Neither|Rather"
    r"|Dies|Diese[rs]?|Er|Sie|Es|Aber|Und|Also|Daher|Deshalb|Dann|Hier|Zum Beispiel|Jedoch)\b|[a-zà-þ])"
)
# Sentences that refer to the next block: with a colon, without a mark at the end, or with the name of a listing.
_POINTS = re.compile(
    r":[*_)\"'”]*$|\b(?:Listing|Figure|Fig\.|Table|Equation|Abbildung|Abb\.|Tabelle|Gleichung)\s+\(?\d"
    r"|\b(?:as follows|wie folgt)\b|\bfollowing (?:code|example|listing|program|list|table)"
    r"|[^.!?…。！？؟۔।*_)\"'”’»\]`]$"
)
_ASIDE = re.compile(
    r".*[?？؟][*_)\"'”]*$|(?:[Ii]n (?:this|the next|the previous) (?:chapter|section)|[Ww]e[’']ll\b|[Ll]et[’']s\b"
    r"|(?:[Nn]ext|[Nn]ow|[Aa]fter that),? (?:we|let)"
    r"|[Ss]ee (?:Appendix|Chapter|also)|[Ww]e (?:will|saw)|[Ww]e[’']ve )",
    re.DOTALL,
)
# A value that was not computed: students see an ellipsis in its place, which is none after a comma or a full stop.
_NO_VALUE = re.compile(r"(?<![,.;:]\s)(?<=\s)…(?=[\s.,;)%])|\{\{[^{}\n]+\}\}|`(?:r |\{(?:r|python)\} )[^`\n]+`")
_NO_PROSE = re.compile(r"\s*(?:\[[^\]\n]+\]:|!\[|#{1,6}[ \t]|:::)")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*(?:\{[^}\n]*\})?\s*\Z")
_DISPLAY = re.compile(r"(?<!\\)(?:\$\$.+?\$\$|\\\[(?:(?!\\\[).)+?\\\])", re.DOTALL)
"""A display formula, also in TeX's brackets or with blank lines inside, as converters write them."""
_HIDDEN = re.compile("[\ue000-\uf8ff]")
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+[-:| \t]*")
_BORDERS = str.maketrans("|+=", "   ")
_NESTED = re.compile(rf"\n(?=[ \t]+{ITEM})")


@dataclass(slots=True, eq=False)
class _Sentence:
    """A sentence and its position: the number of its passage and of its block, and its own in the quoted text.

    `names` is what the entry is called that it is in, `headings` those inside, and `part` the last of them; `shown` is
    the block that it refers to, or a row of a table that has `rows`; `before` the sentence that it depends on;
    `instead` the one in whose list it is shown. It is not `whole` if it depends on something that is missing.
    """

    passage: int
    block: int
    text: str
    shown: str = ""
    rows: int = 0
    before: _Sentence | None = None
    instead: _Sentence | None = None
    whole: bool = True
    place: int = 0
    names: str = ""
    headings: Sequence[str] = ()

    @property
    def part(self) -> str:
        return self.headings[-1] if self.headings else ""

    @property
    def all(self) -> list[_Sentence]:
        """The sentence preceded by those that it depends on."""
        if self.instead:
            return self.instead.all
        return [*(self.before.all if self.before else []), self]


def quote(
    question: str,
    passages: Sequence[Passage],
    fits: Fits,
    evidence: Evidence | None = None,
    *,
    without: Collection[str] = (),
    whole: bool = False,
) -> QuotedText:
    """Quote the sentences that match best, from passages in order of rank.

    Without `evidence`, something is quoted in any case. What stands below headings that are called as one of the types
    in `without`, Exercises for example, is not quoted. `whole`: all of a passage is quoted, because it is an exercise.

    >>> from lmm_education.material import Lines, Location
    >>> text = "A leaf is green. Its colour comes from this:\\n\\n$$x$$\\n\\nIt falls in autumn."
    >>> leaf = Passage("1", Location("d", "a.md", Lines(1, 1), ("Leaves",)), text, number=2)
    >>> said = quote("Which colour?", [leaf], lambda texts, apart: [float("colour" in text) for text in texts])
    >>> said.numbers
    [2]
    >>> print(said.text)
    **Leaves**
    <BLANKLINE>
    > A leaf is green. Its colour comes from this: [1]
    >
    > $$x$$
    """
    candidates = passages[: len(PASSAGES)]
    term = term_of(question)
    asked = _words(question) if term is None or not term.alone else set[str]()
    every = [
        sentence
        for number, each in enumerate(candidates)
        for sentence in _sentences(number, each, asked, without, whole)
    ]
    for place, sentence in enumerate(every):
        sentence.place = place
    titled = [
        each for each in every if _words(question) in map(_words, (candidates[each.passage].heading, *each.headings))
    ]
    every = titled or every
    sentences = list({sentence.text: sentence for sentence in reversed(every)}.values())[::-1]  # no repetitions
    covered = True
    if evidence and not titled:
        found = evidence(
            [
                (candidates[number].path, [_with_names(each) for each in group])
                for number, group in groupby(every, lambda each: each.passage)
                if number < FOUND
            ]
        )
        covered = found >= 1 and not _is_unknown(question, term, candidates)
        defined = covered and any(_term_weight(term, each.text) == _DEFINES for each in sentences)
        if term and term.alone and not defined and (titled := _entry(term, every, candidates)):
            covered, sentences = True, titled
        sentences = sentences if covered or found >= LEAST else []
    if not sentences:
        return QuotedText()
    sentences = [s for s in sentences if s.passage < FOUND or _term_weight(term, s.text) == _DEFINES]
    matches = fits([_with_names(each) for each in sentences], covered)
    worth = _worth(sentences, matches, term)
    if titled:  # from its beginning on
        worth = [1.0 - at / len(sentences) / 2 for at in range(len(sentences))]
    chosen = _chosen(sentences, worth, PASSAGES if covered else IN_OTHER_WORDS)
    if not titled:
        chosen = _fitting_parts(chosen, fits, covered)
    groups: dict[int, list[_Sentence]] = {}
    for sentence in every:
        if any(sentence is each for each in chosen):
            groups.setdefault(candidates[sentence.passage].number, []).append(sentence)
    in_order = (sorted(group, key=lambda each: candidates[each.passage].place.lines.first) for group in groups.values())
    return QuotedText("\n\n".join(_quotations(candidates, in_order)), list(groups), covered)


def _worth(sentences: Sequence[_Sentence], matches: Sequence[float], term: Term | None) -> list[float]:
    """Return what sentences are worth by their match, in which what defines or only mentions a term counts."""
    weights = [_term_weight(term, each.text) for each in sentences]
    worth = [fit * weight for fit, weight in zip(matches, weights, strict=True)]
    if term and term.alone and _DEFINES in weights:
        for at, weight in enumerate(weights):
            if weight == _DEFINES:
                worth[at] = max(worth[at], max(matches) + matches[at])
                _complete(sentences[at])
        best = sentences[worth.index(max(worth))]
        for at, each in enumerate(sentences):  # others only mention it
            if weights[at] == 1.0 and (each.passage, each.part) != (best.passage, best.part):
                worth[at] = 0.0
    return worth


def _fitting_parts(chosen: list[_Sentence], fits: Fits, covered: bool) -> list[_Sentence]:
    """Return the sentences without those of parts of an entry that fit much less by themselves: the name of an entry is
    said of all its sentences."""
    parts = [each for each in chosen if each.names]
    if len(parts) < 2:
        return chosen
    alone = fits([f"{each.part}\n{each.text}\n{each.shown}" for each in parts], covered)
    own = dict(zip(map(id, parts), alone, strict=True))
    most = max(own.values())
    fitting = (each for each in chosen if own.get(id(each), most) >= _LEAST_OF_PART * most)
    return [each for sentence in fitting for each in sentence.all]


def _with_names(sentence: _Sentence) -> str:
    """Return a sentence after what the entry that it is in, and the part of this, are called."""
    return "\n".join(filter(None, (sentence.names, sentence.part, sentence.text)))


def _entry(term: Term, sentences: Iterable[_Sentence], passages: Sequence[Passage]) -> list[_Sentence]:
    """Return the sentences of the first passage with an entry for a term: below a heading that is the term, or in a
    paragraph, an item or a row that begins with it."""
    found, begun = list[_Sentence](), (-1, -1)
    for each in sentences:
        if found and found[0].passage != each.passage:
            break
        place, rows = (each.passage, each.block), (each.instead or each).shown.split("\n")
        begins = [each.text, *(row for row in rows if row.startswith("|"))]
        if any(map(term.names, (passages[each.passage].heading, *each.headings))) or any(map(term.leads, begins)):
            found.append(each)
            begun = place
        elif place == begun and not each.rows and not each.instead and not ITEM_START.match(each.text):
            found.append(each)
    return found


def _is_unknown(question: str, term: Term | None, passages: Sequence[Passage]) -> bool:
    """Return whether a question asks what a term is that the passages have, but none explains; not the term alone."""
    words = word_ids(question, passages[0].language)
    if term is None or not term.alone or None not in words or len({*words} - {None}) > _OF_TERM:
        return False
    texts = [(prose_of(each.text), each.place.headings) for each in passages]
    return any(term.occurs(text) for text, _ in texts) and not any(term.is_explained(*each) for each in texts)


def _term_weight(term: Term | None, text: str) -> float:
    """Return the weight of a sentence that defines or names the term in question."""
    if term is None:
        return 1.0
    return _DEFINES if term.defined(text) else _NAMES if term.emphasized(text) else 1.0


# -- selection -------------------------------------------------------------------------------------


def _complete(definition: _Sentence) -> None:
    """Let a definition need no more than the sentence before it, and no listing that it mentions."""
    if not definition.text.rstrip(CLOSERS).endswith((".", "!", "…")):
        return
    definition.whole = not _NEEDS_BEFORE.match(definition.text)
    if before := definition.before:
        before.before, before.whole, definition.whole = None, before.text.rstrip(CLOSERS).endswith("."), True


def _chosen(sentences: Sequence[_Sentence], fits: Sequence[float], passages: Sequence[float]) -> list[_Sentence]:
    """Return the sentences to quote, the best first, with those that each depends on; empty if nothing matches."""
    own = list[float]()
    for each, fit in zip(sentences, fits, strict=True):
        length = (max(_SHORT, len(each.text)) / _LENGTH) ** 0.3  # a long sentence shares words because it is long
        own.append(fit * passages[each.passage] * (_BY_THE_WAY if _ASIDE.match(each.text) else 1) / length)
    passage_numbers = [
        *(each.passage for each in sentences),
        -1,
    ]  # sentinel: no neighbours before the first and after the last
    scores = [
        value + _NEIGHBOURS * sum(own[j] for j in (i - 1, i + 1) if passage_numbers[j] == passage_numbers[i])
        for i, value in enumerate(own)
    ]
    chosen: list[_Sentence] = []
    order = sorted(range(len(sentences)), key=lambda i: -scores[i])
    order = [i for i in order if all(each.whole for each in sentences[i].all)] or order
    for i in order:
        entry = (sentences[i].passage, sentences[i].names)
        least = _LEAST if any(entry == (each.passage, each.names) for each in chosen) else _LEAST_BEYOND
        if scores[i] <= least * scores[order[0]]:
            continue
        more = [each for each in sentences[i].all if not any(each is other for other in chosen)]
        together = [*chosen, *more]
        fitting = len(together) <= SENTENCES and sum(len(each.text) for each in together) <= CHARACTERS
        fitting &= len({each.passage for each in together}) <= SECTIONS
        if more and (fitting or not chosen):
            chosen = together
    return chosen


# -- parsing ---------------------------------------------------------------------------------------


def _words(text: str) -> set[str]:
    return {word.casefold().removesuffix("s") for word in WORD.findall(text)}


def _sentences(
    passage: int, source: Passage, asked: Collection[str], without: Collection[str], whole: bool
) -> list[_Sentence]:
    """Return the sentences of a passage, each with what it refers to and depends on. A heading refers to the list or
    table below it if the question, which consists of the words `asked`, names it."""
    blocks = list(slides_joined(_divided(_unquoted(_blocks(source.text)), source.heading, without)[0]))
    if whole:
        visible = [block for block in blocks if not is_comment(block)]
        return [_Sentence(passage, 0, "\n\n".join(visible) + _before_citation(visible[-1]))] if visible else []
    has_parts = any(map(_HEADING.match, blocks))
    found: list[_Sentence] = []
    open_: list[tuple[int, str, str]] = [
        (0, source.path, " ".join(source.above))
    ]  # headings and what is right below them
    last = _named(passage, -1, source.heading, asked)  # those of the previous block
    for number, block in enumerate(blocks):
        display = _DISPLAY.fullmatch(block.strip())
        kind, before = "equation" if display else kind_of(block), len(found)
        if kind == "prose" and "\n" in block and all(" | " in line for line in block.split("\n")):
            kind = "table"  # as preparation leaves those in HTML
        if match := _HEADING.match(block):
            level = len(match[1])
            open_ = [*(each for each in open_ if each[0] < level), (level, match[2], "")]
            last = _named(passage, number, match[2], asked)
        elif has_parts and len(open_[-1][2]) + len(block) <= OWN_WORDS:
            open_[-1] = (*open_[-1][:2], f"{open_[-1][2]} {block}")
        if is_comment(block) or _NO_PROSE.match(block) or (kind == "html" and not _clean(block)):
            continue
        if kind in ("code", "equation", "table"):
            heading = open_[-1][1] if len(open_) > 1 else source.heading
            lead = next((each for each in reversed(last) if _POINTS.search(each.text)), None)
            intro, pointing = f"**{_clean(heading)}**:", None
            if lead and kind == "table" and block.count("\n") > _ROWS:  # it introduces the row that answers, not all
                intro, found = lead.text, [each for each in found if each is not lead]
                before = len(found)
            else:
                pointing = _pointing(lead, _code_alone(block) if kind == "code" else block)
                found += [pointing] if pointing and pointing not in found else []
            found += _rows(passage, number, block, heading, intro, pointing) if kind == "table" else []
        elif kind == "list":
            above, last = last[-1:], _items(passage, number, block, last)
            found += [each for each in above if each.shown and each not in found]
            found += last
        else:
            lines = block.split("\n\n")
            texts = ["\n\n".join(map(_clean, lines))] if len(lines) > 1 else _split(_clean(block))
            last = _linked([_Sentence(passage, number, each) for each in texts if each], found)
            found += last
        for sentence in found[before:] if has_parts or source.above else ():
            sentence.names = " ".join(text for _, *texts in open_[: max(len(open_) - 1, 1)] for text in texts)
            sentence.headings = [heading for _, heading, _ in open_[1:]]
    lines_of, following = [block.split("\n\n") for block in blocks], [*blocks[1:], ""]
    for sentence in found:
        is_item = bool(sentence.names and ITEM_START.match(sentence.text)) and not sentence.text.endswith(":")
        lines, below = lines_of[sentence.block], following[sentence.block]
        is_slide = len(lines) > 1 and all(map(_is_line, lines)) and kind_of(below) == "prose"
        sentence.whole &= bool(sentence.shown) or is_item or is_slide or not _POINTS.search(sentence.text)
    return [sentence for sentence in found if not any(_NO_VALUE.search(each.text) for each in sentence.all)]


def _divided(blocks: Iterable[str], heading: str, types: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the blocks that do not stand below a heading called as one of the types, and those that do."""
    left_out = 0 if named_type(heading, types) else None  # level of the heading whose text is left out
    divided: tuple[list[str], list[str]] = ([], [])
    for block in blocks:
        if (match := _HEADING.match(block)) and (left_out is None or len(match[1]) <= left_out):
            left_out = len(match[1]) if named_type(match[2], types) else None
        divided[left_out is not None].append(block)
    return divided


def items_below(text: str, heading: str, types: Collection[str]) -> list[str]:
    """Return the paragraphs and items of a text that stand below headings called as one of the types.

    >>> items_below("It falls.\\n\\n# Exercises\\n\\n1. Why?\\n2. When?", "Leaves", ["exercise"])
    ['# Exercises', 'Why?', 'When?']
    """
    _, below = _divided(_blocks(text), heading, types)
    return [item.strip() for block in below for item in ITEM_START.split(block) if item.strip()]


def slides_joined(blocks: Iterable[str]) -> Iterator[str]:
    """Iterate over the blocks with short lines that follow each other, as slides have them, as one block.

    >>> list(slides_joined(["# Parts", "Nucleus", "Holds DNA", "It is small."]))
    ['# Parts', 'Nucleus\\n\\nHolds DNA', 'It is small.']
    """
    for is_line, some in groupby(blocks, _is_line):
        together = list(some)
        yield from ["\n\n".join(together)] if is_line else together


def _is_line(block: str) -> bool:
    return len(block) <= _SHORT and block[-1:].isalnum() and not _NO_PROSE.match(block) and kind_of(block) == "prose"


def _named(passage: int, block: int, heading: str, asked: Collection[str]) -> list[_Sentence]:
    """Return a heading as the sentence that introduces what is below it, if the question names it."""
    words = _words(heading)
    return [_Sentence(passage, block, f"**{_clean(heading)}**:")] if words and words <= set(asked) else []


def _linked(sentences: list[_Sentence], found: Sequence[_Sentence]) -> list[_Sentence]:
    """Link sentences to those that they depend on: the previous one in their block, or the last one in `found`."""
    before = found[-1] if found else None
    for sentence in sentences:
        if _NEEDS_BEFORE.match(sentence.text):
            sentence.before, sentence.whole = before, before is not None
        before = sentence
    return sentences


def _items(passage: int, block: int, text: str, last: Sequence[_Sentence]) -> list[_Sentence]:
    """Return the items of a list, which belongs to the sentence that introduces it."""
    lead = last[-1] if last and last[-1].text.rstrip(CLOSERS).endswith(":") else None
    begins = [match.start() for match in ITEM_START.finditer(text)]
    parts = (text[start:end] for start, end in pairwise([0, *begins, len(text)]))
    items = [_item(item) for item in parts if item.strip()]
    if lead is not None and len(text) <= LONGEST // 2:
        lead.shown = "\n".join(items)
        return [_Sentence(passage, block, item, lead.shown, instead=lead) for item in items]
    return [_Sentence(passage, block, item, item[:0], before=lead) for item in items if len(item) <= CHARACTERS]


def _pointing(lead: _Sentence | None, block: str) -> _Sentence | None:
    """Let a sentence that refers to a block show it, and return it; None if there is none, or it would be too long."""
    if lead is None or len(lead.shown) + len(block) > LONGEST:
        return None
    lead.shown = f"{lead.shown}\n\n{block}".strip()
    return lead


def _rows(
    passage: int, block: int, table: str, heading: str, intro: str, lead: _Sentence | None
) -> Iterator[_Sentence]:
    """Iterate over the rows of a table, as the words of the heading, of the columns and of the row, each after what is
    quoted for it: `lead` if it shows the table, otherwise `intro`, with the columns and the row of a pipe table, or
    with all of another one."""
    columns, rule, *lines = [*table.splitlines(), "", ""]
    is_pipe = "|" in columns and _RULE.fullmatch(rule) is not None
    if is_pipe:
        rows = list(takewhile(lambda line: "|" in line, filter(None, lines)))  # without the caption
    else:
        columns = frame("table", table)[0]
        rows = [table[len(columns) :][slice(*place)] for place in rows_of(table[len(columns) :])]
        if lead is None and len(table) <= LONGEST:
            lead = _Sentence(passage, block, intro, table)
            yield lead
    for row in rows if is_pipe or lead else ():
        quoted = lead or _Sentence(passage, block, intro, f"{columns}\n{rule}\n{row}", len(rows))
        words = " ".join(_clean(f"{heading} {columns} {row}".translate(_BORDERS)).split())
        yield from [_Sentence(passage, block, words, instead=quoted), *([] if lead else [quoted])]


def _item(text: str) -> str:
    """Return an item as readable text, with each subitem on its own line.

    >>> _item("- Leaves\\n  fall:\\n    - in <b>autumn</b>\\n    - at last")
    '- Leaves fall:\\n    - in autumn\\n    - at last'
    """
    first, *below = _NESTED.split(text)
    return "\n".join([_clean(first), *(f"{each[: -len(each.lstrip())]}{_clean(each)}" for each in below)])


def _blocks(text: str) -> Iterator[str]:
    """Iterate over the blocks of a markdown text, separated by blank lines; code and formulas stay whole."""
    at = 0
    code = [(span.start, span.end) for span in spans(text, in_list=True) if span.kind == "code_block"]
    for begin, stop in sorted(code + [place for place in _formulas(text) if "\n" in text[slice(*place)]]):
        start, end = text.rfind("\n", 0, begin) + 1, text.find("\n", stop) + 1 or len(text)
        if "\n\n" in text[begin:stop] and text[start:begin].strip():
            start = begin
        if start >= at and not text[start:begin].strip():
            yield from _paragraphs_of(text[at:start])
            yield text[start:end].rstrip("\n")
            at = end
    yield from _paragraphs_of(text[at:])


def _split(text: str) -> Iterator[str]:
    """Iterate over the sentences of a text, none of which ends inside a display formula.

    >>> list(_split("Its slope is $$b = 1. C = 2.$$ per leaf. It falls."))
    ['Its slope is $$b = 1. C = 2.$$ per leaf.', 'It falls.']
    """
    text = _HIDDEN.sub("", text)
    places = _formulas(text)
    formulas = iter([text[start:end] for start, end in places])
    for start, end in reversed(places):
        text = f"{text[:start]}\ue000{text[end:]}"
    for sentence in sentences_of(text):
        yield _HIDDEN.sub(lambda _: next(formulas), sentence)


def _formulas(text: str) -> list[tuple[int, int]]:
    """Return the positions of display formulas outside of code."""
    for span in spans(text, in_list=True):
        if span.kind.startswith("code"):
            text = f"{text[: span.start]}{' ' * (span.end - span.start)}{text[span.end :]}"
    return [match.span() for match in _DISPLAY.finditer(text)]


def _paragraphs_of(text: str) -> Iterator[str]:
    yield from (lines.strip("\n") for lines in BLANK_LINES.split(text) if lines.strip())


def _unquoted(blocks: Iterator[str]) -> Iterator[str]:
    """Iterate over blocks, including those inside of block quotes."""
    for block in blocks:
        if kind_of(block) == "quote":
            yield from _unquoted(_blocks(unquoted(f"\n{block}")[1:]))
        else:
            yield block


def _clean(text: str) -> str:
    """Return prose as readers see it: without comments, tags, index marks, and link addresses.

    >>> _clean("See [the *book*](b.html) <!-- ignore --> on leaves.")
    'See the *book* on leaves.'
    >>> _clean("A <b>`Vec<T>`</b>, see <https://a.org>")
    'A `Vec<T>`, see <https://a.org>'
    """
    return " ".join(prose_of(text).split())


def _code_alone(block: str) -> str:
    """Return code with the language of its fence but no chunk options; empty if it only includes a file.

    >>> _code_alone("```{r plot, echo=FALSE}\\nplot(x)\\n```").splitlines()[0]
    '```r'
    """
    code = next(iter(spans(block)), None)
    if code is None or code.kind != "code_block" or not code.attributes:
        return block
    return fenced(code.text, code.language) if without(code.text, "shortcode").strip() else ""


# -- the sentence that supports an answer ------------------------------------------------------------

_PARTS = re.compile(r"\n\s*\n|\n(?=[ \t>]*(?:[-*+|#]|\d{1,9}[.)])[ \t])")
_MARK = re.compile(r"[ \t>]*(?:[-*+>]|#{1,6}|\d{1,9}\\?[.)])[ \t]+")
_NOTE = re.compile(r"\^?\[\^?[^\[\]\n]*\](?![(\[])(?=\s|[.,;:]|$)|(?<=\S)\^\[[^\[\]\n]*\]")
_NO_SENTENCE = ("```", "~~~", ":::", "---", "|", "#", "<", "![")
_FEWEST, _MANY = 2, 1_000  # words in common with the answer, if it has as many; words of no sentence


def supporting_sentence(source: Passage, claims: Iterable[Claim]) -> str:
    """Return the sentence of a source that has most words in common with what an answer says of it, as it is written
    there; empty if none has.

    >>> from lmm_education.material import Lines, Location
    >>> text = "Leaves fall in autumn. They are green because of *chlorophyll*."
    >>> leaf = Passage("1", Location("d", "a.md", Lines(1, 1)), text, number=1, language="en")
    >>> supporting_sentence(leaf, [Claim("Chlorophyll makes them green [1].", 0, 33, (1,))])
    'They are green because of *chlorophyll*.'
    """
    texts = [without_citations(claim.text) for claim in claims if source.number in claim.sources]
    claim_words = [content for text in texts if (content := set(word_ids(text, source.language)) - {None})]
    best, found = 0.0, ""
    for sentence, words in _read(source.text, source.language) if claim_words else ():
        common = max(len(words & each) if len(words & each) >= min(_FEWEST, len(each)) else 0 for each in claim_words)
        share = common**2 / len(words) if common >= _FEWEST else common / _MANY  # of one word, the first sentence
        if share > best:
            best, found = share, sentence
    return found


def narrowed(source: Passage, claims: Iterable[Claim], root: Path) -> Passage:
    """Return a source with the page, slide or minute of the sentence that supports the answer, instead of those of all
    its text, if the marks in its document tell it."""
    pages = Pages.read(source.place.page) if source.place.page else None
    if pages is None or pages.first == pages.last or not (sentence := supporting_sentence(source, claims)):
        return source
    try:
        lines = read_document(root / source.place.file).split("\n")[: source.place.lines.last]
    except DocumentError:
        return source
    texts, name = dict[str, str](), ""
    for number, line in enumerate(lines, 1):
        if mark := PAGE_MARK.match(line):
            name = mark["name"]
        elif number >= source.place.lines.first:
            texts[name] = texts.get(name, "") + _letters(line)
    letters = _letters(sentence)
    found = [name for name, text in texts.items() if name and letters in text]
    return replace(source, place=replace(source.place, page=found[0])) if len(found) == 1 else source


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


@lru_cache(maxsize=KEPT_PASSAGES)
def _read(markdown: str, language: str) -> list[tuple[str, frozenset[int | None]]]:
    """Return the sentences of a text with their words; cached, since a class asks for the same sources."""
    read = ((sentence, frozenset(word_ids(sentence, language)) - {None}) for sentence in sentences_in(markdown))
    return [(sentence, words) for sentence, words in read if words]


def sentences_in(markdown: str) -> Iterator[str]:
    """Iterate over the sentences of a text as they are written, without code, tables and headings; the lines of a slide
    are one sentence.

    >>> list(sentences_in("# Leaves\\n\\n1. They fall. All do.\\n2. They rot.\\n"))
    ['They fall.', 'All do.', 'They rot.']
    """
    for text in slides_joined(part.strip() for part in _PARTS.split(markdown)):
        if text.startswith(_NO_SENTENCE):
            continue
        text, start = _MARK.sub("", text, count=1) if _MARK.match(text) else text, 0
        ends = () if "\n\n" in text else sentence_ends(text)
        for end, begin in (*ends, (len(text), len(text))):
            if sentence := text[start:end].strip():
                yield sentence
            start = begin


def shown_sentence(sentence: str) -> str:
    """Return a sentence without its notes, quote marks and line breaks, as markdown of one line.

    >>> shown_sentence("> It is *green*^[see https://example.org]\\n> in summer.")
    'It is *green* in summer.'
    """
    return " ".join(_NOTE.sub("", unquoted(f"\n{sentence}")).split())


# -- output ----------------------------------------------------------------------------------------


def _quotations(passages: Sequence[Passage], groups: Iterable[Sequence[_Sentence]]) -> Iterator[str]:
    """Iterate over the quotations in order, one for each source, under its heading."""
    for number, sentences in enumerate(groups, 1):
        if heading := passages[sentences[0].passage].heading.replace("**", ""):
            yield f"**{heading}**"
        text = "\n\n".join(_paragraphs(sentences, f" [{number}]"))
        yield "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _before_citation(block: str) -> str:
    """Return what is between a quotation's last block and its citation, which is not in a table or code."""
    return "" if kind_of(block) == "prose" else "\n\n"


def quote_whole(heading: str, text: str, number: int) -> str:
    """Return a text as a quotation under its heading, or the one that it begins with.

    >>> print(quote_whole("Work", "# Exercise 1\\n\\nWhy?", 1))
    **Exercise 1**
    <BLANKLINE>
    > Why? [1]
    """
    first, _, rest = text.strip().partition("\n")
    if match := _HEADING.match(first):
        heading, text = match[2], rest
    text = text.strip()
    gap = _before_citation(text.rpartition("\n\n")[2]) or " "
    return f"**{heading}**\n\n" + "\n".join(f"> {line}".rstrip() for line in f"{text}{gap}[{number}]".split("\n"))


def _paragraphs(sentences: Sequence[_Sentence], cited: str) -> Iterator[str]:
    """Iterate over the sentences of a source, joined by block, with an ellipsis where some are left out, each followed
    by the block that it refers to. A table of which rows are left out ends with an ellipsis."""
    paragraph, whole = "", list[_Sentence]()
    for sentence in sentences:  # rows of one table become one
        columns, _, row = sentence.shown.rpartition("\n")
        if whole and columns and whole[-1].text == sentence.text and whole[-1].shown.startswith(f"{columns}\n"):
            whole[-1].shown += f"\n{row}"
        else:
            whole.append(sentence)
    for table in whole:
        if table.rows and table.shown.count("\n") - 1 < table.rows:
            columns = table.shown.partition("\n")[0].strip().strip("|").replace("\\|", "")
            table.shown += "\n" + "| … " * (columns.count("|") + 1) + "|"
    for sentence, after in zip(whole, [*whole[1:], None], strict=True):
        paragraph += sentence.text if after else f"{sentence.text}{cited}"
        if not after or sentence.shown or (after.passage, after.block) != (sentence.passage, sentence.block):
            yield paragraph
            paragraph = ""
        else:
            paragraph += " …" if after.place > sentence.place + 1 else ""
            paragraph += "\n" if ITEM_START.match(after.text) else " "
        if sentence.shown:
            yield sentence.shown
