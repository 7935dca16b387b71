"""Footnotes: a mark that links to a note, and a note that links back, whatever program wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lmm.importing.elements import MarkupElement, Node, element, find, rewrite, walk, words_of

_NOTES = frozenset({"li", "aside", "p", "div", "dd"})
_MARK = re.compile(r"[\[(]?[\w*†‡§¶]{1,4}[\])]?\Z")
_HOLDERS = frozenset({"ol", "ul", "section", "aside", "div", "hr"})


def with_footnotes(root: MarkupElement) -> MarkupElement:
    """The tree with ``footnote-mark`` where notes are called, and the notes as ``footnote`` at its end.

    >>> mark = element("p", "a", element("a", "1", href="#n", id="r"))
    >>> note = element("ol", element("li", "why ", element("a", "↩", href="#r"), id="n"))
    >>> [child.tag for child in with_footnotes(element("body", mark, note)).elements]
    ['p', 'footnote']
    """
    root = _one(rewrite(root, _with_own_id))
    notes = {node.get("id"): node for node in walk(root) if node.get("id") and node.tag in _NOTES}
    calls = _calls(root, notes)
    labels = {id: str(number) for number, id in enumerate(dict.fromkeys(calls.values()), start=1)}
    if not calls:
        return root

    def change(node: MarkupElement) -> Iterable[Node]:
        if node.tag == "a" and node.get("id") in calls:
            return [element("footnote-mark", label=labels[calls[node.get("id")]])]
        if node.tag in _NOTES and node.get("id") in labels:
            return []
        if node.tag == "sup" and any(child.tag == "footnote-mark" for child in node.elements):
            return node.children
        return [node]

    body = _one(rewrite(root, change))
    written = [element("footnote", *_note(notes[id], calls), label=label) for id, label in labels.items()]
    return replace(body, children=(*_without_empty_end(body.children), *written))


def _with_own_id(node: MarkupElement) -> Iterable[Node]:
    """Some programs give the mark's id to what stands around the link."""
    inner = list(node.elements)
    if node.tag in ("sup", "span") and node.get("id") and len(inner) == 1 and inner[0].tag == "a":
        link = replace(inner[0], attributes={**inner[0].attributes, "id": node.get("id")})
        return [replace(node, children=tuple(link if child is inner[0] else child for child in node.children))]
    return [node]


def _calls(root: MarkupElement, notes: Mapping[str, MarkupElement]) -> dict[str, str]:
    """The id of each link that calls a note, and the note's id: both link to each other."""
    back = {id: {link.get("href") for link in find(note, "a")} for id, note in notes.items()}
    links = (link for link in find(root, "a") if link.get("id") and link.get("href")[:1] == "#")
    return {
        link.get("id"): link.get("href")[1:]
        for link in links
        if f"#{link.get('id')}" in back.get(link.get("href")[1:], ()) and _MARK.match(words_of(link))
    }


def _note(note: MarkupElement, calls: Mapping[str, str]) -> tuple[Node, ...]:
    """A note's content without its number and the links back."""

    def change(node: MarkupElement) -> Iterable[Node]:
        is_back = node.tag == "a" and node.get("href")[1:] in calls
        return [] if is_back or "label" in node.classes or "mw-cite-backlink" in node.classes else [node]

    return _one(rewrite(replace(note, tag="div", attributes={}), change)).children


def _without_empty_end(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Nodes without the empty list, and the rule above it, that the notes leave behind."""
    end = len(nodes)
    while end and _is_empty(nodes[end - 1]):
        end -= 1
    if end and isinstance(last := nodes[end - 1], MarkupElement) and last.tag in _HOLDERS:
        return (*nodes[: end - 1], replace(last, children=_without_empty_end(last.children)))
    return nodes[:end]


def _is_empty(node: Node) -> bool:
    if isinstance(node, str):
        return not node.strip()
    return node.tag in _HOLDERS and not words_of(node) and next(find(node, "img", "math"), None) is None


def _one(nodes: tuple[Node, ...]) -> MarkupElement:
    return next(node for node in nodes if isinstance(node, MarkupElement))
