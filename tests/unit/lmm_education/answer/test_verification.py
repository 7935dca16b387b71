"""A sentence fails where its source lacks a number or a name, says the opposite, or says nothing of it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from lmm_education.answer.answer import Answer
from lmm_education.answer.sources import Sources
from lmm_education.answer.verification import verify
from lmm_education.material import Lines, Location, Passage

OAK = """Oaks are trees of the genus *Quercus*, which Carl Linnaeus described in 1753; there are about 1,435 species.
The oak has four kinds of roots. An acorn does not ripen in its first year on the trees of the red group.

```r
height <- 2.50
```

| park | oaks |
|---|---|
| Kew | 12 % |
"""
EICHE = "Die Eiche verliert ihre alten Blätter nicht im Herbst, sondern erst im Frühling, nach etwa 1.435 kalten Tagen."


def passage(number: int, text: str, language: str = "en", document: str = "d") -> Passage:
    return Passage(
        str(number), Location(document, "a.md", Lines(1, 9), ("Oaks",)), text, number=number, language=language
    )


LEAVES = """| Tree | Leaves | Length (mm) | Deviation (mm) | Drying (euro) |
|---|---|---|---|---|
| Oak | 120 | 98.4 | 14.2 | 5 |
| Beech | 85 | 71.0 | 9.6 | 7 |

The median does not change if the largest value grows, but the mean does. "Absence of evidence is not evidence of
absence", they wrote. A leaf grows fast where you can and cannot see it. Call `test(length, equal = FALSE)` for it.
The type of 8 bits holds −(2^n\\ -\\ 1^) to 2^n\\ −\\ 1^ − 1.
"""
BEAKS = "For the five finch beaks 8, 9, 9, 10 and 14 mm the mean is 10 mm and the median is 9 mm."


SHOWN = [
    passage(1, OAK),
    passage(2, EICHE, "de"),
    passage(3, "Beeches grow to 40 m. Do 70 % of the beeches grow in Kew?", document="e"),
]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("There are about 1435 species of oaks, in the genus Quercus [1].", ""),
        ("There are about 1436 species of oaks, in the genus Quercus [1].", "numbers"),
        ("They were described by Linnaeus in 1753 [1], and it is 2.5 high; 12 percent are in Kew [1].", ""),
        ("They were described by Darwin in 1753, as the course has it [1].", "names"),
        ("The oak has 4 kinds of roots [1].", ""),
        ("The oak has five kinds of roots [1].", "numbers"),
        ("There are five reasons for it, which are the 3 following ones [1].", ""),
        ("An acorn doesn't ripen in its first year on the trees of the red group. [1]", ""),
        ("An acorn does ripen in its first year on the trees of the red group. [1] It falls.", "negation"),
        ("The beech is 40 m high [1].", "elsewhere"),
        ("The beech is 40 m high [3].", ""),
        ("The oak is 40 m high [1].", "numbers"),  # source 3 says this of something else
        ("Of the beeches, 70 % grow in Kew [1].", "numbers"),  # and that it asks
        ("Photosynthesis converts sunlight into chemical energy within chloroplasts of the plant cells [1].", "words"),
        ("1. As chapter 7 and Section 9 of it say, it has 1,435 species of oaks [1].", ""),
        ("Die Eiche gibt es in 1.435 Arten, die Linnaeus und Darwin kannten [1].", ""),
        ("Die Eiche gibt es in 1.436 Arten, die Linnaeus und Darwin kannten [1].", "numbers"),
        ("Nach etwa 1435 kalten Tagen verliert die Eiche ihre Blätter im Frühling, sagt Linnaeus [2].", ""),
        ("In code, `x[9] = 77`, as they say of the oaks [1].", ""),
        ("The height is $y = 78$, as they say of the oaks [1].", "numbers"),
        ("There are 99 without a source.", ""),
    ],
)
def test_a_cited_sentence_is_compared_with_its_sources(text: str, problem: str) -> None:
    assert {claim.problem for claim in verify(text, SHOWN).claims} | {""} == {problem, ""}


@pytest.mark.parametrize(
    ("language", "source", "said", "problem"),
    [
        ("en", "The seller bears the costs of transport.", "The buyer bears the costs of transport", "negation"),
        ("en", "Enzymes work up to 40 °C.", "Enzymes work up to 40 °F", "units"),
        ("en", "Each process needs 30 MB of memory.", "Four processes need 120 MB", ""),
        ("en", "Above 60 °C most enzymes are destroyed.", "Most enzymes no longer work above 60 °C", ""),
        ("de", "Die Rate der Fotosynthese sinkt deutlich.", "Die Rate der Fotosynthese steigt deutlich", "negation"),
        (
            "fr",
            "En altitude, la pression atmosphérique diminue.",
            "En altitude, la pression atmosphérique augmente",
            "negation",
        ),
        ("en", LEAVES, "Oak leaves are 98.4 mm long", ""),
        ("en", LEAVES, "Oak leaves are 98.4 cm long", "units"),
        ("en", LEAVES, "Drying a leaf costs 5 dollars", "units"),
        ("en", LEAVES, "205 leaves were measured: 120 (oak) + 85 (beech) = 205", ""),
        ("en", LEAVES, "By 38.6 %: $\\frac{98.4 - 71.0}{71.0} = \\frac{27.4}{71.0} \\approx 0.386$", ""),
        ("en", LEAVES, "The ratio is $14.2 / 89.4 = 0.16$", "numbers"),
        ("en", LEAVES, "In all, 120 + 85 = 215 leaves", "calculation"),
        ("en", LEAVES, "The ratio is 14.2 / 71.0 = 0.02", "calculation"),
        ("en", LEAVES, "The leaves of the oak have a length of 71.0 mm", "numbers"),
        ("en", LEAVES, "| Beech | 98.4 mm |", "numbers"),
        ("en", LEAVES, "The leaves of the oak are 27.4 mm longer than those of the beech", ""),
        ("en", BEAKS, "The mean of the five finch beaks is 10 mm", ""),
        ("en", BEAKS, "The mean of the five finch beaks is 14 mm", "numbers"),
        ("en", BEAKS, "The mean of the five finch beaks is 24 mm", "numbers"),
        ("en", BEAKS, "The mean of the five finch beaks is 50 / 5 = 10 mm", ""),
        ("en", "The variance is 5.5, the deviation about 2.35 mm.", "The deviation is √5.5 ≈ 2.345 mm", ""),
        ("en", "At 64 %, at least one is rejected.", "At 36 % none is rejected", ""),
        ("en", "64 cases per group are needed.", "In total, 128 cases are needed", ""),
        ("en", "The test gives t = 2.62 with 22 degrees, p = 0.016.", "The test gives p = 0.16", "numbers"),
        ("de", "Zwei Gruppen mit je 12 Pflanzen wuchsen.", "Insgesamt wuchsen 24 Pflanzen", ""),
        ("en", LEAVES, "The median doesn't change if the largest value grows; the mean does", ""),
        ("en", LEAVES, "The mean changes if the largest value grows; the median does not", ""),
        ("en", LEAVES, "The middle one: the median changes if the largest value grows", "negation"),
        ("en", LEAVES, "On evidence: “Absence of evidence is not evidence of absence”", ""),
        ("en", LEAVES, "A leaf grows, but the course does not say how fast", ""),
        ("en", LEAVES, "The type holds $-(2^{n-1})$ to $2^{n-1} - 1$, that is $-(2^7)$ or −128 for 8 bits", ""),
        ("en", LEAVES, "The type holds $-(2^{n-1})$ to $2^{n-1} + 1$", "formula"),
        ("en", LEAVES, "Call `test(length, equal = TRUE)` for it", "formula"),
    ],
)
def test_units_roles_and_opposites_in_three_languages(language: str, source: str, said: str, problem: str) -> None:
    assert [each.problem for each in verify(f"{said} [1].", [passage(1, source, language)]).claims] == [problem]


def test_a_formula_begins_a_sentence_after_a_citation() -> None:
    found = verify("That is 12 percent. [1] $p = 3$ is the other, t = 2 the last. [1] t = 4 is none. [1]", SHOWN)
    assert [each.text[:7] for each in found.claims] == ["That is", "$p = 3$", "t = 4 i"]


def test_a_passage_that_was_shown_in_two_forms_counts_in_its_longest() -> None:
    """As an excerpt and whole, in this order and the other, with one number."""
    whole = replace(passage(1, OAK), number=0)
    excerpt = replace(whole, text="Oaks are trees …")
    for forms in ((excerpt, whole), (whole, excerpt)):
        sources = Sources()
        assert [sources.offer(form).number for form in forms] == [1, 1]
        assert not verify("It says “the oak has four kinds of roots” [1].", tuple(sources)).failures


def test_what_the_asker_said_may_be_quoted() -> None:
    text = "You ask for “the height of an oak”, and say “about one thousand metres”."
    (only,) = verify(text, SHOWN, "What is the height of an oak?").quotations
    assert (only.text, only.found) == ("about one thousand metres", "no")


def test_a_claim_stands_where_it_says() -> None:
    text = "- Oaks have 1,435 species [1]\n- they have 7,777 leaves [1, 2]. And more.\n"
    found = verify(text, SHOWN).claims
    assert [text[claim.start : claim.end] for claim in found] == [claim.text for claim in found]
    assert [(claim.sources, claim.missing) for claim in found] == [((1,), ()), ((1, 2), ("7,777",)), ((1, 2), ())]
    numbered = verify("1. Oaks are trees [1].\n2. They have roots [1].\n", SHOWN).claims
    assert [claim.text for claim in numbered] == ["1. Oaks are trees [1].", "They have roots [1]."]


def test_a_block_quote_is_no_part_of_the_sentence_before_it() -> None:
    """Else what is wrong in that would be marked below the quote."""
    text = "Oaks have 7,777 leaves [1]; they fall.\n\n> There are about 1435 species. [1]\n"
    assert [each.problem for each in verify(text, SHOWN).claims] == ["numbers", ""]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It says “the oak has four kinds of roots” [3].", 1),
        ("Thus:\n\n> Beeches grow to 40 m. [1]\n", 3),
        ("It says “the oak has four kinds of roots” [1, 3].", None),
        ("It says “the oak has four kinds of roots” [1] and “beeches grow to 40 m” [3].", None),
        ("It says “the oak has four kinds of roots”. Beeches are high [3].", None),
    ],
)
def test_a_quotation_from_another_source_than_the_cited_one(text: str, number: int | None) -> None:
    found = [(each.problem, each.number) for each in verify(text, SHOWN).claims if each.problem]
    assert found == ([("elsewhere", number)] if number else [])


def test_a_year_at_the_beginning_of_a_wrapped_line_is_no_list_number() -> None:
    """A source of which a line begins with a year or a number is quoted word for word, and has no mark."""
    source = "The plants grew most in the wet summer of\n1998. In the dry one they hardly grew."
    offered = [Passage("1", Location("d", "a.md", Lines(1, 2)), source, number=1, language="en")]
    for said in ("The plants grew most in the wet summer of 1998 [1].", "> " + source.replace("\n", "\n> ") + " [1]"):
        found = verify(said, offered)
        assert [claim.problem for claim in found.claims if claim.problem] == []
        assert {each.found for each in found.quotations} <= {"exact"}


def test_a_source_that_a_mark_names_is_listed() -> None:
    """Below the cited ones; others that were offered are not."""
    text = "The beech is 40 m high [1]."
    answer = Answer("?", text, offered=(*SHOWN,), cited=(SHOWN[0],), verification=verify(text, SHOWN))
    assert [each.number for each in answer.sources] == [1, 3]


def test_a_sequence_takes_as_long_as_it_is() -> None:
    """A sentence of 1,500 numbers kept all other answers waiting for 20 s: each was calculated from each two others."""
    leaf = Passage("1", Location("d", "a.md", Lines(1, 1)), "The leaf has 12 veins.", number=1, language="en")
    begun = time.process_time()
    text = "The list is " + ", ".join(str(7 * each + 3) for each in range(600)) + " [1]."
    assert [each.problem for each in verify(text, [leaf]).claims] == ["numbers"]
    assert time.process_time() - begun < 2
