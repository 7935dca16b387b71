"""Markdown of other programs is stored as its readers see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from lmm import Document
from lmm.markdown.quotations import verify_quotations
from lmm_education import Course
from lmm_education.books.dialects import as_shown
from lmm_education.study.notes import clean_notes

SHOWN = {
    "10<sup>6</sup> and H<sub>2</sub>O": "10^6^ and H~2~O",
    "5<sup>a b</sup>": "5^a\\ b^",
    "<del>100</del><ins>250</ins> <s>2</s> <mark>x</mark>": "~~100~~250 ~~2~~ x",
    "<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>": "東京(とうきょう)",
    "&frac12; &amp; &lt;b&gt; &nbsp;a&shy;b": "½ & \\<b\\> \xa0ab",
    "a <span hidden>42</span> b <p style='display: none'>c</p>": "a  b ",
    "<style>\n.a {}\n\n.b {}\n</style>\nText": "\n\n\n\n\nText",
    "<svg><text>x</text></svg> y": " y",
    f"![a leaf](data:image/png;base64,{'A' * 99})": "a leaf",
    f"```html\n<img src='data:image/png;base64,{'A' * 99}'>\n```": "```html\n<img src='data:image/png;base64,…'>\n```",
    "%% a\n\nb %%\nText %% c %% d": "\n\n\nText  d",
    "\ue0007\ue001 &amp;": "\ue0007\ue001 &amp;",
    "5 %% 3 is 2, 7 %% 3 is 1": "5 %% 3 is 2, 7 %% 3 is 1",
    "[[Roots|the roots]], [[Stem#Bark]], ![[leaf.png|300]], x[[1]], `[[a]]`": (
        "the roots, Stem > Bark, ![](<leaf.png>), x[[1]], `[[a]]`"
    ),
    "[[2024-05-01]], [[20240501]], [[1, 2]]": "2024-05-01, 20240501, [[1, 2]]",
    "==very== important ^block1": "very important",
    "> [!warning]- Careful\n> Toxic.": "> **Warning: Careful**\n> Toxic.",
    "# A\n{: .no_toc}\n{% include toc.html %}\nB": "# A\n\n\nB",
    "{% include x.html %} {% raw %}y{% endraw %}": "{% include x.html %} y",
    "---\ntitle: A\n---\n\n+++\nb = 1\n+++\n\nText": "---\ntitle: A\n---\n\n\n\n\n\nText",
    'import A from "@theme/A";\n\n<TabItem label="Linux">': "\n\n**Linux**",
    '<TabItem label="Linux">Use apt.</TabItem>': "**Linux** Use apt.</TabItem>",
    "export const x = 5;\n\nThe value is {x}, {y}.": "\n\nThe value is 5, {y}.",
    '--8<-- [start:a]\nA.\n--8<-- "b.md"': '\nA.\n--8<-- "b.md"',
    "We import\nfrom France.": "We import\nfrom France.",
    ":::tip[My title]\nUse.\n:::": '::: {.tip title="My title"}\nUse.\n:::',
    '=== "Linux"\n\n    Use apt.\n\nText': "**Linux**\n\nUse apt.\n\nText",
    '!!! note "A"\n    B.\n\n    C.\n\nText': "> **Note: A**\n> B.\n>\n> C.\n\nText",
    "$a<sup>b</sup> == c == d$ `&amp;`": "$a<sup>b</sup> == c == d$ `&amp;`",
    '{{< video "a.mp4" >}} {{< figure src="a.png" title="A" >}}': '{{< video "a.mp4" >}} ![A](<a.png>)',
    # MDX: what is imported and exported over several lines
    "import {\n  A,\n  B\n} from './x';\n\nText.": "\n\n\n\n\nText.",
    "export const Red = ({children}) => (\n  <b>{children}</b>\n);\n\nText.": "\n\n\n\nText.",
    "import duties are due\nand export of 'goods' too.": "import duties are due\nand export of 'goods' too.",
    ":::tip[My **tip**]\nUse it.\n:::": '::: {.tip title="My tip"}\nUse it.\n:::',
    ":::{warning} Hot\nUse it.\n:::": '::: {.warning title="Hot"}\nUse it.\n:::',
    # Logseq's properties, logs, references and queries
    "- Light\n  id:: 64f1a2b3-1111-2222-3333-444455556666\n\t- by ((64f1a2b3-1111-2222-3333-444455556666)).": (
        "- Light\n\n\t- by ."
    ),
    "- TODO read\n  :LOGBOOK:\n  CLOCK:\n  :END:\n  collapsed:: true\n- {{query (todo)}} {{embed [[R]]}} {{ page }}": (
        "- TODO read\n\n\n\n\n-   {{ page }}"
    ),
    # CriticMarkup
    "It is {++very++} {--not--} {~~old~>new~~} {==green==}{>>who says so?<<}.": "It is very ~~not~~ ~~old~~ new green.",
    "Text.\n{::options x=1 /}\n\n[TOC]\n\n[[_TOC_]]\n\nCode (1)\n{ .annotate }": "Text.\n\n\n\n\n\n\nCode (1)\n",
    "a set { .5, 1 } and {--x}": "a set { .5, 1 } and {--x}",
    # Tags with content: GitBook, Hugo, MDX; other tags insert what is not known
    '{% tab title="A" %}\nx\n{% endtab %}\n{% hint %}\ny\n{% endhint %}': '::: {.tab title="A"}\nx\n:::\n\ny\n',
    '{{< tab "A" >}}x{{< /tab >}} {{< youtube 5 >}}': "**A** x {{< youtube 5 >}}",
    '<Tabs>\n\n<TabItem value="A">\nx\n</TabItem>': '<Tabs>\n\n::: {.TabItem title="A"}\nx\n:::',
    '{% openapi src="a" %} {% asset_img a.png "A" %} {% post_link a \'B\' %} {% link c %}': (
        '{% openapi src="a" %} ![A](<a.png>) B c'
    ),
    "{% highlight ruby %}\n# no heading\n{% endhighlight %}": "```ruby\n# no heading\n```",
    '!!! note\n    A.\n\n    !!! tip "B"\n\n        C.': "> **Note**\n> A.\n>\n> > **Tip: B**\n> >\n> > C.",
    "A {ref}`a`.\n% a comment\n+++": "A {ref}`a`.\n\n",
    "^^new^^ {{cloze word}}\n\n^block": "new word\n\n",
    "- background-color:: red\n  card-repeats:: 2\n  #+BEGIN_QUOTE": "\n\n",
    "::: details More {open}\nx\n:::\n<<< @/a.js{2}": '::: {.details title="More"}\nx\n:::\n{{#include a.js}}',
}


@pytest.mark.parametrize("text", SHOWN)
def test_markup_reads_as_it_is_shown(text: str) -> None:
    """Every line stays where it is."""
    shown = as_shown(text)
    assert shown == SHOWN[text]
    assert shown.count("\n") == text.count("\n")


@given(st.text("ab1 \n<>/&;%=[]{}:!?+^|\"'`$-supdel", max_size=80))
def test_any_text_keeps_its_lines(text: str) -> None:
    """Whatever stands in it."""
    assert as_shown(text).count("\n") == text.count("\n")


def test_a_power_is_no_other_number(tmp_path: Path) -> None:
    """In what is stored, and where a quotation is looked up."""
    (tmp_path / "a.md").write_text("# Cells\n\nA millilitre holds 10<sup>6</sup> of these cells. %% SECRET %%\n")
    with Course.open(tmp_path) as course:
        course.ingest()
        (hit,) = course.search("millilitre").hits
    assert "10^6^ of these cells" in hit.text
    assert "SECRET" not in hit.text
    for text in (
        hit.text,
        "A millilitre holds 10<sup>6</sup> of these cells.",
        "A millilitre holds 10⁶ of these cells.",
    ):
        for number, found in (("10^6", "exact"), ("10⁶", "exact"), ("10<sup>6</sup>", "exact"), ("106", "near")):
            (quotation,) = verify_quotations(f'"A millilitre holds {number} of these cells"', {1: text})
            assert quotation.found == found, (text, number)


def test_comments_of_obsidian_are_private(tmp_path: Path) -> None:
    """No question, edit or summary sends them with its context, and no export publishes them; code has none."""
    path = tmp_path / "a.md"
    path.write_text(
        "# S\n\n---\nquery: why?\n---\nA %% Bob %% text <!-- Ann -->.\n\n50% %% Cid %% and `x %% y`, 5 %% 3.\n\n"
        "```{r}\n7 %% y %% z\n```\n\n%%\nDan\n\n## Eve\n%%\n\nEnd %% is open.\n"
    )
    (request,) = Document.open(path).requests()
    sent = str(request)
    for private in ("Bob", "Cid", "Dan", "Eve", "Ann"):
        assert private not in sent, private
    code = ("`x %% y`, 5 %% 3.", "7 %% y %% z", "End %% is open.")
    assert [part for part in code if part not in sent] == []
    notes = clean_notes(path.read_text()).text
    for private in ("Bob", "Cid", "Dan", "Eve"):
        assert private not in notes, private
    assert [part for part in code if part not in notes] == []
