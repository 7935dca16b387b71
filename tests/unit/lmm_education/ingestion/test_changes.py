"""The plan holds the difference and nothing else."""

from __future__ import annotations

from hypothesis import given, strategies as st

from lmm_education.ingestion.plan import Changes, StoredState, changes
from lmm_education.material import Chunk, Lines, Location, PreparedDocument, Section
from lmm_education.payloads import Payload


def document(texts: dict[str, str], metadata: object = None, language: str = "en") -> PreparedDocument:
    """A document with one section and one chunk per id."""
    place = Location("d", "a.md", Lines(1, 1))
    chunks = tuple(
        Chunk(id, place, f"s{id}", i, text, metadata={"x": metadata}) for i, (id, text) in enumerate(texts.items())
    )
    sections = tuple(Section(f"s{id}", place, 1, i, text) for i, (id, text) in enumerate(texts.items()))
    return PreparedDocument("d", "a.md", "t", language, sections, chunks)


def hashes(prepared: PreparedDocument) -> dict[str, str]:
    """A hash of what would be embedded: here, the text."""
    return {chunk.id: f"#{chunk.text}" for chunk in prepared.chunks}


def apply(stored: StoredState, plan: Changes) -> StoredState:
    """The store after the plan was carried out."""
    chunks: dict[str, Payload] = {k: v for k, v in stored.chunks.items() if k not in plan.removed} | dict(plan.payloads)
    kept: dict[str, Payload] = {k: v for k, v in stored.sections.items() if k not in plan.removed_sections}
    return StoredState(chunks, kept | dict(plan.sections))


_DOCUMENTS = st.builds(
    document,
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "one", "two"])),
    st.sampled_from([None, 1, True, 1.0]),
    st.sampled_from(["en", "de"]),
)


@given(_DOCUMENTS, _DOCUMENTS)
def test_a_plan_leads_from_any_version_to_any_other(old: PreparedDocument, new: PreparedDocument) -> None:
    """After the plan, the store is what a first ingest of the new version gives; a second plan is empty."""
    nothing = StoredState({}, {})
    before = apply(nothing, changes(old, nothing, hashes(old)))
    plan = changes(new, before, hashes(new))
    after = apply(before, plan)
    assert repr(sorted(after.chunks.items())) == repr(
        sorted(apply(nothing, changes(new, nothing, hashes(new))).chunks.items())
    )
    assert set(after.sections) == {section.id for section in new.sections}
    assert changes(new, after, hashes(new)) == Changes((), {}, (), {}, ())
    kept = {c.id: (hashes(old)[c.id], old.language) for c in old.chunks}
    assert all(kept.get(c.id) != (hashes(new)[c.id], new.language) for c in plan.encode)


def test_only_metadata_changed() -> None:
    """True is not 1 to a reader of the payload; nothing is embedded for it."""
    old, new = document({"a": "one"}, 1), document({"a": "one"}, True)
    first = changes(old, StoredState({}, {}), hashes(old))
    plan = changes(new, apply(StoredState({}, {}), first), hashes(new))
    assert not plan.encode
    assert plan.updated["a"]["metadata"] == {"x": True}


def test_again_embeds_everything() -> None:
    """A rebuild trusts nothing that is stored."""
    same = document({"a": "one", "b": "two"})
    stored = apply(StoredState({}, {}), changes(same, StoredState({}, {}), hashes(same)))
    assert [c.id for c in changes(same, stored, hashes(same), again=True).encode] == ["a", "b"]
