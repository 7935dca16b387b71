"""What is said of a new text before it takes the place of the old one."""

from __future__ import annotations

import pytest

from lmm import Document
from lmm.messages import Event, Notice
from lmm.notebook.edit_warnings import MODELS_METADATA, RUNS, chunk_labels, code_notices, losses, oddities
from lmm.testing import ScriptedModel

DIV = "::: {.callout-note}\nMind this.\n\nAnd that.\n:::\n"
TORN = "it tears a fenced div: its ::: lines no longer match"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("A leaf.", "Another leaf.", ()),
        ("", "See @fox and [^1].", ()),
        (DIV, DIV.replace("Mind", "Note"), ()),
        (DIV, DIV.removesuffix(":::\n"), (TORN,)),
        ("::: {.callout-note}\nMind this.", "Mind this.", (TORN,)),
        ("And that.\n:::", "And that.", (TORN,)),
        (DIV, "Mind this and that.", ("it drops 1 fenced div (:::)",)),
        ("A.", DIV, ()),
        ("```\n:::\n```", "A.", ("it drops a code block",)),
        ("## Sum {#sec-sum .x}", "## Sum", ("it drops the id #sec-sum",)),
        ("[a]{#b} (\\#eq:one) \\label{x}", "a", ("it drops the id #b, (\\#eq:one), \\label{x}",)),
        ("[see @fox2015, p. 3; -@doe:99].", "See @fox2015.", ("it drops the citation or reference @doe:99",)),
        ('![x](a){#b cap="By @fox, as is"}', "![x](a){#b}", ("it drops the citation or reference @fox",)),
        ("![x](a){#b cap='A [^1]'}", "![x](a){#b}", ("it drops the footnote [^1]",)),
        ("As @fig-a. shows", "As @fig-a shows", ()),
        ("write to a.b@c.de, `x@y`, ```x@y```", "write", ()),
        ("\\@ref(fig:x) \\eqref{e}", "x", ("it drops the citation or reference \\@ref(fig:x), \\eqref{e}",)),
        ("A.[^1]\n\n[^1]: Why.", "A.[^1]", ("it drops the footnote's text [^1]:",)),
        ("A.[^1] B.[^n]", "A.[^n]", ("it drops the footnote [^1]",)),
        ("See [x].\n\n[x]: http://example.org", "See [x].", ("it drops the link's address [x]:", "it drops the link http://example.org")),
        ("```{r fit}\n1\n```", "```{r}\n1\n```", ("it drops the chunk label fit",)),
        ("```{r}\n#| label: fig-x\n1\n```", "None.", ("it drops the chunk label fig-x", "it drops a code block")),
        ("```python\n@cache\ndef f(): ...\n```", "None.", ("it drops a code block",)),
        ("<!-- see @fox -->A.", "<!-- see @fox -->B.", ()),
        ("![A *leaf* [x]](leaf.png 'Title'){#fig-x} ![b][ref]", "{#fig-x}", ("it drops the picture leaf.png, ref",)),
        (
            "<img alt='' src=\"a.png\"> [![b](b.png)](c)",
            "[a.png](b.png)",
            ("it drops the picture a.png, b.png", "it drops the link c", "it drops an HTML tag"),
        ),
        ('<p class="x" id="top">A</p><a id=here>', "A.", ("it drops the HTML id top, here", "it drops 2 HTML tags")),
        ("{{< video a.mp4 >}} {{% x %}}", "A.", ("it drops the shortcode '{{< video a.mp4 >}}', '{{% x %}}'",)),
        ("`r nrow(x)` `{r} y` `r x` `s` `{s}`", "`r x`", ("it drops the inline code '`r nrow(x)`', '`{r} y`'",)),
        ("`r#z` `s#z`", "A.", ("it drops the inline code `r#z`",)),
        ("A.<!-- why\nnot -->", "A.", ("it drops the comment '<!-- why not -->'",)),
        ("`<!-- a -->` `{{< b >}}` `![c](d)`\n\n```\n<p id=x>\n```", "A.", ("it drops a code block",)),
        ("@a @b @c @d @e @f @g", "", ("it drops the citation or reference @a, @b, @c, @d, @e and 2 more",)),
    ],
)  # fmt: skip
def test_losses(old: str, new: str, found: tuple[str, ...]) -> None:
    """What is torn, and every name that others refer to; not what is code or a comment, nor what was not there."""
    assert losses(old, new) == found
    assert losses(old.replace("\n", "\r\n"), new.replace("\n", "\r\n")) == found


@pytest.mark.parametrize(
    ("old", "new", "heading", "found"),
    [
        ("- a\n- b", "1. a\n2. b", "", ()),
        ("A leaf.", "## The Sum {#s}\n\nA bud.", "The *sum*", ("it repeats the heading 'The *sum*'",)),
        ("A leaf.", "## Another\n\nA bud.", "The sum", ()),
        (
            "A leaf.",
            '<text from="a.md">\nA bud.\n</text>',
            "",
            ('it contains the tag <text from="a.md">, which comes from the prompt',),
        ),
        ("<text>\nA leaf.", '<text>\n<text x="1">A bud.</text>', "", ()),
    ],
)
def test_oddities(old: str, new: str, heading: str, found: tuple[str, ...]) -> None:
    """What is only mentioned."""
    assert oddities(old, new, heading=heading) == found
    assert (*losses(old, new), *oddities(old, new, heading=heading)) == found


def test_code() -> None:
    """Labels that stand twice stop knitr; code that is new or changed would run; the same code is no news."""
    old = "```{r one}\nx <- 1\n```\n\n~~~{python, label='two'}\ny\n~~~\n"
    assert chunk_labels(old) == ["one", "two"]
    assert code_notices(old, "```{.r}\nx <- 2\n```") == ()
    assert code_notices(old, old) == ("until the edit is resolved, chunk labels occur twice and knitr stops: one, two",)
    assert code_notices(old, "`r system('x')`") == ("the new text adds or changes code that knitr will run",)
    assert code_notices(old, "```{r}\nx <- 1\n```\n") == ("the new text adds or changes code that knitr will run",)


@pytest.mark.parametrize(
    "content",
    [
        "| a |\n|---|\n| 1 |\n| 2 |",
        "    x <- 1",
        "Since \\(x^2\\).",
        "\\[ x^2 \\]",
        "See <https://e.org>.",
        "See https://e.org/x.",
        "{% include x %}",
        "{{ name }}",
        "*[HTML]: Hyper",
        "%% note %%",
    ],
)
def test_other_content_that_is_dropped(content: str) -> None:
    """It is named."""
    assert losses(f"Leaves are green.\n\n{content}\n\nRoots drink.\n", "Leaves are green.\n\nRoots drink.\n", "shorten")


LEAVES = "Leaves are green because their chlorophyll absorbs other colours of sunlight.\n"
ROOTS = "Roots take up water and dissolved minerals from surrounding soil through tiny hairs.\n"
BLAETTER = "Blätter sind grün, weil ihr Chlorophyll die anderen Farben des Sonnenlichts absorbiert.\n"


@pytest.mark.parametrize(
    ("old", "new", "prompt", "said"),
    [
        ("1. mix\n2. stir\n3. bake", "1. Mix.\n2. Stir.", "fix the style", "1 of 3 list items"),
        ("Call `fit()`, then `predict()`.", "Call `fit()`.", "make it clearer", "the code predict()"),
        ("A **residual** is left.", "It is left.", "make it clearer", "an emphasised term"),
        ("Leaf\n:   green\n\nRoot\n:   brown", "Leaf\n:   green", "fix typos", "1 of 2 definitions"),
        ("| A rose\n| is a rose", "| A rose", "fix typos", "1 of 2 lines"),
        ("It was 3.93 in 1998.", "It was low.", "polish it", "the number 3.93, 1998"),
        (f"{LEAVES}\n{ROOTS}", LEAVES, "fix the grammar", "a paragraph: 'Roots take"),
        (f"{LEAVES}\nBring water.", LEAVES, "polish", "a paragraph: 'Bring water.'"),
        (f"{LEAVES}\nIn sum:", f"{LEAVES}\nTogether:", "polish", ""),
        ("Of 1,200 mice.", "Sur 1 200 souris.", "traduis en français", ""),
        ("- a: 1\n- b: 2", "| k | v |\n|---|---|\n| a | 1 |\n| b | 2 |", "mach eine Tabelle daraus", ""),
        ("- Licht\n- Wasser", "Licht und Wasser.", "als Fließtext", ""),
        ("A.[^1]\n\n[^1]: Why.", "A.", "delete the footnote", ""),
        ("As [@fox] says.", "As some say.", "remove the citations", ""),
        ("As [@fox] says.", "As some say.", "shorten it", "reference @fox"),
        ("Text.\n\n### Exercise\n\nDo it.", "Text.", "remove the exercise", ""),
        ("It was 3.93 of 1,200, or 0.25.", "Es war 3,93 von 1.200, oder 25 %.", "auf Deutsch", ""),
        ("A **residual** is left.", "Ein **Residuum** bleibt.", "auf Deutsch", ""),
        (f"{LEAVES}\n{ROOTS}", BLAETTER, "auf Deutsch", ""),
        (f"{LEAVES}\nRoots drink.\n", LEAVES.replace(".\n", "; roots drink.\n"), "improve the flow", ""),
        ("- a\n- b\n- c", "a, b and c.", "as one paragraph", ""),
        ("It was 3.932409.", "It was 3.93.", "round it", ""),
        ("Of 120 mice.", "Of 150 mice.", "there were 150 mice", ""),
    ],
)
def test_what_is_dropped_although_the_text_is_not_condensed(old: str, new: str, prompt: str, said: str) -> None:
    """It is named, unless it is there in another form, or the request allows it."""
    assert said in "".join(losses(old, new, prompt)) if said else losses(old, new, prompt) == ()
    assert losses(old, new, "shorten it") == () or "[@" in old or "[^" in old or "###" in old


def test_a_table_that_becomes_smaller() -> None:
    """A row or a column that is gone is named, unless it was asked for."""
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n"
    assert losses(table, "| a | b |\n|---|---|\n| 1 | 2 |\n") == ("it drops 1 of 4 table rows",)
    assert losses(table, "| a |\n|---|\n| 1 |\n| 3 |\n") == ("it drops 1 of 2 table columns",)
    assert losses(table, "| a |\n|---|\n| 1 |\n| 3 |\n", "drop the column b") == ()


@pytest.mark.parametrize(
    "line",
    ["[snip]", "[continued]", "// ... existing code ...", "# ... rest of code", "*The remainder is identical.*",
     "[same]", "(The table stays as it is.)", "[keep the rest]", "[Text continues...]", "[see original]",
     "<rest of text>"],
)  # fmt: skip
def test_a_line_that_stands_for_text(line: str) -> None:
    """It is no text."""
    assert "it leaves text out" in losses("A leaf.\n\nA root.\n", f"A leaf.\n\n{line}\n", "fix the typos")[0]


@pytest.mark.parametrize("line", ["# Rest", "[original](a.md)", "*Original text by Ann.*", "# Remaining questions"])
def test_a_line_that_is_text(line: str) -> None:
    """It stands for nothing else."""
    assert losses("A leaf.\n", f"A leaf.\n\n{line}\n", "add one") == ()


def test_code_that_an_edit_adds_is_named_when_it_is_accepted() -> None:
    """A new text is the document's, so its chunks run: whoever accepts them reads so once more."""
    events = list[Event]()
    document = Document.from_text(
        "# A\n\n---\n=: add a chunk\n---\nA text.\n", listener=lambda event, _: events.append(event)
    )
    document.answer(model=ScriptedModel(["<new>\nA text.\n\n```{r}\nx <- 1\n```\n</new>"])).check()
    events.clear()
    assert document.accept() == 1
    assert [event.text for event in events if isinstance(event, Notice)] == [RUNS]


def test_our_own_comment_about_metadata_is_no_loss() -> None:
    """It is not the author's."""
    comment = f"{MODELS_METADATA}\nskip: true\n-->\n\n"
    assert losses(f"A leaf is green.\n\n{comment}It falls.\n", "A leaf is green.\n\nIt falls.\n", "fix typos") == ()
