"""What a server publishes, as values and as calls: tools and prompts. Knows nothing of the protocol."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import AgentSpec, MessageItem, interpret
from chatmd.language.imports import resolve_imports
from chatmd.language.inputs import DeclaredInput
from chatmd.language.nodes import BLANK, Comment, Element, SyntaxTree, Text
from chatmd.language.syntax import errors_of, parse
from chatmd.language.transcript import gap, user_text
from chatmd.rendering import render_text
from chatmd.runtime.prepare import prepare
from chatmd.runtime.runner import reply_to
from chatmd.tools.calling import agent_schema
from chatmd.tools.mcp import model_names
from lmm.disk.files import read_document
from lmm.errors import LmmError
from lmm.messages import Message, ToolDefinition, ToolOutput
from lmm.models.port import RunnableTool

# -- The ChatMD files of a folder, as they are published: read again when they change -------------------------


SUFFIXES = (".chatmd", ".md")
_LONGEST = 500  # characters of a description
_MOST = 500  # files


@dataclass(frozen=True, slots=True)
class PromptFile:
    """One file. `name` is its tool's and its prompt's; `problem` says why it cannot be run, if it cannot.

    `needs_input` if nothing is asked in the file itself.
    """

    path: Path
    name: str
    description: str
    needs_input: bool
    problem: str = ""
    inputs: tuple[DeclaredInput, ...] = ()


def read_prompts(folder: Path, *, taken: Iterable[str] = ()) -> tuple[list[PromptFile], list[str]]:
    """The prompt files of a folder, by name, and notes on what is not published, and why.

    Files that end in ``.chatmd`` are prompts; those in ``.md`` if they begin as prompts do. `taken` are names of
    other tools.
    """
    found, notes = list[tuple[Path, SyntaxTree]](), list[str]()
    for path in _paths(folder):
        try:
            document = parse(read_document(path), file=str(path))
        except LmmError as error:
            notes.append(f"{path.name} is not published: {error.message}")
            continue
        if path.suffix == ".chatmd" or _begins_as_a_prompt(document):
            found.append((path, document))
    names = model_names([path.stem for path, _ in found])
    others, prompts = set(taken), list[PromptFile]()
    for path, document in found:
        name = names[path.stem]
        if name in others:
            notes.append(f"{path.name} is not published: there is another tool '{name}' (rename the file)")
            continue
        others.add(name)
        prompts.append(_prompt(path, name, document))
    return prompts, notes


def _paths(folder: Path) -> Sequence[Path]:
    try:
        names = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))
    except OSError:
        return []
    return [path for path in names if path.is_file()][:_MOST]


def _begins_as_a_prompt(document: SyntaxTree) -> bool:
    for node in document.children:
        if not isinstance(node, Comment) and not (isinstance(node, Text) and not node.value.strip(BLANK + "\ufeff")):
            return isinstance(node, Element)
    return False


def _prompt(path: Path, name: str, document: SyntaxTree) -> PromptFile:
    spec, found = interpret(resolve_imports(document))
    errors = errors_of((*document.problems, *found))
    problem = f"{errors[0].span.where}: {errors[0].message}" if errors else ""
    description = describe_prompt(path, document, spec)
    return PromptFile(path, name, description, needs_input=spec.waits_for_user, problem=problem, inputs=spec.inputs)


def describe_prompt(path: Path, document: SyntaxTree, spec: AgentSpec) -> str:
    """What a prompt is for: the comment at its top, else the beginning of its instructions, else its name."""
    for node in document.children:
        if isinstance(node, Comment) and (words := " ".join(node.value.split())):
            return words[:_LONGEST]
        if isinstance(node, Element):
            break
    for item in spec.items:
        if isinstance(item, MessageItem) and item.role in ("system", "developer"):
            text = " ".join("".join(part for part in item.content if isinstance(part, str)).split())
            return re.split(r"(?<=[.!?]) ", text)[0][:_LONGEST] or f"The agent {path.name}."
    return f"The agent {path.name}."


LONGEST_INPUT = 200_000
"""Characters that a prompt may be given."""
_INPUT = {"type": "string", "maxLength": LONGEST_INPUT}


class PublishedCourse(Protocol):
    """A course, as `lmm_education.agent_tools.mcp_course` opens it."""

    @property
    def title(self) -> str: ...
    @property
    def instructions(self) -> str: ...
    @property
    def tools(self) -> Sequence[RunnableTool]: ...
    @property
    def is_empty(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PromptTool:
    """A prompt file as a tool: each call is a run of its own, with all the limits in `options`, which `prepare` takes.

    The file stays as it is. Nobody can be asked about what it does: without ``yes``, what its user agreed to before
    counts, whichever way it is called.
    """

    prompt: PromptFile
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def definition(self) -> ToolDefinition:
        meaning = "what it is to do, with all that it has to know: it sees nothing else"
        said = {**_INPUT, "description": meaning}
        schema = agent_schema(self.prompt.inputs, input=said, needs_input=self.prompt.needs_input)
        return ToolDefinition(self.prompt.name, self.prompt.description, schema)

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        if self.prompt.problem:
            raise ChatmdError(f"this prompt has errors: {self.prompt.problem}", hint="lmm check lists them")
        text, input, run = await self._prepared(arguments)
        return ToolOutput((await reply_to(text, input, run))[0])

    async def messages(self, arguments: Mapping[str, Any]) -> Sequence[Message]:
        """What its model would get, documents and images in place.

        Raises:
            LmmError: it cannot be read or run, nobody agreed to what it does, or its model does not answer.
        """
        text, input, run = await self._prepared(arguments)
        text += gap(text) + user_text(input) if input.strip() else ""
        async with run.in_time():
            rendered = await render_text(text, self.prompt.path, run, run_agents=True)
        return [one.message for one in rendered.messages]

    async def _prepared(self, arguments: Mapping[str, Any]) -> tuple[str, str, Run]:
        """The file's text, what its user says, and how it is run, with the values of declared inputs."""
        path, values = self.prompt.path, dict(arguments)
        if len(input := values.pop("input", "")) > LONGEST_INPUT:
            raise ChatmdError(f"the input has more than {LONGEST_INPUT:,} characters", where=path.name)
        text = await asyncio.to_thread(read_document, path)
        return text, input, prepare(path, **self.options, inputs=values)


@dataclass(slots=True)
class Library:
    """Everything that is published now: a course, and the prompt files of a folder, run with `options`.

    `note` is told what a person at the server should know.
    """

    course: PublishedCourse | None = None
    folder: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    note: Callable[[str], None] = lambda text: None
    prompts: Mapping[str, PromptTool] = field(default_factory=dict)
    _notes: frozenset[str] = frozenset()

    @property
    def tools(self) -> dict[str, RunnableTool]:
        """The tools by their names: the course's, then one for each prompt file."""
        own = self.course.tools if self.course else ()
        return {**{tool.definition.name: tool for tool in own}, **self.prompts}

    def refresh(self) -> None:
        """Read the folder again."""
        if self.folder is None:
            return
        taken = [tool.definition.name for tool in self.course.tools] if self.course else []
        prompts, notes = read_prompts(self.folder, taken=taken)
        for text in notes:
            if text not in self._notes:
                self.note(text)
        self.prompts = {prompt.name: PromptTool(prompt, self.options) for prompt in prompts}
        self._notes = frozenset(notes)
