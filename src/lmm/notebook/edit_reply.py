"""A reply to a request for an edit: the new text in it, and what the model says about it.

The text is asked for between ``<new>`` and ``</new>``; what is outside is the model's remark, and ``<none>`` says that
there is no new text. Where the tags are missing, as from small models or after a project's own edit.md, what models put
around a text is taken off. What the new text has lost, or writes otherwise than its document, is put back where there
is only one way.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, count, islice
from typing import Any

from lmm.errors import EmptyReply, NoEdit
from lmm.markdown import Block, ErrorBlock, HeaderBlock, HeadingBlock, MetadataBlock, TextBlock, serialize
from lmm.markdown.blocks import insert_blocks
from lmm.markdown.inline import Span
from lmm.markdown.parse_markdown import div_ends, parse_markdown_text, unclosed_construct
from lmm.markdown.spans import replace_spans, spans, without
from lmm.markdown.units import kind_of, texts_of
from lmm.notebook.edit_warnings import (
    MODELS_METADATA,
    asks_for,
    leaves_comment_open,
    placeholders,
    says_nothing,
    without_heading,
)

SEVERAL = "the reply holds several new texts, of which this is the first"
OPEN = "the reply has no closing tag: its end may be missing"
_WRAPPED = "this may be a remark of the model's, not text: "
DOUBTS = (SEVERAL, OPEN, _WRAPPED)
"""How the doubts begin that a reply may leave; they stay with its edit until the author resolves it."""


@dataclass(frozen=True, slots=True)
class EditReply:
    """The new `text` of a reply, the model's `remark` about it, and `doubts` whether it is text; `tagged` is whether it
    came between tags."""

    text: str
    remark: str = ""
    doubts: tuple[str, ...] = ()
    tagged: bool = False


def tag_for(*texts: str) -> str:
    """Return the name of the tag around a new text: ``new``, with a number if one of the texts contains that tag.

    >>> tag_for("A leaf."), tag_for("Close it with </new>.")
    ('new', 'new2')
    """
    names = ("new" if number == 1 else f"new{number}" for number in count(1))
    return next(name for name in names if not any(f"</{name}>" in text for text in texts))


def read_edit_reply(reply: str, old: str = "", prompt: str = "") -> EditReply:
    r"""Return the new text in a reply to `prompt` about the `old` text, without what the model says around it.

    Raises:
        NoEdit: the model refused, or sent something else than one text.
        EmptyReply: there is nothing in it.

    >>> read_edit_reply("Shorter:\n<new>\nA leaf.\n</new>\nIt was long.")
    EditReply(text='A leaf.', remark='Shorter:\n\nIt was long.', doubts=(), tagged=True)
    >>> read_edit_reply("Here is the new text:\n\n```markdown\nA leaf.\n```").text
    'A leaf.'
    """
    reply, tag, thoughts = reply.replace("\r\n", "\n"), tag_for(old, prompt), ""
    if not _TEMPLATE.search(old):
        reply = _TEMPLATE.sub("", re.split(r"<\|(?:message|end_header_id)\|>", reply.strip())[-1])
    if (thought := _THOUGHT.match(reply)) and "</think" not in old:
        thoughts, reply = thought[1], reply[thought.end() :]
    if not re.search(rf"^<{tag}>", reply, re.MULTILINE | re.IGNORECASE):
        for nearly in _NEARLY:
            reply = re.sub(nearly.format(tag), r"<\1\2>", reply, flags=re.IGNORECASE | re.MULTILINE)
    tagged = _tagged(reply, tag, old)
    if _NONE.search(reply if tagged is None else tagged.text) and not _NONE.search(old):
        raise no_edit("the model wrote no new text", _NONE.sub("", reply if tagged is None else tagged.remark))
    found = tagged or _untagged(_Untagged(reply.strip("\n").removesuffix(f"</{tag}>"), old, above=thoughts))
    if not re.search(r"quot|zitat|zitier|anführ|cit[ae]|bold|fett|gras|code", prompt, re.IGNORECASE):
        found = replace(found, text=_without_quotes(found.text, old, tagged=found.tagged))
    if kind := _other_kind(found.text, old, tagged=found.tagged):
        raise no_edit(kind, found.text if kind != _DIFF else found.remark)
    if not found.text.strip():
        raise no_edit("the model sent no new text", found.remark) if found.remark else EmptyReply("the reply is empty")
    return found


_NONE = re.compile(r"</?none ?/?>", re.IGNORECASE)
_THOUGHT = re.compile(r"\s*(?:<think(?:ing)?>)?(.*?)</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
# Tags that are nearly right, and marks of a model's template.
_NEARLY = (
    r"(?:\*\*|`)?\\?(?:<|&lt;)[ ]*(/?)[ ]*({0}|none)\b[^<>&\n]*?(?:\\?>|&gt;)(?:\*\*|`)?",
    r"^[ \t]*[\[{{]+(/?)({0}|none)[\]}}]+[ \t]*$",
)
_TEMPLATE = re.compile(r"<\|\w+\|>|\[/?INST\]\s*|\A<s>|</s>\Z")


def no_edit(what: str, reply: str) -> NoEdit:
    """Return the error for a reply without a new text; `reply` are the words of the model."""
    words = " ".join(reply.split())
    return NoEdit(f"{what}{': ' * bool(words)}{words}", hint="change the prompt or delete it; --again asks once more")


# -- with tags -----------------------------------------------------------------------------------------


def _tagged(reply: str, tag: str, old: str) -> EditReply | None:
    """Read a reply with tags; None if it has none."""
    opening, closing = rf"^[ \t>]*<{tag}>[ \t]*\n?", rf"(?:\n[ \t>]*|[ \t]*)</{tag}>"
    parts = list(re.finditer(rf"{opening}(.*?)(?:{closing}(?=[ \t.]*$)|\Z)", reply, re.DOTALL | re.MULTILINE | re.I))
    if not parts:
        parts = list(re.finditer(rf"<{tag}>(.*?)(?:</{tag}>|\Z)", reply, re.DOTALL | re.I))
    if not parts:
        return None
    first, *more = parts
    doubts = (SEVERAL,) if more else ()
    if not re.search(rf"</{tag}>\s*\Z", first[0], re.I):
        doubts = (*doubts, OPEN)
    text, mark = first[1].strip("\n"), "markdown|md" if "```" in old or "~~~" in old else "markdown|md|"
    fenced = re.fullmatch(rf"(`{{3,}}|~{{3,}})[ \t]*(?:{mark})[ \t]*\n(.*?)\n?\1[`~]*[ \t]*", text.strip(), re.DOTALL)
    text = fenced[2] if fenced and fenced[1] not in fenced[2] else text
    if "<text" not in old:
        text = re.sub(r"\A\s*<text>[ \t]*\n?|\n?[ \t]*</text>\s*\Z", "", text)
    return EditReply(text, _remark(reply[: first.start()], reply[first.end() :]), doubts, tagged=True)


def _remark(above: str, below: str) -> str:
    """Join what a model says above and below a text, without the fence or the rule between."""
    line = r"[ \t]*(?:`{3,}\w*|~{3,}\w*|-{3,}|\*[ ]?\*[ ]?\*)[ \t]*"
    above, below = re.sub(rf"(?:^|\n){line}\s*\Z", "", above.strip()), re.sub(rf"\A\s*{line}(?:\n|\Z)", "", below)
    return "\n\n".join(part.strip() for part in (above, below) if part.strip())


# -- without tags: habits ------------------------------------------------------------------------------

_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*([\w.+-]*)[ \t]*$", re.MULTILINE)
_MARKDOWN = ("", "markdown", "md", "text", "txt", "qmd", "rmd", "quarto", "plaintext", "plain")
_WRAPPERS = (
    "text|new_?text|edited(?:_text)?|edit|answer|output|result|revised(?:_text)?|response|rewritten|updated|version"
    "|document|paragraph|content|final(?:_text)?|rewrite|revision|(?:ant)?artifact"
)


def _beginning(phrases: str, ending: str = "") -> re.Pattern[str]:
    """Return a pattern for a text that begins with one of the phrases, which are separated by commas."""
    words = "|".join(re.escape(" ".join(phrase.split())) for phrase in phrases.split(","))
    return re.compile(rf"(?:[^\w\s<>\[`~|+-]+[ \t]*)?(?:{words})(?!\w){ending}", re.IGNORECASE)  # marks, pictures


# In English, German, French, Spanish and Italian: what models write above a text, below it, and instead of it.
_PREAMBLE = _beginning(
    """sure, certainly, of course, absolutely, okay, ok, great, got it, understood, done, here's, here is, here are,
    here you, below is, as requested, i've, i have, i'll, i will, gern, gerne, natürlich, klar, hier ist, hier
    die, hier der, voici, bien sûr, claro, aquí, ecco, certo""",
    r"[^\n]*[:!.*]\Z",
)
_ASSENT = re.compile(r"\A(?:sure|certainly|of course|absolutely|gladly|done|gerne?|claro|bien sûr)[!.:] +(?=\S)", re.I)
_LABEL = re.compile(
    r"(?:#+ |\*\*)?(?:the )?(?:(?:new|revised|edited|updated|shortened|corrected|improved|rewritten|final|neue[rs]?) "
    r"(?:text|version|paragraph|section|passage|fassung)|translation)[:* ]*\Z",
    re.IGNORECASE,
)
_CLOSING = _beginning(
    """let me know, feel free, i hope, hope this, hope that, i've, i have, i also, i made, i changed, i kept, i
    removed, i shortened, i corrected, i fixed, i left, i added, i merged, i tightened, i replaced, changes:,
    changes made, key changes, summary of changes, what i changed, what changed, the changes, the main changes,
    would you like, do you want, want me to, happy to help, change:, shortened from, shortened by,
    reduced from, word count:, explanation:, if you'd, if you would, if you want, ich habe, sag mir, sagen sie mir,
    änderungen, j'ai, n'hésitez, he cambiado, he corregido, ho modificato"""
)
_ADDRESS = re.compile(
    r"\b(?:I(?= [a-z])|I'm|I've|[Yy]ou|[Yy]our)\b|\A(?:Notes?|Remark|Hinweis|Anmerkung):|\A(?:This version|Below)\b"
    r"|\A(?:Replace|Delete|Remove|Change|Insert) (?:the\b|[\"“'`])|\A<\w+_\w+>|\A\{\""
)
_REFUSAL = _beginning(
    """i'm sorry, i am sorry, sorry, i'm unable, i am unable, i'm afraid, i'm not able, i cannot, i can't, i don't, i
    do not, i could not, i couldn't, i would need, i need, i see no, i found no, unfortunately, as an ai, there
    is nothing, there are no, there is no, there's no, nothing to, no changes, no edits, please provide, please
    share, please paste, please send, it looks like, it seems, it appears, you haven't, you have not, you
    didn't, es gibt nichts, es gibt keine, leider, ich kann, ich sehe, ich habe keine, je ne, je suis désolé, il
    n'y a, désolé, lo siento, no hay, no puedo"""
)
_ASKING = _beginning("""could you, can you, would you, which, what, do you, shall i, should i, welche, quel, qué""")
_REMARK = _beginning(  # where there are no tags
    """there's nothing, no text was, as written, hmm, looks good, looks fine, this looks good, this looks fine, it's
    already, it is already, i'd be happy, i would be happy"""
)
_NOTHING = re.compile(r"\W*(?:none|n/a|nothing|unchanged|lgtm|no changes?)\W*", re.IGNORECASE)
_FINDING = re.compile(
    r"(?:the|this|your|der|die|das|le|la|el) (?:text|paragraph|section|sentence|passage|document|place|absatz|"
    r"abschnitt|satz|texte|paragraphe|texto|párrafo)\b[^\n]*\b(?:no|already|nothing|empty|fine|missing|correct|keine?|bereits|"
    r"schon|leer|aucune?|déjà|ningún|ya)\b",
    re.IGNORECASE,
)
_CANNOT = re.compile(
    r"\b(?:I (?:cannot|can't|can not|could not|couldn't)|(?:kann ich|ich kann)\b[^.]*\bnicht|je ne peux|no puedo"
    r"|nothing (?:needs )?to \w+|nothing needs|nichts zu \w+|rien à \w+|nada que \w+|niente da \w+)\b",
    re.IGNORECASE,
)
_VERSION = re.compile(
    r"^(?:#+ |\*\*)?(?:(?:option|version|variante?|alternative|opción|vorschlag)\s*(?:\d|[A-C]\b)|(?<=\*\*)[A-C][.):])",
    re.I | re.M,
)
_WORDS = re.compile(r"\w{4,}|[^\W\d_a-zA-Z]+")
_LABELLED = re.compile(r"[*_#>\[ ]*((?:\w+ ){0,2}\w+)[*_]*(?: -|:[*_]*)(?=\s|\Z)")
_MARK = re.compile(  # a line in brackets, between rules or in capitals, a symbol, a heading of remarks
    r"[\[{<][^\[\]{}<>()\n]*[\]}>]$|[-=]{2,}[ \t]*\w[^\n]*[-=]{2,}$|(?-i:[A-Z]{3,})$"
    r"|[\u2190-\u21ff\u2600-\u27bf\U0001f300-\U0001faff](?=[ *_]*\w)|\\begin\{document\}"
    r"|#+ (?:\w+ )?(?:changes|notes?|edits|explanation|änderungen|anmerkungen)\b",
    re.MULTILINE | re.IGNORECASE,
)
_SHORT = 60  # characters of a paragraph that may be a remark about another
_FEW = 5  # words of a text that are too few to find it again
_DIFF = "the model sent a diff instead of the new text"


@dataclass(frozen=True, slots=True)
class _Untagged:
    """A reply without tags, being freed from what is around its text."""

    text: str
    old: str
    above: str = ""
    below: str = ""


def _untagged(reply: _Untagged) -> EditReply:
    if (assent := _ASSENT.match(reply.text)) and not _ASSENT.match(reply.old):
        reply = replace(reply, text=reply.text[assent.end() :], above=assent[0])
    for unwrap in (_off_tag, _off_fence, _off_words, _off_fence, _off_words):
        reply = unwrap(reply)
    return EditReply(reply.text.strip("\n"), _remark(reply.above, reply.below))


def _paragraphs(text: str) -> list[str]:
    return [p.strip("\n") for p in re.split(r"\n[ \t]*\n", text.strip()) if p.strip()]


def _speaking(text: str, old: str) -> Iterator[str]:
    """Iterate over the paragraphs at the edges of a text that announce it, or say what was done."""
    paragraphs = _paragraphs(text)
    if len(paragraphs) < 2 or _ADDRESS.search(old):
        return
    first, last = paragraphs[0].lstrip("*_#> "), paragraphs[-1].lstrip("*_#> (")
    announces = _PREAMBLE.match(first) and first.rstrip("*_ ").endswith(":")
    if (announces or _LABEL.match(first)) and first not in old:
        yield first
    if _CLOSING.match(last) and last not in old:
        yield last


def _remarks_in(text: str, old: str) -> Iterator[str]:
    """Iterate over what may be a remark at the edges of a text that came without tags: a paragraph that speaks to the
    author, a line without the words of the old text while the others have them, a label, a paragraph too many."""
    paragraphs, before = [p for p in _paragraphs(text) if not p.startswith(MODELS_METADATA)], _paragraphs(old)
    edges = [paragraphs[0], paragraphs[-1]] if len(paragraphs) > 1 else paragraphs
    for paragraph in edges if not _ADDRESS.search(old) else ():
        if _ADDRESS.search(without(paragraph, "comment", "code", "code_block", "math")) and "<!--" not in paragraph:
            yield paragraph
    yield from _speaking(text, old)
    lines = [line for line in text.split("\n") if line.strip()]
    marks = map(_MARK.match, [*paragraphs, lines[-1]])
    yield from (mark[0] for mark in marks if mark and mark[0] not in old)
    if re.match(r"[`~]{3,}(?:json)?\n|:::writing", text) and text[:3] not in old:
        yield lines[0]
    own, all_words = ({*re.findall(r"\w+", some.casefold())} for some in (old, text))
    if len(own) > _FEW and len(all_words & own) > 0.4 * min(len(all_words), len(own)):
        for edge in {lines[0]: 0, lines[-1]: 0} if len(lines) > 1 else ():
            words = {*(_WORDS.findall(edge.casefold()) or re.findall(r"\w+", edge.casefold()))}
            if len(words & own) < len(words) / 3 and not edge.startswith(("#", "|", "[^")) and "$" not in edge:
                yield edge
        labels = map(_LABELLED.match, [*paragraphs[:1], *paragraphs[-2:]])
        yield from (label[0] for label in labels if label and own.isdisjoint(_WORDS.findall(label[1].casefold())))
        return
    # Another text, as a translation is, or the first one in its place.
    for edge, counterpart in zip(edges, [*before[:1], *before[-1:]] if before else [""] * 2, strict=False):
        if (label := _LABELLED.match(edge)) and not _LABELLED.match(counterpart):
            yield label[0]
    for edge in edges if len(paragraphs) > max(1, len(before)) and not re.search(r"^#", text, re.MULTILINE) else ():
        words = {*_WORDS.findall(edge.casefold())}
        others = " ".join(one for one in paragraphs if one is not edge).casefold()
        if len(edge) < _SHORT and words and words.isdisjoint(_WORDS.findall(others)) and not re.search(r"[@$]", edge):
            yield edge
    yield from (label[0] for label in map(_LABELLED.match, [] if old else paragraphs[-2:-1]) if label)


def _off_tag(reply: _Untagged) -> _Untagged:
    """Take off a tag around the text, such as that of the request."""
    pattern = rf"^<({_WRAPPERS})\b[^<>\n]*>[ \t]*\n?(.*?)\n?[ \t]*</\1>[ \t]*$"
    match = re.search(pattern, reply.text, re.DOTALL | re.MULTILINE | re.IGNORECASE)
    if match is None or match[0].partition("\n")[0] in reply.old:
        return reply
    return _inside(reply, match.start(), match.end(), match[2])


def _inside(reply: _Untagged, start: int, end: int, text: str) -> _Untagged:
    above, below = f"{reply.above}\n\n{reply.text[:start]}", f"{reply.text[end:]}\n\n{reply.below}"
    return replace(reply, text=text, above=above, below=below)


def _off_fence(reply: _Untagged) -> _Untagged:
    """Take off a fence around the text, with what is outside of it, unless the text is outside."""
    fences = list(_FENCE.finditer(reply.text))
    if len(fences) < 2 or fences[0][2].lower() not in _MARKDOWN:
        return reply
    first = fences[0]
    ends = [f for f in fences[1:] if not f[2] and f[1][0] == first[1][0] and len(f[1]) >= len(first[1])]
    # With a label, models also close their own fence last where others are inside; else fences go in pairs.
    last = ends[-1:] if first[2] else ends[:1]
    if not last or (not first[2] and len(fences) > 2 and _VERSION.search(reply.text)):
        return reply
    inside = reply.text[first.end() : last[0].start()]
    outside = reply.text[: first.start()] + reply.text[last[0].end() :]
    own = set(reply.old.split())
    if reply.old.lstrip().startswith(first[1]) and not first[2]:
        return reply  # the text itself is code
    if outside.strip() and len(own & set(outside.split())) > len(own & set(inside.split())):
        return reply  # a piece of code in the text
    above = reply.text[: first.start()].strip().rpartition("\n\n")[2]
    if above and not (above.endswith(":") or _PREAMBLE.match(above) or _LABEL.match(above)):
        return reply
    return _inside(reply, first.start(), last[0].end(), inside.strip("\n"))


def _off_words(reply: _Untagged) -> _Untagged:
    """Take off a line that announces the text, and paragraphs below that speak about it."""
    paragraphs = re.split(r"(\n[ \t]*\n\s*)", reply.text.strip("\n"))
    first = paragraphs[0].strip()
    if len(paragraphs) == 1 and "\n" in first and first.partition("\n")[0].endswith(":"):  # no blank line below it
        first, _, rest = first.partition("\n")
        paragraphs = [first, "\n", rest]
    above, below = "", ""
    announces = "\n" not in first and (_PREAMBLE.match(first) or _LABEL.match(first)) and first not in reply.old
    if len(paragraphs) > 2 and announces:
        above, paragraphs = first, paragraphs[2:]
    first_person = _ADDRESS.search(reply.old) is not None
    for at in range(2, len(paragraphs), 2):
        text = re.sub(r"\A[-*_]{3,}[ \t]*\n", "", paragraphs[at].strip())
        if _CLOSING.match(text) and text not in reply.old and not (first_person and re.match(r"I\b", text)):
            below, paragraphs = "".join(paragraphs[at:]), paragraphs[: at - 1]
            break
    text = "".join(paragraphs).strip("\n") if above or below else reply.text
    ruled = re.fullmatch(r"([-*_]{3,})[ \t]*\n[ \t]*\n(.*)\n\1", text.strip(), re.DOTALL)
    if ruled and not reply.old.lstrip().startswith(ruled[1]):
        text = ruled[2].strip("\n")
    while above and re.match(r"[-*]{3,}[ \t]*\n[ \t]*\n", text):  # rules that set the text apart
        text = text.partition("\n")[2].lstrip("\n")
    if (above or below) and re.search(r"\n(?:-{3,}|\*[ ]?\*[ ]?\*)[ \t]*\Z", text):
        text = text[: text.rindex("\n")].rstrip("\n")
    return replace(reply, text=text, above=f"{reply.above}\n\n{above}", below=f"{below}\n\n{reply.below}")


def _without_quotes(text: str, old: str, *, tagged: bool) -> str:
    """Take off quotation marks around the whole text; without tags, also other marks, and those of a quotation."""
    whole, old = text.strip(), old.lstrip()
    pairs = (('"""', '"""'), ('"', '"'), ("“", "”"), ("«", "»"), ("„", "“"), ("``", "''"), ("`", "`"), ("**", "**"))
    for opening, closing in pairs[: 5 if tagged else None]:
        if (
            whole.startswith(opening)
            and whole.endswith(closing)
            and len(inner := whole[len(opening) : -len(closing)].strip("\n")) > 1
            and opening not in inner
            and not old.startswith(opening)
        ):
            return inner
    if tagged:
        return text
    if whole and all(line.startswith(">") for line in whole.splitlines() if line.strip()) and ">" not in old:
        return re.sub(r"^> ?", "", whole, flags=re.MULTILINE)
    return text


# -- what is no text -----------------------------------------------------------------------------------


def _other_kind(text: str, old: str, *, tagged: bool) -> str:
    """Say what a reply is that is not one new text; an empty string if it is."""
    lines, own = text.strip().splitlines(), {line.strip() for line in old.splitlines()}
    removed = [line[1:].strip() for line in lines if re.match(r"-(?!-)", line)]
    is_patch = bool(removed) and own.issuperset(removed) and re.search(r"^\+(?!\+)", text, re.M) is not None
    if is_patch or any(re.match(r"@@ .* @@|diff --git |<{5,} SEARCH", line) for line in lines):
        return _DIFF
    if len(_VERSION.findall(text)) > 1 and not _VERSION.search(old):
        return "the model sent several versions instead of one text"
    start, words = text.strip().lstrip("*_> "), text.split()
    if len(words) > 80 or len(lines) > 5 or len({*words} & {*old.split()}) > 0.6 * len({*words}):
        return ""
    is_question = start.endswith("?") and _ASKING.match(start)
    declines = _REFUSAL.match(start) or _FINDING.match(start) or _NOTHING.fullmatch(text)
    declines = declines or (None if tagged else _CANNOT.search(text) or _REMARK.match(start))
    return "the model wrote no new text" if is_question or declines else ""


# -- what is put back ----------------------------------------------------------------------------------

MARKS = ("<!-- lmm:new ", "<!-- lmm:end ")
_IN_BACKSLASHES = (
    (r"(?<!\\)\\\([ \t]*([^\n]+?)[ \t]*(?<!\\)\\\)", "$", "\\("),
    (r"(?<!\\)\\\[((?:(?!\n[ \t]*\n|\\\]).)*[\\=^_+<>](?:(?!\n[ \t]*\n|\\\]).)*)\\\]", "$$", "\\["),
)
_NOTE = re.compile(r"\[\^([^\[\]\s]+)\]")
_DIV_LINE = re.compile(r"^[ ]{0,3}(:{3,})[ \t]*(\S?)[^\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EditRequest:
    """What an edit was asked of: the `old` text, the author's `prompt`, its section's `heading`, the header.

    `latest` is the new text that the author wants to be changed once more.
    """

    old: str
    prompt: str = ""
    latest: str = ""
    heading: HeadingBlock | None = None
    header: Mapping[str, Any] = field(default_factory=dict)


def new_text(reply: str, request: EditRequest) -> EditReply:
    """Read a reply to a request for an edit, and return it with its text as it can take the place of the old one.

    Raises:
        NoEdit: the model refused, changed nothing, or sent something else than one text.
        EmptyReply: the new text is empty, but for comments.
    """
    found = read_edit_reply(reply, request.old, request.prompt)
    text = restored(found.text, request)
    if says_nothing(text):
        raise EmptyReply("the reply is empty", hint="try again, or rephrase the prompt")
    now, before = ([*map(str.rstrip, some.strip().splitlines())] for some in (text, request.latest or request.old))
    if now == before:
        raise no_edit("the model changed nothing", found.remark)
    remarks = (_speaking if found.tagged else _remarks_in)(text, request.old)
    remarks = islice((words for words in remarks if not any(placeholders(request.old, words))), 1)
    doubts = (f"{_WRAPPED}'{' '.join(words.split())[:60]}'" for words in remarks)
    return replace(found, text=text, doubts=(*found.doubts, *doubts))


def restored(new: str, request: EditRequest) -> str:
    r"""Return a new text as it can take the place of the old one.

    The repeated heading and front matter go, headings get the level of their section, formulas the document's dollars;
    a lost footnote label, table caption or the fences around a div come back. The model's metadata becomes a comment.

    >>> restored("Mind \\(x\\).\n", EditRequest("::: {.note}\nMind $x$!\n:::\n"))
    '::: {.note}\nMind $x$.\n:::\n'
    """
    old, text = request.old.replace("\r\n", "\n"), new
    if text.lstrip().startswith("---"):  # a front matter that repeats the author's
        first, *rest = parse_markdown_text(text.lstrip())
        values = first.values() if isinstance(first, HeaderBlock) else {}
        repeats = values and rest and all(request.header.get(key) == value for key, value in values.items())
        text = serialize(rest) if repeats else text
    text = without_heading(text, request.heading.title if request.heading else "")
    text = _with_levels(text, old, request.heading)
    bare = without(old, "code", "code_block", "comment") if "\\" in old else old
    for pattern, mark, opening in _IN_BACKSLASHES:
        if opening not in bare:
            text = _outside_code(text, pattern, lambda match, mark=mark: f"{mark}{match[1]}{mark}")  # type: ignore[misc]
    if "$" not in bare and ("\\(" in bare or "\\[" in bare):
        text = _with_backslashes(text)
    was, now = (dict.fromkeys(_NOTE.findall(some)) for some in (old, text))
    lost_labels, new_labels = [one for one in was if one not in now], [one for one in now if one not in was]
    if len(lost_labels) == len(new_labels) == 1:  # a footnote with another label
        text = _outside_code(text, re.escape(f"[^{new_labels[0]}]"), lambda match: f"[^{lost_labels[0]}]")
    text = _with_caption(text, old)
    if not asks_for(request.prompt, "div"):
        text = _with_div(text, old)
    return without_marks(text, old)


def without_marks(text: str, old: str = "") -> str:
    """Close what a text leaves open, and disarm metadata and marks of ours in it, unless the author wrote them so."""
    text = closed(text)
    if "---" in text:
        blocks = parse_markdown_text(text)
        for i, block in enumerate(blocks):
            if isinstance(block, MetadataBlock | ErrorBlock) and block.content not in old:
                lines = MetadataBlock(block.source, block.line).body.replace("-->", "--\\>").rstrip("\n")
                blocks[i] = TextBlock(f"{MODELS_METADATA}\n{lines}\n-->\n\n", block.line)
        text = closed(serialize(blocks))
    if "<!-- lmm:" not in text:
        return text
    # After accepting, these marks would belong to no edit.
    return serialize([block for block in parse_markdown_text(text) if not is_mark(block)])


def is_mark(block: Block) -> bool:
    """Return whether a block is one of our comments about edits."""
    return "<!-- lmm:" in block.source and block.content.startswith(MARKS) and len(block.content.split()) == 4


def _with_levels(text: str, old: str, heading: HeadingBlock | None) -> str:
    """Move all headings by as many levels as puts them under the section's, or to the levels that they had."""
    blocks = parse_markdown_text(text)
    levels = [block.level for block in blocks if isinstance(block, HeadingBlock)]
    before = [block.level for block in parse_markdown_text(old) if isinstance(block, HeadingBlock)]
    if not levels:
        return text
    shifts = {was - now for was, now in zip(before, levels, strict=False)}
    shift = next(iter(shifts)) if len(before) == len(levels) and len(shifts) == 1 else 0
    # Titles of tabs may be as high as the section that they are in.
    if heading is not None and not shift and min(levels) <= heading.level < min(before, default=7):
        shift = heading.level + 1 - min(levels)
    if not shift or max(levels) + shift > 6:
        return text
    return serialize(
        b.with_source(b.source.replace("#" * b.level, "#" * (b.level + shift), 1)) if isinstance(b, HeadingBlock) else b
        for b in blocks
    )


def _outside_code(text: str, pattern: str, new: Callable[[re.Match[str]], str]) -> str:
    """Replace matches of a pattern that are not in code, comments or formulas."""
    inside = _within(text, "code", "code_block", "comment", "math")
    return re.sub(pattern, lambda match: match[0] if inside(match.start()) else new(match), text, flags=re.DOTALL)


def _with_backslashes(text: str) -> str:
    def written(span: Span) -> str | None:
        opening, closing = ("\\[", "\\]") if text.startswith("$$", span.start) else ("\\(", "\\)")
        return f"{opening}{span.text}{closing}" if span.kind == "math" and text[span.start] == "$" else None

    return replace_spans(text, written)


def _within(text: str, *kinds: str) -> Callable[[int], bool]:
    """Return a function that tells whether an offset is within a span of these kinds."""
    found = [span for span in spans(text, in_list=True) if span.kind in kinds]
    starts, ends = [span.start for span in found], [0, *accumulate((span.end for span in found), max)]
    return lambda at: at < ends[bisect_right(starts, at)]


def _with_caption(text: str, old: str) -> str:
    """Put a table's caption, or its id, back, if there is one table with a caption, and one without."""
    was, now = parse_markdown_text(old), parse_markdown_text(text)
    tables, captions = ([b for b in was if _is(b, kind)] for kind in ("table", "caption"))
    new_tables = [i for i, block in enumerate(now) if _is(block, "table")]
    written = [i for i, block in enumerate(now) if _is(block, "caption")]
    if not len(tables) == len(captions) == len(new_tables) == 1:
        return text
    caption = captions[0].content
    if not written:
        above = was.index(captions[0]) < was.index(tables[0])
        return serialize(insert_blocks(now, new_tables[0] + (not above), [TextBlock.make(caption)]))
    group = re.search(r"[ \t]*\{#[^{}\n]*\}\s*\Z", caption)
    block = now[written[0]]
    if len(written) == 1 and group and "{" not in block.content:
        now[written[0]] = block.with_source(block.content + group[0].rstrip() + block.trailing)
    return serialize(now)


def _is(block: Block, kind: str) -> bool:
    return isinstance(block, TextBlock) and kind_of(block.source) == kind


def _with_div(text: str, old: str) -> str:
    """Put the fences of a div back around the text, if the old text was one div, and the new one has one less."""
    lines, now = (texts_of(parse_markdown_text(some)) for some in (old.strip(), text))
    divs = div_ends(lines)
    first, _, rest = old.strip().partition("\n")
    if divs.get(0) != len(lines) - 1 or len(div_ends(now)) != len(divs) - 1 or first.strip() in text:
        return text
    return f"{first}\n{text.strip(chr(10))}\n{rest.rpartition(chr(10))[2]}\n"


# -- what is open --------------------------------------------------------------------------------------


def closed(text: str) -> str:
    """Close constructs left open in `text`, which would swallow the end mark; remove fences that close other divs.

    >>> closed("::: {.note}\\nA leaf.\\n"), closed("A leaf.\\n\\n:::\\n")
    ('::: {.note}\\nA leaf.\\n:::\\n', 'A leaf.\\n\\n')
    """
    opened = unclosed_construct(text)
    if opened is not None:
        text = text.rstrip("\n") + "\n" + ("-->" if opened[1] == "<!--" else opened[1])
    if leaves_comment_open(text):
        text = text.rstrip("\n") + "\n-->"
    if ":::" not in text:
        return text
    depth, at, lines, inside = 0, 0, list[str](), _within(text, "code_block", "comment", "math")
    for line in text.split("\n"):
        fence = None if inside(at) else _DIV_LINE.match(line)
        at += len(line) + 1
        if fence is not None and not fence[2] and not depth:
            continue
        depth += 0 if fence is None else 1 if fence[2] else -1
        lines.append(line)
    return "\n".join(lines).rstrip("\n") + "\n:::" * depth + "\n" if depth else "\n".join(lines)


def as_metadata(block: Block) -> Block:
    """Turn a comment with the model's metadata back into the metadata block that the model wrote."""
    if not block.content.startswith(MODELS_METADATA):
        return block
    body = block.content.removeprefix(MODELS_METADATA).removesuffix("-->").replace("--\\>", "-->")
    return TextBlock.make(f"---{body}---", newline=block.newline, line=block.line)
