"""Exercises as questions for learning platforms: Moodle XML, GIFT, and QTI 2.1.

Without solutions, a file contains none, and every exercise is answered by a free text. With them, an exercise with
``choices:`` is graded if its ``solution:`` names some of these, and one whose solution is a number within its
``tolerance:``.
"""

from __future__ import annotations

import base64
import html
import io
import mimetypes
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import quoteattr

from lmm.disk import files
from lmm.errors import ConfigError, LmmError
from lmm.terminal import clipped
from lmm_education.material import distinct_titles
from lmm_education.study.cards import PictureFiles, inline, to_html
from lmm_education.study.exercises import Exercise, folded, right_choices

_NUMBER = re.compile(r"[-−+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_ESCAPED = re.compile(r"[\\~=#{}:]")
_QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
_PACKAGE = "http://www.imsglobal.org/xsd/imscp_v1p1"


@dataclass(frozen=True, slots=True)
class QuizQuestion:
    """An exercise as a question: its texts as HTML, the choices with whether they are right, the pictures by name."""

    id: str
    name: str
    kind: Literal["choice", "number", "text"]
    text: str
    choices: tuple[tuple[str, bool], ...] = ()
    value: str = ""
    tolerance: str = "0"
    feedback: str = ""
    pictures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def right(self) -> int:
        """How many choices are right."""
        return sum(is_right for _, is_right in self.choices)


def question_of(exercise: Exercise, *, solutions: bool) -> QuizQuestion:
    """Return an exercise as a question; without `solutions`, it is answered by a free text, and nothing is graded.

    Raises:
        LmmError: its tolerance is not a number, or its solution is none, or a choice has no text.
    """
    pictures = PictureFiles()

    def show(markdown: str) -> str:
        return to_html(markdown, picture=pictures.beside(exercise.file))

    parts = exercise.solution.split("\n\n") if solutions and exercise.solution else []
    keys = right_choices(exercise.choices, exercise.solution) if solutions else []
    number = None if exercise.choices else _NUMBER.fullmatch(parts[0].strip()) if parts else None
    keys += parts[:1] if number else []
    where = f"{exercise.file}:{exercise.line}"
    if not all(map(str.strip, exercise.choices)):
        raise LmmError("a choice has no text", where=where, hint="write a text, or {text: red, correct: true}")
    if exercise.tolerance and not _NUMBER.fullmatch(exercise.tolerance):
        raise LmmError(f"tolerance: '{exercise.tolerance}' is not a number", where=where, hint="such as 0.05")
    if exercise.tolerance and parts and not number:
        hint = "such as 3.93, without a unit; say what else you have to say in a paragraph of its own"
        raise LmmError(f"tolerance: the solution '{clipped(parts[0], 40)}' is not a number", where=where, hint=hint)
    text, shown = show(exercise.text), [inline(show(choice)) for choice in exercise.choices]
    if not keys:
        text += "".join(["\n<ul>", *(f"\n<li>{choice}</li>" for choice in shown), "\n</ul>"] if shown else [])
    right = set(map(folded, keys))
    return QuizQuestion(
        id=exercise.id,
        name=" › ".join([*distinct_titles(filter(None, (exercise.document, *exercise.headings[-1:]))), exercise.name]),
        kind="number" if number else "choice" if keys else "text",
        text=text,
        choices=tuple((choice, folded(c) in right) for choice, c in zip(shown, exercise.choices, strict=True))
        if keys
        else (),
        value=number[0].replace("−", "-") if number else "",
        tolerance=exercise.tolerance or "0",
        feedback=show("\n\n".join(part for part in parts if part not in keys)),
        pictures=pictures.kept,
    )


def save_quiz(path: Path, exercises: Sequence[Exercise], *, solutions: bool) -> int:
    """Write exercises in the format of the file's suffix: .xml, .gift, .zip; return how many of them are graded.

    Raises:
        ConfigError, FileWriteError: the file cannot be written.
    """
    check_quiz(path)
    questions = [question_of(exercise, solutions=solutions) for exercise in exercises]
    files.replace(path, WRITERS[path.suffix.lower()](questions))
    return sum(question.kind != "text" for question in questions)


def check_quiz(path: Path) -> None:
    """Check that exercises can be written to this file.

    Raises:
        ConfigError, FileWriteError: they cannot.
    """
    if path.suffix.lower() not in WRITERS:
        hint = "use .xml (Moodle), .gift or .zip (QTI 2.1)"
        raise ConfigError(f"exercises cannot be written as '{path.suffix}'", where=str(path), hint=hint)
    if not path.resolve().parent.is_dir():
        raise ConfigError("there is no such folder", where=str(path), hint=f"mkdir -p {path.parent}")
    files.check_writable(path)


# -- Moodle XML ------------------------------------------------------------------------------------


def _moodle(questions: Sequence[QuizQuestion]) -> bytes:
    body = "".join(map(_moodle_question, questions))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<quiz>\n{body}</quiz>\n'.encode()


def _moodle_question(question: QuizQuestion) -> str:
    kind = {"choice": "multichoice", "number": "numerical", "text": "essay"}[question.kind]
    answers = ""
    if question.kind == "choice":
        counts = ["0" if question.right == 1 else f"-{100 / question.right:.7g}", f"{100 / question.right:.7g}"]
        answers = f"<single>{str(question.right == 1).lower()}</single>\n" + "".join(
            f'<answer fraction="{counts[is_right]}" format="html">{_xml_text(text, question)}</answer>\n'
            for text, is_right in question.choices  # if several are right, a wrong one takes as much away
        )
    elif question.kind == "number":
        answers = (
            f'<answer fraction="100" format="moodle_auto_format"><text>{question.value}</text>'
            f"<tolerance>{question.tolerance}</tolerance></answer>\n"
        )
    return (
        f'<question type="{kind}">\n<name><text>{html.escape(question.name, quote=False)}</text></name>\n'
        f'<questiontext format="html">{_xml_text(question.text, question)}</questiontext>\n'
        f'<generalfeedback format="html">{_xml_text(question.feedback, question)}</generalfeedback>\n'
        f"<idnumber>{question.id}</idnumber>\n{answers}</question>\n"
    )


def _xml_text(text: str, question: QuizQuestion) -> str:
    used = {name: data for name, data in question.pictures.items() if name in text}
    for name in used:
        text = text.replace(f'"{name}"', f'"@@PLUGINFILE@@/{name}"')
    kept = "".join(
        f'<file name="{name}" path="/" encoding="base64">{base64.b64encode(data).decode()}</file>'
        for name, data in used.items()
    )
    return f"<text>{html.escape(text, quote=False)}</text>{kept}"


# -- GIFT ------------------------------------------------------------------------------------------


def _gift(questions: Sequence[QuizQuestion]) -> bytes:
    return "\n".join(map(_gift_question, questions)).encode()


def _gift_question(question: QuizQuestion) -> str:
    def escaped(text: str) -> str:
        for name, data in question.pictures.items():
            kind = mimetypes.guess_type(name)[0]
            text = text.replace(f'"{name}"', f'"data:{kind};base64,{base64.b64encode(data).decode()}"')
        return _ESCAPED.sub(lambda mark: f"\\{mark[0]}", text.strip()).replace("\n", "\\n")

    feedback = f"####{escaped(question.feedback)}" if question.feedback else ""
    answers = ""
    if question.kind == "choice":
        share = 100 / question.right
        marks = ("=", "~") if question.right == 1 else (f"~%{share:.7g}%", f"~%-{share:.7g}%")
        answers = "".join(f"{marks[not is_right]}{escaped(text)}\n" for text, is_right in question.choices)
    elif question.kind == "number":
        answers = f"#{question.value}:{question.tolerance}"
    name = escaped(" ".join(question.name.split()))
    return f"// [id:{question.id}]\n::{name}::[html]{escaped(question.text)}{{{answers}{feedback}}}\n"


# -- QTI 2.1 ---------------------------------------------------------------------------------------


def _qti(questions: Sequence[QuizQuestion]) -> bytes:
    output = io.BytesIO()
    entries = []
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for question in questions:
            names = [f"item-{question.id}.xml", *question.pictures]
            for name, data in ((names[0], _qti_item(question).encode()), *question.pictures.items()):
                if name not in archive.namelist():
                    archive.writestr(zipfile.ZipInfo(name), data)  # the same bytes on every export
            kept = "".join(f"<file href={quoteattr(name)}/>" for name in names)
            described = f'identifier="item-{question.id}" type="imsqti_item_xmlv2p1" href="{names[0]}"'
            entries.append(f"<resource {described}>{kept}</resource>")
        archive.writestr(
            zipfile.ZipInfo("imsmanifest.xml"),
            f'<?xml version="1.0" encoding="UTF-8"?>\n<manifest xmlns="{_PACKAGE}" identifier="quiz"><metadata>'
            f"<schema>QTIv2.1 Package</schema><schemaversion>1.0.0</schemaversion></metadata><organizations/>"
            f"<resources>{''.join(entries)}</resources></manifest>\n",
        )
    return output.getvalue()


def _qti_item(question: QuizQuestion) -> str:
    declared, asked, processing = _QTI_KINDS[question.kind](question)
    feedback = ""
    outcome = '<outcomeDeclaration identifier="SCORE" cardinality="single" baseType="float"/>'
    if question.feedback:
        outcome += (
            '<outcomeDeclaration identifier="FEEDBACK" cardinality="single" baseType="identifier"><defaultValue>'
            "<value>shown</value></defaultValue></outcomeDeclaration>"
        )
        feedback = (
            '<modalFeedback outcomeIdentifier="FEEDBACK" showHide="show" identifier="shown">'
            f"{_plain(question.feedback)}</modalFeedback>"
        )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<assessmentItem xmlns="{_QTI}" identifier="item-{question.id}" '
        f'title={quoteattr(question.name)} adaptive="false" timeDependent="false">{declared}{outcome}'
        f"<itemBody><div>{_plain(question.text)}</div>{asked}</itemBody>{processing}{feedback}</assessmentItem>\n"
    )


def _plain(rendered: str) -> str:
    """Return HTML without what QTI does not know: styles, struck text, and numbers at which lists start."""
    return re.sub(r"</?s>| (?:style|start)=\"[^\"]*\"", "", rendered)


def _qti_choice(question: QuizQuestion) -> tuple[str, str, str]:
    several = question.right > 1
    right = "".join(f"<value>C{i}</value>" for i, (_, is_right) in enumerate(question.choices) if is_right)
    listed = "".join(
        f'<simpleChoice identifier="C{i}">{_plain(text)}</simpleChoice>' for i, (text, _) in enumerate(question.choices)
    )
    return (
        f'<responseDeclaration identifier="RESPONSE" cardinality="{"multiple" if several else "single"}" '
        f'baseType="identifier"><correctResponse>{right}</correctResponse></responseDeclaration>',
        f'<choiceInteraction responseIdentifier="RESPONSE" shuffle="false" maxChoices="{0 if several else 1}">{listed}'
        "</choiceInteraction>",
        '<responseProcessing template="http://www.imsglobal.org/question/qti_v2p1/rptemplates/match_correct"/>',
    )


def _qti_number(question: QuizQuestion) -> tuple[str, str, str]:
    return (
        '<responseDeclaration identifier="RESPONSE" cardinality="single" baseType="float"><correctResponse>'
        f"<value>{question.value}</value></correctResponse></responseDeclaration>",
        '<p><textEntryInteraction responseIdentifier="RESPONSE"/></p>',
        f'<responseProcessing><responseCondition><responseIf><equal toleranceMode="absolute" '
        f'tolerance="{question.tolerance} {question.tolerance}"><variable identifier="RESPONSE"/>'
        '<correct identifier="RESPONSE"/></equal><setOutcomeValue identifier="SCORE"><baseValue baseType="float">1'
        "</baseValue></setOutcomeValue></responseIf></responseCondition></responseProcessing>",
    )


def _qti_text(question: QuizQuestion) -> tuple[str, str, str]:
    return (
        '<responseDeclaration identifier="RESPONSE" cardinality="single" baseType="string"/>',
        '<extendedTextInteraction responseIdentifier="RESPONSE"/>',
        "",
    )


_QTI_KINDS = {"choice": _qti_choice, "number": _qti_number, "text": _qti_text}
WRITERS: Mapping[str, Callable[[Sequence[QuizQuestion]], bytes]] = {".xml": _moodle, ".gift": _gift, ".zip": _qti}
