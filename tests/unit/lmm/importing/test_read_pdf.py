"""PDF to markdown: by structure and by looks, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes.pdf_writer import HEIGHT, WIDTH, PdfPage, pdf_of

from lmm.errors import FileReadError
from lmm.importing.elements import to_html
from lmm.importing.imported import Context
from lmm.importing.pdf_layout import look_of, segments_of
from lmm.importing.pdf_page import Char, PdfPage as PageRead, PdfTag, Style, in_reading_order
from lmm.importing.read_pdf import elements_of_tags, read
from lmm.importing.word_count import count_words

FIXTURES = Path(__file__).parents[3] / "fixtures" / "import"
HERE = Context("a.pdf")
PROSE = (
    "The leaf of the oak is lobed, and it stays on the branch until the wind of",
    "late autumn takes it. The beech keeps its leaves longer, as every hedge that is",
    "made of it shows in winter, and loses them only when new ones come.",
)


def body(*pages: PdfPage, outline: tuple[tuple[str, int], ...] = ()) -> str:
    """The markdown of a PDF with these pages, without their marks."""
    return re.sub(r"<!-- p\. \S+ -->\n\n", "", read(pdf_of(pages, outline=outline), HERE).body)


def plain_lines(page: PdfPage) -> list[str]:
    """The lines of a page without the marks and the widths of tables."""
    lines = [" ".join(line.replace("|", " ").split()) for line in body(page).split("\n")]
    return [line for line in lines if line.strip("- ")]


def test_a_tagged_pdf_is_read_by_its_structure() -> None:
    """A page as a browser prints it: headings, list, table, code, image, link, formats."""
    document = read((FIXTURES / "leaves.pdf").read_bytes(), HERE)
    assert (document.title, document.language, len(document.images)) == ("Leaves", "en", 1)
    assert document.body == (
        "# Leaves\n\n<!-- p. 1 -->\n\n# Colour\n\n"
        "A leaf is green because it holds *chlorophyll*, says [a page](https://example.org/leaf). In **autumn** the "
        "tree takes it back.\n\n## Names\n\n1.  oak\n2.  beech\n\n"
        "| Tree  | Leaf   | Months |\n|-------|--------|--------|\n"
        "| oak   | lobed  | 6      |\n| beech | entire | 7      |\n\n"
        '```\ndef fall(leaf):\n    return leaf.colour != "green"\n```\n\n![A green dot](lmm-image:0)\n'
    )
    assert document.images[0].data.startswith(b"\x89PNG")


def test_tags_of_typst_and_browsers() -> None:
    """A footnote within a paragraph, the term of an item, code that is only set so, a paragraph over two columns."""
    code = Style(10.0, mono=True)
    rows = ["A leaf", "It is green.", "falls. And", "the next", "Term", "its meaning", "def f():", "  return 1"]
    places = [(72, 100), (72, 700), (102, 100), (300, 40), (72, 120), (90, 132), (72, 200), (72, 212)]
    chars = tuple(
        Char(letter, x + 5 * at, x + 5 * at + 5, y - 10, y + 2, y, code if mark > 5 else Style(10.0), mark)
        for mark, ((x, y), text) in enumerate(zip(places, rows, strict=True))
        for at, letter in enumerate(text)
        if letter != " "
    )
    item = PdfTag("LI", (PdfTag("Lbl", (4,)), PdfTag("LBody", (5,))))
    tags = (
        PdfTag("P", (0, PdfTag("Note", (PdfTag("Lbl", ()), 1)), 2, 3)),
        PdfTag("L", (item,)),
        PdfTag("P", (PdfTag("Span", (6,)), PdfTag("Span", (7,)))),
        PdfTag("Code", (PdfTag("P", (6,)), PdfTag("P", (7,)))),
    )
    page = PageRead(1, 595, 842, chars, tags=tags)
    look = look_of([page], ())
    written = [to_html(each) for each in elements_of_tags(page, look, titled=True)]
    assert written == [
        '<p>A leaf<a href="#lmm-note-0" role="doc-noteref">1</a>falls. And the next</p>',
        "<ul><li><p><strong>Term</strong></p><div>its meaning</div></li></ul>",
        "<p><pre>def f():\n  return 1</pre></p>",
        "<pre>def f():\n  return 1</pre>",
    ]
    assert [to_html(note) for note in look.notes] == ['<li id="lmm-note-0">It is green.</li>']


def test_titles_of_slides_whose_tags_have_no_headings_are_headings() -> None:
    """By their size; a slide that appears step by step is one."""
    document = read((FIXTURES / "slides.pdf").read_bytes(), HERE)
    assert document.body == ("# Leaves\n\n<!-- p. 2 -->\n\n- green\n- thin\n\n# Roots\n\n<!-- p. 3 -->\n\n1.  brown\n")


def test_headings_paragraphs_lists_code_and_images_by_their_looks() -> None:
    """A page without structure."""
    page = PdfPage()
    page.text(72, 80, "Of Leaves", size=20, font="bold")
    page.text(72, 120, "1 Colour", size=14, font="bold")
    y = page.lines(72, 145, PROSE)
    page.text(72, y + 20, "1.1 Names", font="bold")
    y = page.lines(72, y + 40, ["\x95 oak", "\x95 beech, which keeps its leaves for the whole of the"])
    y = page.lines(81, y, ["winter"])
    y = page.lines(72, y + 14, ["def fall(leaf):", "    return leaf.colour"], font="code")
    page.image(72, y + 10, 80, 60)
    page.text(72, y + 100, "That was an image.")
    page.text(300, 800, "1")
    assert body(page) == (
        f"# Of Leaves\n\n## 1 Colour\n\n{' '.join(PROSE)}\n\n### 1.1 Names\n\n"
        "- oak\n- beech, which keeps its leaves for the whole of the winter\n\n"
        "```\ndef fall(leaf):\n    return leaf.colour\n```\n\n![](lmm-image:0)\n\nThat was an image.\n"
    )


def test_lists_of_other_marks_are_lists_of_their_own() -> None:
    """Letters, then dashes, then capitals and Roman numbers: each begins anew; a name with an initial is no item."""
    page = PdfPage()
    y = 80.0
    for mark, texts in (("a.", "b."), ("\x96", "\x96"), ("A.", "B."), ("III.", "IV.")):
        for at, text in zip((mark, texts), ("one", "two"), strict=True):
            page.text(72, y, at)
            page.text(94, y, text)
            y += 12
    page.text(72, y + 20, "A. Smith found it.")
    assert body(page) == (
        "a.  one\nb.  two\n\n- one\n- two\n\nA.  one\nB.  two\n\n<!-- -->\n\nIII. one\nIV. two\n\nA. Smith found it.\n"
    )


def test_a_font_without_a_name_is_one_of_code_if_its_letters_are_equally_wide() -> None:
    """And has LaTeX's ligatures and quotation marks where others have control characters."""
    page = PdfPage()
    page.lines(
        72, 100, ["The \x10signi\x1ccance\x11 of a di\x1berent o\x1ece of the \x1do\xff, pages 2\x153:"], font="bitmap"
    )
    page.lines(72, 126, ["> fit <- lm(y ~ x)", "> summary(fit)"], font="bitmap-code")
    assert body(page) == (
        "The “significance” of a different office of the floß, pages 2–3:\n\n"
        "```\n> fit <- lm(y ~ x)\n> summary(fit)\n```\n"
    )
    step, last = PdfPage(), PdfPage()
    step.text(72, 100, "The first")
    last.text(72, 100, "The \x1crst leaf", font="bitmap")
    left_out = {"pages whose text is on the next one, too": "The first"}
    assert count_words(pdf_of([step, last]), ".pdf", "The first leaf", left_out).not_read == 0


def test_columns_are_read_one_after_the_other() -> None:
    """Not line by line across the page; a title stands above both."""
    page = PdfPage()
    page.text(72, 80, "A title over both of the columns of this page", size=20, font="bold")
    left = [f"left {number} words that fill their column" for number in range(8)]
    right = [f"right {number} words that fill their column" for number in range(8)]
    page.lines(72, 120, left)
    page.lines(320, 120, right)
    text = body(page)
    assert text.index("left 7") < text.index("right 0")
    assert text.startswith("# A title over both")


def test_a_table_in_a_column_is_below_what_is_above_it() -> None:
    """A line over both columns comes first; the table belongs to the text below it."""
    page = PdfPage()
    page.text(72, 80, "The leaves of forty plants were measured in spring and again in the autumn, as below.")
    left = [
        "Here the first column begins, and it",
        "says much about the colour of leaves",
        "and of their stems in the spring.",
    ]
    y = page.lines(72, 110, left * 3)
    page.lines(320, 110, [line.replace("first", "second") for line in left] * 3)
    for row, text in enumerate(("oak", "elm")):
        page.text(76, y + 20 * row, text)
        page.text(156, y + 20 * row, str(row))
    for at in range(3):
        page.rule(72, y - 14 + 20 * at, 232, y - 14 + 20 * at)
        page.rule(72 + 80 * at, y - 14, 72 + 80 * at, y + 26)
    found = [body(page).index(text) for text in ("forty", "first", "| oak", "second")]
    assert found == sorted(found)


def test_a_table_in_the_middle_below_short_lines_stays_there() -> None:
    """It is within the width of no line of the page, and not at its end."""
    page = PdfPage()
    page.lines(72, 80, ["Limits are short.", "", "", "", "", "", "Solutions follow."])
    for at in range(3):
        page.rule(260, 96 + 20 * at, 420, 96 + 20 * at)
        page.rule(260 + 80 * at, 96, 260 + 80 * at, 136)
    for row, text in enumerate(("oak", "elm")):
        page.text(264, 110 + 20 * row, text)
        page.text(344, 110 + 20 * row, str(row))
    found = [body(page).index(text) for text in ("Limits", "| oak", "Solutions")]
    assert found == sorted(found)


def test_a_column_of_code_stands_beside_one_of_text() -> None:
    """Though its lines are short."""
    page = PdfPage()
    page.lines(72, 100, [f"left {number} words that fill their column" for number in range(8)])
    page.lines(320, 100, [f"x <- {number}" for number in range(8)], font="code")
    lines = "\n".join(f"x <- {number}" for number in range(8))
    assert body(page).endswith(f"left 7 words that fill their column\n\n```\n{lines}\n```\n")


def test_a_table_with_a_grid() -> None:
    """Cells by their lines, also those of several lines."""
    page = PdfPage()
    rows = [("Tree", "Leaf"), ("oak", "lobed"), ("beech", "entire")]
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            page.text(80 + 120 * column, 100 + 40 * number, text, font="plain" if number else "bold")
    page.text(200, 152, "and green")
    for y in (85, 125, 165, 205):
        page.rule(72, y, 320, y)
    for x in (72, 192, 320):
        page.rule(x, 85, x, 205)
    assert plain_lines(page) == ["Tree Leaf", "oak lobed and green", "beech entire"]


def test_a_table_between_rules_and_one_without() -> None:
    """As books set them: cells that stand in columns."""
    page = PdfPage()
    for number, row in enumerate([("Tree", "Leaf", "n"), ("oak", "lobed", "6"), ("beech", "entire", "7")]):
        for column, text in enumerate(row):
            page.text(80 + 90 * column, 100 + 14 * number, text)
            page.text(80 + 90 * column, 300 + 14 * number, text)
    for y in (88, 104, 136):
        page.rule(72, y, 300, y)
    page.lines(72, 200, PROSE)
    table = ["Tree Leaf n", "oak lobed 6", "beech entire 7"]
    assert plain_lines(page) == [*table, " ".join(PROSE), *table]


def test_fractions_stand_in_their_lines_and_what_is_underlined_is_none() -> None:
    """A rule between two centred texts near to it; those around it belong to the line of the rule."""
    page = PdfPage()
    page.lines(72, 60, PROSE)
    page.text(72, 120, "The rate is")
    for y, text in ((116.3, "n+1"), (124.5, "2m")):
        page.text(130 + 2.9 * (text == "2m"), y, text, size=8)
    page.rule(129.5, 117.5, 144, 117.5)
    page.text(148, 120, "here.")
    page.text(72, 160, "Title")
    page.rule(72, 161.5, 92, 161.5)
    page.text(72, 172, "Under")
    assert body(page).split("\n\n")[1:] == ["The rate is (n+1)/(2m) here.", "Title Under\n"]


def test_drawn_dots_are_bullets_and_numbers_and_lists_beside_each_other_are_two() -> None:
    """As LaTeX Beamer draws them, a ball before an item, with its number in it."""
    page = PdfPage(width=1200)
    page.text(72, 60, "Pumps", size=20)
    for at, (left, right) in enumerate((("sodium", "out"), ("potassium", "in"))):
        y = 120 + 20 * at
        page.text(90, y, left)
        page.text(600, y, f"\x95 {right}")
        page.parts.append(f"76 {HEIGHT - y} 6 6 re f")
        page.text(90, y + 100, left)
        page.text(77, y + 100, str(at + 1), size=6)
        page.parts.append(f"75 {HEIGHT - y - 101} 8 8 re f")
    found = body(page).split("\n\n")
    assert found == ["# Pumps", "- sodium\n- potassium", "1.  sodium\n2.  potassium", "- out\n- in\n"]


def test_lines_of_a_figure_lie_where_it_lies() -> None:
    """Not where they would lie on a page of its own, there across the words of the text."""
    figure, page = PdfPage(), PdfPage()
    for y in (60, 100, 140):
        figure.rule(60, y, 540, y)
    for x in (60, 200, 300, 540):
        figure.rule(x, 60, x, 140)
    page.lines(72, 90, PROSE)
    page.figure(200, 300, figure, scale=0.5)
    assert body(page) == f"{' '.join(PROSE)}\n"


def test_a_heading_is_no_row_of_the_table_beside_it() -> None:
    """Though its number stands far from its title."""
    page = PdfPage()
    for number, row in enumerate([("1.2", "Names"), ("oak", "lobed"), ("beech", "entire"), ("1.3", "Colour")]):
        for column, text in enumerate(row):
            page.text(72 + 60 * column, 100 + 14 * number, text, font="bold" if row[0].startswith("1") else "plain")
    page.lines(72, 170, PROSE)
    assert body(page) == f"# 1.2 Names\n\noak lobed beech entire\n\n# 1.3 Colour\n\n{' '.join(PROSE)}\n"


def test_columns_of_code_are_no_table() -> None:
    """But what a program printed."""
    page = PdfPage()
    rows = [("", "oak", "beech"), ("lobed", "1.5", "0.0"), ("entire", "0.5", "2.0")]
    page.lines(72, 100, [f"{name:8}{one:>12}{two:>16}" for name, one, two in rows], font="code")
    assert body(page) == (
        "```\n                 oak           beech\nlobed            1.5             0.0\n"
        "entire           0.5             2.0\n```\n"
    )


def test_lines_of_a_figure_make_no_table_of_its_words() -> None:
    """Such as the legend of a plot; a page that is a form as a whole still has tables."""
    grid, small, whole = PdfPage(), PdfPage(), PdfPage()
    for y in (90, 130, 170):
        grid.rule(72, y, 320, y)
    for x in (72, 192, 320):
        grid.rule(x, 90, x, 170)
        grid.text(x + 8, 110, "oak")
        grid.text(x + 8, 150, "lobed")
    grid.text(400, 700, "Some more.")
    small.lines(72, 100, PROSE)
    small.figure(72, 200, grid, scale=0.5)
    whole.figure(0, 0, grid, scale=1)
    assert "|" not in body(small)
    assert "| oak   | oak   |" in body(whole)


def test_running_heads_and_page_numbers_are_left_out_and_paragraphs_go_on_over_pages() -> None:
    """What stands on every page is no text of the document."""
    pages = []
    for number in range(4):
        page = PdfPage()
        page.text(72, 40, "Of Leaves, chapter 1")
        page.text(300, 40, str(number + 1))
        page.text(300, 810, f"Leaves | {number + 1}")
        page.lines(72, 100, [*PROSE[:2], "made of it shows, and goes on over the end of the page it stands on, where"])
        pages.append(page)
    pages[1].parts[2:] = []
    pages[1].lines(72, 100, ["the next one takes it up."])
    text = body(*pages)
    assert "chapter" not in text
    assert "|" not in text
    assert "stands on, where the next one takes it up." in text


def test_titles_at_the_top_of_pages_that_begin_alike_are_headings() -> None:
    """Exercises on a page each, frames of a lecture: a running head is not larger than the text."""
    pages = []
    for number in range(4):
        page = PdfPage()
        page.text(72, 40, f"Exercise {number + 1}", size=18)
        page.lines(72, 100, PROSE)
        pages.append(page)
    assert [line for line in body(*pages).split("\n") if "Exercise" in line] == [f"# Exercise {n}" for n in range(1, 5)]


@pytest.mark.parametrize(
    ("left", "right", "shown"),
    [
        (  # beside the middle of the longer one
            [(100, "Left it takes heat from the hot"), (114, "reservoir, which is the steam"), (128, "of a kettle.")],
            [(107, "Right it gives some of the heat"), (121, "to the cold reservoir.")],
            "Left it takes heat from the hot reservoir, which is the steam of a kettle.\n\n"
            "Right it gives some of the heat to the cold reservoir.\n",
        ),
        (  # line beside line
            [(100, "Left it is."), (114, "- a wolf and a dog")],
            [(100, "Right it is."), (114, "- a cat and a lion")],
            "Left it is.\n\n- a wolf and a dog\n\nRight it is.\n\n- a cat and a lion\n",
        ),
        ([(100, "Lipase"), (114, "Amylase")], [(100, "Fats"), (114, "Starch")], "Lipase Fats Amylase Starch\n"),
    ],
)
def test_columns_of_a_slide(left: list[tuple[int, str]], right: list[tuple[int, str]], shown: str) -> None:
    """Few lines, at other heights than those beside them; no cells of a table."""
    page = PdfPage(width=1_100)
    page.text(500, 40, "A title over them", size=16)
    for x, column in ((300, left), (460, right)):
        for y, text in column:
            page.text(x, y, text)
    assert body(page) == f"# A title over them\n\n{shown}"


def test_slides_that_appear_step_by_step_are_one_page() -> None:
    """Only the last step is written; what it replaced has a page of its own."""
    pages = [PdfPage() for _ in range(4)]
    for number, page in enumerate(pages[:3]):
        page.text(100, 60, "Photosynthesis", size=20)
        page.lines(100, 120, ["Light is caught.", "Water is split.", "Sugar is made."][: number + 1], leading=40)
    pages[3].text(100, 60, "Respiration", size=20)
    pages[3].lines(100, 120, ["Sugar is burnt."])
    document = read(pdf_of(pages), HERE)
    assert (
        document.body.count("Photosynthesis")
        == document.body.count("Light")
        == document.body.count("Sugar is") - 1
        == 1
    )
    assert document.left_out == {
        "pages whose text is on the next one, too (1–2)": "Photosynthesis\nLight is caught.\n"
        "Photosynthesis\nLight is caught.\nWater is split."
    }


def test_slides_with_long_feet_and_their_contents_beside_them() -> None:
    """As LaTeX Beamer prints them: titles hardly larger than the text, what is not shown yet far beside the page."""
    pages = [PdfPage(width=1_100) for _ in range(4)]
    for number, page in enumerate(pages):
        page.text(300, 60, f"Frame of {'abcd'[number]} leaf", size=12.5)
        page.lines(300, 140, [f"It is leaf {'abcd'[number]}.", *PROSE])
        page.text(20, 140, "Contents of it", size=9)
        page.text(2_300, -1_900, "Not yet shown.")
        page.text(300, 830, f"Ada Meyer, University of Bern, a lecture of many words | {number + 1}", size=6)
    document = read(pdf_of(pages), HERE)
    text = " ".join(PROSE)
    shown = "".join(
        f"# Frame of {x} leaf\n\n<!-- p. {n} -->\n\nIt is leaf {x}.\n\n{text}\n\n" for n, x in enumerate("abcd", 1)
    )
    assert (document.body, document.title) == (shown[:-1], "Frame of a leaf")


def test_headings_below_each_other_that_are_not_aligned_are_two() -> None:
    """A title in the middle, of the size of the first heading."""
    page = PdfPage()
    page.text(260, 80, "A manual", size=18, font="bold")
    page.text(72, 106, "Of leaves and their colours", size=18, font="bold")
    page.lines(72, 140, PROSE)
    assert body(page).startswith("# A manual\n\n# Of leaves and their colours\n\n")


def test_on_a_sheet_of_exercises_each_is_a_paragraph() -> None:
    """Most of its lines are as far apart as its paragraphs."""
    page = PdfPage()
    page.lines(247, 80, ["Sheet 3", "Due 12 May 2026"])
    page.lines(72, 113, ["Exercise 1 (4 points). Find the derivative of each of these functions, and say", "where."])
    page.lines(72, 146, ["(a) a sine", "(b) a cosine", "(c) a root"], leading=21)
    page.lines(72, 209, ["Exercise 2 (6 points). Show that it is positive."])
    found = [each for each in body(page).split("\n\n") if "Exercise" in each]
    assert [each[:10] for each in found] == ["Exercise 1", "Exercise 2"]


def test_raised_and_lowered_letters_that_are_not_smaller() -> None:
    """As WeasyPrint sets them."""
    page = PdfPage()
    page.text(72, 100, "Water is H")
    page.text(118.7, 105, "2", size=9.75)
    page.text(124.1, 100, "O makes 10")
    page.text(178, 95, "6", size=9.75)
    page.lines(72, 112, PROSE)
    assert body(page).startswith("Water is H~2~O makes 10^6^ The leaf")
    assert "6" not in " ".join(count_words(pdf_of([page]), ".pdf", body(page)).notes)


def test_items_keep_their_letters_and_numbers() -> None:
    """The parts of exercises are referred to."""
    page = PdfPage()
    page.lines(100, 100, ["Answer these questions about the leaf, and give reasons."])
    page.lines(110, 130, ["a) Why is it green?", "b) Why does it fall?", "c) What is it for?"])
    page.lines(100, 190, ["Then draw one of the following, as large as you can."])
    page.lines(110, 220, ["ii) a leaf", "iii) a root"])
    page.lines(100, 270, ["And the last ones are these, which are harder."])
    page.lines(110, 300, ["3. a flower", "4. a fruit"])
    text = body(page)
    assert "a. Why is it green?\nb. Why does it fall?\nc. What is it for?" in re.sub(" +", " ", text)
    assert "ii. a leaf\niii. a root" in re.sub(" +", " ", text)
    assert "3. a flower\n4. a fruit" in re.sub(" +", " ", text)


def test_a_hyphen_at_a_line_s_end_goes_unless_the_word_has_one() -> None:
    """What the document writes elsewhere decides."""
    page = PdfPage()
    page.lines(72, 100, ["The chlorophyll and the well-known leaf stand here in a line that is long; the chloro-",
                         "phyll and the well-", "known leaf once more"])  # fmt: skip
    assert body(page).endswith("long; the chlorophyll and the well-known leaf once more\n")


def test_the_outline_says_which_lines_are_headings() -> None:
    """And a bold line that is not in it is none."""
    page = PdfPage()
    page.text(72, 100, "Colour", font="bold")
    page.lines(72, 130, PROSE)
    page.text(72, 200, "Not a heading", font="bold")
    page.lines(72, 230, PROSE)
    text = body(page, outline=(("Colour", 0),))
    assert text.startswith("# Colour\n")
    assert "\n**Not a heading**\n" in text


def test_a_table_of_contents_is_left_out() -> None:
    """The headings say it again."""
    page = PdfPage()
    page.text(72, 80, "Contents", size=14, font="bold")
    page.lines(72, 110, [f"{n} Part {'. ' * 20}{n}" for n in range(1, 5)])
    page.lines(72, 200, PROSE)
    assert body(page) == f"{' '.join(PROSE)}\n"


@pytest.mark.parametrize("turns", [90, 180, 270])
def test_turned_text_is_left_out(turns: int) -> None:
    """Such as the stamp at the margin of a paper."""
    page = PdfPage(rotate=turns)
    page.lines(72, 100, PROSE)
    upright = PdfPage()
    upright.lines(72, 100, ["Upright text."])
    assert body(page, upright) == "Upright text.\n"


@pytest.mark.parametrize(("turns", "matrix"), [(90, "0 1 -1 0 {y} {x}"), (270, "0 -1 1 0 {v} {h}")])
def test_pages_that_are_shown_turned_are_read_as_they_are_shown(turns: int, matrix: str) -> None:
    """A wide table on a page of its own."""
    page = PdfPage(rotate=turns)
    for number, text in enumerate(PROSE):
        x, y = 72, 100 + 12 * number
        place = matrix.format(x=x, y=y, v=WIDTH - y, h=HEIGHT - x)
        page.parts.append(f"BT /plain 10 Tf {place} Tm ({text}) Tj ET")
    assert body(page) == f"{' '.join(PROSE)}\n"


def test_a_title_that_no_one_gave_is_none() -> None:
    """Programs write the name of the file."""
    page = PdfPage()
    page.text(72, 100, "Some text.")
    assert read(pdf_of([page], title="Microsoft Word - notes.doc"), HERE).title == ""
    assert read(pdf_of([page], title="Leaves"), HERE).title == "Leaves"
    page.text(72, 60, "Of Leaves", size=20)  # larger than anything else in the document
    page.text(72, 84, "and Roots", size=20)
    page.lines(72, 112, PROSE)
    page.text(72, 200, "A heading of this size", size=20)
    assert read(pdf_of([page], title="notes.docx"), HERE).title == "Of Leaves and Roots"


def test_pages_that_are_pictures_are_refused_or_told() -> None:
    """With the program that recognises text."""
    scanned, written = PdfPage(), PdfPage()
    scanned.image(0, 0, 595, 842)
    written.text(72, 100, "Some text.")
    with pytest.raises(FileReadError, match="ocrmypdf"):
        read(pdf_of([scanned, scanned]), HERE)
    notes = read(pdf_of([written, scanned, scanned]), HERE).notes
    assert notes[0].startswith("pages without text, perhaps scanned: 2–3; ")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ((FIXTURES / "encrypted.pdf").read_bytes(), "qpdf --decrypt"),
        (b"hello", "not a PDF"),
        (b"", "not a PDF"),
        (pdf_of([PdfPage()])[:300], "not a PDF|pictures"),
        (pdf_of([PdfPage(["BT /plain 1 Tf [" + f"({'a' * 30_000})" * 100 + "] TJ ET"])]), "a million characters"),
    ],
)
def test_what_cannot_be_read_is_told(data: bytes, told: str) -> None:
    """Encrypted, something else, cut off, a text without end in a few bytes."""
    with pytest.raises(FileReadError, match=told):
        read(data, HERE)


# -- right to left ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1])
def test_arabic_is_read_by_the_places_of_its_letters(order: int) -> None:
    """Whatever their order in the file is; numbers and Latin words in it stay as they are."""
    visible = "ABC 12 \u0644\u0627\u0624\u0633"  # from left to right, as it is printed
    chars = [
        Char(text, 100 + 8 * at, 108 + 8 * at, 40, 52, 50, Style(12.0))
        for at, text in enumerate(visible)
        if text != " "
    ]
    page = PageRead(1, 300, 400, tuple(chars[::order]))
    in_order = sorted(in_reading_order(page).chars, key=lambda char: char.x0)
    assert "".join(char.text for char in in_order) == "\u0633\u0624\u0627\u0644ABC12"


def test_a_line_of_arabic_on_another_page_ends_in_its_full_stop() -> None:
    """The rest of the page keeps its order, and a space is narrow."""
    lines = [("\u0644\u0627", 100.0, 50), ("\u0633.", 78.5, 50), ("Leaf", 60.0, 70)]
    chars = [
        Char(letter, x + 8 * at, x + 8 * at + 8, base - 10, base + 2, base, Style(12.0))
        for text, x, base in lines
        for at, letter in enumerate(text[::-1] if base == 50 else text)
    ]
    page = in_reading_order(PageRead(1, 300, 400, tuple(chars)))
    assert [line.text for line in segments_of(page.chars)] == ["\u0644\u0627 \u0633.", "Leaf"]
