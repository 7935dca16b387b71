"""Markdown of other programs as its readers see it, before a document is cut into sections and chunks.

Obsidian's links and comments, Hugo's and Jekyll's tags, MkDocs' tabs and admonitions, Docusaurus' imports, superscripts
and other HTML within sentences, embedded pictures. Every line stays where it is, so that places in the text are those
in the author's file, which is not changed.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from lmm.markdown import spans
from lmm.markdown.blocks import HeaderBlock, MetadataBlock
from lmm.markdown.comments import percent_comments
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.notebook.text_types import titled_type
from lmm.type_names import DEFAULT

# A text without any of these is as its readers see it.
_SPECIAL = re.compile(
    r"<[A-Za-z]|&#?\w+;|%%|==|\[\[|\{:|\{%|\{\{|^(?:!!!|\?\?\?|\+\+\+|=== |import |export )|8<-|data:|\[!|:::"
    r"|[ \t]\^\w|^\^\w|\^\^\w|^<<<|^% |#\+|@include|\+\+\w|:\w+-[\w-]+:|\w:: |\(\(|:LOGBOOK:|\{[+=>~-]{2}|\{ \."
    r"|^\[_?(?:toc|TOC)",
    re.MULTILINE,
)
_DATA = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w=-]+)*(?:;base64,[A-Za-z0-9+/=%]{40,}|,[^\s\"')>]{40,})", re.IGNORECASE
)
Match = re.Match[str]
Show = Callable[[Match], str]
_MASKED = re.compile("\ue000(\\d+)\ue001")
_PROTECTED = ("code", "code_block", "math")
SNIPPET_MARK = r"^[ \t>]*-+8<-+"
"""The beginning of a line with which MkDocs includes a file."""
_NAMED_TAGS = "title|name|label|summary|tabName|header"


@functools.lru_cache(maxsize=2)
def as_shown(text: str) -> str:
    """Return a document with the markup of other programs as readers see it; it has the same lines. Cached for the last
    ones, because several functions ask.

    >>> as_shown("It holds 10<sup>6</sup> of [[Cells|the cells]] &amp; %% why? %% `x<sup>2</sup>`.")
    'It holds 10^6^ of the cells &  `x<sup>2</sup>`.'
    >>> as_shown('=== "Linux"\\n\\n    Use apt.\\n')
    '**Linux**\\n\\nUse apt.\\n'
    """
    if not _SPECIAL.search(text) or _MASKED.search(text):
        return text
    parts, is_first = list[str](), True
    every = parse_markdown_text(text)
    for is_metadata, blocks in groupby(every, lambda block: isinstance(block, HeaderBlock | MetadataBlock)):
        source = "".join(block.source for block in blocks)
        parts.append(source if is_metadata else _shown(source, after_header=is_first and bool(parts)))
        is_first = is_first and is_metadata
    return "".join(parts)


def _shown(text: str, *, after_header: bool) -> str:
    if after_header:
        front = r"\A\s*\+\+\+[ \t]*\n.*?\n\+\+\+[ \t]*$"
        text = re.sub(front, lambda m: "\n" * m[0].count("\n"), text, count=1, flags=re.DOTALL | re.MULTILINE)
    text = _DATA.sub(r"data:\g<type>;base64,…", "\n".join(_opened(_opened(_as_divs(text.split("\n"))))))
    if "\n% " in text and _MYST.search(text):
        text = re.sub(r"^(?:% [^\n]*|\+\+\+(?: \{[^\n]*)?)$", "", text, flags=re.MULTILINE)
    for start, end in reversed([*percent_comments(text)]):
        text = text[:start] + "\n" * text.count("\n", start, end) + text[end:]
    masked = list[str]()

    def restored(part: str) -> str:
        while _MASKED.search(part):
            part = _MASKED.sub(lambda match: masked[int(match[1])], part)
        return part

    at, pieces = 0, list[str]()
    for span in spans(text, in_list=True):
        if span.kind in _PROTECTED and span.start >= at:
            masked.append(text[span.start : span.end])
            pieces += [text[at : span.start], f"\ue000{len(masked) - 1}\ue001"]
            at = span.end
    text = _without_elements("".join([*pieces, text[at:]]), restored)
    if values := {each["name"]: each["number"] or each["words"] or "" for each in _VALUE.finditer(text)}:
        # A page of MDX with the constants that it defines itself put in.
        text = re.sub(r"(?<![\\{\w])\{ *(\w+) *\}", lambda match: values.get(match[1], match[0]), text)
    for literal, pattern, show in _RULES:
        if literal in text:
            text = pattern.sub(functools.partial(_with_lines, show, restored), text)
    return restored(text)


_MYST = re.compile(r"^(?:`{3,}|:{3,})\{[a-z-]+\}|\{[a-z:-]+\}`[^`\n]+`", re.MULTILINE)
_VALUE = re.compile(
    r"^export const (?P<name>\w+) *= *(?:(?P<number>-?[\d.]+)|(?P<quote>['\"])(?P<words>[^'\"\n]*)(?P=quote)) *;? *$",
    re.MULTILINE,
)


def _with_lines(show: Show, restored: Callable[[str], str], match: Match) -> str:
    """Return what is shown instead of a match, with as many lines."""
    shown = show(match)
    return shown + "\n" * (restored(match[0]).count("\n") - restored(shown).count("\n"))


_ELEMENT = re.compile(
    r"<(?:(?P<tag>style|script|svg|template|noscript)\b[^<>]*(?<!/)>|(?P<hidden>[a-z]\w*)\b[^<>]*?\s(?:hidden(?=[\s=>])|"
    r"style=[\"'][^\"'<>]*display:\s*none)[^<>]*(?<!/)>)",
    re.IGNORECASE,
)


def _without_elements(text: str, restored: Callable[[str], str]) -> str:
    """Return a text without styles, scripts, drawings and hidden elements, with as many lines."""
    lower, at, kept, unclosed = text.lower(), 0, list[str](), set[str]()
    for opening in _ELEMENT.finditer(text):
        name = (opening["tag"] or opening["hidden"]).lower()
        if opening.start() < at or name in unclosed or name in ("input", "img", "br", "hr"):
            continue
        if (end := lower.find(f"</{name}>", opening.end())) < 0:
            unclosed.add(name)
            continue
        end += len(name) + 3
        kept += [text[at : opening.start()], "\n" * restored(text[opening.start() : end]).count("\n")]
        at = end
    return "".join([*kept, text[at:]])


# -- indented blocks -------------------------------------------------------------------------------

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_OPENER = re.compile(
    r"(?P<indent>[ \t>]*)(?:(?:!!!|\?\?\?\+?)[ \t]+(?P<kind>[\w-]+)[^\"\n]*(?:\"(?P<title>[^\"\n]*)\")?"
    r"|===!?\+?[ \t]+\"(?P<tab>[^\"\n]+)\")[ \t]*\r?\Z"
)


_TAG = re.compile(  # of Hugo, of Liquid (Jekyll, GitBook, Hexo), of MDX
    r"\{\{[<%]\s*(?P<ends>/\s*)?(?P<name>[\w-]+)(?P<rest>[^{}\n]*)[%>]\}\}|\{%-?\s*(?P<last>end)?(?P<tag>\w[\w-]*?)(?P<values>(?![\w-])[^{}\n]*)%\}"
    r"|<(?P<closes>/)?(?P<element>[A-Z]\w*)(?P<attributes>[^<>\n]*)(?<!/)>"
)
_TAG_VALUE = re.compile(r"(?:(\w+)=)?(?:\"([^\"]*)\"|'([^']*)')")


def _as_divs(lines: list[str]) -> list[str]:
    """Return lines with a fenced div for each pair of tags with a title, on lines of their own."""
    shown, opened, fence = lines, dict[str, list[tuple[int, str]]](), ""
    for at, line in enumerate(lines):
        bare = line.strip()
        if mark := _FENCE.match(line) if bare[:1] in ("`", "~") else None:
            fence = ("" if mark[1].startswith(fence) else fence) if fence else mark[1]
        if fence or bare[:1] not in ("{", "<") or _TAG.sub("", bare).strip():
            continue
        for tag in _TAG.finditer(bare):
            name = tag["name"] or tag["tag"] or tag["element"]
            if not (tag["ends"] or tag["last"] or tag["closes"]):
                values = tag["rest"] or tag["values"] or tag["attributes"] or ""
                opened.setdefault(name, []).append((at, _title_of(name, values)))
            elif opened.get(name):
                start, title = opened[name].pop()
                above = shown[start - 1].strip() if start else ""
                if above and not above.startswith(("{%", ":::")) and not title.startswith("```"):
                    continue  # a div begins no paragraph's second line
                if title and shown[start] is lines[start] and shown[at] is lines[at] and start < at:
                    shown = [*lines] if shown is lines else shown
                    indent = line[: len(line) - len(line.lstrip())]
                    shown[start] = indent + (title if title.startswith("```") else f'::: {{.{name} title="{title}"}}')
                    shown[at] = indent + ("```" if title.startswith("```") else ":::")
    return shown


def _title_of(name: str, values: str) -> str:
    """Return the title of what a tag opens: what it is given first, or its name, if that is one of a solution; the
    fence of code for tags around that."""
    if name in ("highlight", "codeblock"):
        return "```" + "".join(values.replace("lang:", "").split()[:1])
    found = _TAG_VALUE.findall(values) if name != "tabs" else ()
    named = {key: one or other for key, one, other in reversed(found)}
    keys = (*_NAMED_TAGS.split("|"), "text", "", *(("value",) if name == "TabItem" else ()))
    title = next((named[key] for key in keys if named.get(key)), "")
    return (title or (name if titled_type(name, DEFAULT.all) else "")).replace('"', "'")


def _opened(lines: Iterable[str]) -> Iterator[str]:
    """Iterate over lines with MkDocs' admonitions as quotes and its tabs under their names, without indentation."""
    outer: str | None = None  # the indentation of the opening line, in a block
    waiting, fence, quote = 0, "", ""
    for line in lines:
        if outer is not None:
            if not line.strip(" \t\r>"):
                waiting += 1
                continue
            inner = re.match(rf"{outer}(?:    |\t)", line)
            yield from [outer + quote.rstrip() if inner else ""] * waiting
            waiting = 0
            if inner:
                yield outer + quote + line[inner.end() :]
                continue
            outer = None
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if opener := None if fence else _OPENER.match(line):
            outer, quote = opener["indent"], "" if opener["tab"] else "> "
            named = f": {opener['title']}" if opener["title"] else ""
            line = f"{outer}{quote}**{opener['tab'] or opener['kind'].capitalize() + named}**"
        yield line
    yield from [""] * waiting


# -- marks within lines ----------------------------------------------------------------------------


def _script(mark: str) -> Callable[[Match], str]:
    """Return a function that shows an element as Pandoc's superscript or subscript."""

    def show(match: Match) -> str:
        inner = re.sub(r"<[^<>]*>", "", match["inner"]).strip().strip(mark)
        return mark + "\\ ".join(inner.split()) + mark if inner else ""

    return show


def _character(match: Match) -> str:
    """Return the character of an entity, escaped if it means something in markdown."""
    shown = html.unescape(match[0])
    if shown == match[0] or shown in "\u00ad\u200b":
        return match[0] if shown == match[0] else ""
    return f"\\{shown}" if shown in "<>*_`$|~^[]\\#" else shown


def _wiki_link(match: Match) -> str:
    target, _, name = match["target"].replace("\\|", "|").partition("|")
    if match["embeds"] and re.search(r"\.(?:png|jpe?g|gif|svg|webp|bmp|avif)\Z", target.strip(), re.IGNORECASE):
        return f"![{'' if re.fullmatch(r'[0-9x]*', name) else name}](<{target.strip()}>)"
    return name.strip() or " > ".join(filter(None, (part.strip(" ^") for part in target.split("#"))))


def _alert(match: Match) -> str:
    title = match["title"].strip()
    return f"{match['quote']}**{match['kind'].capitalize()}{f': {title}' if title else ''}**"


def _titled_div(match: Match) -> str:
    title = (match["titled"] or match["words"] or match["title"] or "").replace('"', "'").replace("**", "").strip()
    return f"{match['fence']} {{.{match['kind'] or match['directive']}" + (f' title="{title}"}}' if title else "}")


def _shortcode(match: Match) -> str:
    """Return a picture for Hugo's figure, the title of a shortcode with content, and other shortcodes as written."""
    values = dict(re.findall(r"(\w+)=[\"']([^\"']*)[\"']", match["rest"]))
    if match["name"] == "figure" and values.get("src"):
        return f"![{values.get('caption') or values.get('title') or values.get('alt', '')}](<{values['src']}>)"
    if match["name"] in ("ref", "relref"):
        return match["rest"].strip(" \"'")
    if match["name"] not in _closed(match.string) and not match["open"].endswith("%"):
        return match[0]
    return _bold(_title_of(match["name"], match["rest"]))


def _labelled(match: Match) -> str:
    after = match.string[match.end() : match.end() + 1]
    return f"**{match['label']}**{' ' * bool(after.strip())}"


def _bold(title: str) -> str:
    return f"**{title}** " if title and not title.startswith("```") else ""


@functools.lru_cache(maxsize=4)
def _closed(text: str) -> frozenset[str]:
    """Return the names of the tags that a text closes."""
    names = re.findall(r"\{(?:\{[<%]\s*/\s*|%-?\s*end)([\w-]+)", text)
    return frozenset(names)


_SETTINGS = {
    *("else", "elsif", "when", "assign", "increment", "cycle", "break", "raw", "more", "toc", "step", "if", "for")
}


def _liquid(match: Match) -> str:
    """Return the title of a tag with content, the target of a link, a picture, and other tags as written: what they
    insert is not known."""
    name, rest = match["name"], match["rest"].strip()
    if name in ("link", "post_url", "post_link"):
        return _title_of(name, rest) or rest
    if name == "asset_img":
        return f"![{_title_of(name, rest)}](<{rest.split()[0]}>)" if rest else ""
    if name.startswith("end") or name in _SETTINGS or name in _closed(match.string):
        return _bold(_title_of(name, rest))
    return match[0]


def _criticism(match: Match) -> str:
    """Return what is shown of CriticMarkup: additions and marked words, and deletions struck out."""
    gone = match["gone"] or match["old"]
    return (f"~~{gone}~~ " if match["old"] else f"~~{gone}~~" if gone else "") + (
        match["added"] or match["marked"] or match["new"] or ""
    )


def _snippets(match: Match) -> str:
    """Return a list of files that MkDocs includes, each in the form of a single one."""
    files = (line.strip() for line in match["files"].split("\n"))
    return "\n".join(["", *(f'--8<-- "{file}"' if file and file[0] not in "!;" else "" for file in files)])


def _rule(literal: str, pattern: str, show: Show | str = "", flags: int = 0) -> _Rule:
    """Return a rule: what each match contains literally, the pattern of what is replaced, what is shown instead."""
    shown = show if callable(show) else lambda match: match.expand(show)
    return literal, re.compile(pattern, re.MULTILINE | flags), shown


_Rule = tuple[str, re.Pattern[str], Show]
_I, _S = re.IGNORECASE, re.DOTALL
_RULES: tuple[_Rule, ...] = (
    _rule(
        "{",
        r"\{%-?\s*comment\b.{0,5000}?\{%-?\s*endcomment\s*-?%\}|\{::comment\}.{0,5000}?\{:/(?:comment)?\}"
        r"|\{\{/\*.{0,5000}?\*/\}\}|\{::\w+[^{}\n]*/\}",
        "",
        _S,
    ),
    _rule(
        "",
        r"^import\s*(?:\w+\s*,\s*)?\{[^{}'\"]{0,2000}\}\s*from\s*['\"][^'\"\n]+['\"];?[ \t]*$"
        r"|^export (?:const|let|default|function)\b[^\n]*[({\[,=>][ \t]*(?:\n[^\n]+){1,200}?\n[)}\]]+;?[ \t]*$"
        r"|^(?:import\b[^\n]*?['\"][^'\"\n]+['\"];?|export (?:const|let|default|function)\b[^\n]*)[ \t]*$"
        r"|\{/\*[^{}]{0,2000}?\*/\}",
        "",
        _S,
    ),
    _rule(
        ":: ", r"^[ \t]*(?:-[ ])?(?:(?:id|collapsed|background-color|card-[\w-]+|heading|logseq\.[\w.-]+)::[ ]+[^\n]*)$"
    ),
    _rule(":LOGBOOK:", r"^[ \t]*:LOGBOOK:[ \t]*\n(?:[^\n]*\n){0,200}?[ \t]*:END:[ \t]*$"),
    _rule("{{", r"\{\{(?:embed|query|renderer)\b[^{}\n]*\}\}"),
    _rule("((", r"\(\([0-9a-f]{8}-[0-9a-f-]{27}\)\)"),
    _rule(
        "{",
        r"\{\+\+(?P<added>[^{}]{0,2000}?)\+\+\}|\{==(?P<marked>[^{}]{0,2000}?)==\}|\{>>[^{}]{0,2000}?<<\}"
        r"|\{--(?P<gone>[^{}]{0,2000}?)--\}|\{~~(?P<old>[^{}]{0,2000}?)~>(?P<new>[^{}]{0,2000}?)~~\}",
        _criticism,
    ),
    _rule("{ .", r"^[ \t]*\{ \.[^{}\n]*\}[ \t]*$"),
    _rule("[", r"^[ \t]*(?:\[\[_?toc_?\]\]|\[_?toc_?\])[ \t]*$", "", _I),
    _rule("8<-", rf"{SNIPPET_MARK}[ \t]*\[(?:start|end):[^\]\n]*\][^\n]*$"),
    _rule(
        "8<-",
        rf"{SNIPPET_MARK}[ \t]*\n(?P<files>(?:[ \t]*[^\s-][^\n]*\n|[ \t]*\n){{1,50}}?)[ \t]*-+8<-+[ \t]*$",
        _snippets,
    ),
    _rule("{{", r"(?P<open>\{\{[<%])\s*(?P<name>[\w-]+)(?P<rest>[^{}]*?)[>%]\}\}", _shortcode),
    _rule("{{", r"\{\{[<%]\s*/[^{}]*[>%]\}\}"),
    _rule("{%", r"\{%-?\s*include\S*\s+\S*(?:toc|nav|head|foot)[^{}]*?-?%\}"),
    _rule("{%", r"\{%-?\s*(?P<name>\w[\w-]*)(?P<rest>[^{}]*?)-?%\}", _liquid),
    _rule(
        "{:",
        r"^[ \t]*[*-][ ]\S[^\n]*\n\{:toc\}"
        r"|(?<![ \t])[ \t]*\{:(?=[\s.#\w])(?![^{}\n]*\.(?:sol|ans))[^{}\n]*\}|\{:/?:?nomarkdown[^{}]*\}|\{:/\}",
    ),
    _rule(
        "[[",
        r"(?P<embeds>!?)(?<![A-Za-z0-9_\])])\[\[(?P<target>(?!(?!\d{8,}\])[\d\s,.]+\]|[\"'])[^\[\]\n]+)\]\](?!\()",
        _wiki_link,
    ),
    _rule("==", r"(?<![=A-Za-z0-9])==(?=[^\s=])(?P<inner>[^=\n]*[^\s=])==(?![=A-Za-z0-9])", r"\g<inner>"),
    _rule("[!", r"^(?P<quote>[ \t]*(?:>[ ]?)+)\[!(?P<kind>[\w-]+)\][+-]?(?P<title>[^\n]*)", _alert),
    _rule(
        ":::",
        r"^(?P<fence>[ \t]*:{3,})[ \t]*(?:(?P<kind>[a-z]+)"
        r"(?:\[(?P<titled>[^\]\n]*)\]|[ \t]+(?P<words>[^\s:{][^:{\n]*))(?:\{[^{}\n]*\})?"
        r"|\{(?P<directive>admonition|attention|caution|danger|error|hint|important|note|seealso|tip|warning)\}"
        r"[ \t]*(?P<title>[^{}\n]*))[ \t]*$",
        _titled_div,
    ),
    _rule("^", r"(?:^|[ \t])\^(?=[\w-]*[a-z])[\w-]+[ \t]*$"),
    _rule("^^", r"\^\^(?=[^\s^])(?P<inner>[^^\n]*[^\s^])\^\^", r"\g<inner>"),
    _rule("{{cloze", r"\{\{cloze (?P<inner>[^{}\n]*)\}\}", r"\g<inner>"),
    _rule("#+", r"^[ \t]*(?:-[ ])?#\+(?:BEGIN|END)_(?!SRC|EXAMPLE)\w+[ \t]*$", "", _I),
    _rule("@include", r"<!--\s*@include:\s*(?P<file>[^\s<>]+)\s*-->", r"{{#include \g<file>}}"),
    _rule("<<<", r"^<<<[ \t]+(?:@/)?(?P<file>[^\s{}]+)[^\n]*$", r"{{#include \g<file>}}"),
    _rule("++", r"\+\+(?P<keys>\w+(?:\+\w+)*)\+\+", r"\g<keys>"),
    _rule(":", r":(?:material|fontawesome|octicons|simple)-[\w-]+:(?:\{[ ]*\.[^{}\n]*\})?[ ]?"),
    _rule("<", rf"<[A-Z]\w*\b[^<>]*?\s(?:{_NAMED_TAGS})=[\"'](?P<label>[^\"'<>]+)[\"'][^<>]*>", _labelled),
    _rule("<", r"<sup\b[^<>]*>(?P<inner>.{0,2000}?)</sup\s*>", _script("^"), _I | _S),
    _rule("<", r"<sub\b[^<>]*>(?P<inner>.{0,2000}?)</sub\s*>", _script("~"), _I | _S),
    _rule("<", r"<(?P<tag>del|s|strike)>\s*(?P<inner>.{0,2000}?)\s*</(?P=tag)\s*>", r"~~\g<inner>~~", _I | _S),
    _rule("<", r"</?(?:ins|u|mark|ruby|rb|rtc)(?:\s[^<>]*)?>", "", _I),
    _rule("<", r"<rp>.{0,20}?</rp>", "", _I | _S),
    _rule("<", r"<rt[^<>]*>\s*(?P<inner>.{0,2000}?)\s*</rt\s*>", r"(\g<inner>)", _I | _S),
    _rule(
        "<",
        r"<input\b(?![^<>]*\btype=[\"']?(?:hidden|submit|button|checkbox|radio))[^<>]*?\svalue=[\"'](?P<inner>[^\"'>]*)[\"'][^<>]*>",
        r"\g<inner>",
        _I,
    ),
    _rule("data:", r"!?\[(?P<inner>[^\[\]\n]*)\]\(<?data:[^()\s]*>?(?:[ ]\"[^\"\n]*\")?\)", r"\g<inner>"),
    _rule(
        "<",
        r"<img\b(?=[^<>]*\ssrc=[\"']?data:)(?:[^<>]*?\salt=[\"'](?P<inner>[^\"'>]*)[\"'])?[^<>]*>",
        lambda m: m["inner"] or "",
        _I,
    ),
    _rule("&", r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});", _character),
)
