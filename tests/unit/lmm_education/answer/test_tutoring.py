"""Hints without a language model are in the language of the question, however short or mixed it is."""

from __future__ import annotations

import pytest

from lmm_education.answer.languages import by_language
from lmm_education.answer.sources import Sources
from lmm_education.answer.tutoring import hints_text
from lmm_education.study.exercises import Exercise

QUESTIONS = """
en: Solve it! | 3b | exercise 3 die join | Solution 3b
de: Lösung Aufgabe 3b | Hilfe | Was ist der Unterschied zwischen inner join und left join in Aufgabe 2? | Aufgabe 3
fr: Quelle est la solution de 3b ? | Aide pour l'exercice 2 | Explique le for loop dans l'exercice 1
es: ¿Cómo se resuelve el ejercicio? | Resuelve 3b | ejercicio 2
it: Qual è la soluzione dell'esercizio 2? | Aiuto! | Risolvi l'esercizio
nl: Los oefening 2 op | Geef me de oplossing | Wat is het antwoord?
pt: Resolve o exercício 2 | Dá-me a resposta | Preciso de ajuda com o join
pl: Jak rozwiązać zadanie 3? | Jaki jest wynik?
tr: Alıştırma 3'ün çözümü nedir? | Cevabı ver
ja: 練習問題3の解答を教えてください | inner join の使い方
zh: 练习3的答案是什么？ | 请解释 for loop 和 while loop 的区别
ar: ما هو حل التمرين 3؟ | حل inner join
"""


@pytest.mark.parametrize("line", QUESTIONS.strip().splitlines())
def test_hints_are_in_the_language_of_the_question(line: str) -> None:
    code, _, questions = line.partition(": ")
    exercise = Exercise(1, "exercise", "Why are leaves green?", "", "Leaves", "leaves.md", 1, ())
    for question in questions.split(" | "):
        assert by_language()[code]["hints"]["exercise"] in hints_text(exercise, question, Sources()), question
