"""Study plans."""

from __future__ import annotations

from lmm_education.study.exercises import find_exercises
from lmm_education.study.plans import plan_as_markdown, plan_as_values, study_plan
from lmm_education.study.study_documents import study_document

TEXT = """---
title: Botany
summary: All about leaves.
requires: Chemistry
---

---
~summary_: Leaves are green.
---
# Leaves

{words}

## Colour

### Chlorophyll

One two three.

---
type: exercise
---
Why?

---
type: exercise
---
How?
""".replace("{words}", "word " * 398)


def test_a_plan() -> None:
    """Times, summaries, what to know before, exercises to do."""
    plan = study_plan([study_document(TEXT, file="b.md")])
    assert plan_as_markdown(plan) == (
        "# Study plan\n\n2 steps, about 2 min to read, at 200 words a minute.\n\n"
        "## Botany (b.md, 2 min)\n\n"
        "- [ ] Leaves (2 min)\\\n  *After:* Chemistry.\\\n  Leaves are green.\n"
        "  - [ ] Colour (1 min, 2 exercises)\n"
    )


def test_depth_and_pace() -> None:
    """Deeper sections count with the one that they are in."""
    one = study_plan([study_document(TEXT, file="b.md")], depth=1, words_per_minute=100)
    assert [(step.title, step.words, step.minutes) for step in one.steps] == [("Leaves", 401, 4)]
    three = study_plan([study_document(TEXT, file="b.md")], depth=3)
    assert [step.title for step in three.steps] == ["Leaves", "Colour", "Chlorophyll"]
    assert one.words == three.words == 401


def test_types_that_are_read_with_the_text_count() -> None:
    """As the notes have them."""
    plan = study_plan([study_document(TEXT, file="b.md")], keep=["exercise"])
    assert plan.steps[1].words == 3 + 2
    assert plan.steps[1].material == {}


def test_text_above_the_first_heading_is_a_step() -> None:
    """Called as the document."""
    plan = study_plan([study_document("Words before.\n\n# A\n\nText.\n", file="notes.md")])
    assert [(step.title, step.level, step.line) for step in plan.steps] == [("A", 0, 1), ("A", 1, 3)]


def test_json() -> None:
    """All that a step says."""
    values = plan_as_values(study_plan([study_document(TEXT, file="b.md")]))
    assert values["minutes"] == 2
    assert values["steps"][0]["requires"] == ("Chemistry",)
    assert values["steps"][1]["material"] == {"exercise": 2}


def test_paragraphs_under_one_typed_heading_are_one_exercise() -> None:
    """What `lmm exercises` lists once is counted once."""
    text = "# A\n\n---\ntype: exercise\n---\n## Drill\n\nFirst do this.\n\nThen do that.\n\n- a\n- b\n"
    documents = [study_document(text, file="a.md")]
    assert study_plan(documents).steps[1].material == {"exercise": 1}
    assert len(find_exercises(documents)) == 1


def test_levels_are_counted_from_the_top_one_of_the_document() -> None:
    """A chapter that begins with ## has a step for each section, as one that begins with #."""
    text = "# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n"
    for deeper in (text, text.replace("# ", "## ").replace("## ## ", "### ")):
        plan = study_plan([study_document(deeper, file="a.md")])
        assert [step.title for step in plan.steps] == ["A", "B"]
