"""Warnings for authors before they accept an edit: what it would lose, tear, repeat, or run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from lmm.disk import digest
from lmm.markdown.blocks import Block, HeadingBlock, TextBlock
from lmm.markdown.inline import Span
from lmm.markdown.page_marks import PAGE_MARK
from lmm.markdown.parse_markdown import iter_blocks, parse_markdown_text
from lmm.markdown.spans import replace_spans, spans
from lmm.markdown.units import kind_of
from lmm.messages import prompt_tag
from lmm.notebook.outputs import read_cell

CUT = "the reply was cut off at the model's output limit"

# Names that other places of a document may refer to, and references to other places: group of `_NAME`, and kind.
_NAMES = {
    "id": "id", "label": "id", "cited": "citation or reference", "footnote": "footnote",
    "note": "footnote's text", "address": "link's address",
}  # fmt: skip
_NAME = re.compile(
    r"""\{(?=[^{}\n]*\})(?=[^{}\n]*?(?P<id>\#[\w:.\-]+))
    |(?P<label>\(\\\#[\w:.\-]+\)|\\label\{[^{}\n]+\})
    |(?P<cited>(?<![\w.`\\])@\{?\w+(?:[:.\#$%&\-+?<>~/]\w+)*|\\@ref\([^()\n]+\)|\\(?=\w*(?:ref|cite))\w++\{[^{}\n]+\})
    |(?P<footnote>\[\^[^\[\]\s]+\])(?!:)
    |^[ ]{0,3}(?:(?P<note>\[\^[^\]\s]+\]:)|(?P<address>\[(?!\^)[^\]\n]+\]:)(?=[ \t]*\S))""",
    re.VERBOSE | re.MULTILINE,
)
_OTHER = {
    "wiki": "wiki link", "block": "block id", "template": "template tag", "abbreviation": "abbreviation",
    "hidden": "comment", "address": "link",
}  # fmt: skip
_OTHERS = re.compile(  # in dialects that are no Pandoc's
    r"""!?\[\[(?P<wiki>[^\[\]\n|]+)[^\[\]\n]*\]\]|[ \t](?P<block>\^[\w-]+)[ \t]*$
    |(?P<template>(?<!\{)\{%[^\n]*?%\}|\{\{(?![<%\#])[^{}\n]*\}\})|^(?P<abbreviation>\*\[[^\]\n]+\]:)
    |(?P<hidden>%%[^%\n]+%%)|(?<![(<"'\w=/])(?P<address>https?://[^\s<>()\[\]]*[^\s<>()\[\].,;:!?])""",
    re.MULTILINE | re.VERBOSE,
)
_REFERS = re.compile(r"\\\w*(?:ref|cite|label)\w*")
_LABEL = re.compile(r"!\[[^\[\]\n]*+\]\[([^\[\]\n]++)\]")
_INLINE = "inline code"
_REFERENCES = {*_NAMES.values(), "chunk label"}
_COUNTED = ("comment",)  # a translation changes them
_PLURALS: dict[str, str] = {"raw LaTeX": "commands of raw LaTeX"}
_SHOWN = 5
# Words for what a text consists of, in requests: English, German, French, Spanish.
_WORDS = {
    "heading": r"heading|subheading|section|subsection|title|structure|überschrift|abschnitt|titre|título|sección",
    "table": r"tab(?:le|elle|leau|la)|column|row|spalte|zeile",
    "code block": r"code|chunk|script|snippet|example|beispiel|exemple|ejemplo",
    "formula": r"formula|equation|math|formel|gleichung|équation|ecuaci",
    "link": r"link|url|address|reference|verweis|lien|enlace",
    "wiki link": r"link|embed|verweis|lien|enlace",
    "picture": r"picture|image|figure|photo|bild|abbildung|imagen",
    "div": r"callout|div\b|box|note|tip|warning|admonition|aside|tab|panel|hinweis|kasten|encadré|nota",
    "admonition": r"callout|box|note|tip|warning|admonition|hinweis|kasten|encadré|nota",
    "task": r"task|checkbox|checklist|to-?do|aufgabe|tâche|tarea|list",
    "table row": r"tab(?:le|elle|leau|la)|row|zeile|ligne|fila",
    "table column": r"tab(?:le|elle|leau|la)|column|spalte|colonne|columna",
    "quotation": r"quot|zitat|citation|cita",
    "comment": r"comment|kommentar|commentaire|comentario",
    "raw LaTeX": r"latex|tex\b|command|environment|theorem|proof",
    "HTML tag": r"html|tag|markup",
    "footnote": r"footnote|note|fußnote",
    "footnote's text": r"footnote|note|fußnote",
    "citation or reference": r"citation|reference|cite|source|zitat|verweis|quelle|beleg",
    "id": r"id\b|ids\b|label|anchor|attribute|anker",
    "chunk label": r"label|chunk",
    "link's address": r"link|url|address|reference|verweis|lien|enlace",
    "shortcode": r"shortcode|include|embed|video",
}
_CHANGES = (
    r"updat|\bchange the|remov|delet|drop|cut|strip|without|\bno\b|dissolv|unwrap|turn|convert|\bmake|into|\bas an?\b|"
    r"replac|merg|join|combin|fold|flatten|inline|instead|reorgani|restructur|rewrite|simplif|shorten|shorter|reduce|"
    r"get rid|plain|entfern|lösch|streich|ohne|auflös|umwandel|\bmach|ersetz|zusammen|statt|kürz|supprim|enlev|retir|"
    r"sans|transform|remplac|fusionn|elimin|quita|borra|\bsin\b|convier"
)
# A request that may drop words, and with them what is counted and named below.
_CONDENSES = re.compile(
    r"short|concis|condens|brief|compact|simpl|trim|tight|merg|combin|duplicat|list|bullet|bold|remov|delet|drop|\bcut|"
    r"\bas (?:one|an?)\b|prose|turn|convert|\binto one|"
    r"without|fließtext|kürz|knapp|vereinfach|zusammen|entfern|lösch|streich|ohne|abrég|raccourc|supprim|acort|breve|elimin",
    re.IGNORECASE,
)
_CHANGES_NUMBERS = re.compile(
    r"\d|round|number|value|updat|correct|calculat|rund|zahl|wert|arrond|nombre", re.IGNORECASE
)
_COUNTED_SPANS = {"code_block": "code block", "math": "formula", "footnote": "footnote"}
_COUNTS = {
    "task": r"^[ \t>]*(?:[-*+]|\d+[.)])[ \t]+\[[ xX]\][ \t]",
    "list item": r"^[ \t>]*(?:[-*+]|\d+[.)])[ \t]+(?=\S)",
    "definition": r"^ {0,3}[:~][ \t]+(?=\S)",
    "line": r"^\|[ ](?=[^|\n]*$)",
    "emphasised term": r"(?<![*\w])\*\*(?=\S)[^*\n]+(?<=\S)\*\*",
}
_WORDED = ("list item", "definition", "line", "emphasised term", "code", "number", "paragraph")
_NUMBER = re.compile(r"(?<![\w.,/#@-])(?:\d{3,}|\d+[.,]\d+)(?![\w/]|[.,]\d)")
_ANY_NUMBER = re.compile(r"\d(?:[\d.,]|[ \xa0\u202f'’](?=\d{3}\b))*")
_KEEPS = r"\b(?:keep|leave|preserv|not|don't|behalt|lass|nicht|gard|conserv|manten)"
_PARTS = "paragraph|sentence|part|everything|half|rest|absatz|satz|teil|alles|paragraphe|phrase|párrafo|frase"
_SWEEPING = re.compile(
    r"summar|abstract|tl;?dr|zusammenfass|résum|resum|(?:ein|zwei|drei)\w* (?:satz|sätze|absatz)|"
    r"(?:one|two|three|single|a|\d) (?:short )?(?:sentence|paragraph|line)s?\b|"
    rf"(?:remov|delet|drop|cut|entfern|lösch|streich|supprim|elimin)\w*[^.;\n]*(?:{_PARTS})",
    re.IGNORECASE,
)
_REFERRED = ("footnote", "comment", "mark of a page", "shortcode", _INLINE, "HTML id", "embedded file", "block id")
# A line, perhaps in brackets or as a comment, that says that something stays.
_PLACEHOLDER = re.compile(
    r"^[ \t>]*+(?:[-*+] |<!--|//|#|%|\*|_)*+[ \t]*+[\[(<{*_]*+(?:\.{3}|…)?[ \t]*+[^\n.]{0,40}?"
    r"\b(?:(?:rest|remainder|other|remaining|everything)\b[^\n]{0,60}\b(?:unchanged|same|as before|as is|omitted)|"
    r"unchanged|(?:existing|previous|original) (?:text|code|content|section|paragraph)s?\b[^\n]{0,20}(?:\.{3}|…|here)|"
    r"(?:same|as) (?:as )?(?:before|above)|omitted for brevity|unverändert\w*|wie (?:zuvor|bisher|oben)|inchangé\w*|"
    r"sin cambios|invariat\w*)\b[^\n]{0,40}$",
    re.IGNORECASE | re.MULTILINE,
)
_BRACKETED = re.compile(
    r"^[ \t>]*+(?:[-*+][ ])?(?:etc\.[ ])?"
    r"(?:(?:<!--|[\[(<{]|\*{1,2}(?=\w)|//)[ .…]*+|(?:\#|%|--+)[ ]*+(?:\.{3}|…)?[ ]*+(?=rest of|\.))"
    r"(?:(?:the )?rest(?: of (?:the )?\w+)?|(?:the )?remain(?:ing|der)\b[^\n(]{0,40}|existing \w+"
    r"|(?:see )?(?:the )?original(?: \w+){0,2}|same|snip|truncated|(?:text |section )?continue[sd]\b[^\n(]{0,30}"
    r"|keep the rest|(?:the )?\w+ (?:stays|remains)(?: as it is| the same)?|unchanged)"
    r"[ .…]*+(?:-->|[\])>}*]+|\.{3}|…|-{3})?[ ]*$",
    re.IGNORECASE | re.MULTILINE,
)
_ELLIPSIS = re.compile(r"^[ \t]*[\[(<*_]{0,3}(?:\.{3}|…)[\])>*_]{0,3}[ \t]*$", re.MULTILINE)
MODELS_METADATA = "<!-- The model wrote these lines as metadata; in this comment they ask and set nothing:"
"""The beginning of a comment that contains metadata of a reply."""


def losses(old: str, new: str, prompt: str = "") -> tuple[str, ...]:
    """Return what would be torn or lost if `new` replaced `old`; what `prompt` asks for is no loss.

    >>> losses("As @fox2015 says, see {#sec-a}.", "As somebody says.")
    ('it drops the id #sec-a', 'it drops the citation or reference @fox2015')
    >>> table = "| a |\\n|---|\\n| 1 |\\n"
    >>> losses(table, "a is 1"), losses(table, "a is 1", "turn the table into prose")
    (('it drops a table',), ())
    """
    old, new = (text.replace("\r\n", "\n") for text in (old, new))
    prose, new_prose = _prose(old), _prose(new)
    found = [*placeholders(old, new), *_torn(prose, new_prose, prompt)]
    then, now = _contents(old, prose), _contents(new, new_prose)
    titles = [_plain(block.title) for block in parse_markdown_text(old) if isinstance(block, HeadingBlock)]
    for kind, names in then.items():
        new_names, asked = now.get(kind, []), asks_for(prompt, kind, sweeping=kind not in _REFERENCES)
        asked = asked or (kind == "heading" and any(title in prompt.casefold() for title in titles))
        if kind in ("table row", "table column") and len(then.get("table", [])) != len(now.get("table", [])):
            continue
        if (lost := names.count("") - new_names.count("")) > 0 and not asked:
            found.append(f"it drops {_some(lost, names.count(''), kind)}")
        if not asked and (kind not in _COUNTED or len(new_names) < len(names)):
            found += _dropped(kind, filter(None, names), new_names)
    return (*found, *([] if asks_for(prompt, "paragraph") else _dropped_words(prose, new, prompt)))


def oddities(old: str, new: str, *, heading: str = "") -> tuple[str, ...]:
    """Return what else may be unintended: a heading or a tag of the request that is repeated, metadata."""
    found, now = [], new.lstrip("\r\n")
    if _repeated(now, heading):
        found.append(f"it repeats the heading '{heading}'")
    if (tag := prompt_tag(now)) and tag not in old:
        found.append(f"it contains the tag {tag}, which comes from the prompt")
    return (*found, *metadata_notices(new))


def metadata_notices(new: str) -> list[str]:
    """Return notices about metadata that a model wrote: it is a comment, and has no effect."""
    opening = MODELS_METADATA.removeprefix("<!--")
    found = [span.text.removeprefix(opening) for span in spans(new) if span.text.startswith(opening)]
    return [f"the model wrote metadata; it is now a comment: {excerpt(body)}" for body in found]


def excerpt(text: str) -> str:
    """Return the first words of a text, in quotes."""
    words = " ".join(text.split())
    return f"'{words}'" if len(words) <= 50 else f"'{words[:48].rstrip()} …'"


def says_nothing(text: str) -> bool:
    """Return whether a text is empty, except for blanks and comments.

    >>> says_nothing("<!-- as you wish -->\\n"), says_nothing("<!-- a --> b"), says_nothing("<!-- a")
    (True, False, False)
    """
    at = 0
    for span in spans(text):
        if span.kind != "comment" or text[at : span.start].strip():
            return False
        at = span.end
    return not text[at:].strip()


def leaves_comment_open(text: str) -> bool:
    """Return whether a text contains a comment, outside of code, that is never closed.

    >>> leaves_comment_open("a <!-- b"), leaves_comment_open("a `<!--` b"), leaves_comment_open("<!-- a --> b")
    (True, False, False)
    """
    at = text.find("<!--", text.rfind("-->") + 1)
    for span in spans(text) if at >= 0 else ():
        if span.kind in ("code", "code_block") and span.start <= at < span.end:
            at = text.find("<!--", span.end)
    return at >= 0


def without_heading(new: str, heading: str) -> str:
    """Remove the section's heading, which stays above the text anyway, from the start of a new text, if text follows.

    >>> without_heading("## The *sum* {#s}\\n\\nB.\\n", "The sum"), without_heading("# Other\\n\\nB.\\n", "The sum")
    ('B.\\n', '# Other\\n\\nB.\\n')
    """
    now = new.lstrip("\r\n")
    rest = now[_repeated(now, heading) :].lstrip("\r\n")
    return rest if rest and rest != now else new


def _repeated(new: str, heading: str) -> int:
    """Return how many characters at the start of a new text repeat the section's heading."""
    first = next(iter_blocks(new), None)
    repeats = heading and isinstance(first, HeadingBlock) and _plain(first.title) == _plain(heading)
    return len(first.source) if first and repeats else 0


def chunk_labels(text: str) -> list[str]:
    """Return the labels of the chunks in a text that knitr or Quarto would run, in order.

    >>> chunk_labels("```{r fit, echo=FALSE}\\nlm(y ~ x)\\n```\\n")
    ['fit']
    """
    chunks = (chunk for chunk in _chunks(text) if chunk.attributes.endswith("}"))  # no title follows, as in MyST
    return [cell.label for chunk in chunks if (cell := read_cell(chunk)) is not None and cell.label]


RUNS = "the new text adds or changes code that knitr will run"


def code_notices(old: str, new: str) -> tuple[str, ...]:
    """Return notices for authors before knitting: chunks that the new text adds, changes or repeats."""
    if "`" not in new and "~~~" not in new:
        return ()
    notices = []
    before = chunk_labels(old)
    if labels := sorted({label for label in chunk_labels(new) if label in before}):
        notices.append(f"until the edit is resolved, chunk labels occur twice and knitr stops: {', '.join(labels)}")
    now, then = ({name for kind, name in _elements(text, "") if kind == _INLINE} for text in (new, old))
    added, known = ({(chunk.attributes, chunk.text) for chunk in _chunks(text)} for text in (new, old))
    if added - known or now - then:
        notices.append(RUNS)
    return tuple(notices)


def _chunks(text: str) -> Iterator[Span]:
    return (span for span in spans(text, in_list=True) if span.runs)


def _prose(text: str) -> str:
    """Remove code and comments, in which marks have no meaning, from `text`."""
    instead = {"code_block": "\n", "code": "`", "comment": ""}
    return replace_spans(text.replace("\r\n", "\n"), lambda span: instead.get(span.kind))


def _some(lost: int, number: int, kind: str) -> str:
    if number == 1:
        return f"{'an' if kind[0] in 'aHe' else 'a'} {kind}"
    return f"{lost} {'' if lost == number else f'of {number} '}{_PLURALS.get(kind, f'{kind}s')}"


def asks_for(prompt: str, kind: str, *, sweeping: bool = True) -> bool:
    """Return whether a request is to remove or to transform what is of a kind, named or, if `sweeping`, with the rest.

    >>> asks_for("dissolve the callout", "div"), asks_for("cut it, but keep the callout", "div")
    (True, False)
    """
    if sweeping and kind not in _REFERRED and _SWEEPING.search(prompt):
        return True
    if kind in _WORDED:
        return (
            not prompt or _CONDENSES.search(prompt) is not None or (kind == "list item" and asks_for(prompt, "table"))
        )
    words = _WORDS.get(kind)
    clauses = re.split(r"[.;,!?\n]| but | and | aber | und ", prompt) if words else ()
    changing = re.search(_CHANGES, prompt, re.I)
    return bool(changing) and any(
        re.search(rf"\b(?:sub)?(?:{words})", c, re.I) and not re.search(_KEEPS, c, re.I) for c in clauses
    )


def placeholders(old: str, new: str) -> Iterator[str]:
    """Find lines that stand for text which a model left out."""
    for pattern in (_PLACEHOLDER, _BRACKETED, _ELLIPSIS):
        for match in pattern.finditer(new):
            if match[0].strip() and match[0].strip() not in old:
                yield f"it leaves text out: {excerpt(match[0].strip())}"
                return


def _dropped_words(old: str, new: str, prompt: str) -> Iterator[str]:
    """Find numbers of an old prose that are gone, in any form, and paragraphs that are gone while others stay.

    >>> [*_dropped_words("Of 1,200 mice, 3.93 %.\\n", "Of 1200 mice, few.\\n", "fix the style")]
    ['it drops the number 3.93']
    """
    if not _CHANGES_NUMBERS.search(prompt):
        digits = {_digits(number) for number in _ANY_NUMBER.findall(new)}
        yield from _dropped("number", [one for one in _NUMBER.findall(old) if _digits(one) not in digits], ())
    words = {*re.findall(r"\w+", new.casefold())}
    texts = [(b.content, b.content.casefold()) for b in parse_markdown_text(old) if _is_prose(b)]
    sets = [(text, {*(re.findall(r"\w{4,}", low) or re.findall(r"\w+", low))}) for text, low in texts]
    shares = [(len(own & words) / len(own), len(own), text) for text, own in sets if own]
    if sum(share > 0.6 for share, _, _ in shares) * 2 >= len(shares):
        short = 0.01 if len(texts) > len(parse_markdown_text(new)) else 0
        dropped = (text for share, size, text in shares if share < (0.35 if size > 7 else short))
        yield from (f"it drops a paragraph: {excerpt(text)}" for text in dropped)


def _is_prose(block: Block) -> bool:
    return isinstance(block, TextBlock) and kind_of(block.source) == "prose" and not block.content.startswith(":::")


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number).strip("0")


def _torn(old: str, new: str, prompt: str) -> Iterator[str]:
    opened, closed = (now - then for now, then in zip(_count_fences(new), _count_fences(old), strict=True))
    if opened != closed:
        yield "it tears a fenced div: its ::: lines no longer match"
    elif opened < 0 and not asks_for(prompt, "div"):
        yield f"it drops {-opened} fenced div{'s' if opened < -1 else ''} (:::)"


def _count_fences(text: str) -> tuple[int, int]:
    """Return how many lines open a div, and how many close one."""
    lines = [line for line in text.split("\n") if line.lstrip(" ").startswith(":::")]
    opened = sum(bool(line.strip(": \t\r")) for line in lines)
    return opened, len(lines) - opened


def _contents(text: str, prose: str) -> dict[str, list[str]]:
    """Return what a text consists of besides words, by kind: its names, empty where only their number counts."""
    found: dict[str, list[str]] = {kind: [] for kind in _NAMES.values()}
    for match in _NAME.finditer(prose):
        found[_NAMES[match.lastgroup or ""]].append(match[match.lastgroup or 0])
    counts, before = Counter[str](), ""
    for block in parse_markdown_text(text):
        if isinstance(block, HeadingBlock):
            counts["heading"] += 1
        kind = kind_of(block.source) if isinstance(block, TextBlock) else ""
        counts["table"] += kind == "table" or (kind == "ruled" and before != "table")
        if kind == "table" and block.content.startswith("|"):
            rows = block.content.split("\n")
            counts.update({"table row": len(rows), "table column": rows[0].count("|") - 1})
        if kind:
            counts["quotation"] += block.content.startswith(">") and not block.content.startswith("> [!")
            counts["admonition"] += bool(re.match(r"(?:!!!|\?\?\?\+?|===) |> \[!\w+\]", block.content))
        before = kind
    for span in spans(text, in_list=True):
        if span.kind == "raw" and span.target == "tex" and not _REFERS.match(span.text):
            counts["raw LaTeX"] += 1
        elif span.kind == "html" and not span.target.startswith("/"):
            counts["HTML tag"] += 1
        elif (name := _COUNTED_SPANS.get(span.kind)) and not (name == "footnote" and span.target):
            counts[name] += 1
    counts["formula"] += len(re.findall(r"(?<!\\)\\[(\[]", prose))
    counts.update({kind: len(re.findall(pattern, prose, re.MULTILINE)) for kind, pattern in _COUNTS.items()})
    named = [*(("chunk label", label) for label in chunk_labels(text)), *_elements(text, prose)]
    for kind, name in (*named, *((kind, "") for kind in (+counts).elements())):
        found.setdefault(kind, []).append(name)
    return found


def _elements(text: str, prose: str) -> Iterator[tuple[str, str]]:
    """Iterate over elements besides words, which are easily dropped unnoticed: the kind and an identifier of each."""
    # The definition of a label may be in another place of the document.
    labels = dict.fromkeys(_LABEL.findall(text))
    for span in spans(f"{text}\n\n" + "".join(f"[{label}]: <{label}>\n" for label in labels)):
        if span.kind == "image":
            yield "picture", span.target
        elif span.kind == "link" and span.target and (span.text != span.target or text[span.start] == "<"):
            yield "link", span.target
        elif span.kind == "role":
            yield "role", f"{span.target} {span.text}"
        elif span.kind in ("comment", "shortcode") and not text.startswith(MODELS_METADATA, span.start):
            name = " ".join(text[span.start : span.end].split())
            yield "mark of a page" if PAGE_MARK.fullmatch(name) else span.kind, name
        elif span.expression or (span.kind == "code" and span.text.startswith("r#")):
            yield _INLINE, f"`{span.text}`"
        elif span.kind == "code":
            yield "code", span.text
        elif span.kind == "html":
            known = {"id": "HTML id", "src": "picture" if span.target == "img" else "embedded file"}
            yield from ((known[name], value) for name, value in span.values.items() if name in known)
    for match in _OTHERS.finditer(prose):
        yield _OTHER[match.lastgroup or ""], match[match.lastgroup or 0]


def _dropped(kind: str, old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    new_names = set(new)
    lost = list(dict.fromkeys(name for name in old if name not in new_names))
    if lost:
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        names = [excerpt(name) if " " in name else name for name in lost[:_SHOWN]]
        yield f"it drops the {kind} {', '.join(names)}{more}"


def _plain(title: str) -> str:
    return " ".join(re.sub(r"[*_`]", "", title).split()).casefold()


# -- fingerprints -------------------------------------------------------------------------------------


def marks_of(texts: Iterable[str]) -> str:
    """Return fingerprints of texts: a hash of all of them, and a shorter one of each, ignoring white space.

    >>> marks_of(["One.", "Two."]) == marks_of(["One. ", "Two.\\n"])
    True
    """
    found = [_hash(text) for text in texts]
    return " ".join([_hash("".join(found))[:8], *(mark[:4] for mark in found)])


def _hash(text: str) -> str:
    lines = (line.rstrip() for line in text.splitlines())
    return digest("\n".join(filter(None, lines)))
