"""An answer that says that the sources do not answer the question is none, whatever it names as closest."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm_education.answer.answer import Answer
from lmm_education.course import Course
from lmm_education.material import Lines, Location, Passage

REFUSALS = """
The sources do not say who won. What comes closest is the chapter on games [2].
The course material does not cover football; the closest is the chapter on leaves [1].
I'm sorry, but the sources don't answer this. Closest: [1].
I couldn't find anything about this in the material. The section on leaves [2] is closest.
None of the sources mention the price of oaks. They describe their roots [1].
This question is beyond the scope of the course. It treats leaves [1].
Unfortunately, that is not covered in the provided sources, and the closest section is the one on leaves [1].
There is no information about football in the sources. See [1].
Die Quellen beantworten diese Frage nicht. Am nächsten kommt [1].
Dazu steht nichts in den Quellen; am nächsten kommt der Abschnitt über Blätter [1].
Les sources ne répondent pas à cette question. La plus proche est [1].
Las fuentes no responden a esta pregunta. La más cercana es [1].
Le fonti non rispondono alla domanda. La più vicina è [1].
El material del curso no lo menciona. Lo más cercano es [1].
De cursus zegt hier niets over.
O material do curso não responde a isso.
Aus den Quellen geht nicht hervor, wer gewann.
De bronnen geven hier geen antwoord op. Het dichtst komt [1].
The sources do not cover this. In general, football is a game, and games have rules [1].
**The sources do not answer this question.** They cover leaves [1].
The provided excerpts do not specify when the oak was planted; they only describe its roots [3].
Neither source gives the year. The nearest topic is heat [1].
Based on the sources, I cannot answer this question. The section on leaves [1] is near.
I looked through the sources, but none of them answers the question.
The documents provided are silent on this point.
The chapters lack any discussion of oaks.
Not in the sources. The nearest is [2].
Im Kursmaterial ist davon keine Rede.
Darüber gibt der Kurs keine Auskunft.
Cette question dépasse le cadre du cours.
Les passages fournis ne permettent pas de répondre.
Los textos no precisan la fecha.
Questa domanda esula dal corso.
Nelle fonti non c'è nulla su questo.
De bronnen leggen niet uit waarom.
Nas fontes não há nada sobre isso.
Źródła nie odpowiadają na to pytanie. Najbliżej jest [2].
To pytanie wykracza poza kurs.
Kaynaklar bu soruyu yanıtlamıyor.
资料中没有提到这一点。
教材にはこの情報は含まれていません。最も近いのは[2]です。
المصادر لا تجيب عن هذا السؤال.
"""
ANSWERS = """
Leaves are green [1].
The course does not use pointers [1].
A closure does not contain state [1].
The source says that acorns do not contain tannin [1].
Oaks do not lose leaves [1]. The sources do not say why.
According to the course, vectors do not contain names [1].
No: an acorn does not ripen in its first year [1].
The source code does not contain a main function [1].
The course does not end before March [1].
The sources of light do not contain mercury [1].
The text does not mention the king by name [2], but it calls him "his majesty".
The sources agree that the answer is not unique [1]. They do not say why.
Der Kurs der Aktie fällt nicht [1].
Les sources de lumière ne contiennent pas de mercure [1].
Źródła światła nie zawierają rtęci [1].
光源不包含汞[1]。
"""
PLACE = Location("d", "a.md", Lines(1, 9))


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("text", REFUSALS.strip().splitlines())
def test_a_refusal(text: str, general: bool) -> None:
    """It does not rest on the course, and programs read that nothing was found."""
    answer = Answer("Why?", text, cited=(Passage("1", PLACE, "Text."),), general=general)
    assert answer.rests_on == ("general" if general else "nothing")
    assert answer.as_json()["found"] is False


@pytest.mark.parametrize("text", ANSWERS.strip().splitlines())
def test_an_answer(text: str) -> None:
    """Though it denies something, or says what the sources leave open."""
    answer = Answer("Why?", text, cited=(Passage("1", PLACE, "Text."),))
    assert answer.rests_on == "course"
    assert answer.as_json()["found"] is True


def test_a_question_about_a_name_that_occurs_nowhere_is_not_answered_by_chance(tmp_path: Path) -> None:
    """Because of one common word; a name with which something is compared does not count."""
    text = (
        "# School\n\nThe teacher writes on the board.\n\n# Food\n\nIn the hall there is soup and bread for everybody.\n"
    )
    (tmp_path / "school.md").write_text(text)
    course = Course.open(tmp_path)
    course.ingest()
    assert not course.ask("What soup did the king of Denmark eat?").answers
    assert not course.ask("Which bread is baked in Paris?").answers
    assert course.ask("What does the teacher write, as in France?").answers
    assert course.ask("Who gets soup and bread?").answers


def test_the_entry_of_a_glossary_answers_what_its_name_means(tmp_path: Path) -> None:
    """As a heading, in front of a definition, in bold, in a list and in a table; the text need not have it."""
    (tmp_path / "a.md").write_text("""# Terms

## Stoma

A pore in the leaf.

## WHO

An agency of the United Nations, founded in 1948.

# More terms

Xylem
: Carries water upwards.

**Phloem.** Carries sugar to the roots.

- UNO: 193 countries.

| Term | Meaning |
|---|---|
| IMF | Lends money to states. |
| OPEC | Sets quotas for oil. |

# Short

These are used:

- IT: all about computers.

In tables:

| Term | Meaning |
|---|---|
| OR | Odds in relation. |

# Recipes

## Apple Pie

### Ingredients

- 101 g apple
- 2 tbsp oil

### Method

Bake for 11 minutes at 151 °C.
""")
    course = Course.open(tmp_path)
    course.ingest()
    for question, words in (
        ("What is a stoma?", "A pore"),
        ("stoma", "A pore"),
        ("What is WHO?", "An agency"),
        ("WHO meaning", "An agency"),
        ("Meaning of WHO?", "An agency"),
        ("What is xylem?", "water upwards"),
        ("phloem", "sugar"),
        ("What is UNO?", "193"),
        ("What is IMF?", "Lends"),
        ("What is IT?", "computers"),
        ("What is OR?", "Odds"),
        ("apple pie", "151"),
    ):
        answer = course.ask(question)
        assert (answer.answers, len(answer.cited), words in answer.text) == (True, 1, True), question
    assert not course.ask("What is a mitochondrion?").answers


def test_what_is_quoted_without_blanks_follows_the_ranking(tmp_path: Path) -> None:
    (tmp_path / "ar.md").write_text("---\nlang: ar\n---\n# الجذور\n\nتمتص الشعيرات الجذرية الماء والأملاح المعدنية.\n")
    (tmp_path / "ja.md").write_text("---\nlang: ja\n---\n# 蒸散\n\n気孔から水が蒸発することを蒸散といいます。\n")
    course = Course.open(tmp_path)
    course.ingest()
    for question in ("気孔", "蒸散とは何ですか"):
        assert [each.place.file for each in course.ask(question).cited] == ["ja.md"]


def test_documents_without_numbers_are_chapters_in_their_order(tmp_path: Path) -> None:
    for name, text in (("a", "# Leaves\n\nThey are green."), ("b", "# Wurzeln\n\nDie Residuen sind Abstände.")):
        (tmp_path / f"{name}.md").write_text(f"---\nlang: de\n---\n{text}\n")
    course = Course.open(tmp_path)
    course.ingest()
    for question in ("Summarize chapter 2", "Fasse Kapitel 2 zusammen", "Was ist ein Residuum?"):
        assert [each.place.file for each in course.ask(question).cited] == ["b.md"], question
    assert not course.ask("Summarize chapter 3").answers
