"""Tags are removed; everything else stays."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from chatmd.content.documents import strip_page, strip_tags

PIECES = st.lists(
    st.sampled_from(
        ["<", ">", "b", " ", "/", "<b>", "</b>", "<!--", "-->", "<script>", "</script>", "='", "'", '"', "é"]
    )
)


@given(st.text(alphabet=st.characters(exclude_characters="<", exclude_categories=["Cs"])))
def test_text_without_tags_is_not_touched(text: str) -> None:
    assert strip_tags(text) == text


@given(PIECES.map("".join))
def test_what_remains_is_part_of_the_text_in_its_order(text: str) -> None:
    left = iter(text)
    assert all(char in left for char in strip_tags(text))
    strip_page(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b > c", "a < b > c"),
        ("List<String> and <https://e.org> and <me@e.org>", "List<String> and <https://e.org> and <me@e.org>"),
        ('x <a href="a>b" title=\'"\'>y</a> z', "x y z"),
        ("x<br/>y<BR>z", "xyz"),
        ("a<!-- <b> -->c", "ac"),
        ("a<script>if (a < b) {}</script >c", "ac"),
        ("<script src='x'/>kept", "kept"),
        ("a <b and c", "a <b and c"),
        ("a <b 'c' <i>d</i>", "a <b 'c' d"),
        ("<b title='never closed", "<b title='never closed"),
        ("# T\n\n<div>\n  x\n</div>\n", "# T\n\n\n  x\n\n"),
        ("<!DOCTYPE html>x<?xml version='1.0'?>y", "xy"),
        ("&lt;b&gt; &amp;", "&lt;b&gt; &amp;"),
        ("<math><mi>x</mi></math>", "<math><mi>x</mi></math>"),
    ],
)
def test_tags_in_texts(text: str, expected: str) -> None:
    assert strip_tags(text) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>one  two<p>three", "one two\nthree\n"),
        ("<h1>A</h1>\n\n<ul>\n <li>b\n <li>c</ul>", "A\nb\nc\n"),
        ("<table><tr><td>1<td>2<tr><td>3</table>", "1\n2\n3\n"),
        ("a&nbsp;b &amp; c &lt;d&gt; &copy;", "a\xa0b & c <d> ©\n"),
        ("<pre>if x:\n    y\n\n  z</pre>after", "if x:\n    y\n\n  z\nafter\n"),
        ("<p>a<b>b</b>c<style>p {}</style></p>", "abc\n"),
        ("<math><semantics><mi>x</mi><annotation>x</annotation></semantics></math>", "x\n"),
        ("<p>a<br>b", "a\nb\n"),
        ("", ""),
        ("   <p> </p> ", ""),
        ("<title>T", "T\n"),
        ("<my-panel><p>Own elements</p></my-panel><x-bar role='b'> of a page</x-bar>", "Own elements\nof a page\n"),
    ],
)
def test_pages(page: str, expected: str) -> None:
    assert strip_page(page) == expected
