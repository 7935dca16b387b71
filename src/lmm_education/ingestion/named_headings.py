"""Headings that are named after a type of text: Exercises, Solution, Lösungen."""

from __future__ import annotations

import functools
from collections.abc import Iterable

# Names of headings, besides the name of a type and its plural: over one, and over several.
_CALLED = {
    "exercise": (
        "übung aufgabe exercice ejercicio esercizio exercício oefening",
        "übungen übungsaufgaben aufgaben exercices ejercicios esercizi exercícios oefeningen",
    ),
    "summary": ("zusammenfassung résumé resumen riassunto resumo samenvatting", ""),
    "solution": (
        "lösung musterlösung corrigé solución soluzione solução oplossing",
        "lösungen musterlösungen corrigés soluciones soluzioni soluções oplossingen",
    ),
}
_DIGITS = "0123456789. \t\xa0\u202f"


def named_type(title: str, types: Iterable[str], *, plural: bool = False) -> str:
    """Return the type that a heading is named after, empty if there is none; with `plural`, only names over several.

    >>> named_type("3.2 Solutions:", ["exercise", "solution"]), named_type("Solutions of salt", ["solution"])
    ('solution', '')
    """
    bare = title.lstrip(_DIGITS).rstrip(f"{_DIGITS}:").casefold()
    return next((kind for kind in types if bare in _names(kind.strip().casefold(), plural=plural)), "")


@functools.lru_cache(maxsize=64)
def _names(type: str, *, plural: bool) -> set[str]:
    """Return the names of headings over texts of a type; with `plural`, only those over several."""
    one, several = _CALLED.get(type, ("", ""))
    plurals = {*(type + ending for ending in ("s", "es", "n", "en")), *several.split()}
    return plurals if plural else {type, *one.split(), *plurals}
