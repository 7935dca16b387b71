"""Recognize an answer that says that the sources do not answer the question, whatever it names as closest to it."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from lmm.markdown import prose_of
from lmm.markdown.sentences import sentences_of
from lmm_education.answer.citations import citations
from lmm_education.answer.opposites import NEGATIONS

_SOURCES = re.compile(
    r"\b(?:sources?|course|materials?|documents?|passages?|excerpts?|texts?|notes|context|chapters?|sections?|quellen?"
    r"|kurs\w*|dokumente?n?|unterlagen|abschnitte?n?|texte?n?|cours|extraits|fuentes?|curso|documentos?|fonti|corso"
    r"|documenti|bronnen|cursus|documenten)\b(?! code\b)|\bmaterial",
    re.IGNORECASE,
)
_COVERS = re.compile(
    r"\b(?:answer|cover|contain|mention|discuss|say|said|state|address|explain|provide|include|describe|defin|specif"
    r"|give|tell|deal|name|list|report|offer|find|found|inform|detail|anything|part of|treat|beantwort|antwort|behandel"
    r"|enth[aä]lt|erwähn|erklär|genannt|nenn|beschr[ie]|sag|steht|angegeben|f[iu]nd|réponse|répond|couvr|conten|contien"
    r"|expli[qc]|abord|trait|précis|parl|dit|respond|respuesta|trata|dice|dicen|habla|cubre|risposta|rispond|menzion"
    r"|spiega|copr|tratta|antwoord|behandel|noem|bespr|uitgelegd|staat|vermeld)",
    re.IGNORECASE,
)
_BEYOND = re.compile(r"\b(?:outside|beyond|außerhalb|hors|fuera|al di fuori|buiten)\b", re.IGNORECASE)
_NEGATED = re.compile(rf"\b(?:{'|'.join(NEGATIONS.values())}|n['’]\w+)\b", re.IGNORECASE)
_CLAUSES = re.compile(
    r"[;:]\s|\s[–—-]\s|,\s(?=(?:but|and|although|though|only|aber|und|mais|et|pero|y|ma|e|maar|en)\b)"
)
_OPENING = 2  # sentences that may refuse; a later one says what an answer leaves open


@lru_cache(maxsize=64)  # one answer is asked about by the page, the log and the API
def declines(text: str) -> bool:
    """Return whether an answer begins with the statement, without a citation, that the sources do not answer.

    >>> declines("The sources do not say who won. What comes closest is the chapter on games [2].")
    True
    >>> declines("Leaves are green [1]. The sources do not say why."), declines("The course says they do not fall [1].")
    (False, False)
    """
    for sentence in islice(sentences_of(prose_of(text)), _OPENING):
        for clause in _CLAUSES.split(sentence):
            if citations(clause, range(1, 100)):
                return False
            denies = (_NEGATED.search(clause) and _COVERS.search(clause)) or _BEYOND.search(clause)
            if denies and _SOURCES.search(clause):
                return True
    return False
