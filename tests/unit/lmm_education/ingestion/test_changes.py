"""The plan holds the difference and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, strategies as st

from lmm_education.ingestion.plan import Changes, changes
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


def apply(stored: Mapping[str, Payload], plan: Changes) -> dict[str, Payload]:
    """The store after the plan was carried out."""
    kept = {k: v for k, v in stored.items() if k not in (*plan.removed, *plan.removed_sections)}
    return kept | dict(plan.payloads) | dict(plan.sections)


_DOCUMENTS = st.builds(
    document,
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "one", "two"])),
    st.sampled_from([None, 1, True, 1.0]),
    st.sampled_from(["en", "de"]),
)


@given(_DOCUMENTS, _DOCUMENTS)
def test_a_plan_leads_from_any_version_to_any_other(old: PreparedDocument, new: PreparedDocument) -> None:
    """After the plan, the store is what a first ingest of the new version gives; a second plan is empty."""
    before = apply({}, changes(old, {}, hashes(old)))
    plan = changes(new, before, hashes(new))
    after = apply(before, plan)
    assert repr(sorted(after.items())) == repr(sorted(apply({}, changes(new, {}, hashes(new))).items()))
    assert changes(new, after, hashes(new)) == Changes()
    kept = {c.id: (hashes(old)[c.id], old.language) for c in old.chunks}
    assert all(kept.get(c.id) != (hashes(new)[c.id], new.language) for c in plan.encode)


def test_only_metadata_changed() -> None:
    """True is not 1 to a reader of the payload; nothing is embedded for it."""
    old, new = document({"a": "one"}, 1), document({"a": "one"}, True)
    first = changes(old, {}, hashes(old))
    plan = changes(new, apply({}, first), hashes(new))
    assert not plan.encode
    assert plan.payloads["a"]["metadata"] == {"x": True}


def test_again_embeds_everything() -> None:
    """A rebuild trusts nothing that is stored."""
    same = document({"a": "one", "b": "two"})
    stored = apply({}, changes(same, {}, hashes(same)))
    assert [c.id for c in changes(same, stored, hashes(same), again=True).encode] == ["a", "b"]
