r"""Markdown as HTML for the page. HTML in a text is shown, not interpreted; only links lead to other sites.

The output has no attribute that runs or loads anything except the pictures for which the caller supplies addresses, so
that it can be inserted into a page.

Formulas become MathML, which all current browsers show without scripts. latex2mathml copies its input to the output
unescaped: ``\text{<img onerror=…>}`` becomes that element. Its tree is therefore serialized here, with allow-lists of
elements and attributes, and every text escaped.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence
from functools import cache, lru_cache
from itertools import groupby, pairwise
from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import Converter
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, emphasis
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.tasklists import tasklists_plugin
from pygments import highlight as highlighted
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from lmm_education.answer.citations import citations, in_brackets
from lmm_education.material import Lines
from lmm_education.study.formulas import formulas

_PASSAGE = Markup('<div class="passage">\n{}</div>\n')
_FOLDED = Markup('<details class="hidden"><summary>{}</summary>\n{}</details>\n')
_IMAGE = Markup('<img src="{}" alt="{}" loading="lazy">')
_NO_IMAGE = Markup('<span class="picture">{}</span>')
_FIGURE = Markup("<figure>{}<figcaption>{}</figcaption></figure>\n")
_DISPLAY = Markup('<div class="display">{}</div>\n')
Env = MutableMapping[str, Any]
Picture = Callable[[str], str]
"""A function that maps the address of a picture in a text to the one at which it is served; empty if it is not."""
_MOST_CODE = 20_000  # characters of a code block that is highlighted
_LINKED = ("https://", "http://", "mailto:")


def to_html(markdown: str, *, numbers: Collection[int] = (), picture: Picture | None = None) -> Markup:
    """Render a text as HTML. `numbers` are the sources that it may cite, as ``[1]`` or ``[1, 3]``; `picture` supplies
    the addresses of pictures, which are replaced by their descriptions without one.

    >>> to_html("Green [1], not <b>red</b> [2].", numbers=[1])
    Markup('<p>Green <a class="cite" href="#" data-source="1">1</a>, not &lt;b&gt;red&lt;/b&gt; [2].</p>\\n')
    """
    text = in_brackets(markdown, numbers) if numbers else markdown
    return Markup(_parser().render(text, {"numbers": frozenset(numbers), "picture": picture}))


@lru_cache(maxsize=4_000)
def title_html(markdown: str) -> str:
    """Render a heading as HTML, without links; cached, since headings come with every source.

    >>> title_html("The slope $x$ in `R`")
    'The slope <math display="inline"><mrow><mi>x</mi></mrow></math> in <code>R</code>'
    """
    return re.sub(r"</?a\b[^>]*>", "", str(_parser().renderInline(markdown, {})))


def title_text(markdown: str) -> str:
    """Return a heading, or a question, as text; formulas stay as they are written.

    >>> title_text("What is *the* `mean()` of $x$?")
    'What is the mean() of $x$?'
    """
    (line,) = _parser().parseInline(markdown, {})
    return "".join(f"${each.content}$" if "formula" in each.type else each.content for each in line.children or ())


def marked_html(
    markdown: str,
    lines: Lines | None,
    hidden: Sequence[Lines] = (),
    label: str = "",
    *,
    picture: Picture | None = None,
) -> Markup:
    """Render a text as HTML in which the blocks at these lines (from 1) are marked as the passage. Blocks at lines in
    `hidden` are collapsed under the summary `label`.

    >>> print(marked_html("Why?\\n\\nBecause.", None, [Lines(3, 3)], "Solution"), end="")
    <p>Why?</p>
    <details class="hidden"><summary>Solution</summary>
    <p>Because.</p>
    </details>
    """
    if lines is None and not hidden:
        return to_html(markdown, picture=picture)
    parser, env = _parser(), {"picture": picture}  # type: tuple[MarkdownIt, Env]
    pieces = []

    def place(block: list[Token]) -> tuple[int, bool]:
        which = next((i for i, each in enumerate(hidden) if _meets(block[0], each)), -1)
        return which, lines is not None and _meets(block[0], lines)

    placed = [(place(block), block) for block in _blocks(parser.parse(markdown, env))]
    for which, group in groupby(placed, key=lambda item: item[0][0]):
        inner = []
        for (_, is_passage), blocks in groupby(group, key=lambda item: item[0]):
            rendered = str(parser.renderer.render([t for _, block in blocks for t in block], parser.options, env))
            inner.append(_PASSAGE.format(Markup(rendered)) if is_passage else Markup(rendered))
        text = Markup("").join(inner)
        pieces.append(_FOLDED.format(label, text) if which >= 0 else text)
    return Markup("").join(pieces)


def lines_of(passage: str, text: str) -> Lines | None:
    """Return the lines of a text that contain a passage; None if the text does not contain it verbatim.

    >>> lines_of("b\\nc", "a\\n\\nb\\nc\\n")
    Lines(first=3, last=4)
    """
    passage = passage.strip()
    at = text.find(passage) if passage else -1
    if at < 0:
        return None
    first = text.count("\n", 0, at) + 1
    return Lines(first, first + passage.count("\n"))


def _blocks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Iterate over the tokens of each outermost block."""
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _meets(token: Token, lines: Lines) -> bool:
    return token.map is not None and token.map[0] < lines.last and token.map[1] >= lines.first


# -- the parser ------------------------------------------------------------------------------------


@cache
def _parser() -> MarkdownIt:
    """Return the shared parser; what belongs to one text is in its `env`."""
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _highlight, "maxNesting": 30})
    parser.enable(["table", "strikethrough"]).use(formulas)
    parser.use(footnote_plugin).use(deflist_plugin).use(tasklists_plugin)
    parser.core.ruler.before("inline", "alerts", _alerts)
    parser.inline.ruler.before("link", "citation", _citation)
    parser.inline.ruler.before("html_inline", "simple_tag", _simple_tag)
    parser.inline.ruler.at("emphasis", _emphasis)
    parser.core.ruler.after("inline", "addresses", _addresses)
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # `_show_link` decides
    parser.core.ruler.push("attributes", _drop_attributes)
    parser.core.ruler.push("figures", _figures)
    parser.core.ruler.push("captions", _captions)
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _citation(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "[" or not state.env.get("numbers"):
        return False
    if state.env.get("read") != state.src:
        state.env["read"] = state.src
        state.env["cited"] = {each.start: each for each in citations(state.src, state.env["numbers"]) if each.known}
    found = state.env["cited"].get(state.pos)
    if found is None:
        return False
    if not silent:
        state.push("citation", "a", 0).meta = {"text": state.src[found.start + 1 : found.end - 1]}
    state.pos = found.end
    return True


_TAG = re.compile(r"<br\s*/?>|<(sub|sup)>([^<>]{1,200})</\1>", re.IGNORECASE)


def _simple_tag(state: StateInline, silent: bool) -> bool:
    """Take the tags that models write for line breaks, and for what stands lower or higher."""
    found = _TAG.match(state.src, state.pos) if state.src[state.pos] == "<" else None
    if found is None:
        return False
    if not silent and found[1]:
        state.push(f"{found[1]}_open", found[1].lower(), 1)
        state.push("text", "", 0).content = found[2]
        state.push(f"{found[1]}_close", found[1].lower(), -1)
    elif not silent:
        state.push("hardbreak", "br", 0)
    state.pos = found.end()
    return True


_CJK = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


def _emphasis(state: StateInline, silent: bool) -> bool:
    """Parse emphasis, also beside punctuation without blanks around it, as Chinese, Japanese and Korean are written."""

    def scan(start: int, can_split: bool) -> Scanned:
        found = StateInline.scanDelims(state, start, can_split)
        before, after = state.src[start - 1 : start], state.src[start + found.length : start + found.length + 1]
        if state.src[start] != "*" or (not _CJK.match(before + after) and not _CJK.match(after)):
            return found
        opens = found.can_open or not (after or " ").isspace()
        return Scanned(opens, found.can_close or not (before or " ").isspace(), found.length)

    state.scanDelims = scan  # type: ignore[method-assign, assignment]
    return emphasis.tokenize(state, silent)


_ADDRESS = re.compile(r"https?://[^\s<>\"'`，。；）」]*[^\s<>\"'`，。；）」.,;:!?*_~\]}]")


def _addresses(state: StateCore) -> None:
    """Turn addresses that stand in a text into links, as `<https://…>` is one."""
    for block in state.tokens:
        found, in_link = list[Token](), 0
        for token in block.children or []:
            in_link += token.nesting if token.type.startswith("link") else 0
            at = 0
            for match in _ADDRESS.finditer(token.content) if token.type == "text" and not in_link else ():
                address = match[0]
                while address.endswith(")") and address.count("(") < address.count(")"):
                    address = address[:-1]
                found += [_text_token(token, token.content[at : match.start()]), Token("link_open", "a", 1)]
                found[-1].attrs["href"] = address
                found += [_text_token(token, address), Token("link_close", "a", -1)]
                at = match.start() + len(address)
            found.append(_text_token(token, token.content[at:]) if at else token)
        block.children = found if block.children else block.children


def _text_token(token: Token, content: str) -> Token:
    return Token("text", "", 0, content=content, level=token.level)


def _drop_attributes(state: StateCore) -> None:
    """Remove Pandoc's attributes after pictures: ``![A leaf](leaf.png){width=50%}``."""
    for token in state.tokens:
        children = token.children or []
        for picture, text in pairwise(children):
            if picture.type == "image" and text.type == "text" and text.content.startswith("{"):
                inside, closed, rest = text.content[1:].partition("}")
                text.content = rest if closed and "{" not in inside else text.content


_ALERT = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\][ \t]*(?:\n|\Z)")
_CAPTION = re.compile(r"(?:Table|Tabelle)(?=[ :])|:[ \t]+")


def _alerts(state: StateCore) -> None:
    """Turn ``[!NOTE]`` at the beginning of a quote into its title, as GitHub does."""
    for quote, _, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if quote.type == "blockquote_open" and (found := _ALERT.match(inline.content)):
            text = inline.content[found.end() :]
            inline.content = f"**{found[1].capitalize()}**" + (f"  \n{text}" if text else "")


def _figures(state: StateCore) -> None:
    """Turn a picture that is alone in its paragraph into a figure with a caption."""
    for begin, inline, end in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        parts = [part for part in inline.children or [] if part.type != "text" or part.content.strip()]
        if begin.type == "paragraph_open" and len(parts) == 1 and parts[0].type == "image" and parts[0].content:
            begin.hidden = end.hidden = parts[0].meta["figure"] = True


def _captions(state: StateCore) -> None:
    """Turn a marked paragraph next to a table into its caption."""
    tokens = state.tokens
    for at, token in enumerate(tokens[:-2]):
        inline = tokens[at + 1]
        if token.type != "paragraph_open" or not (found := _CAPTION.match(inline.content)):
            continue
        after = at > 0 and tokens[at - 1].type == "table_close"
        if after or (at + 3 < len(tokens) and tokens[at + 3].type == "table_open"):
            token.attrs["class"] = "caption"
            if found[0].startswith(":") and inline.children:
                inline.children[0].content = inline.children[0].content.removeprefix(found[0])


def _highlight(code: str, language: str, attributes: str) -> str:
    """Highlight code with spans; escape it only if the language is unknown. ``{r, echo=FALSE}`` is R."""
    name = re.search(r"\w[\w+#-]*", language)
    if name is None or len(code) > _MOST_CODE:
        return html.escape(code, quote=False)
    try:
        lexer = get_lexer_by_name(name[0].lower(), stripnl=False)
    except ClassNotFound:
        return html.escape(code, quote=False)
    return str(highlighted(code, lexer, HtmlFormatter(nowrap=True)))


def _show_citation(this: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Env) -> str:
    """Render a citation with one link for each number; a range has links at both ends."""
    link = r'<a class="cite" href="#" data-source="\1">\1</a>'
    return re.sub(r"(\d+)", link, html.escape(tokens[at].meta["text"]))


def _show_formula(this: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Env) -> str:
    return to_mathml(tokens[at].content)


def _show_display(this: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Env) -> str:
    shown = to_mathml(tokens[at].content, display=True)
    return _DISPLAY.format(Markup(shown)) if tokens[at].block else shown


def _show_image(this: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Env) -> str:
    """Render a picture if it is served; otherwise its description."""
    token, picture = tokens[at], env.get("picture")
    address = picture(str(token.attrs.get("src", ""))) if picture is not None else ""
    if not token.meta.get("figure"):
        return _IMAGE.format(address, token.content) if address else _NO_IMAGE.format(token.content)
    caption = Markup(this.renderInline(token.children or [], options, env))
    text = this.renderInlineAsText(token.children, options, env)
    return _FIGURE.format(_IMAGE.format(address, text or token.content) if address else "", caption)


def _show_link(this: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Env) -> str:
    """Render a link to the web or to a mail address; remove the target of any other."""
    token = tokens[at]
    if str(token.attrs.get("href", "")).lower().startswith(_LINKED):
        token.attrs |= {"target": "_blank", "rel": "noopener noreferrer"}
    else:
        del token.attrs["href"]
    return this.renderToken(tokens, at, options, env)


def _show_cell(this: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Env) -> str:
    """Render a cell with its alignment as a class, because the page's policy forbids style attributes."""
    style = str(tokens[at].attrs.pop("style", ""))
    if style:
        tokens[at].attrs["class"] = style.replace("text-align:", "align-")
    return this.renderToken(tokens, at, options, env)


def _show_table(this: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Env) -> str:
    """Put a table into a box that scrolls by itself and can be reached by keyboard."""
    return '<div class="scroll" tabindex="0"><table>\n' if tokens[at].nesting > 0 else "</table></div>\n"


_RULES = {
    "citation": _show_citation,
    "formula": _show_formula,
    "display_formula": _show_display,
    "image": _show_image,
    # A number without a link: a page has many texts, each with a note 1.
    "footnote_ref": lambda this, tokens, at, options, env: (
        f'<sup class="footnote">{int(tokens[at].meta["id"]) + 1}</sup>'
    ),
    "footnote_block_open": lambda this, tokens, at, options, env: '<ol class="footnotes">\n',
    "footnote_block_close": lambda this, tokens, at, options, env: "</ol>\n",
    "footnote_open": lambda this, tokens, at, options, env: "<li>",
    "footnote_close": lambda this, tokens, at, options, env: "</li>\n",
    "footnote_anchor": lambda this, tokens, at, options, env: "",
    "link_open": _show_link,
    "th_open": _show_cell,
    "td_open": _show_cell,
    "table_open": _show_table,
    "table_close": _show_table,
}

# -- formulas: TeX to MathML -----------------------------------------------------------------------


_LONGEST = 4000  # characters; anything longer is not a formula
_ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "math mrow mi mn mo ms mtext mspace mstyle merror mpadded mphantom mfrac msqrt mroot msub msup msubsup munder "
        "mover munderover mmultiscripts mprescripts none mtable mtr mtd mlabeledtr menclose",
    )
)
_ATTRIBUTES = frozenset(
    re.findall(
        r"\w+",
        "display displaystyle scriptlevel mathvariant mathcolor mathbackground mathsize stretchy fence form separator "
        "lspace rspace minsize maxsize symmetric largeop movablelimits accent accentunder linethickness width height "
        "depth voffset columnalign rowspacing columnspacing columnlines rowlines notation",
    )
)
# These define macros, whose expansion is unbounded, or affect what is outside the formula.
_REFUSED = re.compile(r"\\(?:newcommand|renewcommand|providecommand|DeclareMathOperator|e?def|gdef|let)\b")
# Environments unknown to latex2mathml become known ones; it would number each line of ``align`` (1). Then labels.
_UNKNOWN = re.compile(
    r"\\(begin|end)\{(\w+)\*?\}(?:(?<=at\})\{\d+\}|(?<=at\*\})\{\d+\})?"
    r"|\\label\{[^{}]*\}|\(\\#[\w:.-]+\)|\\nonumber\b|\\notag\b"
)
_ARG = re.compile(r"\\arg(?![a-zA-Z])\s*")
_COMMAND = re.compile(r"\\[a-zA-Z]")
_KNOWN_AS = (
    dict.fromkeys(("align", "aligned", "alignat", "alignedat", "eqnarray", "flalign"), "align*")
    | dict.fromkeys(("gather", "gathered", "multline"), "matrix")
    | {"equation": "", "displaymath": ""}
)


@lru_cache(maxsize=4096)
def to_mathml(tex: str, *, display: bool = False) -> str:
    """Convert a formula to MathML; show the source of one that cannot be parsed.

    >>> to_mathml("x^2")
    '<math display="inline"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>'
    >>> to_mathml(r"\\text{<b>}"), to_mathml(r"\\frac{")
    ('<math display="inline"><mrow><mtext>&lt;b&gt;</mtext></mrow></math>', '<code class="formula">\\\\frac{</code>')
    """
    source = _ARG.sub(r"\\operatorname{arg}\\,", _UNKNOWN.sub(_known_environment, tex.strip())).strip()
    if len(source) > _LONGEST or _REFUSED.search(source):
        return _as_written(tex)
    try:
        tree = Converter(display="block" if display else "inline").convert_to_element(source)
    except Exception:  # the library raises its own errors, IndexError, RecursionError and others
        return _as_written(tex)
    if any(_COMMAND.match(each.text or "") for each in tree.iter() if each.tag != "mtext"):
        return _as_written(tex)  # an unknown command: without it, the formula would be a wrong one
    return _written(tree)


def _known_environment(match: re.Match[str]) -> str:
    name = _KNOWN_AS.get(match[2]) if match[1] else ""
    return match[0] if name is None else f"\\{match[1]}{{{name}}}" if name else ""


def _as_written(tex: str) -> str:
    return f'<code class="formula">{html.escape(tex.strip())}</code>'


def _written(element: Element) -> str:
    """Serialize an element with its content; for one that is not allowed, only the content."""
    letters = _in_alphabet(element.text, element.get("mathvariant", ""))
    if (element.tag, letters) == ("mi", "~"):  # what latex2mathml makes of \\sim, a relation
        element.tag, letters = "mo", "∼"
    inner = _text(letters) + "".join(_written(child) + _text(child.tail) for child in element)
    if element.tag not in _ELEMENTS:
        return inner
    attributes = (f' {name}="{html.escape(value)}"' for name, value in element.items() if name in _ATTRIBUTES)
    return f"<{element.tag}{''.join(attributes)}>{inner}</{element.tag}>"


def _in_alphabet(text: str | None, variant: str) -> str:
    """Replace letters by the mathematical characters of a bold style, because MathML Core has no `mathvariant` for it;
    entities have been decoded before.

    >>> _in_alphabet("x", "bold"), _in_alphabet("&#x003B2;", "bold-italic"), _in_alphabet("1+", "bold")
    ('𝐱', '𝜷', '𝟏+')
    """
    found, style = html.unescape(text or ""), variant.upper().replace("-", " ")
    return "".join(_styled(letter, style) for letter in found) if "BOLD" in style else found


def _styled(letter: str, style: str) -> str:
    name = re.sub("^(LATIN|GREEK) | LETTER", "", unicodedata.name(letter, ""))
    try:
        return unicodedata.lookup(f"MATHEMATICAL {style} {name}")
    except KeyError:
        return letter


def _text(text: str | None) -> str:
    """Escape a text of the tree, whose entities stand for characters."""
    return html.escape(html.unescape(text or ""), quote=False)
