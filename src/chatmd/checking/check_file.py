"""Everything that is wrong with a file and can be found without asking a model, a server or a program."""

from __future__ import annotations

from pathlib import Path

from chatmd.checking.surroundings import surroundings
from chatmd.errors import ChatmdError
from chatmd.language.agent import interpret
from chatmd.language.lint import check
from chatmd.language.nodes import Problem, Span, SyntaxTree
from chatmd.language.parser import errors_of, parse
from chatmd.runtime.options import Hooks, RunOptions, tree_for
from chatmd.runtime.repair import repair
from chatmd.workplace import AgentRequest, Workplace
from lmm.disk.files import read_document


def check_file(path: Path, options: RunOptions = RunOptions(), *, strict: bool = False) -> list[Problem]:
    """`chatmd.check` for a file, its imports, and what it refers to: files, programs, agents, tools, its model.

    Errors would keep `lmm run` from going on; the rest are warnings. What a run that broke off has left, the next one
    mends: that is a warning, and the mended text is what is checked.

    Raises:
        FileReadError: it cannot be read.
        ConfigError: config.toml asks for something that we do not know.
    """
    return check_text(read_document(path), path, options, name=str(path), strict=strict)


def check_text(
    text: str, path: Path, options: RunOptions = RunOptions(), *, name: str = "", strict: bool = False
) -> list[Problem]:
    """`check_file` for a text that stands, or could stand, in `path`; `name` is what problems call it."""
    tree = tree_for(path, path.resolve().parent, options, Hooks())
    document, torn = _mended(text, name, strict)
    document = tree.rules.imported(document)
    settings = tree.configuration.settings()
    place = Workplace(path.resolve().parent, settings, _ask_nobody, tree.rules, tree.environment, tree.protected)
    spec = interpret(document)[0]
    found = [*torn, *check(document), *surroundings(spec, path, place, tree.configuration)]
    return sorted(found, key=lambda problem: (problem.span.file != name, problem.span.file, problem.span.start))


def _mended(text: str, name: str, strict: bool) -> tuple[SyntaxTree, list[Problem]]:
    """The document as the next run reads it, and what that run would say of it."""
    document = parse(text, file=name, strict=strict)
    errors = _errors(document)
    if strict or not errors:
        return document, []
    repaired = repair(text)
    mended = parse(repaired.text, file=name)
    if _errors(mended) >= errors:
        return document, []
    pairs = enumerate(zip(text, repaired.text, strict=False))
    at = next((n for n, (was, is_now) in pairs if was != is_now), min(len(text), len(repaired.text)))
    span = Span(document.source, at, len(text))
    note = Problem(span, f"a run was interrupted here: {repaired.notes[0]}", "by the next lmm run", "warning")
    return mended, [note]


def _errors(document: SyntaxTree) -> int:
    return len(errors_of((*document.problems, *interpret(document)[1])))


async def _ask_nobody(request: AgentRequest) -> str:
    raise ChatmdError(f"{request.src} is not asked while files are checked")
