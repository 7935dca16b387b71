"""A text as the reader of the rendered document sees it.

Pandoc, knitr, Quarto, bookdown, MyST and mdBook put something else in the place of what the author writes: a number for
a reference, a name and a year for a citation, a picture and a caption for code that draws, nothing for an entry of the
index. Here too, for the text that is embedded, shown and given to models; the author's file stays as it is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from lmm.books.chapters import NO_BOOK, BookChapter
from lmm.books.code_cells import CodeCell, code_apart, read_cell

# Without any of these, a text is read as it is written; code in a sentence needs no look.
_SPECIAL = re.compile(r"[@<{\\]|`r[ ]|-->|!\[|^\(ref:|\)=[ \t]*$|\[\]\(", re.MULTILINE)
_SPECIAL_BLOCK = re.compile(r"```|~~~|:::|^!!!|^\?\?\?", re.MULTILINE)


def as_read(text: str, chapter: BookChapter = NO_BOOK) -> str:
    """The text as readers see it; what is not known is left as it is written.

    >>> chapter = BookChapter(labels={"fig-leaf": "Figure 2.1"}, citations={"darwin": ("Darwin", "1859")})
    >>> as_read("See @fig-leaf\\\\index{leaf} and [@darwin, p. 3], not @Unknown.", chapter)
    'See Figure 2.1 and (Darwin 1859, p. 3), not @Unknown.'
    >>> as_read("```{r, echo=FALSE}\\nknitr::include_graphics('leaf.png')\\n```")
    '![](leaf.png)'
    """
    if not (_SPECIAL.search(text) or _SPECIAL_BLOCK.search(text)):
        return text
    shown = "".join(_code(piece, chapter) if is_code else _prose(piece, chapter) for is_code, piece in _open(text))
    if ":::" in shown or "!!!" in shown or "???" in shown:
        shown = _divs(shown, chapter)
    return shown if shown == text else re.sub(r"\n{3,}", "\n\n", shown).strip("\n")


def _open(text: str) -> Iterator[tuple[bool, str]]:
    """The pieces of a text, code apart, without those that are in a comment."""
    hidden = False
    for is_code, whole in code_apart(text):
        if hidden and "-->" not in whole:
            continue
        piece = whole.partition("-->")[2] if hidden else whole
        hidden, is_fence = False, is_code and not hidden
        hidden = not is_fence and piece.rfind("<!--") > piece.rfind("-->")
        yield is_fence, piece


# -- code ------------------------------------------------------------------------------------------

_GRAPHICS = re.compile(r"""include_graphics\(\s*(?:path\s*=\s*)?(c\()?((?:[^()"']|"[^"\n]*"|'[^'\n]*')*)\)""")
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")
_ATTRIBUTED = re.compile(r"(?P<fence>[ \t]*(?:`{3,}|~{3,}))[ \t]*\{(?P<attributes>[.#=][^{}\n]*)\}")
_CLASS = re.compile(r"\.([\w+#-]+)")
_VALUE = re.compile(r"""([\w-]+)=(?:"([^"]*)"|'([^']*)'|([^\s"'{}]+))""")
_LANGUAGES = {"code-cell": "python", "ipython3": "python", "ojs": "js"}
_TEXT_ENGINES = ("asis", "block", "block2")
_ADMONITIONS = ("note", "tip", "warning", "important", "caution", "hint", "attention", "danger", "error", "seealso")
_NO_TEXT = ("tableofcontents", "toctree", "bibliography", "include")


def _code(piece: str, chapter: BookChapter) -> str:
    """What fenced code is to a reader: itself, what it showed when it was run, its picture, or nothing."""
    end = "\n" if piece.endswith("\n") else ""
    cell = read_cell(piece.rstrip("\n"))
    if cell is None:
        return _attributed(piece, chapter)
    indent = piece[: len(piece) - len(piece.lstrip(" \t"))]
    shown = _cell(cell, chapter)
    lines = (f"{indent}{line}".rstrip(" \t") for line in shown.split("\n"))
    return "\n" + "\n".join(lines) + f"{end}{end}" if shown else ""


def _cell(cell: CodeCell, chapter: BookChapter) -> str:
    name = cell.language.partition(" ")[0].lower()
    if cell.options.get("include") is False or name in _NO_TEXT:
        return ""
    if "child" in cell.options:
        return "\n\n".join(filter(None, (_document(name, chapter) for name in _names(cell.options["child"]))))
    if name in _TEXT_ENGINES:
        return as_read(cell.code, chapter)
    if name in _THEOREMS:
        title = str(cell.options.get("name", "")).replace('"', "'")
        return _div(f'{{.{name} #{cell.label} name="{title}"}}', as_read(cell.code, chapter), chapter)
    if name in _ADMONITIONS or name == "admonition":
        return _quoted(_word(chapter, "nte" if name == "admonition" else name), cell.label, as_read(cell.code, chapter))
    if name == "math":
        return f"$$\n{cell.code}\n$$"
    if name == "figure":
        return _picture(_prose(cell.code.strip(), chapter), cell.label)
    ran = chapter.cells.get(cell.label or cell.code, chapter.cells.get(cell.code))
    echo = chapter.echo if "echo" not in cell.options else cell.options["echo"] not in (False, "0")
    if ran is not None and "![" in ran:
        return _ran(ran, chapter)
    code = f"```{_LANGUAGES.get(name, name)}\n{cell.code}\n```" if echo and cell.code else ""
    pictures = list(chapter.pictures.get(cell.label, ())) or _included(cell, chapter)
    parts = [code if ran is None else _ran(ran, chapter), *_captioned(cell, pictures, chapter)]
    return "\n\n".join(filter(None, parts))


def _names(child: object) -> list[str]:
    """The documents that a cell includes: a list in YAML, R's ``c("a", "b")``, or one."""
    if isinstance(child, list):
        return [str(name) for name in child]
    return _QUOTED.findall(str(child)) or [str(child)]


def _document(name: str, chapter: BookChapter) -> str:
    """A document that is included, as readers see it; what includes itself is left out there."""
    without = {each: text for each, text in chapter.included.items() if each != name}
    return as_read(chapter.included.get(name, ""), replace(chapter, included=without)).strip("\n")


def _ran(shown: str, chapter: BookChapter) -> str:
    return "".join(
        _attributed(each, chapter) if is_code else _prose(each, chapter) for is_code, each in code_apart(shown)
    )


def _included(cell: CodeCell, chapter: BookChapter) -> list[str]:
    """The pictures that code includes, by their paths from the document."""
    found = ((_QUOTED.findall(match[2]), bool(match[1])) for match in _GRAPHICS.finditer(cell.code))
    paths = [path for quoted, several in found for path in (quoted if several else quoted[:1])]
    return [path if "://" in path else f"{chapter.up}{path}" for path in paths]


def _captioned(cell: CodeCell, pictures: list[str], chapter: BookChapter) -> list[str]:
    """The pictures of a cell with the caption of its figure, the caption of its table."""
    caption = cell.caption()
    caption = _prose(chapter.labels.get(caption, caption), chapter)  # bookdown's (ref:label) is a text elsewhere
    if caption or pictures:
        caption = _numbered_caption(cell.label, caption, chapter)
    if len(pictures) == 1:
        return [_picture(caption, pictures[0])]
    table = _prose(cell.caption("tbl") or cell.caption("tab") or _kable_caption(cell), chapter)
    of_table = _numbered_caption(cell.table_label or cell.label, table, chapter) if table else ""
    return [*(_picture("", path) for path in pictures), caption, of_table if of_table != caption else ""]


_KABLE_CAPTION = re.compile(r"""\bcaption\s*=\s*(?:paste0?\(\s*)?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")


def _kable_caption(cell: CodeCell) -> str:
    found = _KABLE_CAPTION.search(cell.code)
    return re.sub(r"\\(.)", r"\1", found[1][1:-1]) if found else ""


def _numbered_caption(label: str, caption: str, chapter: BookChapter) -> str:
    """A caption with the word and number that the label has."""
    name = next(
        (chapter.labels[key] for key in (label, f"fig:{label}", f"tab:{label}") if label and key in chapter.labels), ""
    )
    if not re.search(r"\d", name):
        return caption
    kind = "tab" if f"tab:{label}" in chapter.labels else "fig"
    name = name if " " in name else f"{_word(chapter, kind)} {name}"
    return f"{name}: {caption}" if caption else name


def _picture(caption: str, path: str) -> str:
    return f"![{caption}]({f'<{path}>' if ' ' in path else path})"


def _attributed(piece: str, chapter: BookChapter) -> str:
    """Code with Pandoc's attributes: its language, and its name if it is a listing."""
    found = _ATTRIBUTED.match(piece)
    if found is None:
        return _as_in_mdbook(piece, chapter.included) if chapter.book and chapter.book.file == "SUMMARY.md" else piece
    attributes = found["attributes"]
    if attributes.startswith("="):
        return ""
    classes, values = _CLASS.findall(attributes), _values(attributes)
    label = _label_in(attributes)
    caption = _prose(values.get("lst-cap") or values.get("filename") or "", chapter)
    name = _numbered_caption(label, caption, chapter)
    language = next((name for name in classes if name not in ("cell-code", "numberLines")), "")
    return (f"{name}\n\n" if name else "") + found["fence"] + language + piece[found.end() :]


_INCLUDE = re.compile(r"^[ \t]*\{\{#[a-z_]+ [^{}\n]*\}\}[ \t]*\n", re.MULTILINE)
_HIDDEN_LINE = re.compile(r"^[ \t]*#(?:[ ][^\n]*)?\n", re.MULTILINE)


def _as_in_mdbook(piece: str, included: Mapping[str, str]) -> str:
    """Code of an mdBook with what it includes, without lines of Rust that begin with ``#``, which pages do not show."""
    first, _, body = piece.partition("\n")
    shown = body
    if "{{#" in body:
        shown = _INCLUDE.sub(lambda m: f"{found}\n" if (found := included.get(m[0].strip())) else "", body)
    if "rust" in first:
        shown = _HIDDEN_LINE.sub("", shown)
    return "" if shown != body and not shown.replace(first.strip()[:1], "").strip() else f"{first}\n{shown}"


def _label_in(attributes: str) -> str:
    return next((part[1:] for part in attributes.strip("{} ").split() if part.startswith("#")), "")


def _values(attributes: str) -> dict[str, str]:
    return {name: a or b or c for name, a, b, c in _VALUE.findall(attributes)}


# -- prose -----------------------------------------------------------------------------------------

_KEY = r"(?:\{[^{}\n]{1,200}\}|\w(?:[\w:.#$%&+?<>~/-]{0,200}\w)?)"
_ARGUMENT = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]{0,100}\}){0,200}\}){0,200}\}"
# What is bounded here, or taken to the end of the text where nothing closes it, is so that a stranger's text takes no
# time without end.
_SPAN = re.compile(
    rf"""
    (?=[$\\`{{<!\[@(\#:-]|^(?:[ \t]+-->|Table))  # what they begin with; so it is four times as fast
    (?:(?P<display>\$\$.{{1,2000}}?\$\$(?:[ \t]*\{{\#(?P<eq>[\w:.-]+)[^{{}}\n]*\}})?)
    |(?P<tex>\\begin\{{(?P<env>(?:equation|align|gather|multline|eqnarray)\*?)\}}.{{1,2000}}?\\end\{{(?P=env)\}})
    |(?P<formula>(?<![\\$])\$(?![\s$])(?:\\.|[^$\\\n]){{1,500}}?(?<!\s)\$(?!\d))
    |(?P<run>`(?:r|\{{(?:r|python|julia|ojs)\}})[ ](?P<expression>[^`]{{1,1000}})`)
    |(?P<role>\{{(?P<role_name>[\w:-]{{2,20}})\}}`(?P<role_text>[^`\n]{{1,300}})`)
    |(?P<code>(?P<ticks>`+)(?!`).{{1,2000}}?(?<!`)(?P=ticks)(?!`))
    |(?P<comment><!--(?:.*?-->|.*)|^[ \t]*-->[ \t]*$)
    |(?P<script><(?P<script_name>script|style)\b(?:.*?</(?P=script_name)\s*>|.*))
    |\\@ref\((?P<ref>[\w:.\ -]+)\)
    |(?P<index>\\(?:index|label|nocite|vspace|hspace|thispagestyle){_ARGUMENT}
        |\\(?:newpage|clearpage|cleardoublepage|noindent|appendix)\b)
    |(?P<image>!\[(?P<alt>(?:[^\[\]]|\[[^\[\]]{{0,200}}\]){{0,1000}}+)\]\((?P<src>(?:[^()\n]|\([^()\n]{{0,200}}\)){{0,1000}}+)\)
        (?P<attributes>\{{[^{{}}]{{0,500}}\}})?)
    |\[\]\((?P<named>[^()\s]{{1,500}})\)
    |(?P<group>\[[^\[\]]{{0,500}}?(?<!\\)-?@[\w{{][^\[\]]{{0,500}}\](?![(\[:{{]))
    |(?<![\w@./\\])(?P<at>-?@(?P<key>{_KEY})(?:[ ]\[(?P<locator>[^\[\]@]{{1,100}})\](?!\())?)
    |(?P<shortcode>\{{\{{<(?P<call>[^\n]{{0,500}}?)>\}}\}})
    |(?P<inclusion>\{{\{{\#include[ ][^{{}}\n]{{1,500}}\}}\}})
    |\(\\\#(?P<label>[a-z]{{2,4}}:[\w.-]+)\)[ ]?
    |(?P<text_reference>^\(ref:[\w-]+\)[ ][^\n]*)
    |(?P<target>^\([^()\s][^()\n]{{0,200}}\)=[ \t]*$)
    |^(?P<heading>\#{{1,6}}[ \t][^\n]*?)[ \t]*\{{[ \t]*[-.\#][^{{}}\n]*\}}[ \t]*$
    |^(?P<caption>(?:Table)?:[ ]+[^\n]*?)[ \t]*\{{[^{{}}\n]*\#(?P<table>tbl-[\w:.-]+)[^{{}}\n]*\}}[ \t]*$
    |(?P<tag></?(?P<name>[A-Za-z][\w-]*+)(?P<inside>(?:\s++[\w:@-]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'<>=]++))?)*+)\s*+/?>))
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TAGS = frozenset(
    re.findall(
        r"\w+",
        "a abbr address article aside audio b big blockquote br button caption center cite code col colgroup dd del "
        "details dfn div dl dt em embed figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i iframe img input "
        "ins kbd label li main mark nav ol p picture pre q s samp section small source span strong sub summary sup svg "
        "table tbody td tfoot th thead time tr tt u ul var video wbr path g rect circle line text",
    )
)
_INSTEAD = {"br": " ", "td": " | ", "th": " | ", "hr": "\n\n"}
_FOR_HTML = re.compile(
    r"""ifelse\(\s*!?(?:knitr::)?is_(?P<kind>latex|html)_output\(\),"""
    r"""\s*(?P<yes>"[^"]*"|'[^']*'),\s*(?P<no>"[^"]*"|'[^']*')\)"""
)


def _prose(text: str, chapter: BookChapter) -> str:
    if not _SPECIAL.search(text):
        return text
    return _SPAN.sub(lambda match: _SHOWN[match.lastgroup or ""](match, chapter), text)


def _with_values(formula: str, chapter: BookChapter) -> str:
    """A formula in which the values of code are as they were shown, or dots."""
    return re.sub(r"`r ([^`\n]+)`", lambda code: chapter.values.get(code[1].strip(), r"\ldots{}"), formula)


def _nothing(match: re.Match[str], chapter: BookChapter) -> str:
    return ""


def _display(match: re.Match[str], chapter: BookChapter) -> str:
    """A formula with its number at its end, where it has a label."""
    text, label = match[0], match["eq"]
    if label:
        text = text[: text.rindex("$$") + 2]
    if label in chapter.labels:
        numbered = f"{text[:-2].rstrip()} \\qquad ({_number(chapter.labels[label])})"
        text = f"{numbered}\n$$" if "\n" in text else f"{numbered}$$"
    return _EQUATION_LABEL.sub(lambda found: _equation_number(found[1], chapter), _with_values(text, chapter))


_EQUATION_LABEL = re.compile(r"\(\\#(eq:[\w.-]+)\)")


def _equation_number(label: str, chapter: BookChapter) -> str:
    return f"\\qquad ({chapter.labels[label]})" if label in chapter.labels else ""


def _number(label: str) -> str:
    """The number alone: 2.1 of Figure 2.1."""
    return label.rpartition(" ")[2] if re.search(r"\d|[A-Z]$", label) else label


def _run(match: re.Match[str], chapter: BookChapter) -> str:
    """A value in a sentence: as it was shown, what HTML pages get, or a literal; else it is not known."""
    expression = match["expression"].strip()
    if expression in chapter.values:
        return chapter.values[expression]
    choice = _FOR_HTML.fullmatch(expression)
    if choice:
        html = (choice["kind"] == "html") != ("!" in expression[: choice.start("yes")])
        return choice["yes" if html else "no"][1:-1]
    literal = re.fullmatch(r"""(["'])([^"']*)\1|(\d[\d.]*)""", expression)
    return (literal[2] or literal[3] or "") if literal else "…"


def _role(match: re.Match[str], chapter: BookChapter) -> str:
    """A role of MyST: of a reference its text or label, of a formula the formula."""
    name, text = match["role_name"], match["role_text"]
    if name == "math":
        return f"${text}$"
    if name.startswith("cite"):
        keys = [key.strip() for key in text.split(",")]
        return _cited([("", False, key, "") for key in keys], chapter) or match[0]
    titled = re.fullmatch(r"(.*?)\s*<([^<>]*)>", text)
    return titled[1] if titled else chapter.labels.get(text, text)


def _image(match: re.Match[str], chapter: BookChapter) -> str:
    label = _label_in(match["attributes"] or "")
    caption = _numbered_caption(label, _prose(match["alt"], chapter), chapter)
    return f"![{caption}]({match['src']})"


def _named(match: re.Match[str], chapter: BookChapter) -> str:
    """A link without words: in MyST, what it leads to is called by its title."""
    path, _, target = match["named"].partition("#")
    title = chapter.labels.get(target) or chapter.labels.get(posixpath.normpath(path))
    return f"[{title}]({match['named']})" if title else match[0]


_PART = re.compile(rf"(?P<before>[^@]*?)(?P<minus>-?)@(?P<key>{_KEY})(?P<after>[^@]*)", re.DOTALL)


def _group(match: re.Match[str], chapter: BookChapter) -> str:
    parts = [_PART.fullmatch(part.strip()) for part in match[0][1:-1].split(";")]
    found = [(p["before"], bool(p["minus"]), p["key"].strip("{}"), p["after"]) for p in parts if p]
    if len(found) < len(parts):
        return match[0]
    if all(key in chapter.labels for _, _, key, _ in found):
        return ", ".join(f"{before}{_label(key, minus, chapter)}{after}" for before, minus, key, after in found)
    return _cited(found, chapter) or match[0]


def _at(match: re.Match[str], chapter: BookChapter) -> str:
    key, minus = match["key"].strip("{}"), match["at"].startswith("-")
    locator = f" [{match['locator']}]" if match["locator"] else ""
    if label := _label(key, minus, chapter):
        return label + locator
    if key in chapter.citations:
        who, year = chapter.citations[key]
        inside = f"{year}, {match['locator']}" if match["locator"] else year
        return f"({inside})" if minus else f"{who} ({inside})"
    # What follows a key may look like a part of it: "@fig-a/b".
    shorter = re.match(r"[\w-]+", key)
    label = _label(shorter[0], minus, chapter) if shorter and shorter[0] != key else ""
    return label + key[len(shorter[0]) :] + locator if shorter and label else match[0]


def _label(key: str, minus: bool, chapter: BookChapter) -> str:
    """What a reference reads; nothing for what is no label. A label may begin with a capital."""
    name = chapter.labels.get(key) or chapter.labels.get(key[:1].lower() + key[1:], "")
    return _number(name) if minus else name


def _cited(parts: Iterable[tuple[str, bool, str, str]], chapter: BookChapter) -> str:
    """Citations in brackets: ``(see Darwin 1859, p. 3; Mendel 1866)``; nothing if one is not known."""
    shown = []
    for before, minus, key, after in parts:
        if key not in chapter.citations:
            return ""
        who, year = chapter.citations[key]
        shown.append(f"{before}{year if minus else f'{who} {year}'}{after}")
    return f"({'; '.join(shown)})"


def _shortcode(match: re.Match[str], chapter: BookChapter) -> str:
    name, _, rest = match["call"].strip().partition(" ")
    if name == "include" and (path := rest.strip(" \"'")) in chapter.included:
        return _document(path, chapter)
    if name == "video" and rest:
        return f"<{rest.split()[0]}>" if rest.startswith("http") else rest.split()[0]
    return "" if name in ("pagebreak", "lipsum") else match[0]


def _labelled(match: re.Match[str], chapter: BookChapter) -> str:
    """bookdown's label before a caption: the word and the number."""
    label = match["label"]
    if label not in chapter.labels:
        return ""
    kind = label.partition(":")[0]
    return f"({chapter.labels[label]})" if kind == "eq" else f"{_word(chapter, kind)} {chapter.labels[label]}: "


def _table_caption(match: re.Match[str], chapter: BookChapter) -> str:
    text = _prose(re.sub(r"\A(?:Table)?:[ ]+", "", match["caption"]), chapter)
    return _numbered_caption(match["table"], text, chapter)


def _tag(match: re.Match[str], chapter: BookChapter) -> str:
    """HTML, of which readers see the text and the pictures."""
    name, values = match["name"], _values(match["inside"].replace("\n", " "))
    if name.lower() == "img" and values.get("src"):
        return _picture(" ".join(values.get("alt", "").split()), values["src"])
    closes = match[0].startswith("</")
    if name.lower() in _TAGS:
        return _INSTEAD.get(name.lower(), "") if closes or name.lower() in ("br", "hr") else ""
    if closes:
        return ""
    if values.get("caption") or values.get("number"):  # an element of the book's own
        label = f"{name} {values.get('number', '')}".strip()
        file = f" ({values['file-name']})" if values.get("file-name") else ""
        return f"{label}: {values.get('caption', '')}{file}"
    return "" if values else match[0]


# By the last group to close of what matched.
_SHOWN: Mapping[str, Callable[[re.Match[str], BookChapter], str]] = {
    "display": _display,
    "tex": _display,
    "formula": lambda match, chapter: _with_values(match[0], chapter),
    "run": _run,
    "role": _role,
    "code": lambda match, chapter: match[0],
    "comment": _nothing,
    "script": _nothing,
    "ref": lambda match, chapter: chapter.labels.get(match["ref"].strip(), match[0]),
    "index": _nothing,
    "image": _image,
    "group": _group,
    "at": _at,
    "shortcode": _shortcode,
    "inclusion": lambda match, chapter: _document(match[0], chapter) or match[0],  # of an mdBook
    "label": _labelled,
    "text_reference": _nothing,
    "target": _nothing,
    "named": _named,
    "heading": lambda match, chapter: match["heading"],
    "table": _table_caption,
    "tag": _tag,
}


# -- divs ------------------------------------------------------------------------------------------

_FENCE = re.compile(r"[ \t]*:{3,}[ \t]*(?P<attributes>\{[^{}\n]*\}(?:[ \t]*[^\n:]*)?|[\w-]+)?[ \t]*:*[ \t]*\Z")
_ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?)[ \t]+(?P<kind>[\w-]+)(?:[^\"\n]*)(?:\"(?P<title>[^\"\n]*)\")?[ \t]*\Z")
_CALLOUTS = {"note": "nte", "tip": "tip", "warning": "wrn", "important": "imp", "caution": "cau"}
_THEOREMS = {
    "theorem": "thm", "lemma": "lem", "corollary": "cor", "proposition": "prp", "conjecture": "cnj",
    "definition": "def", "example": "exm", "exercise": "exr", "solution": "sol", "remark": "rem",
}  # fmt: skip
_DEEPEST = 20  # divs in divs
_PRINTED = ("pdf", "latex", "docx", "epub", "typst", "odt")


def _divs(text: str, chapter: BookChapter) -> str:
    """A text without the fences of divs: callouts are quotes, theorems begin with their name, and what is for other
    formats than HTML is not there."""
    stack: list[tuple[str, list[str]]] = [("", [])]
    for is_code, piece in code_apart(text):
        for line in [piece.rstrip("\n")] if is_code else piece.removesuffix("\n").split("\n"):
            _line(line, is_code, stack, chapter)
    while len(stack) > 1:
        _close(stack, chapter)
    return "\n".join(stack[0][1])


def _line(line: str, is_code: bool, stack: list[tuple[str, list[str]]], chapter: BookChapter) -> None:
    indented = stack[-1][0].startswith("!!!")
    if indented and line.strip() and not line.startswith(("    ", "\t")):
        _close(stack, chapter)
    elif indented:
        stack[-1][1].append(re.sub(r"^(?: {4}|\t)", "", line, flags=re.MULTILINE))
        return
    fence = None if is_code or ":::" not in line else _FENCE.match(line)
    admonition = None if is_code else _ADMONITION.match(line)
    if len(stack) > _DEEPEST and (admonition or fence):
        return
    if admonition:
        stack.append((f'!!! .callout-{admonition["kind"]} title="{admonition["title"] or ""}"', []))
    elif fence is None:
        stack[-1][1].append(line)
    elif fence["attributes"]:
        stack.append((fence["attributes"], []))
    elif len(stack) > 1:
        _close(stack, chapter)


def _close(stack: list[tuple[str, list[str]]], chapter: BookChapter) -> None:
    attributes, lines = stack.pop()
    inner = "\n".join(lines).strip("\n")
    shown = _div(attributes, inner, chapter)
    stack[-1][1].extend(["", *shown.split("\n"), ""] if shown else [])


def _div(attributes: str, inner: str, chapter: BookChapter) -> str:
    classes = set(re.findall(r"[.{ ]([A-Za-z][\w-]*)(?![\w=-])", f" {attributes}"))
    values = _values(attributes)
    label = _label_in(attributes)
    if _is_for_others(classes, values):
        return ""
    callouts = (name.removeprefix("callout-") for name in classes if name.startswith("callout-"))
    callout = next(callouts, "") or next((name for name in _ADMONITIONS if name in classes), "")
    if callout:
        title, inner = _titled(values.get("title", ""), inner)
        return _quoted(_word(chapter, callout), title, inner)
    if label.startswith(("fig-", "tbl-")) and label in chapter.labels:
        above, _, last = inner.rpartition("\n\n")
        is_caption = bool(above) and not last.startswith(("![", "```", "|"))
        return f"{above}\n\n{_numbered_caption(label, last, chapter)}" if is_caption else inner
    theorem = next((kind for name, kind in _THEOREMS.items() if name in classes), "")
    if label.partition("-")[0] in _THEOREMS.values():
        theorem = theorem or label.partition("-")[0]
    if theorem:
        number = chapter.labels.get(f"{theorem}:{label}", "")
        name = chapter.labels.get(label) or f"{_word(chapter, theorem)} {number}"
        title, inner = _titled(values.get("name", ""), inner)
        return f"**{name.strip()}{f' ({title})' if title else ''}.** {inner}"
    return inner


def _is_for_others(classes: set[str], values: Mapping[str, str]) -> bool:
    """Whether a div is not for pages."""
    when, unless = values.get("when-format", ""), values.get("unless-format", "")
    if "content-hidden" in classes:
        return when.startswith("html") or unless.startswith(_PRINTED) or not (when or unless)
    if "content-visible" in classes:
        return when.startswith(_PRINTED) or unless.startswith("html")
    return bool(classes & {"notes", "hidden"})


def _titled(title: str, inner: str) -> tuple[str, str]:
    """A title, which may be the first heading inside, and what is below it."""
    first, _, rest = inner.partition("\n")
    heading = re.match(r"#{1,6}[ \t]+(.*)", first)
    return (heading[1].strip(), rest.strip("\n")) if heading and not title else (title, inner)


def _quoted(word: str, title: str, inner: str) -> str:
    head = f"**{word}{f': {title}' if title else ''}**"
    return "\n".join(f"> {line}" if line else ">" for line in (head, "", *inner.split("\n"))).replace("> \n", ">\n")


def _word(chapter: BookChapter, kind: str) -> str:
    """What things of a kind are called."""
    return chapter.words.get(_CALLOUTS.get(kind, kind)) or kind.capitalize()
