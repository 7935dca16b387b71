"""The markdown document that is made of what a reader gives back."""

from __future__ import annotations

import pytest

from lmm.importing.imported import Imported, ImportedImage, compose, language_tag
from lmm.markdown import parse_markdown_text
from lmm.markdown.blocks import HeaderBlock


def header(document: Imported) -> dict[str, object]:
    """The header's values."""
    block = parse_markdown_text(compose(document, source="in: 'a'.pdf", name="a", folder="a_files"))[0]
    assert isinstance(block, HeaderBlock)
    return block.values()


def test_the_title_is_the_document_s_else_the_first_heading_s_else_the_file_s() -> None:
    """In that order; the source is always named."""
    assert header(Imported("# *One* `two`\n", title="T:\n # t")) == {"title": "T: # t", "source": "in: 'a'.pdf"}
    assert header(Imported("Text\n\n## *One* \\# [two](x)\n"))["title"] == "One # two"
    assert header(Imported("Text\n", language="de-CH")) == {"title": "a", "source": "in: 'a'.pdf", "lang": "de-CH"}


def test_a_title_page_is_not_said_twice() -> None:
    """If the first of several chapters is only the title."""
    book = Imported("# T\n\n# One\n\n# Two\n", title="T")
    assert compose(book, source="a", name="a", folder="f").endswith("---\n\n# One\n\n# Two\n")
    article = Imported("# T\n\n## One\n", title="T")
    assert compose(article, source="a", name="a", folder="f").endswith("---\n\n# T\n\n## One\n")


def test_images_are_linked_in_their_folder() -> None:
    """With a name that a link can have; text that looks like one of our addresses stays."""
    document = Imported("![a](lmm-image:0)\n\nlmm-image:7\n", images=(ImportedImage(b"\x89PNG\r\n\x1a\n"),))
    text = compose(document, source="a", name="a", folder="my notes_files")
    assert text.endswith("![a](my%20notes_files/image-1.png)\n\nlmm-image:7\n")


@pytest.mark.parametrize(
    ("name", "tag"),
    [("en", "en"), ("de_AT", "de-AT"), ("zh-Hant-TW", "zh-Hant-TW"), ("", ""), ("x: y", ""), ("none", "")],
)
def test_languages_are_tags_or_nothing(name: str, tag: str) -> None:
    """The header is for programs."""
    assert language_tag(name) == tag
