"""Find problems of a document, and what would be dropped from it silently, each with its place and a way out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache

from chatmd.language.agent import (
    AgentSpec,
    CallItem,
    MessageItem,
    OutputItem,
    attribute_span,
    attribute_spans,
    interpret,
    text_of,
)
from chatmd.language.nodes import BLANK, Element, Problem, SourceRange, SyntaxTree, Text, body, walk
from chatmd.language.syntax import CLOSE_RAW, MAX_PROBLEMS, passed_over, right_place
from chatmd.language.tags import BODIES, TAGS, Tag

_OTHER_TAG = re.compile(r"RAW\|.*?(?:\|RAW|\Z)|<([A-Za-z_][\w-]{1,20})(?=[\s/>])([^<>]*)>", re.DOTALL)


def check(document: SyntaxTree) -> list[Problem]:
    """Return all problems of a document, sorted by place, and errors first at the same place.

    Imports are not read: `chatmd.language.imports.resolve_imports` does that, and finds their problems.

    >>> from chatmd.language.syntax import parse
    >>> for p in check(parse('<user>Hi</user>\\n<doc src="a.md" local/>\\n<user nmae="x">Hi</user>')):
    ...     print(f"{p.span.line}:{p.span.column}: {p.message} ({p.hint})")
    2:1: <doc> means nothing here, and is dropped (put it into a message)
    3:7: <user> has no attribute 'nmae', and it is ignored (did you mean 'name'?)
    """
    spec, found = interpret(document)
    problems = [*document.problems, *found, *_elements(document), *_configuration(document, spec), *_calls(spec)]
    reported, counts = list[Problem](), Counter[str]()
    for problem in sorted(problems, key=lambda one: (one.span.file, one.span.start, one.severity)):
        counts[problem.severity] += 1
        reported += [problem] if counts[problem.severity] <= MAX_PROBLEMS else []
    return reported


def find_unseen(document: SyntaxTree) -> list[Problem]:
    """Return the problems about content that no model will see, of those that `check` finds.

    >>> from chatmd.language.syntax import parse
    >>> [problem.message for problem in find_unseen(parse('<tool name="read_dir">Only once.</tool>'))]
    ['the content of <tool> is dropped']
    """
    found = (*document.problems, *_elements(document), *_configuration(document, AgentSpec()))
    return [problem for problem in found if problem.unseen]


UNSEEN = "the model will not see this: "
"""What `problem_line` says about them before a model is asked."""


def problem_line(problem: Problem, about: str = "") -> str:
    """Return a problem with its place, as one line."""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{problem.span.where}: {about}{problem.message}{hint}"


def _warning(span: SourceRange, message: str, hint: str, *, unseen: bool = False) -> Problem:
    return Problem(span, message, hint, "warning", unseen)


# -- elements ------------------------------------------------------------------------------------


def _elements(document: SyntaxTree) -> Iterator[Problem]:
    """Report misplaced elements, and attributes and contents without a meaning, at any depth."""
    for node, parent in walk(document.children):
        if isinstance(node, Text):
            if CLOSE_RAW in node.span.text and not node.raw:
                at = node.span._replace(start=node.span.start + node.span.text.index(CLOSE_RAW))
                yield _warning(at, "'|RAW' ends no RAW block, so it is text", "open one before it: RAW|")
            for found in _OTHER_TAG.finditer(node.span.text) if parent in BODIES else ():
                has_source = bool(re.search(r"\s(?:src\s*=|local\b)", found[2] or ""))
                if found[1] and (suggestion := _meant_tag(found[1], has_source)):
                    start = node.span.start + found.start()
                    at = node.span._replace(start=start, end=start + len(found[0]))
                    hint = f"did you mean <{suggestion}>? as text, put it in RAW|…|RAW"
                    yield _warning(at, f"<{found[1]}> is no element, and is text", hint)
        elif isinstance(node, Element):
            tag = TAGS[node.tag]
            if parent not in tag.parents:
                message = f"<{tag.name}> means nothing here, and is dropped"
                yield _warning(node.span, message, right_place(tag.name), unseen=True)
            yield from element_problems(node)


def element_problems(element: Element) -> Iterator[Problem]:
    """Report attributes and contents of an element that have no meaning."""
    tag, seen, spans = TAGS[element.tag], set[str](), None
    for name, value in element.attributes:
        rule, unseen, message, hint = tag.attribute(name), False, "", ""
        if name in seen:
            message, hint = f"'{name}' occurs twice here; the last one counts", "delete one of them"
        elif rule is None:
            message, unseen = f"<{tag.name}> has no attribute '{name}', and it is ignored", True
            hint = _attribute_hint(tag, name)
        elif value is None and rule.kind != "flag":
            message, hint = f"'{name}' has no value", f'write {name}="…"'
        if message:  # the places are read once, however many attributes are wrong
            spans = attribute_spans(element) if spans is None else spans
            yield _warning(spans.get(name, element.opening), message, hint, unseen=unseen)
        seen.add(name)
    inside = element.opening.text[1 + len(element.tag) :].removesuffix(">").removesuffix("/")
    if (loose := passed_over(inside)) and loose.strip("\"'"):
        message = f"'{loose}' in this tag is ignored"
        yield _warning(element.opening, message, 'write attributes as name="value"', unseen=True)
    if tag.name == "doc" and {"strip", "markdown"} <= seen:
        yield _warning(attribute_span(element, "markdown"), "'strip' wins over 'markdown'", "delete one of them")
    if tag.is_void and any(not isinstance(part, str) or part.strip(BLANK) for part in body(element.children)):
        message = f"the content of <{tag.name}> is dropped"
        yield _warning(element.span, message, f"write <{tag.name} …/>", unseen=True)


@lru_cache(maxsize=1000)
def _meant_tag(name: str, has_source: bool) -> str:
    """Return the element that a tag in a message is nearly spelled like, or is with such attributes; else nothing.

    >>> _meant_tag("dok", False), _meant_tag("documnt", True), _meant_tag("documnt", False), _meant_tag("docs", False)
    ('doc', 'doc', '', '')
    """
    small, elements = name.lower(), ("doc", "img", "agent", "import")
    full = {**dict(zip(elements, elements, strict=True)), "document": "doc", "image": "img"}
    if name in TAGS:
        return ""
    if has_source and (close := get_close_matches(small, full, n=1, cutoff=0.7)):
        return full[close[0]]
    for tag in elements:  # about one letter is another, missing or too much; <docs>, <doc1> are names of one's own
        near = SequenceMatcher(None, small, tag).ratio() - 1 + 1 / len(tag)
        if near > -1e-9 and small[0] == tag[0] and (small == tag or not small.startswith(tag)):
            return tag
    return ""


@lru_cache(maxsize=1000)
def _attribute_hint(tag: Tag, name: str) -> str:
    names = [rule.name for rule in tag.attributes]
    close = get_close_matches(name[:40], names, n=1)
    return f"did you mean '{close[0]}'?" if close else f"it has {', '.join(names)}"


# -- the document as a whole -----------------------------------------------------------------------


def _configuration(document: SyntaxTree, spec: AgentSpec) -> Iterator[Problem]:
    """Report further and late configurations: the published rule is one, near the top. None at all is fine."""
    configs = [element for element in document.elements if element.tag == "config"] if not document.is_body else []
    for more in configs[1:]:
        message = "there is a <config> already, and this one is ignored"
        yield _warning(more.span, message, "delete one of them", unseen=True)
    messages = [item for item in spec.items if isinstance(item, MessageItem)]
    if configs and messages:
        config, first = configs[0].span, messages[0].span
        if first.source is config.source and first.start < config.start:
            yield _warning(config, "<config> comes after the first message", "move it to the top")


def _calls(spec: AgentSpec) -> Iterator[Problem]:
    """Report calls and responses that do not match: providers refuse such a conversation."""
    open_calls: dict[str, int] = {}
    for item in spec.items:
        if isinstance(item, CallItem):
            open_calls[item.call] = open_calls.get(item.call, 0) + 1
            if open_calls[item.call] > 1:
                hint = "give each call its own id"
                yield Problem(item.span, f"the call '{item.call}' occurs again before its response", hint)
            yield from _arguments(item)
        elif isinstance(item, OutputItem):
            if not open_calls.get(item.call):
                hint = "write the <tool_call> before it, or delete the response"
                yield Problem(item.span, f"no call '{item.call}' matches this response", hint)
            else:
                open_calls[item.call] -= 1
    # Calls without a response at the end were interrupted; the next run repairs them.
    messages = [n for n, item in enumerate(spec.items) if isinstance(item, MessageItem) and not item.is_blank]
    later = {id(item) for item in spec.items[messages[-1] + 1 if messages else 0 :]}
    for call in spec.unanswered():
        hint = "write the <tool_response> after it, or delete the call"
        if id(call) in later:
            hint = "the next run tells the model that it was interrupted"
        yield _warning(call.span, f"the call '{call.call}' has no response", hint)


def _arguments(item: CallItem) -> Iterator[Problem]:
    text = text_of(item.arguments).strip(BLANK)
    if not text or item.custom or not all(isinstance(part, str) for part in item.arguments):
        return
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        yield _warning(item.span, f"the arguments of this call are not JSON: {reason}", "many providers refuse them")
