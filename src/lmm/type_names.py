"""The types of texts, as ``type:`` in metadata names them, and what such texts are called in headings."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class TypeNames:
    """The types that extend over more than one text, because students must not see them, and those of exercises."""

    lasting: tuple[str, ...] = ("solution",)
    exercises: tuple[str, ...] = ("exercise",)

    @property
    def all(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.lasting, *self.exercises)


DEFAULT = TypeNames()
SPEAKER_NOTE = "speaker note"
"""The type of the notes of a slide, which students never see."""


def types_in(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types in ``type:``, if any; the first one is the type of the text.

    >>> types_in({"type": ["exercise", "exam"]}), types_in({"type": "exercise"}), types_in({"type": None})
    (('exercise', 'exam'), ('exercise',), ())
    """
    if not (given := values.get("type")):
        return ()
    return tuple(str(each) for each in (given if isinstance(given, list) else [given]) if each)


def is_one_of(type: object, types: Collection[str]) -> bool:
    """Return whether a type is one of several, ignoring case."""
    return str(type).strip().casefold() in _folded(tuple(types))


@functools.lru_cache(maxsize=64)
def _folded(types: tuple[str, ...]) -> frozenset[str]:
    return frozenset(each.strip().casefold() for each in types)


# What texts of a type are called in headings and labels, besides the name of the type: one, and several.
_CALLED = {
    "exercise": (
        "übung aufgabe übungsaufgabe exercice ejercicio esercizio exercício oefening opgave ćwiczenie zadanie övning"
        " uppgift øvelse cvičení úloha упражнение задача feladat harjoitus tehtävä exercițiu άσκηση"
        " alıştırma تمرين תרגיל अभ्यास แบบฝึกหัด latihan 演習 演習問題 練習問題 练习 练习题 習題 习题 연습문제 문제",
        "übungen übungsaufgaben aufgaben exercices ejercicios esercizi exercícios oefeningen opgaven ćwiczenia zadania"
        " övningar uppgifter øvelser úlohy упражнения задачи feladatok harjoitukset tehtävät exerciții ασκήσεις"
        " alıştırmalar تمارين תרגילים",
    ),
    "summary": ("zusammenfassung résumé resumen riassunto resumo samenvatting", ""),
    "solution": (
        "lösung musterlösung beispiellösung lösungsvorschlag lösungsweg lösungsskizze lösungsansatz lösungsschlüssel"
        " corrigé réponse solución respuesta soluzione risposta solução resposta oplossing uitwerking antwoord"
        " rozwiązanie odpowiedź lösning løsning svar řešení odpověď riešenie lösungshinweise resolução fasit facit"
        " ratkaisu vastaus megoldás rezolvare răspuns rješenje rešitev решение решения ответ ответы відповідь"
        " розв'язок отговор λύση λύσεις απάντηση çözüm cevap yanıt الحل حل الإجابة פתרון תשובה उत्तर हल เฉลย"
        " jawaban penyelesaian solució"
        " erantzuna lahendus atbilde sprendimas ans soln 解答 解答例 模範解答 答案 参考答案 答え 解 정답 해답 풀이 답",
        "lösungen musterlösungen lösungsvorschläge lösungswege corrigés réponses soluciones respuestas soluzioni"
        " risposte soluções respostas oplossingen uitwerkingen rozwiązania odpowiedzi lösningar løsninger ratkaisut"
        " vastaukset megoldások çözümler cevaplar פתרונות resoluções",
    ),
}
_ALSO = {"solution": ("answer", "antwort", "lời giải", "đáp án"), "exercise": ("bài tập",)}
_AFTER_EXERCISES = ("key", "sol", "explanation", "correction", "corrections", "correzione", "erklärung",
                    "解析", "解説", "해설")  # fmt: skip
_QUALITIES = (
    *("worked", "full", "detailed", "complete", "brief", "short", "sample", "model", "suggested", "selected"),
    *("correct", "possible", "proposed", "official", "expected", "my", "begin", "richtige", "mögliche"),
    *("ausführliche", "vollständige"),
)
_FORMS = (
    *("key", "keys", "sketch", "sketches", "outline", "guide", "manual", "correcta", "correcte", "corretta"),
    *("correta", "détaillée", "détaillées", "détaillé", "detallada", "dettagliata"),
)
_TRANSCRIBED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ø": "oe", "å": "aa"})
_SHEETS = (
    *("homework", "homeworks", "hw", "assignment", "assignments", "quiz", "quizzes", "exam", "midterm", "worksheet"),
    *("klausur", "hausaufgabe", "hausaufgaben", "übungsblatt", "examen", "devoir", "tarea"),
)
_ASKED = (
    *("problem", "problems", "question", "questions", "task", "tasks", "frage", "fragen", "problème", "pregunta"),
    *("chapter", "section", "set", "week", "ex", "q", "blatt", "serie", "série", "kapitel", "chapitre", "feuille"),
    *_SHEETS,
)
_SOME = {"all", "selected", "odd", "even", "numbered", "review"}
_WITH = ("hint", "hints", "tips", "hinweise", "indications", "explanations")
_TO = ("to", "of", "for", "zu", "zur")
_AND = ("and", "und", "et", "y", "e", "en", "&", "+", "/")
_DIGITS = "0123456789. \t\xa0\u202f"
_MARKS = "✅✔️☑🔑💡📝🔒👉✓([_ "
_ASIDE = re.compile(r"[ \t]*\([^()]*\)[ \t]*\Z")  # "Answers (odd-numbered)"
_PART = re.compile(r"[^\W\d_]+|\d[\d.]*|[&+/]")
_LONGEST_TITLE = 8  # words


def named_type(title: str, types: Iterable[str], *, plural: bool = False) -> str:
    """Return the type that a heading is named after, empty if there is none; with `plural`, only names over several.
    Of two types that it names, one of an exercise that it refers to for example, it is the earlier one.

    >>> [named_type(title, ["solution", "exercise"]) for title in ("3.2 Solutions:", "Exercises and solutions")]
    ['solution', 'exercise']
    >>> [named_type(title, ["solution", "exercise"]) for title in ("Solution to Exercise 3", "Aufgabe 3: Lösung")]
    ['solution', 'solution']
    >>> [named_type(title, ["solution", "exercise"]) for title in ("Exercise 3: Leaves", "`[answer]`")]
    ['exercise', '']
    """
    if "`" in title:  # code, such as the name of a setting
        return ""
    kinds, bare = list(types), title.replace("*", "").lstrip(_DIGITS).casefold()
    aside = _ASIDE.search(bare)
    if aside and not any(kind_called(part, kinds) for part in _PART.findall(aside[0])):
        bare = bare[: aside.start()]
    name = bare.rstrip(f"{_DIGITS}:").lstrip(_MARKS)
    if kind := kind_called(name, kinds, plural=plural):
        return kind
    parts = _PART.findall(bare)
    parts = parts[1:] if parts and parts[0] in _QUALITIES else parts
    parts = parts[:-1] if len(parts) == 2 and parts[1] in _FORMS else parts
    if not 1 < len(parts) <= _LONGEST_TITLE:
        return kind_called(parts[0], kinds, plural=plural) if len(parts) == 1 else ""
    first, last = (kind_called(part, kinds) for part in (parts[0], parts[-1]))
    if len(parts) == 3 and parts[1] in _AND and {parts[0], parts[2]} & {*_WITH}:
        return first or last
    is_exercise = kind_called(parts[0], ["exercise"]) or (parts[0] in _ASKED and parts[1][0].isdigit())
    is_exercise = is_exercise or (len(parts) == 2 and parts[0] in ("problem", *_SHEETS))
    if is_exercise and last and last != first:
        return first if parts[-2] in _AND else last
    if not first:
        return ""
    refers = (
        parts[1][0].isdigit()
        or (
            parts[1] in _TO
            and {*parts[2:]} & {*_SOME, *_SHEETS}
            and parts[-1] not in _SOME
            and all(one in ("the", *_SOME, *_ASKED) or kind_called(one, ["exercise"]) for one in parts[2:])
        )
        or (len(parts) == 3 and parts[1] in _TO and parts[2][0].isdigit())
        or any(
            kind_called(one, ["exercise"]) or (one in _ASKED and other[0].isdigit())
            for one, other in pairwise([*parts[1:], "."])
        )
    )
    return first if refers and (not plural or kind_called(parts[0], kinds, plural=True)) else ""


def is_named_after_exercises(title: str) -> bool:
    """Return whether a heading after exercises is one over their solutions, though it would not be elsewhere.

    >>> is_named_after_exercises("Correction"), is_named_after_exercises("Key terms")
    (True, False)
    """
    return title.replace("*", "").strip(f"{_DIGITS}:").casefold() in _AFTER_EXERCISES


def names_of(type: str) -> set[str]:
    """Return what texts of a type are called in headings, one or several, in any language; umlauts also transcribed.

    >>> sorted(names_of("summary"))[:3], names_of("proof") >= {"proof", "proofs"}
    (['resumen', 'resumo', 'riassunto'], True)
    """
    return _names(type.strip().casefold(), plural=False)


def kind_called(name: str, kinds: Iterable[str], *, plural: bool = False) -> str:
    """Return the type that is called so."""
    return _kinds_by_name(tuple(kinds), plural).get(name, "")


@functools.lru_cache(maxsize=64)
def _kinds_by_name(kinds: tuple[str, ...], plural: bool) -> dict[str, str]:
    return {name: kind for kind in reversed(kinds) for name in _names(kind.strip().casefold(), plural=plural)}


@functools.lru_cache(maxsize=64)
def _names(type: str, *, plural: bool) -> set[str]:
    """Return the names of headings over texts of a type; with `plural`, only those over several."""
    one, several = _CALLED.get(type, ("", ""))
    called = (type, *_ALSO.get(type, ()))
    plurals = {*(each + ending for each in called for ending in ("s", "es", "n", "en")), *several.split()}
    found = plurals if plural else {*called, *one.split(), *plurals}
    return {form for name in found for form in (name, name.translate(_TRANSCRIBED))}
