"""What a server publishes, as values and as calls: tools, prompts, documents. Knows nothing of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chatmd.errors import ChatmdError
from chatmd.mcp_server.prompt_files import PromptFile, Stamp, read_prompts, stamp_of
from chatmd.tools.function_tool import object_schema
from lmm.messages import Message, ToolDefinition, ToolOutput
from lmm.models.port import RunnableTool

LONGEST_INPUT = 200_000
"""Characters that a prompt may be given."""
_INPUT = {"type": "string", "maxLength": LONGEST_INPUT}


class PublishedCourse(Protocol):
    """A course, as `lmm_education.agent_tools.published` opens it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def instructions(self) -> str: ...
    @property
    def tools(self) -> Sequence[RunnableTool]: ...
    def documents(self) -> Sequence[tuple[str, str]]: ...
    def stamp(self) -> str: ...
    def read(self, file: str) -> str: ...


class Runner(Protocol):
    """Runs prompt files, and shows what a model would see of them."""

    async def run(self, path: Path, input: str) -> str:
        """The answer of a prompt file, which stays as it is.

        Raises:
            LmmError: it cannot be run, nobody agreed to its tools, or its model does not answer.
        """
        ...

    async def messages(self, path: Path, input: str) -> Sequence[Message]:
        """What its model would get.

        Raises:
            LmmError: it cannot be read, or nobody agreed to what it does.
        """
        ...


@dataclass(frozen=True, slots=True)
class PromptTool:
    """A prompt file as a tool."""

    prompt: PromptFile
    run: Callable[[Path, str], Awaitable[str]]

    @property
    def definition(self) -> ToolDefinition:
        meaning = "what it is to do, with all that it has to know: it sees nothing else"
        schema = object_schema(("input",) if self.prompt.needs_input else (), input={**_INPUT, "description": meaning})
        return ToolDefinition(self.prompt.name, self.prompt.description, schema)

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        if self.prompt.problem:
            raise ChatmdError(f"this prompt has errors: {self.prompt.problem}", hint="lmm check lists them")
        return ToolOutput(await self.run(self.prompt.path, arguments.get("input", "")))


@dataclass(slots=True)
class Library:
    """Everything that is published now. `note` is told what a person at the server should know."""

    course: PublishedCourse | None = None
    folder: Path | None = None
    runner: Runner | None = None
    note: Callable[[str], None] = lambda text: None
    prompts: Sequence[PromptFile] = ()
    _stamp: Stamp | None = None
    _notes: frozenset[str] = field(default_factory=frozenset)

    @property
    def tools(self) -> dict[str, RunnableTool]:
        """The tools by their names: the course's, then one for each prompt file."""
        known: dict[str, RunnableTool] = {t.definition.name: t for t in (self.course.tools if self.course else ())}
        if self.runner is not None:
            known |= {prompt.name: PromptTool(prompt, self.runner.run) for prompt in self.prompts}
        return known

    def prompt(self, name: str) -> PromptFile:
        """The prompt of that name.

        Raises:
            ChatmdError: there is none.
        """
        for prompt in self.prompts:
            if prompt.name == name:
                return prompt
        raise ChatmdError(f"there is no prompt '{name}'")

    def refresh(self) -> bool:
        """Read the folder again if it has changed; whether that changes what is published."""
        if self.folder is None:
            return False
        stamp = stamp_of(self.folder)
        if stamp == self._stamp:
            return False
        taken = [tool.definition.name for tool in self.course.tools] if self.course else []
        prompts, notes = read_prompts(self.folder, taken=taken)
        for text in notes:
            if text not in self._notes:
                self.note(text)
        changed = prompts != list(self.prompts)
        self.prompts, self._stamp, self._notes = prompts, stamp, frozenset(notes)
        return changed
