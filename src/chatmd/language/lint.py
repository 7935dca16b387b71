"""What is wrong with a document, or would be dropped without a word: each finding with its place and a way out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache

from chatmd.language.agent import AgentSpec, CallItem, MessageItem, OutputItem, attribute_spans, interpret
from chatmd.language.nodes import BLANK, Element, Node, Problem, Span, SyntaxTree, Text, body
from chatmd.language.syntax import MAX_PROBLEMS, passed_over
from chatmd.language.tags import DOCUMENT, TAGS, Tag

_STRAY_END = "|RAW"
_KNOWN_TAG = re.compile(rf"<(?:{'|'.join(TAGS)})[ \t\r\n/>]")


def check(document: SyntaxTree) -> list[Problem]:
    """All problems of a document, in the order in which they stand, errors first where two meet.

    Imports are not read: `chatmd.language.imports.resolve_imports` does that, and finds what is wrong with them.

    >>> from chatmd.language.syntax import parse
    >>> for p in check(parse('<user>Hi</user>\\n<doc src="a.md" local/>\\n<user nmae="x">Hi</user>')):
    ...     print(f"{p.span.line}:{p.span.column}: {p.message} ({p.hint})")
    2:1: <doc> means nothing here, and is dropped (put it into a message)
    3:7: <user> has no attribute 'nmae', and it is ignored (did you mean 'name'?)
    """
    spec, found = interpret(document)
    problems = [*document.problems, *found, *_elements(document.children, DOCUMENT)]
    problems += _configuration(document, spec)
    problems += _calls(spec)
    return list(_at_most(MAX_PROBLEMS, sorted(problems, key=_order)))


def _at_most(number: int, problems: list[Problem]) -> Iterator[Problem]:
    """The first problems of each severity: nobody reads more."""
    kept: dict[str, int] = {}
    for problem in problems:
        kept[problem.severity] = kept.get(problem.severity, 0) + 1
        if kept[problem.severity] <= number:
            yield problem


def _order(problem: Problem) -> tuple[str, int, str]:
    return problem.span.file, problem.span.start, problem.severity


def _warning(span: Span, message: str, hint: str) -> Problem:
    return Problem(span, message, hint, "warning")


# -- elements ------------------------------------------------------------------------------------


def _elements(children: tuple[Node, ...], parent: str) -> Iterator[Problem]:
    """Misplaced elements, attributes and contents that mean nothing, at any depth."""
    for node in children:
        if isinstance(node, Text) and node.span is not None:
            yield from _text(node, node.span, parent)
        elif isinstance(node, Element):
            tag = TAGS[node.tag]
            if parent not in tag.parents:
                yield _warning(node.span, f"<{tag.name}> means nothing here, and is dropped", _right_place(tag))
            yield from _attributes(node, tag)
            yield from _content(node, tag)
            yield from _elements(node.children, tag.name)


def _right_place(tag: Tag) -> str:
    if tag.parents == (DOCUMENT,):
        return "it stands by itself, outside of all others; as text, put it in RAW|…|RAW"
    return "put it into <reasoning>" if tag.parents == ("reasoning",) else "put it into a message"


def _text(node: Text, span: Span, parent: str) -> Iterator[Problem]:
    if _STRAY_END in span.text and not node.raw:
        at = span.start + span.text.index(_STRAY_END)
        yield _warning(span._replace(start=at), "'|RAW' ends no RAW block, and is text", "open one before it: RAW|")


def _content(element: Element, tag: Tag) -> Iterator[Problem]:
    parts = body(element.children)
    if tag.content == "nothing" and any(not isinstance(part, str) or part.strip(BLANK) for part in parts):
        yield _warning(element.span, f"what stands inside <{tag.name}> is dropped", f"write <{tag.name} …/>")


def _attributes(element: Element, tag: Tag) -> Iterator[Problem]:
    spans = attribute_spans(element)
    seen: set[str] = set()
    for name, value in element.attributes:
        span, rule = spans.get(name, element.span), tag.attribute(name)
        if name in seen:
            yield _warning(span, f"'{name}' stands here twice, and the last one counts", "delete one of them")
        elif rule is None:
            yield _warning(span, f"<{tag.name}> has no attribute '{name}', and it is ignored", _meant(tag, name))
        elif value is None and rule.kind != "flag":
            yield _warning(span, f"'{name}' has no value", f'write {name}="…"')
        elif value is not None and "\n" in value and _KNOWN_TAG.search(value):
            yield _warning(span, f"the value of '{name}' holds a tag", "is a quote missing?")
        seen.add(name)
    yield from _loose_characters(element)
    if tag.name == "doc" and {"strip", "markdown"} <= seen:
        yield _warning(spans.get("markdown", element.span), "'strip' wins over 'markdown'", "delete one of them")


@lru_cache(maxsize=1000)
def _meant(tag: Tag, name: str) -> str:
    names = [rule.name for rule in tag.attributes]
    close = get_close_matches(name[:40], names, n=1)
    return f"did you mean '{close[0]}'?" if close else f"it has {', '.join(names)}"


def _loose_characters(element: Element) -> Iterator[Problem]:
    if element.opening is not None:
        inside = element.opening.text[1 + len(element.tag) :].removesuffix(">").removesuffix("/")
        if (loose := passed_over(inside)) and loose.strip("\"'"):
            yield _warning(element.opening, f"'{loose}' in this tag is passed over", 'write attributes as name="value"')


# -- the document as a whole -----------------------------------------------------------------------


def _configuration(document: SyntaxTree, spec: AgentSpec) -> Iterator[Problem]:
    """The published rule is: once, near the top. Without one, the settings of `config.toml` count."""
    if document.is_body:
        return
    configs = [element for element in document.elements if element.tag == "config"]
    if not configs and document.strict:
        start = Span(document.source, 0, 0)
        yield Problem(start, "there is no <config>", 'write <config model="…"/> at the top')
    messages = [item for item in spec.items if isinstance(item, MessageItem)]
    if configs and messages and _stands_before(messages[0].span, configs[0].span):
        yield _warning(configs[0].span, "<config> stands after the first message", "move it to the top")


def _stands_before(one: Span, other: Span) -> bool:
    return one.source is other.source and one.start < other.start


def _calls(spec: AgentSpec) -> Iterator[Problem]:
    """Calls and responses that do not belong together: providers refuse such a conversation."""
    waiting: dict[str, int] = {}
    for item in spec.items:
        if isinstance(item, CallItem):
            waiting[item.call] = waiting.get(item.call, 0) + 1
            if waiting[item.call] > 1:
                hint = "give each call its own id"
                yield Problem(item.span, f"the call '{item.call}' stands here again, before its response", hint)
            yield from _arguments(item)
        elif isinstance(item, OutputItem):
            if not waiting.get(item.call):
                hint = "write the <tool_call> before it, or delete the response"
                yield Problem(item.span, f"no call '{item.call}' waits for this response", hint)
            else:
                waiting[item.call] -= 1
    yield from _unanswered(spec)


def _unanswered(spec: AgentSpec) -> Iterator[Problem]:
    """Calls without a response: those at the end were interrupted, and are mended by the next run."""
    said = [n for n, item in enumerate(spec.items) if isinstance(item, MessageItem) and not item.is_blank]
    later = {id(item) for item in spec.items[said[-1] + 1 if said else 0 :]}
    for call in spec.unanswered():
        hint = "write the <tool_response> behind it, or delete the call"
        if id(call) in later:
            hint = "the next run tells the model that it was interrupted"
        yield _warning(call.span, f"the call '{call.call}' has no response", hint)


def _arguments(item: CallItem) -> Iterator[Problem]:
    if item.custom or not all(isinstance(part, str) for part in item.arguments):
        return
    text = "".join(part for part in item.arguments if isinstance(part, str)).strip(BLANK)
    if not text:
        return
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        yield _warning(item.span, f"the arguments of this call are no JSON: {reason}", "many providers refuse them")
