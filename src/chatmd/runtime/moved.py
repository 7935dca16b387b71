"""A document that is to stand in another folder, and to mean the same there."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import PurePath, PurePosixPath

from chatmd.language.nodes import Attribute, Element, Node, SyntaxTree
from chatmd.language.syntax import serialize

_LISTS = ("roots",)
_FOLDERS = ("cwd", "course")


def moved(document: SyntaxTree, way: str) -> str:
    """The text of a document whose paths are relative to another folder: `way` leads from there to its own.

    >>> from chatmd.language.syntax import parse
    >>> text = '<tool name="read_file"/><user>Right? <doc src="notes.md" local/></user>'
    >>> print(moved(parse(text), "../notes"))
    <tool name="read_file" roots="../notes" cwd="../notes"/><user>Right? <doc src="../notes/notes.md" local/></user>
    """
    return serialize(tuple(_node(node, way) for node in document.children))


def _node(node: Node, way: str) -> Node:
    if not isinstance(node, Element):
        return node
    children = tuple(_node(child, way) for child in node.children)
    changed = node if children == node.children else node.with_children(children)
    attributes = _attributes(node, way)
    return changed if attributes == node.attributes else replace(changed, attributes=attributes, opening=None)


def _attributes(element: Element, way: str) -> tuple[Attribute, ...]:
    named = {"src"} if element.tag == "import" or element.has("local") else set()
    if element.tag == "tool":
        named = {*_LISTS, *_FOLDERS, "command", *(("agent",) if element.has("local") else ())}
    kept = tuple(_attribute(one, way) if one.name in named else one for one in element.attributes)
    return (*kept, *_implied(element, way))


def _attribute(attribute: Attribute, way: str) -> Attribute:
    if not attribute.value:
        return attribute
    if attribute.name in _LISTS:
        paths = [_path(path.strip(), way) for path in attribute.value.split(",")]
        return Attribute(attribute.name, ", ".join(paths))
    if attribute.name == "command":
        return Attribute(attribute.name, _command(attribute.value, way))
    return Attribute(attribute.name, _path(attribute.value.strip(), way))


def _path(path: str, way: str) -> str:
    return path if PurePath(path).is_absolute() or "://" in path else PurePosixPath(way, path).as_posix()


def _command(command: str, way: str) -> str:
    """A command whose program, if it is named by a relative path, is named from elsewhere.

    >>> _command("./check.sh --all", "../notes"), _command("rg -n", "../notes")
    ('../notes/check.sh --all', 'rg -n')
    """
    try:
        words = shlex.split(command)
    except ValueError:  # it is reported when its tool is opened
        return command
    if not words or "/" not in words[0] or PurePath(words[0]).is_absolute():
        return command
    program = _path(words[0], way)
    simple = command.lstrip().startswith(words[0]) and " " not in program
    return program + command.lstrip()[len(words[0]) :] if simple else shlex.join((program, *words[1:]))


def _implied(element: Element, way: str) -> tuple[Attribute, ...]:
    """The folder that a tool works in if none is named, which is the document's."""
    if element.tag != "tool" or element.has("agent"):
        return ()
    program = element.has("command") or element.has("mcp_server")
    names = ("cwd",) if program else () if element.has("course") else ("roots", "cwd")
    return tuple(Attribute(name, way) for name in names if not element.has(name))
