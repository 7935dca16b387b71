"""An answer's events as the page gets them."""

from __future__ import annotations

import re

from hypothesis import example, given, strategies as st

from lmm.messages import TextDelta
from lmm_education.answer.answer import Answer, AnswerBlock
from lmm_education.answer.verification import verify
from lmm_education.config import ServeSettings
from lmm_education.material import Lines, Location, Passage
from lmm_education.web.page import PageAnswer, sentence_html
from lmm_education.web.words import texts_for

SOURCE = Passage("x", Location("d", "a.md", Lines(3, 4), ("Leaves",)), "Leaves are green.", number=1, title="Botany")


def test_marks_are_ours_alone() -> None:
    """Characters without a meaning in a reply stay where they are, whatever is around them."""
    text = "Leaves \ue0007\ue001 are “red at all times” [1], \ue000, \ue0000\ue001."
    page = PageAnswer(texts_for(ServeSettings()))
    answer = Answer("?", text, offered=(SOURCE,), cited=(SOURCE,), verification=verify(text, [SOURCE]))
    sent = [event for piece in (TextDelta(text), AnswerBlock(text), answer) for event in page.events(piece)]
    html = str(sent[-1][1]["html"])
    assert html.count("not found in the sources") == 1
    assert all(char in html for char in ("\ue0007\ue001", "\ue0000\ue001"))
    assert html.index("unverified") > html.index("red at all times")
    every = text + "".join(map(chr, range(0xE000, 0xF900)))
    ((_, values),) = page.events(Answer("?", every, offered=(SOURCE,), verification=verify(every, [SOURCE])))
    assert str(values["html"]).count("not found in the sources") == 1


@given(st.text(st.sampled_from("ab $"), min_size=200, max_size=300))
@example("a" * 238 + " " + "b" * 40)
@example("a" * 239 + " " + "b" * 40)
@example("It costs $5.")
def test_a_sentence_is_cut_once(sentence: str) -> None:
    """Between words, and in no formula; a word that ends just at the limit once kept the page waiting for ever."""
    shown = sentence_html(sentence)
    assert len(re.sub(r"<[^>]*>", "", shown)) <= 250
