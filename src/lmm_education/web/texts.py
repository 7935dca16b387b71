"""The words on the page and in answers over HTTP, in the languages that we have. A course may replace some."""

from __future__ import annotations

import difflib
import re
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
        "courses": "Courses",
        "off_topic": "I can only answer questions about this course.",
        "too_often": "You ask faster than I may answer. Please wait {seconds} seconds.",
        "spent": "The questions of this course for today are used up. Please come again tomorrow.",
        "elsewhere": "Another site's page must not ask here.",
        "consent_needed": "Please agree first to what is done with your questions.",
        "consent": "Before you ask",
        "agree": "I agree",
        "not_now": "Not now",
        "log_in": "Please log in.",
        "log_out": "Log out",
        "name": "Name",
        "password": "Password",
        "enter": "Log in",
        "wrong": "This is not right. Please try again.",
        "too_many": "Too many wrong attempts. Please wait {seconds} seconds.",
        "study": "Study",
        "plan": "Study plan",
        "cards": "Study cards",
        "exercises": "Exercises",
        "solution": "Solution",
        "no_solution": "There is no solution here.",
        "minutes": "{n} min",
        "after": "After:",
        "beforehand": "Before you begin:",
        "plan_total": "About {time} to read, at {pace} words a minute.",
        "show_answer": "Show the answer",
        "show_question": "Show the question",
        "previous": "Previous",
        "next": "Next",
        "card_of": "Card {i} of {n}",
        "shuffle": "Shuffle",
        "cards_help": "Space turns the card, the arrow keys go to others.",
        "open_section": "Open the section",
        "logged": "Questions and answers are kept for {days} days, for the teacher; without your name.",
        "react": "What do you think of this answer?",
        "up": "Good answer",
        "down": "Bad answer",
        "comment": "Comment",
        "comment_help": "What was good, what is wrong or missing? Your teacher reads this.",
        "send": "Send",
        "thanks": "Thank you.",
        "withdrawn": "Your rating was withdrawn.",
        "not_kept": "This could not be kept. Please try again in a few minutes.",
        "too_late": "This answer can no longer be rated.",
        "no_script": "This page needs JavaScript. Please allow it in your browser.",
        "no_word": "No passage has a word of your question; these are only the nearest in meaning.",
        "no_type": "There is no material of the type '{name}'. Did you mean '{close}'?",
        "no_document": "No document is called '{name}'; it was looked up as a word.",
        "no_document_but": "No document is called '{name}'. Did you mean '{close}'?",
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
        "courses": "Kurse",
        "off_topic": "Ich kann nur Fragen zu diesem Kurs beantworten.",
        "too_often": "Sie fragen schneller, als ich antworten darf. Bitte warten Sie {seconds} Sekunden.",
        "spent": "Die Fragen dieses Kurses für heute sind aufgebraucht. Bitte kommen Sie morgen wieder.",
        "elsewhere": "Die Seite eines anderen Servers darf hier nicht fragen.",
        "consent_needed": "Bitte stimmen Sie zuerst dem zu, was mit Ihren Fragen geschieht.",
        "consent": "Bevor Sie fragen",
        "agree": "Ich stimme zu",
        "not_now": "Jetzt nicht",
        "log_in": "Bitte melden Sie sich an.",
        "log_out": "Abmelden",
        "name": "Name",
        "password": "Passwort",
        "enter": "Anmelden",
        "wrong": "Das stimmt nicht. Bitte versuchen Sie es noch einmal.",
        "too_many": "Zu viele falsche Versuche. Bitte warten Sie {seconds} Sekunden.",
        "study": "Lernen",
        "plan": "Lernplan",
        "cards": "Lernkarten",
        "exercises": "Übungen",
        "solution": "Lösung",
        "no_solution": "Hier steht keine Lösung.",
        "minutes": "{n} min",
        "after": "Nach:",
        "beforehand": "Vorher:",
        "plan_total": "Etwa {time} zu lesen, bei {pace} Wörtern in der Minute.",
        "show_answer": "Antwort zeigen",
        "show_question": "Frage zeigen",
        "previous": "Zurück",
        "next": "Weiter",
        "card_of": "Karte {i} von {n}",
        "shuffle": "Mischen",
        "cards_help": "Die Leertaste dreht die Karte um, mit den Pfeiltasten kommen andere.",
        "open_section": "Abschnitt öffnen",
        "logged": "Fragen und Antworten werden {days} Tage lang für die Lehrperson aufbewahrt, ohne Ihren Namen.",
        "react": "Was halten Sie von dieser Antwort?",
        "up": "Gute Antwort",
        "down": "Schlechte Antwort",
        "comment": "Kommentar",
        "comment_help": "Was war gut, was ist falsch oder fehlt? Ihre Lehrperson liest das.",
        "send": "Senden",
        "thanks": "Danke.",
        "withdrawn": "Ihre Bewertung wurde zurückgenommen.",
        "not_kept": "Das konnte nicht gespeichert werden. Bitte versuchen Sie es in einigen Minuten noch einmal.",
        "too_late": "Diese Antwort kann nicht mehr bewertet werden.",
        "no_script": "Diese Seite braucht JavaScript. Bitte erlauben Sie es in Ihrem Browser.",
        "no_word": "Keine Stelle enthält ein Wort Ihrer Frage; diese kommen ihr nur im Sinn am nächsten.",
        "no_type": "Es gibt kein Material der Art „{name}“. Meinten Sie „{close}“?",
        "no_document": "Kein Dokument heißt „{name}“; gesucht wurde danach als Wort.",
        "no_document_but": "Kein Dokument heißt „{name}“. Meinten Sie „{close}“?",
    },
}

_NOTICES = {
    "no_word": re.compile(r"no passage has a word of the question; .*"),
    "no_type": re.compile(r"no passage is of the type '(?P<name>.*)'; did you mean '(?P<close>.*)'\?"),
    "no_document": re.compile(r"no document is called '(?P<name>.*)'; it was looked up as a word"),
    "no_document_but": re.compile(r"no document is called '(?P<name>.*)'; did you mean '(?P<close>.*)'\?"),
}


def notice_for(notice: str, texts: Mapping[str, str]) -> str:
    """What a search tells, which is in English, in the words of the page; what is not known stays as it is.

    >>> notice_for("no document is called 'week-1'; did you mean '@week-2'?", TEXTS["de"])
    'Kein Dokument heißt „week-1“. Meinten Sie „@week-2“?'
    """
    for name, pattern in _NOTICES.items():
        if match := pattern.fullmatch(notice):
            told = texts[name]
            for place, value in match.groupdict().items():
                told = told.replace(f"{{{place}}}", value)
            return told
    return notice


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
