"""The words on the page and in answers over HTTP, in the languages that we have. A course may replace some."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from lmm.errors import ConfigError
from lmm_education.settings import ServeSettings

TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "ask": "Ask",
        "question": "Your question",
        "placeholder": "Ask about the course",
        "new": "New chat",
        "stop": "Stop",
        "contents": "Contents",
        "close": "Close",
        "sources": "Sources",
        "material": "Material",
        "material_help": "Only material of this type:",
        "passage": "The passage",
        "skip": "Go to the question",
        "conversation": "Conversation",
        "you": "You asked",
        "answer": "Answer",
        "thinking": "Looking in the course …",
        "again": "The model begins again …",
        "ready": "The answer is there.",
        "stopped": "Stopped.",
        "cut": "The answer was cut off at the model's limit.",
        "welcome": "What would you like to know?",
        "failure": "The course cannot answer at the moment. Please try again in a few minutes.",
        "busy": "Too many questions at once. Please try again in a minute.",
        "empty": "Please write a question.",
        "long": "The question is too long.",
        "gone": "This text has changed since the answer was given. Please ask again.",
        "offline": "The server cannot be reached. Please try again.",
    },
    "de": {
        "ask": "Fragen",
        "question": "Ihre Frage",
        "placeholder": "Fragen Sie zum Kurs",
        "new": "Neues Gespräch",
        "stop": "Anhalten",
        "contents": "Inhalt",
        "close": "Schließen",
        "sources": "Quellen",
        "material": "Material",
        "material_help": "Nur Material dieser Art:",
        "passage": "Die Stelle",
        "skip": "Zur Frage",
        "conversation": "Gespräch",
        "you": "Sie fragten",
        "answer": "Antwort",
        "thinking": "Ich sehe im Kurs nach …",
        "again": "Das Modell beginnt von vorn …",
        "ready": "Die Antwort ist da.",
        "stopped": "Angehalten.",
        "cut": "Die Antwort brach an der Grenze des Modells ab.",
        "welcome": "Was möchten Sie wissen?",
        "failure": "Der Kurs kann gerade nicht antworten. Bitte versuchen Sie es in einigen Minuten noch einmal.",
        "busy": "Zu viele Fragen auf einmal. Bitte versuchen Sie es in einer Minute noch einmal.",
        "empty": "Bitte schreiben Sie eine Frage.",
        "long": "Die Frage ist zu lang.",
        "gone": "Dieser Text hat sich seit der Antwort geändert. Bitte fragen Sie noch einmal.",
        "offline": "Der Server ist nicht erreichbar. Bitte versuchen Sie es noch einmal.",
    },
}


def texts_for(settings: ServeSettings) -> Mapping[str, str]:
    """The words of the chosen language, with the course's own in their places.

    Raises:
        ConfigError: a text under [serve] has a name that is not known, or is no text.

    >>> texts_for(ServeSettings(language="de", texts={"ask": "Los"}))["ask"]
    'Los'
    """
    texts = dict(TEXTS[settings.language])
    for name, text in settings.texts.items():
        if name not in texts:
            close = difflib.get_close_matches(name, texts, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(texts)
            raise ConfigError(f"unknown text '{name}' in [serve] texts", where="config.toml", hint=hint)
        if not isinstance(text, str):
            raise ConfigError(f"'{name}' in [serve] texts must be text, not {text!r}", where="config.toml")
    own = {"welcome": settings.welcome, "failure": settings.failure}
    return texts | dict(settings.texts) | {name: text for name, text in own.items() if text}
