"""`<import>`: other files, which replace the element before anything else is read.

A path is relative to the file that contains it. In a message, the imported file is read as part of that message,
so that it may be plain prose; between messages, as a document. Files are confined, by their real paths, to the
folder of the first one and to further `roots`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from chatmd.errors import ChatmdError
from chatmd.language.agent import attribute_span
from chatmd.language.lint import element_problems
from chatmd.language.nodes import Element, Node, Problem, SourceRange, SyntaxTree, walk
from chatmd.language.syntax import parse, parse_body
from lmm.disk.files import read_document
from lmm.disk.names import is_secret_file
from lmm.errors import LmmError

MAX_IMPORTS = 1000
"""The limit of imports in one document, including those of imported files."""
MAX_SIZE = 10_000_000
"""The largest file that can be imported, in bytes."""

_Chain = tuple[tuple[Path, Path], ...]
"""The files that import each other, outermost first: each with its path as named, and its real path."""


def resolve_imports(document: SyntaxTree, *, roots: Sequence[Path] = ()) -> SyntaxTree:
    """Replace the imports of a document by the files' nodes, whose spans name the file they come from.

    Imports are relative to `document.file` (without one, to the current folder). An import that fails stays in
    place and is added to the document's `problems`. Texts from several files are not joined.
    """
    if not any(imports_in(document.children)):
        return document
    path = Path(document.file or "document")
    resolver = _Resolver(tuple(folder.resolve() for folder in (path.parent, *roots)))
    children = resolver.nodes(document.children, ((path, path.resolve()),), document.is_body)
    imported = frozenset(str(real) for real, _ in resolver.read)
    return replace(document, children=children, problems=(*document.problems, *resolver.problems), imported=imported)


def imports_in(nodes: tuple[Node, ...]) -> Iterator[Element]:
    """Iterate over the import elements of some nodes, at any depth."""
    return (node for node, _ in walk(nodes) if isinstance(node, Element) and node.tag == "import")


def name_inside(real: Path, folders: Sequence[Path], src: str) -> PurePath:
    """Return the path of a file relative to the innermost of `folders` that contains it; `src` is its name in messages.

    Raises:
        ChatmdError: none of the folders contains it.
    """
    inside = [real.relative_to(folder).parts for folder in folders if real.is_relative_to(folder)]
    if not inside:
        raise ChatmdError(f"'{src}' is outside of {folders[0]}", hint=f"allow its folder: --root {real.parent}")
    return PurePath(*min(inside, key=len))


def outside_files(document: SyntaxTree, folder: Path) -> tuple[Path, ...]:
    """Return the files outside of a document's `folder` that its imports and local documents name by their paths.

    What a link leads to is not named by its path.
    """
    found: dict[Path, None] = {}
    for node, _ in walk(document.children):
        if isinstance(node, Element) and (node.tag == "import" or (node.tag in ("doc", "img") and node.has("local"))):
            src = (node.get("src") or "").strip()
            path = Path(os.path.normpath(folder / src))
            is_outside = src and "\0" not in src and not path.is_relative_to(folder)
            if is_outside and path.resolve() == path and path.is_file():
                found[path] = None
    return tuple(found)


class _Resolver:
    """Resolves the imports of one document; each file is read once."""

    def __init__(self, allowed: tuple[Path, ...]) -> None:
        self.allowed = allowed
        self.problems: list[Problem] = []
        self.read: dict[tuple[Path, bool], SyntaxTree] = {}
        self.replaced: set[SourceRange] = set()
        self.count = 0

    def nodes(self, children: tuple[Node, ...], chain: _Chain, in_body: bool) -> tuple[Node, ...]:
        """Replace the imports in `children`, at any depth."""
        made: list[Node] = []
        for node in children:
            if isinstance(node, Element) and node.tag == "import":
                made += self._imported(node, chain, in_body)
            elif isinstance(node, Element) and any(imports_in(node.children)):
                made.append(replace(node, children=self.nodes(node.children, chain, True)))
            else:
                made.append(node)
        return tuple(made)

    def _imported(self, element: Element, chain: _Chain, in_body: bool) -> tuple[Node, ...]:
        """Return the nodes that replace an import; the element itself, if there is a problem."""
        src = element.get("src") or ""
        try:
            path, real = self._find(src, chain)
            document = self._document(path, real, in_body)
        except LmmError as error:
            message = error.message
            if error.where:
                message = f"'{src}' cannot be imported: {message}; looked for at {error.where}"
            self.problems.append(Problem(attribute_span(element, "src"), message, error.hint))
            return (element,)
        if element.span not in self.replaced:
            self.replaced.add(element.span)
            self.problems += element_problems(element)  # the element is gone from the tree that is checked
        return self.nodes(document.children, (*chain, (path, real)), in_body)

    def _find(self, src: str, chain: _Chain) -> tuple[Path, Path]:
        """Return the path that `src` names, as named and resolved."""
        self.count += 1
        if self.count > MAX_IMPORTS:
            raise ChatmdError(f"more than {MAX_IMPORTS} imports", hint="import less")
        if not src.strip() or "\0" in src:
            raise ChatmdError("this import has no file name", hint='write src="…"')
        if src.lower().startswith(("http://", "https://", "file:")):
            raise ChatmdError("only files can be imported, not URLs", hint="save it beside this file")
        path = chain[-1][0].parent / src.strip()
        try:
            real = path.resolve()
        except (OSError, RuntimeError) as error:  # a loop of links, a name that is too long
            raise ChatmdError(f"cannot be imported: {error}", hint="check the path") from error
        if is_secret_file(name_inside(real, self.allowed, src)):
            why = f"'{src}': files of this name usually contain keys or passwords, and imports are sent to the model"
            raise ChatmdError(why, hint='if you want to send it: <doc src="…" local/> in a message; lmm run asks first')
        files = [file for _, file in chain]
        if real in files:
            names = [str(name) for name, _ in chain[files.index(real) :]]
            raise ChatmdError(f"imports go round: {' → '.join([*names, names[0]])}", hint="delete one of them")
        return path, real

    def _document(self, path: Path, real: Path, in_body: bool) -> SyntaxTree:
        """Parse a file, or return its tree from before; its problems are reported once."""
        if (known := self.read.get((real, in_body))) is not None:
            return known
        with contextlib.suppress(OSError):  # reading it raises the error
            if real.stat().st_size > MAX_SIZE:
                raise ChatmdError(f"this file has more than {MAX_SIZE // 1_000_000} MB", hint="import a smaller one")
        text = read_document(real).removeprefix("\ufeff")
        document = (parse_body if in_body else parse)(text, file=str(path))
        self.problems += document.problems
        self.read[real, in_body] = document
        return document
