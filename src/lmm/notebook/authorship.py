"""Authorship of a document: paragraphs accepted from a model are recorded in ``~~by``, which also reveals later edits.

``~~by`` contains the model, the date, and fingerprints of the accepted paragraphs (`marks_of`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from lmm.markdown.blocks import Block, HeadingBlock, MetadataBlock, TextBlock
from lmm.markdown.tree import count_words
from lmm.notebook.edit_warnings import marks_of
from lmm.notebook.edits import old_view

BY = "~~by"
_BY = re.compile(r"(?P<model>.+) \d{4}-\d\d-\d\d (?P<marks>[0-9a-f ]+)\Z")


@dataclass(frozen=True, slots=True)
class Authorship:
    """The number of words by a model, as accepted or `edited` since; or by people, if `model` is empty."""

    model: str
    edited: bool
    words: int

    def __str__(self) -> str:
        who = f"accepted from {self.model}" if self.model else "yours"
        return f"{who}, edited since" if self.edited else who


def sign(block: MetadataBlock, model: str, texts: Iterable[str], before: Iterable[str] = ()) -> MetadataBlock:
    """Record in `block` that the `texts` below it were accepted from a model today.

    Those that were already there `before` are included only if the block already has a record of them.

    Raises:
        MetadataError: nothing can be added to the block in its form.
    """
    texts, by = list(texts), _BY.match(str(block.values().get(BY)))
    signed, new = by["marks"].split()[1:] if by else [], Counter(texts) - Counter(before)
    chosen = [text for text in texts if new[text] or marks_of([text]).split()[1] in signed]
    return block.with_key(BY, f"{model} {date.today():%Y-%m-%d} {marks_of(chosen)}") if chosen else block


def authors_of(blocks: Sequence[Block]) -> list[Authorship]:
    """Count the words of a document by author, people first; for pending edits, the old text counts.

    >>> from lmm.markdown.parse_markdown import parse_markdown_text
    >>> text = f"---\\n~~by: Ollama/x 2026-05-21 {marks_of(['One two.'])}\\n---\\nOne two.\\n\\nThree.\\n"
    >>> [(each.words, str(each)) for each in authors_of(parse_markdown_text(text))]
    [(1, 'yours'), (2, 'accepted from Ollama/x')]
    """
    seen = old_view(blocks)
    texts = [block for block in seen if isinstance(block, TextBlock | HeadingBlock)]
    at, signed = 0, dict[int, tuple[str, bool]]()
    for block in seen:
        if isinstance(block, TextBlock | HeadingBlock):
            at += 1
        elif isinstance(block, MetadataBlock) and BY in block.body and (by := _BY.match(str(block.values().get(BY)))):
            signed |= _signed(texts, at, by["model"], by["marks"].split()[1:])
    words = Counter({("", False): 0})
    for i, text in enumerate(texts):
        content = text.title if isinstance(text, HeadingBlock) else text.content
        words[signed.get(i, ("", False))] += count_words(content)
    return [Authorship(model, edited, count) for (model, edited), count in sorted(words.items())]


def _signed(texts: Sequence[Block], at: int, model: str, marks: Sequence[str]) -> dict[int, tuple[str, bool]]:
    """Find the texts from `at` on that match `marks`, and those that were edited since, by position."""
    near = range(at, min(at + 2 * len(marks) + 1, len(texts)))
    found = dict(zip(near, marks_of(texts[i].content for i in near).split()[1:], strict=True))
    unmatched, same = Counter(marks), set[int]()
    for i, mark in found.items():
        if unmatched[mark]:
            unmatched[mark] -= 1
            same.add(i)
    first = at + (at < len(texts) and at not in same and isinstance(texts[at], HeadingBlock))  # the section's own
    end = next((i for i in near[first - at :] if i not in same and isinstance(texts[i], HeadingBlock)), near.stop)
    other = [i for i in range(first, end) if i not in same]
    return {i: (model, i not in same) for i in [*same, *other[: unmatched.total()]]}
