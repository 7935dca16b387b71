"""Word documents, packed by hand. What Pandoc writes as Word is in tests/edge/test_import.py."""

from __future__ import annotations

import io
import zipfile

import pytest

from lmm.errors import FileReadError
from lmm.importing.imported import Context, Imported
from lmm.importing.read_docx import read

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
PACKAGE = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
    'Id="r1" Target="word/document.xml" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>',
}


def word(body: str, **parts: str) -> bytes:
    """A document with this body; `parts` are further files, `styles` for `word/styles.xml`."""
    files = {**PACKAGE, "word/document.xml": f"<w:document {W} {M}><w:body>{body}</w:body></w:document>"}
    files |= {f"word/{name}.xml": text for name, text in parts.items()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def paragraph(*runs: str, style: str = "") -> str:
    """A paragraph of runs."""
    return f"<w:p><w:pPr>{style and f'<w:pStyle w:val={style!r}/>'}</w:pPr>{''.join(runs)}</w:p>"


def run(text: str, properties: str = "") -> str:
    """A run of text."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def imported(data: bytes) -> Imported:
    """A document, read."""
    return read(data, Context("a.docx"))


MONO = '<w:rFonts w:ascii="Consolas"/>'
STYLES = f"""<w:styles {W}>
<w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="de-DE"/></w:rPr></w:rPrDefault></w:docDefaults>
<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="H"><w:name w:val="heading 2"/></w:style></w:styles>"""


def test_styles_give_title_headings_and_language() -> None:
    """The title goes into the header, not into the text."""
    body = paragraph(run("Der Titel"), style="T") + paragraph(run("Teil"), style="H") + paragraph(run("Text"))
    document = imported(word(body, styles=STYLES))
    assert (document.title, document.language, document.body) == ("Der Titel", "de-DE", "## Teil\n\nText\n")


def test_text_in_a_typewriter_font_is_code() -> None:
    """Words in a paragraph, and paragraphs of nothing else."""
    body = paragraph(run("Call "), run("f(x)", MONO), run(" now."))
    body += paragraph(run("def f(x):", MONO)) + paragraph(run("    return x", MONO))
    assert imported(word(body)).body == "Call `f(x)` now.\n\n```\ndef f(x):\n    return x\n```\n"


def test_formulas_stand_where_they_stood() -> None:
    """Within a line and on their own."""
    formula = (
        "<m:oMath><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>"
    )
    body = paragraph(run("Let "), formula, run(" be.")) + paragraph(f"<m:oMathPara>{formula}</m:oMathPara>")
    assert imported(word(body)).body == "Let $x^2$ be.\n\n$$x^2$$\n"


def test_changes_that_were_tracked() -> None:
    """As if they had been accepted."""
    body = paragraph(run("a "), f"<w:ins>{run('new ')}</w:ins>", "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>")
    assert imported(word(body)).body == "a new\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "no Word file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Word 97, or has a password"),
        (word(""), "no text"),
        (word("<w:p>"), "no valid XML"),
        (
            word(paragraph(run("x")), styles='<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'),
            "entities",
        ),
        (word("<w:p><w:r>" * 3_000 + "</w:r></w:p>" * 3_000), "cannot be read|no text"),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes, told: str) -> None:
    """With what to do."""
    with pytest.raises(FileReadError, match=told):
        imported(data)
