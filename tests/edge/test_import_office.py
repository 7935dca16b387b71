"""Importing sheets, slides and Word files of other programs: as they are shown, and no word lost in silence."""

from __future__ import annotations

import io
import re
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from edge.import_documents import need_importer, pandoc
from edge.support import run_here

from lmm.errors import FileReadError
from lmm.importing.formats import format_of
from lmm.importing.import_document import import_file, read_source
from lmm.importing.word_count import count_words, words_of

pytestmark = pytest.mark.usefixtures("forked_readers")
FILES = Path(__file__).parent.parent / "fixtures" / "import"


def rows(text: str) -> list[list[str]]:
    """The rows of all tables in a markdown text, without the lines below headers."""
    lines = [line for line in text.splitlines() if line.startswith("|") and set(line) - set("|- ")]
    return [[cell.strip() for cell in line.strip("|").replace(r"\|", "¦").split("|")] for line in lines]


# -- sheets ----------------------------------------------------------------------------------------------


def test_a_sheet_arrives_as_it_is_shown(tmp_path: Path) -> None:
    """Dates, percents, currencies, booleans and long numbers; a hidden sheet is named."""
    report = import_file(FILES / "marks.xlsx", tmp_path / "marks.md")
    assert rows(report.text)[:3] == [
        ["Student", "Exam date", "Start", "Points", "Share", "Passed", "Fee", "Result"],
        ["20261234567", "2026-02-09", "09/02/2026 14:30", "17", "85%", "TRUE", "1,234.50 EUR", "pass"],
        ["12345678", "", "", "0.3", "", "FALSE", "-(3)", r"\#N/A"],
    ]
    assert ["South", "5", "6"] in rows(report.text)  # a merged cell stands in each of its rows
    assert "42" not in report.text
    assert report.notes == ("left out: hidden sheet(s) Solutions",)


def test_a_workbook_of_a_streaming_writer_is_read(tmp_path: Path) -> None:
    """Inline strings; a formula without a stored result is written as the formula, and counted."""
    report = import_file(FILES / "streamed.xlsx", tmp_path / "a.md")
    assert rows(report.text)[1] == [
        *("TRUE", "12", "2026-01-05", "1", "12.5%", "1,234.50 EUR", "007", "a¦b second line", "`=B2*2`"),
    ]
    assert any("no result: 2 cell(s)" in note for note in report.notes)


def _workbook(path: Path) -> Any:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.save(path)
    return book


def test_a_result_that_was_never_computed_is_no_number(tmp_path: Path) -> None:
    """XlsxWriter stores 0 for what Excel computes when it opens the file."""
    need_importer()
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook(tmp_path / "a.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["n", "twice"])
        sheet.write_number(1, 0, 0)
        sheet.write_formula(1, 1, "=A2*2")
    report = import_file(tmp_path / "a.xlsx")
    assert "| 0 | `=A2*2` |" in report.text
    assert report.notes == ("written as formulas, since the file contains no result: 1 cell(s); save it in Excel",)


def test_what_is_around_the_values_is_kept_or_named(tmp_path: Path) -> None:
    """Links and comments stay; hidden columns and unknown formats are named; a title and two tables stay apart."""
    source = tmp_path / "notes.xlsx"
    book = _workbook(source)
    from openpyxl.comments import Comment

    sheet = book.active
    sheet.title = "Noten & Co"
    sheet["A1"] = "Klausur 2026"
    sheet.merge_cells("A1:C1")
    for row in ([], ["Name", "Datum", "Note"], ["Müller, A.", date(2026, 2, 9), 1.3], ["Óscar", date(2026, 2, 9), 2]):
        sheet.append(row)
    sheet["B5"].number_format = "[$-419]d. mmmm yyyy"
    sheet["A4"].comment = Comment("ask | today", "Chair")
    sheet["A5"].hyperlink = "https://example.org/a b"
    sheet["F4"] = "secret"
    sheet.column_dimensions["F"].hidden = True
    sheet["B8"], sheet["C8"], sheet["B9"], sheet["C9"] = "Group", "n", "A", 12
    sheet["XFD1048576"] = "far"
    book.save(source)
    report = import_file(source)
    assert report.text.partition("---\n\n")[2] == "\n".join([
        "# Noten \\& Co", "", "Klausur 2026", "",
        "| Name | Datum | Note |", "| --- | --- | --- |", "| Müller, A. | 2026-02-09 | 1.3 |",
        "| [Óscar](https://example.org/a%20b) | 2026-02-09 | 2 |", "",
        "| Group | n |", "| --- | --- |", "| A | 12 |", "", "far", "", "- Comment on A4: ask \\| today",
        ""])  # fmt: skip
    assert report.notes == (
        "left out: hidden rows or columns in Noten & Co",
        "written as stored, since the number format is not understood: [$-419]d. mmmm yyyy (1)",
    )


def test_a_workbook_with_entities_or_rubbish_is_refused(tmp_path: Path) -> None:
    """Nothing in a stranger's file is expanded, and the error says what to do."""
    source = tmp_path / "bad.xlsx"
    with zipfile.ZipFile(FILES / "marks.xlsx") as old, zipfile.ZipFile(source, "w") as new:
        for name in old.namelist():
            entity = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]>'
            new.writestr(name, entity + old.read(name) if name.endswith("sheet1.xml") else old.read(name))
    with pytest.raises(FileReadError, match="declares XML entities"):
        import_file(source)
    with zipfile.ZipFile(source, "w") as new:
        new.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(FileReadError) as raised:
        import_file(source)
    assert "save it again" in str(raised.value.hint)


def test_sheets_of_libreoffice_are_read_like_those_of_excel(tmp_path: Path) -> None:
    """Values as shown, merged and repeated cells, links, comments; what is hidden is counted."""
    report = import_file(FILES / "marks.ods", tmp_path / "marks.md")
    assert (
        report.text
        == """---
title: Leaves
source: marks.ods
lang: en-GB
---

# Marks

| Student | Exam | Share | Result |
| --- | --- | --- | --- |
| 20261234567 | 09.02.2026 | 85 % | [pass](https://example.org/a%20b) |
| both | both | same | same |
| twice | `=[.A1]*2` | true |  |
| twice | `=[.A1]*2` | true |  |

- Comment on D2: ask her
"""
    )
    assert report.notes == (
        "left out: 1 word in hidden rows or columns of Marks",
        "left out: 3 words in the hidden sheet Solutions",
    )


# -- slides ----------------------------------------------------------------------------------------------


def test_slides_are_read_in_the_order_of_reading(tmp_path: Path) -> None:
    """Groups, levels of lists, charts as tables, notes; a hidden slide is named."""
    need_importer()
    report = import_file(FILES / "slides.pptx", tmp_path / "slides.md")
    sections = dict(re.findall(r"(?s)\n## ([^\n]*)\n\n<!-- slide \d+ -->\n\n(.*?)\s*(?=\n## |\Z)", report.text))
    assert sections["Cell parts"].split("\n\n") == ["Nucleus", "Holds DNA", "Mitochondrion", "Makes energy"]
    assert sections["Grouped"].split("\n\n") == ["GROUPED ONE", "GROUPED NESTED", "TEXT IN RECTANGLE"]
    assert sections["Comparison"].split("\n\n") == ["Pros head", "cheap", "Cons head", "slow"]
    assert "- one\n  - one a\n    - one a i\n- two" in report.text
    assert ["A", "3"] in rows(sections["Chart slide"])
    assert sections["Notes"] == "body\n\n::: notes\nSpeaker says hi\n:::"
    assert "Two lines" in sections
    assert "ANSWER" not in report.text
    assert report.notes == ("left out: hidden slide(s) 6 (Hidden solutions)",)


def test_slides_of_libreoffice_are_read_like_those_of_powerpoint(tmp_path: Path) -> None:
    """Groups in the order of reading, lists, tables, formulas, notes; a hidden slide is counted."""
    need_importer()
    report = import_file(FILES / "slides.odp", tmp_path / "slides.md")
    sections = dict(re.findall(r"(?s)\n## ([^\n]*)\n\n<!-- slide \d+ -->\n\n(.*?)\s*(?=\n## |\Z)", report.text))
    first = ["left text", "right text", "grouped a", "grouped b", "in a shape", "::: notes\nSpeaker says hi\n:::"]
    assert sections["Cell parts"].split("\n\n") == first
    table = "| A   | B   |\n|-----|-----|\n| 1   | 2   |"
    assert sections["Lists"] == f"- one\n  - one a\n- two bold\n\n{table}\n\n$\\frac{{a}}{{b}}$"
    assert report.notes == (
        "left out: 3 words in footers and numbers of slides",
        "left out: 2 words in the hidden slide 3",
    )


_FORMULA = (
    '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    ' xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><mc:Choice Requires="a14"><a14:m>'
    '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:f><m:num><m:r><m:t>a</m:t></m:r>'
    "</m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f></m:oMath></a14:m></mc:Choice>"
    "<mc:Fallback><a:r><a:t>[picture]</a:t></a:r></mc:Fallback></mc:AlternateContent>"
)


def test_formulas_code_and_marks_on_slides(tmp_path: Path) -> None:
    """Formulas are TeX, monospaced boxes are code, links and sub- and superscripts stay; pictures have their texts."""
    need_importer()
    pptx = pytest.importorskip("pptx")
    etree = pytest.importorskip("lxml.etree")
    file = pptx.Presentation()
    slide = file.slides.add_slide(file.slide_layouts[5])
    slide.shapes.title.text = "Fractions & more"
    inches = pptx.util.Inches
    box = slide.shapes.add_textbox(inches(1), inches(2), inches(4), inches(1)).text_frame
    paragraph = box.paragraphs[0]
    paragraph.add_run().text = "Half is "
    paragraph._p.append(etree.fromstring(_FORMULA))
    up = box.add_paragraph().add_run()
    up.text = "linked"
    up.hyperlink.address = "https://example.org/x"
    code = slide.shapes.add_textbox(inches(1), inches(4), inches(4), inches(1)).text_frame
    for line in ("for x in y:", "    print(x)"):
        run = (code.paragraphs[0] if not code.paragraphs[0].runs else code.add_paragraph()).add_run()
        run.text, run.font.name = line, "Consolas"
    file.save(tmp_path / "a.pptx")
    text = import_file(tmp_path / "a.pptx").text
    assert "Half is $\\frac{a}{b}$" in text
    assert "[linked](https://example.org/x)" in text
    assert "```\nfor x in y:\n    print(x)\n```" in text


STYLE = "<styl:style styl:name='T1'><styl:text-properties styl:text-position='super 58%'/></styl:style>"
SCRIPT = "<text:span text:style-name='T1'>6</text:span>"


def _opendocument(kind: str, content: str) -> bytes:
    """A file of LibreOffice; prefixes are the first four letters of the namespaces."""
    names = ("office", "text", "table", "drawing", "presentation", "svg-compatible", "style")
    spaces = " ".join(f'xmlns:{name[:4]}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr("content.xml", f"<offi:document-content {spaces}>{content}</offi:document-content>")
    return file.getvalue()


def _boxes(path: Path) -> None:
    """Write a slide of two text boxes and notes, without placeholders."""
    if path.suffix == ".pptx":
        pptx = pytest.importorskip("pptx")
        file = pptx.Presentation()
        file.core_properties.title = "PowerPoint Presentation"
        slide = file.slides.add_slide(file.slide_layouts[6])
        for top, text in ((3, "Leaves fall."), (1, "Autumn 10")):
            inches = pptx.util.Inches
            box = slide.shapes.add_textbox(inches(1), inches(top), inches(4), inches(1)).text_frame
            box.text = text
        raised = box.paragraphs[0].add_run()
        raised.text = "6"
        raised._r.get_or_add_rPr().set("baseline", "30000")
        notes = slide.notes_slide.notes_placeholder
        for text in ("Say 10", "6"):
            notes.text_frame.paragraphs[0].add_run().text = text
        notes.text_frame.paragraphs[0].runs[1]._r.get_or_add_rPr().set("baseline", "30000")
        (kind,) = notes.element.xpath(".//p:nvPr/p:ph")
        kind.getparent().remove(kind)
        file.save(path)
        return
    box = (
        "<draw:frame svg-:x='1cm' svg-:y='{}cm'><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>".format
    )
    notes = f"<pres:notes>{box(9, f'Say 10{SCRIPT}')}</pres:notes>"
    page = f"<draw:page>{box(3, 'Leaves fall.')}{box(1, f'Autumn<text:line-break/>10{SCRIPT}')}{notes}</draw:page>"
    path.write_bytes(_opendocument("presentation", STYLE + page))


@pytest.mark.parametrize("suffix", [".pptx", ".odp"])
def test_slides_of_boxes_have_titles_and_notes(tmp_path: Path, suffix: str) -> None:
    """The line at the top of a slide without a title is its title, that of the first slide the document's."""
    need_importer()
    _boxes(tmp_path / f"a{suffix}")
    report = import_file(tmp_path / f"a{suffix}")
    assert (report.notes, report.text) == (
        (),
        f"---\ntitle: Autumn 10^6^\nsource: a{suffix}\n---\n\n## Autumn 10^6^\n\n<!-- slide 1 -->\n\nLeaves fall.\n\n"
        "::: notes\nSay 10^6^\n:::\n",
    )


def test_a_chart_of_points_has_their_places(tmp_path: Path) -> None:
    """The x values, too; the only text on the slide is its title."""
    need_importer()
    pptx, charts = pytest.importorskip("pptx"), pytest.importorskip("pptx.chart.data")
    file = pptx.Presentation()
    slide = file.slides.add_slide(file.slide_layouts[6])
    data = charts.XyChartData()
    for name, y in (("A", 10), ("B", 20)):
        data.add_series(name).add_data_point(2.5, y)
    slide.shapes.add_textbox(0, 0, 900_000, 300_000).text_frame.text = "Points"
    slide.shapes.add_chart(pptx.enum.chart.XL_CHART_TYPE.XY_SCATTER, 0, 900_000, 900_000, 900_000, data)
    file.save(tmp_path / "a.pptx")
    report = import_file(tmp_path / "a.pptx")
    assert "## Points\n" in report.text
    assert [row for row in rows(report.text) if set(row[0]) - {"-"}] == [["x", "A", "B"], ["2.5", "10", "20"]]


def test_slides_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """An archive that is no presentation, and slides without text."""
    need_importer()
    with zipfile.ZipFile(tmp_path / "bad.pptx", "w") as new:
        new.writestr("ppt/presentation.xml", "<x/>")
    with pytest.raises(FileReadError, match="these slides cannot be read"):
        import_file(tmp_path / "bad.pptx")
    pptx = pytest.importorskip("pptx")
    file = pptx.Presentation()
    file.slides.add_slide(file.slide_layouts[6])
    made = io.BytesIO()
    file.save(made)
    (tmp_path / "empty.pptx").write_bytes(made.getvalue())
    with pytest.raises(FileReadError, match="no text in these slides"):
        import_file(tmp_path / "empty.pptx")


# -- Word files ------------------------------------------------------------------------------------------


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _paragraph(*parts: str) -> str:
    return f"<w:p>{''.join(parts)}</w:p>"


def _field(form: str = "", code: str = "", inner: str = "") -> str:
    """A field: its form, its code, and what stands within the code."""
    parts = (f'<w:fldChar w:fldCharType="begin">{form}</w:fldChar>', f"<w:instrText>{code}</w:instrText>")
    end = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    return "".join(f"<w:r>{part}</w:r>" for part in parts) + inner + end


def _word_file(path: Path, body: str, chunk: str = "") -> Path:
    """A Word file with this body, and an embedded page."""
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/aFChunk"
    made = pandoc(b"x", "-f", "markdown", "-t", "docx")
    with zipfile.ZipFile(io.BytesIO(made)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name == "word/document.xml":
                text = re.sub(rb"(?s)<w:body>.*</w:body>", lambda _: f"<w:body>{body}</w:body>".encode(), text)
            if name == "word/_rels/document.xml.rels":
                relation = f'<Relationship Id="rIdA" Type="{kind}" Target="chunk.html"/></Relationships>'
                text = text.replace(b"</Relationships>", relation.encode())
            new.writestr(name, text)
        new.writestr("word/chunk.html", chunk)
    return path


def test_words_in_wrappers_are_read(tmp_path: Path) -> None:
    """Furigana, runs with a direction, custom XML, forms, embedded pages; not what is deleted or hidden."""
    need_importer()
    form = "<w:ffData><w:{0}><w:{1} w:val='{2}'/></w:{0}></w:ffData>"
    ruby = f"<w:r><w:ruby><w:rt>{_run('かんじ')}</w:rt><w:rubyBase>{_run('漢字')}</w:rubyBase></w:ruby></w:r>"
    rows = [("", "Head"), ("", "kept"), ('<w:trPr><w:del w:id="1" w:author="a"/></w:trPr>', "deleted")]
    table = "".join(f"<w:tr>{marks}<w:tc>{_paragraph(_run(text))}</w:tc></w:tr>" for marks, text in rows)
    body = [
        _paragraph(_run("Before "), ruby, _run(" after")),
        _paragraph(f'<w:bdo w:val="ltr">{_run("turned")}</w:bdo>'),
        f'<w:customXml w:element="x">{_paragraph(_run("custom"))}</w:customXml>',
        f"<w:tbl><w:tblGrid><w:gridCol/></w:tblGrid>{table}</w:tbl>",
        _paragraph(
            _run("shown"),
            _run(" the answer key", "<w:vanish/>"),
            _run(" again", '<w:vanish w:val="0"/>'),
            _run(" in white", '<w:color w:val="ffffff"/>'),
            _run(" on blue", '<w:color w:val="FFFFFF"/><w:shd w:fill="0000FF"/>'),
        ),
        _paragraph(_field(form.format("checkBox", "checked", 1)), _field(form.format("checkBox", "default", 0))),
        _paragraph("<w:r><w:sym w:font='MS Gothic' w:char='2612'/></w:r>", _run(" a"), "<w:r><w:cr/></w:r>", _run("b")),
        _paragraph(_field(code="EQ x(1;2)"), _field(code="IF", inner=_field("", "MERGEFIELD", _run("not shown")))),
        _paragraph(
            f'<w:fldSimple w:instr="HYPERLINK x">{_run("link")}</w:fldSimple>', f"<w:ins>{_run(' new')}</w:ins>"
        ),
        '<w:altChunk r:id="rIdA"/>',
    ]
    chunk = "<h2>Chunk</h2><p>10<sup>6</sup>"
    report = import_file(_word_file(tmp_path / "a.docx", "".join(body), chunk))
    text = report.text.partition("---\n\n")[2]
    assert text.split("\n\n") == [
        "Before 漢字(かんじ) after", "turned", "custom", "|      |\n|------|\n| Head |\n| kept |",
        "shown again on blue",
        "☒☐", "☒ a\\\nb", "EQ x(1;2)", "link new", "## Chunk", "10^6^\n"]  # fmt: skip
    assert report.notes[0] == "left out: hidden text (5 words: the answer key in white …)"


def test_an_opendocument_text_is_read_as_a_word_file_is(tmp_path: Path) -> None:
    """Text boxes, fields, tables in cells, furigana and styled headings; hidden text and comments are counted."""
    need_importer()
    names = ("office", "table", "text", "style", "drawing")
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
    cell, ends = (
        "<table:table><table:table-row><table:table-cell>",
        "</table:table-cell></table:table-row></table:table>",
    )
    box = "<drawing:frame><drawing:text-box><text:p>in the box</text:p></drawing:text-box></drawing:frame>"
    ruby = "<text:ruby><text:ruby-base>漢字</text:ruby-base><text:ruby-text>かんじ</text:ruby-text></text:ruby>"
    field, hidden = (
        "<text:sequence>7</text:sequence> of <text:date>5 May</text:date>",
        '<text:span text:style-name="T1">the key</text:span>',
    )
    body = [
        '<text:p text:style-name="P1">Leaves</text:p>',
        f"<text:p>Figure {field}: veins {hidden}</text:p>",
        '<text:section text:display="none"><text:p>Answers</text:p></text:section>',
        f"<text:p>Before {box}after</text:p>",
        f"<text:p>{ruby}</text:p>",
        f"{cell}{cell}<text:p>inner</text:p>{ends}{ends}",
        "<text:p>End<office:annotation><text:p>why so</text:p></office:annotation></text:p>",
    ]
    styles = (
        '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Heading_20_1"/>'
        '<style:style style:name="T1" style:family="text"><style:text-properties text:display="none"/></style:style>'
    )
    content = (
        f"<office:document-content {spaces}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:text>{''.join(body)}</office:text></office:body></office:document-content>"
    )
    made = pandoc(b"x", "-f", "markdown", "-t", "odt")
    with zipfile.ZipFile(io.BytesIO(made)) as old, zipfile.ZipFile(tmp_path / "a.odt", "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name == "content.xml" else old.read(name))
    report = import_file(tmp_path / "a.odt")
    text = report.text.partition("---\n\n")[2]
    assert (
        text == "# Leaves\n\nFigure 7 of 5 May: veins\n\nBefore after\n\nin the box\n\n漢字(かんじ)\n\ninner\n\nEnd\n"
    )
    assert report.notes == ("left out: 3 words in hidden text", "left out: 2 words in comments")


@pytest.mark.parametrize("suffix", [".docx", ".html", ".epub", ".xlsx", ".ods"])
def test_text_that_a_style_raises_is_no_part_of_a_number(tmp_path: Path, suffix: str) -> None:
    """As LibreOffice and Google Docs write 10⁶ and H₂O: smaller and raised, or by the class of a span."""
    need_importer()
    path = tmp_path / f"a{suffix}"
    raised, lowered = (f'<w:position w:val="{height}"/><w:sz w:val="19"/>' for height in (8, -2))
    runs = _run("It holds 10"), _run("6", raised), _run(" of H"), _run("2", lowered), _run("O.")
    style = ".c1{vertical-align:super}.c2{position:relative;top:0.1em;font-size:0.8em}"
    spans = 'It holds 10<span class="c1">6</span> of H<span class="c2">2</span>O.'
    if suffix == ".docx":
        _word_file(path, _paragraph(*runs))
    elif suffix == ".xlsx":
        from openpyxl.cell.rich_text import CellRichText, InlineFont, TextBlock

        up, down = (InlineFont(vertAlign=kind) for kind in ("superscript", "subscript"))
        book = _workbook(path)
        book.active["A1"] = CellRichText("It holds 10", TextBlock(up, "6"), " of H", TextBlock(down, "2"), "O.")
        book.save(path)
    elif suffix == ".ods":
        lowered_span = SCRIPT.replace("T1", "T2").replace("6", "2")
        cell = f"<tabl:table-cell><text:p>It holds 10{SCRIPT} of H{lowered_span}O.</text:p></tabl:table-cell>"
        table = f"<tabl:table tabl:name='A'><tabl:table-row>{cell}</tabl:table-row></tabl:table>"
        styles = STYLE + STYLE.replace("T1", "T2").replace("super", "-33%")
        path.write_bytes(_opendocument("spreadsheet", f"{styles}<offi:spreadsheet>{table}</offi:spreadsheet>"))
    elif suffix == ".html":
        path.write_text(f"<html><head><style>{style}</style></head><body><p>{spans}</p></body></html>")
    else:
        (tmp_path / "a.css").write_text(style)
        path.write_bytes(pandoc(spans.encode(), "-f", "html", "-t", "epub", "--css", str(tmp_path / "a.css")))
    assert import_file(path, tmp_path / "a.md").text.rstrip().endswith("It holds 10^6^ of H~2~O.")


@pytest.mark.parametrize("name", ["boxes.docx", "fields.docx"])
def test_text_boxes_and_fields_are_read(tmp_path: Path, name: str) -> None:
    """The words of a paragraph to which a box is anchored stay, and so do numbers of captions."""
    need_importer()
    report = import_file(FILES / name, tmp_path / "a.md")
    words = (
        ["Para with box A.", "BOX-ALT important rule", "BOX-BARE drawing only", "BOX-VML old style", "BOX-GROUP two"]
        if name == "boxes.docx"
        else ["Figure 3: Phases of mitosis", "See Figure 3 and page 12.", "total 42, name Kim"]
    )
    assert all(f"{text}" in report.text for text in words)
    assert report.text.count("BOX-ALT") == (name == "boxes.docx")
    assert not any("not read" in note for note in report.notes)


# -- no word is lost in silence ----------------------------------------------------------------------------


COUNTED = [
    *("boxes.docx", "fields.docx", "slides.pptx", "marks.xlsx", "streamed.xlsx"),
    *("leaves.pdf", "form.pdf", "letter.rtf", "plot.ipynb", "marks.ods", "slides.odp"),
]


@pytest.mark.parametrize("name", COUNTED)
def test_words_that_are_missing_from_the_markdown_are_named(name: str) -> None:
    """Whatever paragraph, row or heading is taken out of the markdown: its words are counted and named."""
    need_importer()
    data, suffix = (FILES / name).read_bytes(), Path(name).suffix
    read = read_source(FILES / name, format_of(name))
    assert count_words(data, suffix, read.body, read.left_out).not_read == 0
    for line in read.body.splitlines():
        rest = read.body.replace(line, "", 1)
        bare = re.sub(r"\]\([^)]*\)|^```\w*|^::: notes|^- Comment( on \w+)?:|^<!-- .* -->", "", line)
        lost = {word for word in words_of(bare) if word.isalpha()} - {*words_of(rest), "slide", "true", "false", "eur"}
        is_name = line.startswith(("![", "$")) or (suffix not in (".docx", ".pdf") and re.match(r"##? |\|  ", line))
        if lost and not is_name:
            count = count_words(data, suffix, rest, read.left_out)
            assert count.not_read >= len(lost), line
            assert any(word in " ".join(count.notes) for word in lost), (line, count)


TRIALS = FILES.parents[3] / "shared/trials/documents"


DOCUMENTS = [
    *("2box.docx", "8field.docx", "s.pptx", "a.epub", "b.epub", "tabs.html", "20ex.pdf", "rtl2.pdf", "c.tex"),
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_shape_of_a_trial_that_is_missing_is_named(name: str) -> None:
    """One paragraph, table or list after the other is taken out of the markdown."""
    need_importer()
    if not (TRIALS / name).is_file():
        pytest.skip("no trials beside the project")
    data, suffix = (TRIALS / name).read_bytes(), Path(name).suffix
    read = read_source(TRIALS / name, format_of(name))
    before = count_words(data, suffix, read.body, read.left_out).not_read
    for shape in read.body.split("\n\n"):
        rest = read.body.replace(shape, "", 1)
        lost = {word for word in words_of(shape) if word.isalpha()} - {*words_of(rest)}
        if len(lost) > 2:
            count = count_words(data, suffix, rest, read.left_out)
            assert count.not_read - before >= 0.5 * len(lost), shape
            assert any(word in " ".join(count.notes) for word in lost), (shape, count)


def test_what_is_left_out_of_a_pdf_is_counted_apart(tmp_path: Path) -> None:
    """Running heads and page numbers are no loss; values of forms, and remarks on the page, are read."""
    assert import_file(FILES / "leaves.pdf", tmp_path / "a.md").notes == (
        "left out: 3 words in running heads and page numbers",
    )
    text = import_file(FILES / "form.pdf", tmp_path / "b.md").text
    assert "Name: Ada Lovelace\n\nTopic: Photosynthesis\n\nA remark by the teacher\n" in text


def test_a_letter_after_a_substitute_stays_in_rtf(tmp_path: Path) -> None:
    """`\\u252?n` is two letters; Pandoc drops the second."""
    assert "Sie sind grün. *Nicht* alle" in import_file(FILES / "letter.rtf", tmp_path / "a.md").text


def test_headings_subscripts_and_numbers_of_rtf_stay(tmp_path: Path) -> None:
    """As LibreOffice writes them: a heading is a style, a lowered text has a height, an inner list splits the outer."""
    item = "{{\\pard\\plain \\s3{{\\listtext\\pard\\plain  {0}.\\tab}}\\ilvl{1}\\ls1 {2}\\par}}\n".format
    (tmp_path / "a.rtf").write_text(
        "{\\rtf1\\ansi{\\stylesheet{\\s1\\fs48\\b Heading 1;}{\\s3 List;}}"
        "{\\*\\listtable{\\list{\\listlevel\\levelnfc0 }{\\listlevel\\levelnfc0 }\\listid1}}"
        "{\\*\\listoverridetable{\\listoverride\\listid1\\listoverridecount0\\ls1}}\n"
        "{\\pard\\plain \\s1\\fs48\\b{\\listtext\\pard\\plain \\tab}\\ls1 Water\\par}\n"
        "{\\pard\\plain \\s3 H{\\dn2 2}O{\\super \\chftn{\\*\\footnote \\chftn\\pard {A note.}}}\\par}\n"
        "{\\shp{\\*\\shpinst{\\sp{\\sn gtextUNICODE}{\\sv In a shape}}}}"
        + item(1, 0, "one") + item(1, 1, "inner") + item(2, 0, "two") + "}"
    )  # fmt: skip
    report = import_file(tmp_path / "a.rtf", tmp_path / "a.md")
    text = report.text
    assert "# Water\n\nH~2~O[^1]\n" in text
    assert "[^1]: A note.\n" in text
    assert report.notes == ("not read: 3 words in a shape: in a shape",)
    assert [line.strip() for line in text.splitlines() if ".  " in line] == ["1.  one", "1.  inner", "2.  two"]


def test_what_was_not_read_is_said_in_the_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the screen with its first words, and in the document, for whoever ingests it later."""
    need_importer()
    page = "<main><h1>Install</h1><p>Pick one.</p><p hidden>Use brew today.</p></main>"
    (tmp_path / "a.html").write_text(page)
    ran = run_here(capsys, "import", str(tmp_path / "a.html"))
    assert ran.code == 0
    assert "a.md: not read: 3 words in the page: use brew today" in ran.out
    assert "~~import: 3 of 6 words were not read\n" in (tmp_path / "a.md").read_text()


def test_ingest_repeats_what_was_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever ingests a document learns that its import lost words."""
    (tmp_path / "a.md").write_text("---\ntitle: A\n~~import: 3 of 6 words were not read\n---\n\n# A\n\nText of it.\n")
    ran = run_here(capsys, "ingest", str(tmp_path / "a.md"))
    assert ran.code == 0
    assert "a.md:1: when it was imported, 3 of 6 words were not read (compare it with its source)" in ran.out + ran.err
