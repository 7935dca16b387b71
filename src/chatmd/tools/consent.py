"""Consent: before a file runs for the first time, its user must agree to what its tools could do.

A file may have come from somewhere else. If its tools can start processes, change files, read outside of its folder
or use an MCP server, or if it sends files that may contain keys, the user must agree to its declarations and those of
the agents it asks. The answer is stored with one hash of these declarations as they are written, with the folders that
they name, so that any change of them is asked about again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from chatmd.content.expand import in_working_folder, locate
from chatmd.context import Run
from chatmd.errors import ChatmdError, ConsentNeeded, ToolNotAvailable
from chatmd.language.agent import AgentSpec, Doc, Img, SubAgent, Tool, interpret
from chatmd.language.syntax import parse
from chatmd.sidecar import is_stored
from chatmd.tools.command import variables_of
from chatmd.tools.registry import Power, kind_of
from lmm.disk import digest, trust
from lmm.disk.files import read_document
from lmm.disk.names import is_secret_file, is_secret_variable
from lmm.errors import LmmError
from lmm.terminal import visible

# -- The declarations of a file and of the agents that it asks, and their powers in plain words ----------------
#
# Documents whose names suggest keys or passwords are declarations too, as the author of the file chose to send them to
# a model. `is_asked` decides which declarations need consent.


_POWER_PHRASES: dict[Power, str] = {
    "read": "reads files in {folders}",
    "write": "creates, changes and deletes files in {folders}",
    "process": "starts programs",
    "network": "fetches from the internet",
    "agent": "asks other agents",
}


def is_asked(powers: Collection[Power], combined_powers: Collection[Power]) -> bool:
    """Return whether the user must agree to a tool with these powers; the rule is the same for all callers of a file.

    `combined_powers` are the powers of everything that works together with the tool (`powers_of`).

    Tools that change files or start programs always need consent. Tools that send data need it if something that works
    together with them reads local files, be it a tool, a document, an image or an import: a model that was led astray
    could send what it read.

    >>> is_asked({"network"}, {"network"}), is_asked({"network"}, {"read", "network"})
    (False, True)
    >>> is_asked({"read"}, {"read", "network"}), is_asked({"process"}, {"process"})
    (False, True)
    """
    return bool({"write", "process"} & set(powers)) or ("network" in powers and "read" in combined_powers)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A tool, or (not `is_tool`) a file that is sent: what it can do, in words, and whether it `needs_consent`.

    `text` is what the user agrees to: the declaration as it is written, in its canonical form.
    """

    name: str
    words: str
    needs_consent: bool
    text: str
    is_tool: bool = True


@dataclass(frozen=True, slots=True)
class DeclaringFile:
    """A file, by its real `path` and its name as given, with its declarations; `depth` counts the agents above it.

    `powers` are its own, without those of the agents that it asks.
    """

    path: str
    name: str
    declarations: tuple[Declaration, ...]
    depth: int = 0
    powers: frozenset[Power] = frozenset()

    @property
    def needing_consent(self) -> tuple[Declaration, ...]:
        """The declarations that need consent."""
        return tuple(one for one in self.declarations if one.needs_consent)

    @property
    def keys(self) -> frozenset[tuple[str, str]]:
        """The declarations that need consent, as values that can be compared."""
        return frozenset((self.path, one.text) for one in self.needing_consent)


def declared_by(spec: AgentSpec, run: Run) -> tuple[DeclaringFile, ...]:
    """Return the file of `spec` and all files that it could ask as agents, each once, in the order they are named.

    Files that cannot be read are left out: asking them fails.

    Raises:
        ChatmdError: the first file names a tool that does not exist.
    """
    for tool in spec.tools:
        with contextlib.suppress(ToolNotAvailable):  # a run continues without it
            kind_of(tool)
    files = list(_walk(spec, run, "", 0, set()))
    combined_powers = frozenset[Power]().union(*(powers_of(one, inside) for one, inside, _, _ in files))
    return tuple(own_declarations(one, inside, combined_powers, name, depth) for one, inside, name, depth in files)


def own_declarations(
    spec: AgentSpec, run: Run, combined_powers: frozenset[Power] = frozenset(), name: str = "", depth: int = 0
) -> DeclaringFile:
    """Return a file with its own declarations; `combined_powers` are the powers of the files that it works with."""
    own = powers_of(spec, run)
    combined_powers |= own
    declarations = [_declaration(tool, run, combined_powers) for tool in spec.tools]
    if spec.output is not None and spec.output.check:
        declarations.append(_declaration(spec.output.tool, run, combined_powers))
    sends = is_asked({"network"}, combined_powers)
    agents = (part for part in spec.parts if isinstance(part, SubAgent) and not part.local)
    for src in dict.fromkeys(agent.src for agent in agents):
        words = f"asks the agent {src}"
        declarations.append(Declaration("<agent>", words + _EXFILTRATION_WARNING * sends, sends, words, is_tool=False))
    sent = sent_files(spec, run)
    for real, part in sent.items():
        words = f"sends the file {part.src}, which {why_asked(part, run)}, to the model"
        declarations.append(Declaration(f"<{part.tag}>", words, True, f"sends {real}", is_tool=False))
    for file in run.outside if not depth else ():
        if file not in sent and str(file) in spec.imported:
            words = f"imports {file}, which is outside of its folder"
            declarations.append(Declaration("<import>", words, True, words, is_tool=False))
    name = name or spec.file or str(run.folder)
    return DeclaringFile(_path_of(spec, run), name, tuple(declarations), depth, own)


def powers_of(spec: AgentSpec, run: Run) -> frozenset[Power]:
    """Return the powers of a file itself: of its tools, documents, images, imports and agents at URLs.

    The powers of local agents are not included: their files are checked too.
    """
    powers = frozenset[Power]().union(*map(_powers, spec.tools))
    documents = (part for part in spec.parts if part.local and not isinstance(part, SubAgent))
    if spec.imported or any(_real_path(part.src, run) is not None for part in documents):
        powers |= {"read"}
    if any(isinstance(part, SubAgent) and not part.local for part in spec.parts):
        powers |= {"network"}
    return powers


# -- files and agents --------------------------------------------------------------------------------------


def _walk(
    spec: AgentSpec, run: Run, name: str, depth: int, seen: set[str]
) -> Iterator[tuple[AgentSpec, Run, str, int]]:
    """Iterate over a file and those that it could ask, each once, with the run for its folder, its name and depth."""
    seen.add(_path_of(spec, run))
    yield spec, run, name, depth
    asked = [tool.agent for tool in spec.tools if tool.kind == "agent" and tool.local]
    for src in (*asked, *(part.src for part in spec.parts if isinstance(part, SubAgent) and part.local)):
        try:
            below = locate(src, run)
        except LmmError:  # it cannot be asked either
            continue
        found = None if str(below) in seen else _read(below, run)
        seen.add(str(below))
        if found is not None:
            yield from _walk(found, replace(run, folder=below.parent), src, depth + 1, seen)


def _read(path: Path, run: Run) -> AgentSpec | None:
    """Return the agent in a file, even if it has errors; None if it cannot be read."""
    try:
        if not path.is_file():
            return None
        document = parse(read_document(path), file=str(path))
    except (LmmError, OSError):
        return None
    return interpret(run.rules.imported(document))[0]


def _path_of(spec: AgentSpec, run: Run) -> str:
    """Return the key of stored answers: the real path, a URL, or the folder of a text that is not a file."""
    if spec.file.lower().startswith(("http://", "https://")):
        return spec.file
    return str((run.folder / Path(spec.file).name).resolve()) if spec.file else str(run.folder)


# -- files that are sent -----------------------------------------------------------------------------------


def sent_files(spec: AgentSpec, run: Run) -> dict[Path, Doc | Img]:
    """Map the real paths of files that may contain keys, or are in the working folder, to where each appears first."""
    roots = [Path(os.path.realpath(folder)) for folder in (run.folder, *run.rules.roots)]
    sent: dict[Path, Doc | Img] = {}
    for part in spec.parts:
        if isinstance(part, SubAgent) or not part.local:
            continue
        elsewhere = in_working_folder(part.src, run)
        if (real := elsewhere or _real_path(part.src, run)) is None:
            continue
        # The path below the innermost root counts, as a root itself was allowed. Files outside of the roots are not
        # read at all, except under the name of a file that a run has stored.
        inside = [real.relative_to(root).parts for root in roots if real.is_relative_to(root)]
        holds_keys = is_secret_file(PurePath(*min(inside, key=len))) if inside else is_stored(part.src)
        if elsewhere or real in run.outside or holds_keys:
            sent.setdefault(real, part)
    return sent


def why_asked(part: Doc | Img, run: Run) -> str:
    """Return the reason why sending a file needs consent."""
    if (run.folder / part.src.strip()).resolve() in run.outside:
        return "is outside of its folder"
    elsewhere = in_working_folder(part.src, run)
    return "may contain keys" if elsewhere is None else f"is in the working folder ({elsewhere})"


def _real_path(src: str, run: Run) -> Path | None:
    """Return the real path of a local file; None for files that a run has stored, which may be thousands."""
    path = run.folder / src.strip()
    with contextlib.suppress(OSError, ValueError):
        if not is_stored(src) or path.is_symlink() or path.parent.is_symlink():
            return Path(os.path.realpath(path))
    return None


# -- one declaration ---------------------------------------------------------------------------------------


def _powers(tool: Tool) -> frozenset[Power]:
    """Return the powers of a tool; an agent from a URL only needs the network."""
    if tool.kind == "agent":
        return frozenset(("agent",) if tool.local else ("network",))
    try:
        return kind_of(tool).powers
    except ChatmdError:
        return frozenset()


def _declaration(tool: Tool, run: Run, combined_powers: Collection[Power]) -> Declaration:
    try:
        kind_of(tool)
    except ChatmdError as error:
        return Declaration(tool.name, error.message, False, "")
    powers, named = _powers(tool), list[Path]()  # the real folders, or single files, that it names; no invalid ones
    for root in (*tool.roots, tool.course):
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            named += [(run.folder / Path(root).expanduser()).resolve()] if root else []
    folders = in_prose(map(str, named or [run.folder]))
    reads_more = any(  # outside of the prompt's folder, or files there that are otherwise refused
        not root.is_relative_to(run.folder) or is_secret_file(root.relative_to(run.folder)) for root in named
    )
    needs_consent = is_asked(powers, combined_powers) or ("read" in powers and reads_more)
    words = _words(tool, powers, folders)
    words += f", in a sandbox: no network, writes only below {folders}" if tool.sandbox else ""
    words += _EXFILTRATION_WARNING if needs_consent and powers == {"network"} else ""
    # every attribute, with the real folders that it names
    return Declaration(tool.name or f"({tool.kind})", words, needs_consent, repr((tool, named)))


_EXFILTRATION_WARNING = ": files read here could be sent that way"


def _words(tool: Tool, powers: Iterable[Power], folders: str) -> str:
    """Describe in words what a tool does."""
    if tool.kind == "builtin":
        return in_prose([words.format(folders=folders) for power, words in _POWER_PHRASES.items() if power in powers])
    if tool.kind == "agent":
        return f"asks the agent {tool.agent}" + ("" if tool.local else ", which gets no tools")
    does = f"runs {tool.command}"
    if tool.kind == "mcp":
        does = f"calls the MCP server {tool.server.split('?')[0]}"  # a query may contain a key
        if tool.server.lower().startswith("stdio:"):
            does = f"starts the MCP server {tool.server[6:]}"
        does += f" for {in_prose(tool.include) if tool.include else 'all its tools'}"
    where = f", in {tool.cwd}" if tool.cwd else ""
    variables = [f"{name} (a secret, by its name)" if is_secret_variable(name) else name for name in variables_of(tool)]
    return does + where + (f", and gives it {in_prose(variables)} of your environment" if variables else "")


def in_prose(words: Iterable[str]) -> str:
    """Join words as a list in prose.

    >>> in_prose(["a"]), in_prose(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


STORE = "consents.json"

REFUSED = "The user refused this call. Do not repeat it; go on without it, or ask the user what to do instead."
"""The result of a call that is refused without a reason."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The consent for one run: pairs of file and declaration, and the powers of all files together.

    `spec` is the agent for which it was given.
    """

    agreed: frozenset[tuple[str, str]] = frozenset()
    combined_powers: frozenset[Power] = frozenset()
    spec: AgentSpec | None = None

    def check(self, spec: AgentSpec, run: Run) -> None:
        """Raise an error unless the user agreed to an agent's tools: its file may have changed during the run.

        Raises:
            ConsentNeeded: the agent has other tools.
        """
        if spec is self.spec:
            return
        own = own_declarations(spec, run, self.combined_powers)
        problem = ""
        if "read" in own.powers and "network" in self.combined_powers and "read" not in self.combined_powers:
            problem = "its new tools read files here, and what they read could be sent"
        elif not own.keys <= self.agreed:
            problem = f"{_reason((own,), changed=True)}: {_listed((own,))}"
        if problem:
            hint = "its file changed during the run: check it with lmm tools, then run again"
            raise ConsentNeeded(problem, where=visible(own.name, line=True), hint=hint)


def consent(spec: AgentSpec, run: Run) -> Consent:
    """Get the user's consent to the tools of a file and of the agents that it asks.

    ``yes`` agrees for this run only. Otherwise stored consent is used, or ``confirm`` is called, and its
    agreement is stored. Every agent that starts later must pass the result's `check`.

    Raises:
        ConsentNeeded: ``confirm`` is None (no terminal), or the user did not agree.
        ChatmdError: a tool does not exist.
    """
    files = declared_by(spec, run)
    asked = frozenset(key for file in files for key in file.keys)
    agreed, lines_before = _stored(files[0].path)
    if not run.options.yes and asked and agreement(asked) != agreed:
        where = visible(files[0].name, line=True)
        if run.options.confirm is None:
            hint = "run it in a terminal, which asks once, or agree with --yes"
            raise ConsentNeeded(
                f"{_reason(files, changed=bool(lines_before))}: {_listed(files)}", where=where, hint=hint
            )
        if not run.options.confirm(question(files, lines_before)):
            what = "its tools" if _has_tools(files) else "what it sends"
            raise ConsentNeeded(f"not run: you did not agree to {what}", where=where)
        lines = [line for file in files for line in _lines(file)]
        record = {"agreed": agreement(asked), "shown": lines}  # a hash to compare, and lines to show changes
        trust.remember(STORE, files[0].path, json.dumps(record, ensure_ascii=False))
    return Consent(asked, frozenset[Power]().union(*(file.powers for file in files)), spec)


def is_agreed(spec: AgentSpec, run: Run) -> bool:
    """Return whether the file would run without a question.

    Raises:
        ChatmdError: a tool does not exist.
    """
    files = declared_by(spec, run)
    asked = frozenset(key for file in files for key in file.keys)
    return not asked or agreement(asked) == _stored(files[0].path)[0]


def agreement(asked: Collection[tuple[str, str]]) -> str:
    """Return a hash of the declarations, with their files, to which a user agrees."""
    return digest(json.dumps(sorted(asked)))


def question(files: tuple[DeclaringFile, ...], before: Sequence[str] = ()) -> str:
    """Return the question for consent, in lines; `before` are the lines that were agreed to last time.

    >>> from chatmd.tools.consent import Declaration
    >>> search = Declaration("search", "runs rg -n", True, "…")
    >>> print(question((DeclaringFile("/notes/review.md", "review.md", (search,)),), ["sh  runs sh"]), end="")
    review.md: its tools have changed since you agreed to them:
      + search  runs rg -n
      - sh  runs sh
    """
    lines = [line for file in files for line in _lines(file)]
    if before:
        removed = [f"- {line}" for line in before if line not in lines]
        lines = [*(f"{' ' if line in before else '+'} {line}" for line in lines), *removed]
    head = f"{visible(files[0].name, line=True)}: {_reason(files, changed=bool(before))}:"
    return "\n  ".join([head, *lines]) + "\n"


def _lines(file: DeclaringFile) -> list[str]:
    """Return a file's declarations, one per line; under its name, if it is another agent."""
    width = max((len(visible(one.name, line=True)) for one in file.declarations), default=0)
    rows = [f"{visible(one.name, line=True):<{width}}  {visible(one.words, line=True)}" for one in file.declarations]
    if file.depth and rows:
        return [f"the agent {visible(file.name, line=True)}:", *(f"  {row}" for row in rows)]
    return rows


def _reason(files: tuple[DeclaringFile, ...], *, changed: bool) -> str:
    """Return the reason for the question: the file's powers, or that something has `changed`."""
    has_tools = _has_tools(files)
    if changed:
        return f"{'its tools' if has_tools else 'the files that it sends'} have changed since you agreed to them"
    if has_tools:
        return "its tools can do more than read in its folder"
    return "it sends more than ordinary files of its folder"


def _has_tools(files: tuple[DeclaringFile, ...]) -> bool:
    """Return whether the question is about tools, not only about files that are sent."""
    return any(one.is_tool for file in files for one in file.needing_consent)


def _listed(files: tuple[DeclaringFile, ...]) -> str:
    """Return the declarations that need consent on one line, grouped by what they can do."""
    sentences: list[str] = []
    for file in files:
        names: dict[str, list[str]] = {}
        for one in file.needing_consent:
            names.setdefault(one.words, []).append(one.name)
        sentences += [f"{'each of ' * (len(who) > 1)}{in_prose(who)} {words}" for words, who in names.items()]
    return visible("; ".join(sentences), line=True)


# -- stored consent ----------------------------------------------------------------------------------------


def _stored(path: str) -> tuple[str, Sequence[str]]:
    """Return the hash of the declarations that were agreed to before, and the lines that were shown then."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        record = json.loads(trust.remembered(STORE)[path])
        return str(record["agreed"]), [*map(str, record["shown"])]
    return "", ()
