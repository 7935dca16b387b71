"""What requires what, and the order that comes of it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lmm_education.study.plans import StudyPlan, study_plan
from lmm_education.study.study_documents import StudyDocument, study_document


def plan(**texts: str) -> StudyPlan:
    """The plan of documents by name."""
    return study_plan([study_document(text, file=f"notes/{name}.md") for name, text in texts.items()])


def section(title: str, requires: str = "", level: int = 1) -> str:
    """A section, with a block that says what it requires."""
    block = f"---\nprerequisites: {requires}\n---\n" if requires else ""
    return f"{block}{'#' * level} {title}\n\nText.\n\n"


HEADER = "---\ntitle: T\n---\n"
NAMES = ["c", "c.md", "notes/c.md", "Trees", "TREES", "trees-1", "[c]"]


@pytest.mark.parametrize("name", NAMES)
def test_documents_are_named_by_id_file_or_title(name: str) -> None:
    """All of a document comes before what requires it."""
    made = plan(
        a=f"---\nrequires: {name}\n---\n# Leaves\n\nText.\n",
        b="# Roots\n\nText.\n",
        c="---\ntitle: Trees\ndocid: trees-1\n---\n# Oaks\n\nText.\n\n# Elms\n\nText.\n",
    )
    assert [step.title for step in made.steps] == ["Oaks", "Elms", "Leaves", "Roots"]
    assert made.steps[2].requires == ("Trees",)
    assert not made.problems


@pytest.mark.parametrize("name", ["Elms", "elms", "c#Elms", "'Trees # elms'", "the-elms"])
def test_sections_are_named_by_title_or_id(name: str) -> None:
    """Only the section comes before, and what it is in."""
    made = plan(
        a=HEADER + section("Leaves") + section("Veins", name, 2),
        c="---\ntitle: Trees\n---\n" + section("Oaks") + "# Elms {#the-elms}\n\nText.\n\n" + section("Ashes"),
    )
    assert [step.title for step in made.steps] == ["Leaves", "Elms", "Veins", "Oaks", "Ashes"]


def test_a_name_means_a_section_of_its_own_document_first() -> None:
    """And in others only if one section is called so."""
    made = plan(a=HEADER + section("B", "Basics") + section("Basics"), b=HEADER + section("Basics"))
    assert [(step.file[6], step.title) for step in made.steps] == [("a", "Basics"), ("a", "B"), ("b", "Basics")]
    made = plan(a=HEADER + section("B", "Basics"), b=HEADER + section("Basics"), c=HEADER + section("Basics"))
    (problem,) = made.problems
    assert problem.startswith("notes/a.md:7: 'Basics' names several sections (notes/b.md:4, notes/c.md:4)")


def test_what_is_not_in_the_course_is_required_beforehand() -> None:
    """It changes no order."""
    made = plan(a=HEADER + section("A", "[Calculus, R]"))
    assert made.steps[0].beforehand == ("Calculus", "R")
    assert not made.problems


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"one": section("A", "B") + section("B", "A")}, "'A' > 'B' > 'A'"),
        (
            {"a": "---\nrequires: b\n---\n# A\n\nText.\n", "b": "---\nrequires: a\n---\n# B\n\nText.\n"},
            "'A' > 'B' > 'A'",
        ),
        ({"one": section("A", "A")}, "'A' requires itself"),
    ],
)
def test_circles_are_told_once(texts: dict[str, str], problem: str) -> None:
    """And every section is in the plan all the same."""
    made = plan(**{name: text if text.startswith("---\nrequires") else HEADER + text for name, text in texts.items()})
    (told,) = made.problems
    assert problem in told
    assert {step.title for step in made.steps} == {"A", "B"} & set("".join(texts.values()))


@st.composite
def courses(draw: st.DrawFn) -> tuple[list[StudyDocument], list[list[int]]]:
    """Sections that require others, and which; no circle."""
    count = draw(st.integers(1, 8))
    rank = draw(st.permutations(range(count)))
    edges = [[j for j in range(count) if rank[j] < rank[i] and draw(st.booleans())] for i in range(count)]
    texts = [HEADER + section(f"S{i}", str([f"S{j}" for j in edges[i]]) if edges[i] else "") for i in range(count)]
    return [study_document(text, file=f"{i}.md") for i, text in enumerate(texts)], edges


@given(courses())
def test_everything_comes_after_what_it_requires(course: tuple[list[StudyDocument], list[list[int]]]) -> None:
    """Once each; and sections that require nothing that comes later stay in the order of the files."""
    documents, edges = course
    made = study_plan(documents)
    order = [int(step.title[1:]) for step in made.steps]
    assert sorted(order) == list(range(len(edges)))
    assert not made.problems
    assert all(order.index(j) < order.index(i) for i, required in enumerate(edges) for j in required)
    if all(j < i for i, required in enumerate(edges) for j in required):
        assert order == sorted(order)
