"""`spans`: what stands in a text, in Pandoc's dialect; the cases are what books brought to light."""

from __future__ import annotations

import pytest

from lmm.markdown import spans

CASES = {
    "code of several backticks, over lines": ("a ``b ` c\nd`` e", ["code 'b ` c d'"]),
    "backticks that nothing closes": ("``a`", ["code 'a'"]),
    "code does not go on after a blank line": ("`a\n\nb`", []),
    "a fence that nothing closes is none": ("```\na", []),
    "code in a quote": ("> ```r\n> x\n> ```\n", ["code_block 'x' 'r'"]),
    "code in a list": ("- a\n\n  ```\n  x\n    y\n  ```\n", ["code_block 'x\\n  y'"]),
    "indented code, in a list as well": ("    x\n\n- a\n\n      y\n",
        ["code_block 'x' indented", "code_block 'y' indented"]),
    "indented code in a quote, which ends with it": (">     x\n>\n>      y\n> `z`\n>\n>     \n",
        ["code_block 'x\\n\\n y' indented", "code 'z'"]),
    "text of a list's item is no code": ("- a\n\n    b\n", []),
    "a chunk": ("```{r a, echo=FALSE}\n1\n```", ["code_block '1' '{r a, echo=FALSE}'"]),
    "code for one format": ("```{=html}\n<b>\n```\n\n`x`{=latex}", ["raw '<b>' html '{=html}'", "raw 'x' latex"]),
    "formulas, and money": ("$a$ costs $5 and $6, $$b$$", ["math 'a' inline", "math 'b' display"]),
    "a dollar escaped in a formula": (r"$a\$b$", [r"math 'a\\$b' inline"]),
    "a display formula with a line like an item": ("$$\na\n- b\n$$", ["math '\\na\\n- b\\n' display"]),
    "a link with a title, parentheses, attributes": ('[a](b_(c) "d"){.e}', ["link 'a' b_(c) '{.e}'"]),
    "a link with blanks in its address": ("[a](b c)", ["link 'a' b c"]),
    "a picture in a link": ("[![a](b)](c)", ["link '![a](b)' c", "image 'a' b"]),
    "labels": ("[a][b], [b], [c]\n\n[b]: d 'e'\n", ["link 'a' d", "link 'b' d", "definition 'b' d"]),
    "a title of the document": ("# A b\n\n[a B]\n", ["link 'a B' #A b"]),
    "an address": ("<https://a.b/c> <d@e.org>",
        ["link 'https://a.b/c' https://a.b/c", "link 'd@e.org' mailto:d@e.org"]),
    "citations": ("[see @a, p. 1; -@b] and @c:d. e@f.org",
        ["citation '[see @a, p. 1; -@b]' a;b", "citation '@c:d' c:d"]),
    "notes": ("a^[b] c[^d] e[^f]\n\n[^d]: g\n", ["footnote 'b'", "footnote '' d", "definition 'd' ^"]),
    "tags": ('a <b c="<">d</b> 1 < 2', ["html '<b c=\"<\">' b", "html '</b>' /b"]),
    "an element that is not markdown": ("<pre>`a`\n\n[b](c)</pre>", ["html '<pre>`a`\\n\\n[b](c)</pre>' pre"]),
    "tags of MDX": ('<Tab.Item a={{b: "c"}} />', ["html '<Tab.Item a={{b: \"c\"}} />' tab.item"]),
    "a comment over blank lines": ("a <!-- b\n\n`c` --> `d`", ["comment ' b\\n\\n`c` '", "code 'd'"]),
    "a comment that nothing closes": ("<!-- `a`", ["code 'a'"]),
    "attributes": ("# A b {#c .d}\n\n[e]{.f}", ["attributes 'A b' '{#c .d}'", "attributes 'e' '{.f}'"]),
    "a reference of bookdown": (r"\@ref(fig:a)", [r"reference '\\@ref(fig:a)' fig:a"]),
    "a shortcode": ("{{< video a.mp4 >}}", ["shortcode 'video a.mp4' video"]),
    "a role of MyST": ("{doc}`a b`", ["role 'a b' doc"]),
    "TeX": ("\\index{a}\n\n\\begin{b}\nc\n\nd\n\\end{b}",
        ["raw '\\\\index{a}' tex", "raw '\\\\begin{b}\\nc\\n\\nd\\n\\\\end{b}' tex"]),
    "divs in each other": ("::: {.a}\n::: b\n`c`\n:::\n:::\n", ["div '' '{.a}'", "div '' 'b'", "code 'c'"]),
    "what is escaped": (r"\`a\` \[b](c) \$d$", []),
    "code in a cell": ("+---+---+\n| a | ``` |\n|   | x |\n+---+---+\n", []),
    "a table that is drawn": ("+---+-----+\n| a | ``` |\n|   | x   |\n|   | ``` |\n+---+-----+\n", ["code_block 'x'"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_spans(text: str, expected: list[str]) -> None:
    """Kind, text, target, attributes; of a span that is in another, its own."""
    found = [
        f"{s.kind} {s.text!r}" + (f" {s.target}" if s.target else "") + (f" {s.attributes!r}" if s.attributes else "")
        for s in spans(text)
    ]
    assert found == expected
