"""The words on the teacher's page, and numbers and days as they are written, by language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

_TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "title": "What students ask",
        "chat": "To the chat",
        "log_out": "Log out",
        "close": "Close",
        "from": "From",
        "to": "to",
        "show": "Show",
        "days": "{n} days",
        "range": "Days",
        "no_log": 'No log is kept. To keep one, write log = "course-log.sqlite" under [serve] in config.toml, '
        "and start the server again. Nothing is known of what was asked before.",
        "no_password": "This page needs a password of its own. To set it, run on the server: lmm serve teacher",
        "broken": "The log cannot be read: {error}",
        "losing": "The log cannot be written at the moment; the server's own log says why. Exchanges lost: {n}.",
        "empty": "Nobody asked in these days.",
        "questions": "Questions",
        "students": "Students",
        "students_a_day": "Students on a day",
        "students_help": "on average, of days on which somebody asked",
        "answered": "answered from the course",
        "uncited": "answered without a source",
        "not_found": "nothing found",
        "refused": "refused",
        "failed": "failed",
        "left": "stopped by the student",
        "up": "Thumbs up",
        "down": "Thumbs down",
        "wait": "Seconds to the first word",
        "median": "median",
        "p95": "95 % wait no longer",
        "cost": "Cost in US dollars",
        "cost_help": "of models with a known price",
        "tokens": "Tokens",
        "over_time": "Questions over time",
        "as_table": "As a table",
        "day": "Day",
        "week": "Week from",
        "month": "Month",
        "asked_most": "Asked most",
        "asked_help": "Questions are put together by the words that they share; the most frequent wording stands "
        "first. Who asks the same in other words is counted apart.",
        "question": "Question",
        "times": "Times",
        "wordings": "{n} wordings",
        "unanswered": "Not answered from the course",
        "unanswered_help": "Nothing was found, or the answer cites nothing. Is it missing in the notes, or is it there "
        "in other words? Questions in the metadata (lmm annotate --questions) help with the latter.",
        "down_help": "What students call a bad answer.",
        "comment": "Comment",
        "answer": "Answer",
        "failures": "Failures",
        "kind": "Kind",
        "last": "Last time",
        "found_most": "Found most",
        "section": "Section",
        "cited": "Cited",
        "offered": "Shown to the model",
        "never": "Never found",
        "never_help": "Sections of the course as it is now that no question of these days led to: {n} of {all}.",
        "more": "and {n} more",
        "nothing": "None.",
        "gone": "This section is not there any more.",
    },
    "de": {
        "title": "Was Studierende fragen",
        "chat": "Zum Chat",
        "log_out": "Abmelden",
        "close": "Schließen",
        "from": "Von",
        "to": "bis",
        "show": "Zeigen",
        "days": "{n} Tage",
        "range": "Tage",
        "no_log": 'Es wird kein Protokoll geführt. Dafür schreiben Sie log = "course-log.sqlite" unter [serve] in '
        "config.toml und starten den Server neu. Was vorher gefragt wurde, ist nicht bekannt.",
        "no_password": "Diese Seite braucht ein eigenes Passwort. Setzen Sie es auf dem Server mit: lmm serve teacher",
        "broken": "Das Protokoll kann nicht gelesen werden: {error}",
        "losing": "Das Protokoll kann gerade nicht geschrieben werden; warum, steht im Log des Servers. Verloren: {n}.",
        "empty": "In diesen Tagen hat niemand gefragt.",
        "questions": "Fragen",
        "students": "Studierende",
        "students_a_day": "Studierende am Tag",
        "students_help": "im Mittel der Tage, an denen jemand fragte",
        "answered": "aus dem Kurs beantwortet",
        "uncited": "ohne Quelle beantwortet",
        "not_found": "nichts gefunden",
        "refused": "abgelehnt",
        "failed": "fehlgeschlagen",
        "left": "vom Studierenden abgebrochen",
        "up": "Daumen hoch",
        "down": "Daumen runter",
        "wait": "Sekunden bis zum ersten Wort",
        "median": "Median",
        "p95": "95 % warten nicht länger",
        "cost": "Kosten in US-Dollar",
        "cost_help": "von Modellen, deren Preis bekannt ist",
        "tokens": "Token",
        "over_time": "Fragen im Lauf der Zeit",
        "as_table": "Als Tabelle",
        "day": "Tag",
        "week": "Woche ab",
        "month": "Monat",
        "asked_most": "Am häufigsten gefragt",
        "asked_help": "Fragen werden nach gemeinsamen Wörtern zusammengefasst; der häufigste Wortlaut steht vorn. "
        "Wer dasselbe mit anderen Wörtern fragt, wird getrennt gezählt.",
        "question": "Frage",
        "times": "Anzahl",
        "wordings": "{n} Wortlaute",
        "unanswered": "Nicht aus dem Kurs beantwortet",
        "unanswered_help": "Nichts wurde gefunden, oder die Antwort nennt keine Quelle. Fehlt es im Skript, oder steht "
        "es dort mit anderen Wörtern? Gegen Letzteres helfen Fragen in den Metadaten (lmm annotate --questions).",
        "down_help": "Was Studierende eine schlechte Antwort nennen.",
        "comment": "Kommentar",
        "answer": "Antwort",
        "failures": "Fehler",
        "kind": "Art",
        "last": "Zuletzt",
        "found_most": "Am häufigsten gefunden",
        "section": "Abschnitt",
        "cited": "Zitiert",
        "offered": "Dem Modell gezeigt",
        "never": "Nie gefunden",
        "never_help": "Abschnitte des Kurses, wie er jetzt ist, zu denen keine Frage dieser Tage führte: "
        "{n} von {all}.",
        "more": "und {n} weitere",
        "nothing": "Keine.",
        "gone": "Diesen Abschnitt gibt es nicht mehr.",
    },
}
_MONTHS = {
    "en": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    "de": ("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez."),
}


@dataclass(frozen=True, slots=True)
class Wording:
    """How the teacher's page says things in a language (``en`` or ``de``)."""

    language: str

    @property
    def texts(self) -> Mapping[str, str]:
        """All words, by name."""
        return _TEXTS[self.language]

    def __getitem__(self, name: str) -> str:
        return _TEXTS[self.language][name]

    def number(self, value: float, digits: int = 0) -> str:
        """A number with so many digits after the point.

        >>> Wording("en").number(1234.5, 1), Wording("de").number(1234.5, 1), Wording("de").number(3)
        ('1,234.5', '1.234,5', '3')
        """
        text = f"{value:,.{digits}f}"
        return text.translate(str.maketrans(",.", ".,")) if self.language == "de" else text

    def day(self, day: date, bin: str = "day") -> str:
        """A day, or the first of a week or a month.

        >>> Wording("en").day(date(2026, 11, 2)), Wording("de").day(date(2026, 11, 2))
        ('2 Nov', '2. Nov.')
        >>> Wording("en").day(date(2026, 11, 1), "month")
        'Nov 2026'
        """
        month = _MONTHS[self.language][day.month - 1]
        if bin == "month":
            return f"{month} {day.year}"
        return f"{day.day}. {month}" if self.language == "de" else f"{day.day} {month}"
