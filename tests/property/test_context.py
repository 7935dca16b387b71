"""What the model is shown never exceeds the budget, and is what was found."""

from __future__ import annotations

from hypothesis import given, strategies as st

from lmm.messages import Message, render
from lmm.models.tokens import count_tokens
from lmm_education.answer.sources import as_document, choose_sources, shown
from lmm_education.material import Lines, Location, Passage

TEXTS = st.text(alphabet="ab é漢<>`#$\n.[1]", min_size=1, max_size=300)


KINDS = st.sampled_from(["text", "exercise"])


@st.composite
def sections(draw: st.DrawFn) -> list[Passage]:
    """Sections with passages, some without a text of their own, in the order of relevance."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        place = Location("d", "a.md", Lines(1, 9), tuple(draw(st.lists(st.text(max_size=12), max_size=3))))
        hits = [
            Passage(f"{number}-{i}", place, text, section=f"s{number}", type=draw(KINDS))
            for i, text in enumerate(draw(st.lists(TEXTS | st.just(""), min_size=1, max_size=3)))
        ]
        text = draw(TEXTS | st.just("") | TEXTS.map(lambda t: t * 9))
        found.append(
            Passage(
                f"s{number}",
                place,
                text,
                what="section",
                section=f"s{number}",
                title="Title",
                depth=2,
                before="Before",
                after="After",
                hits=hits,
            )
        )
    return found


@given(sections(), st.integers(1, 1500))
def test_the_budget_is_never_exceeded(found: list[Passage], budget: int) -> None:
    """Counted as it is sent: all sources in one message, tags included, by a real tokenizer."""
    sources = list(choose_sources(found, budget, count_tokens))
    sent = render(Message("user", "", tuple(as_document(source) for source in sources))).rstrip()
    assert not sources or count_tokens(sent) <= budget


@given(sections(), st.integers(1, 1500))
def test_sources_are_numbered_and_come_from_what_was_found(found: list[Passage], budget: int) -> None:
    """From 1 without a gap, none twice, whole sections or passages of them; a larger budget never shows nothing."""
    sources = list(choose_sources(found, budget, count_tokens))
    assert [source.number for source in sources] == list(range(1, len(sources) + 1))
    assert len({source.id for source in sources}) == len(sources)
    texts = {s.id: s.text for s in found} | {hit.id: hit.text for s in found for hit in s.hits}
    for source in sources:
        assert texts[source.id] == source.text or (len(sources) == 1 and source.text.endswith(" …"))
    if not sources:
        assert all(count_tokens(shown(source)) > 0 for source in choose_sources(found, 10**6, count_tokens))
