"""Code with its words in colours."""

from __future__ import annotations

from chatmd.terminal.styled import Line, Span

# Pygments' token types, the first that fits counts. Few colours: code is there to be read.
_STYLES = (
    ("Comment", "dim italic"),
    ("Keyword", "magenta"),
    ("Literal.String.Doc", "dim italic"),
    ("Literal.String", "green"),
    ("Literal.Number", "cyan"),
    ("Name.Function", "blue"),
    ("Name.Class", "blue bold"),
    ("Name.Decorator", "cyan"),
    ("Name.Builtin", "cyan"),
    ("Name.Exception", "cyan"),
    ("Name.Tag", "blue"),
    ("Name.Attribute", "cyan"),
    ("Generic.Deleted", "red"),
    ("Generic.Inserted", "green"),
    ("Generic.Heading", "bold"),
    ("Generic.Subheading", "cyan"),
)


def code_lines(code: str, language: str = "") -> list[Line]:
    """The lines of a piece of code, however long; in colours, if the language is known.

    >>> code_lines("x = 1  # one", "python")[0][-1]
    Span(text='# one', style='dim italic')
    >>> code_lines("a\\n\\nb")
    [(Span(text='a', style=''),), (), (Span(text='b', style=''),)]
    """
    lines: list[list[Span]] = [[]]
    for style, text in _pieces(code, language):
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(Span(part, style))
    return [tuple(line) for line in lines]


def _pieces(code: str, language: str) -> list[tuple[str, str]]:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    if not language:
        return [("", code)]
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return [("", code)]
    return [(_style(str(kind).removeprefix("Token.")), text) for kind, text in lexer.get_tokens(code)]


def _style(kind: str) -> str:
    return next((style for prefix, style in _STYLES if f"{kind}.".startswith(f"{prefix}.")), "")
