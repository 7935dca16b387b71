"""`Chat`: an agent and its transcript.

A `Chat` holds a text that was read; its attributes neither read nor write files. A method that changes the text has
written it to disk when it returns, so there is nothing to save. Every method first reads what others have written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, overload

from chatmd.checking import check_text, differences
from chatmd.compaction.compact import KEEP, Compaction, CompactOptions
from chatmd.context import Run, RunOptions, ask_nobody, log_notices, settings_of
from chatmd.errors import ChatmdError
from chatmd.language.agent import AgentSpec, MessageItem, interpret, read_agent
from chatmd.language.nodes import Element, Problem, SyntaxTree
from chatmd.language.syntax import errors_of
from chatmd.language.transcript import RepairedText, answer_of, parse_cached, repair
from chatmd.refine.cases import read_cases
from chatmd.refine.search import ROUNDS, Progress, Refinement, refine
from chatmd.rendering import Rendered, render_text, self_contained
from chatmd.runtime.runner import Runner, open_run, open_text, prepare, reply_to
from chatmd.runtime.transcript_file import (
    Draft,
    Transcript,
    compact_transcript,
    message_element,
    open_transcript,
    rewind_transcript,
)
from chatmd.runtime.turns import Conversation, value_in
from chatmd.tools.calling import Offer, offered_by
from chatmd.tools.consent import Declaration, consent, declared_by, is_agreed
from lmm.arguments import check_arguments
from lmm.disk.files import read_document
from lmm.errors import IN_PYTHON, DocumentBusy, FileReadError, Place
from lmm.loop import background, blocking, run as run_blocking, run_async
from lmm.messages import Event, RunResult as RunResult, ignore
from lmm.models.port import ModelLike
from lmm.models.structured import make_schema
from lmm.terminal import count

T = TypeVar("T")


IN_PYTHON.update({"lmm check": "chat.problems()", "lmm compact": "chat.compact()", "--root": "roots=[…]"})
IN_PYTHON.update({"--max-turns": "max_turns=…", "--yes": "run(yes=True)"})


@check_arguments
class Chat:
    """An agent and its transcript, in a ChatMD file or in memory.

    >>> from lmm.testing import ScriptedModel
    >>> chat = Chat.from_text("<system>Name plants.</system><user>A tree?</user>")
    >>> chat.run(model=ScriptedModel(["Oak."])).answer, chat.turn_of
    ('Oak.', 'user')
    >>> chat.say("Another?")
    >>> chat.turn_of
    'model'
    >>> chat.run(model=ScriptedModel(["Beech."])).answer
    'Beech.'

    Python functions are tools by their signature and docstring: ``Chat.from_text("…", tools=[add])``.
    """

    def __init__(
        self, text: str, *, path: Path | None = None, folder: str | Path = ".", **options: Annotated[Any, RunOptions]
    ) -> None:
        self.path = path
        self.folder = path.resolve().parent if path else Path(folder)
        self.options = RunOptions(**options)
        self._runner: Runner | None = None
        self._raw: str | None = None
        self._take(text)
        self._prepared()  # raises if the configuration has an unknown setting

    @classmethod
    def open(cls, path: str | Path, **options: Annotated[Any, RunOptions]) -> Self:
        """Read a ChatMD file.

        What an interrupted run left is repaired in memory (see `notes`), and on disk with the next change. `options`
        (`chatmd.RunOptions`) hold for all that the chat does; those of a method are set for it alone.

        Raises:
            FileReadError: the file is missing, not readable, or not UTF-8.
            ConfigError: the configuration has an unknown setting.
        """
        return cls(read_document(Path(path)), path=Path(path), **options)

    @classmethod
    def from_text(cls, text: str, *, folder: str | Path = ".", **options: Annotated[Any, RunOptions]) -> Self:
        """Create a chat in memory, which is never written, with paths relative to `folder`; `options` as in `open`."""
        return cls(text, folder=folder, **options)

    def __repr__(self) -> str:
        spec = interpret(self.tree)[0]
        messages = count(sum(isinstance(item, MessageItem) for item in spec.sent), "message")
        turn = "the user" if spec.waits_for_user else "the model"
        return f"<Chat {self.path or 'in memory'}: {messages}, {turn}'s turn>"

    # -- reading ---------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read the file again, as every other method does first.

        Raises:
            FileReadError: the file cannot be read any more.
            DocumentBusy: this chat is running; until it ends, only `steer` and `cancel` can be called.
        """
        if self._runner is not None:
            hint = "steer or cancel it, or wait until it ends"
            raise DocumentBusy("this chat is already running", where=str(self.path or ""), hint=hint)
        if self.path is not None:
            self._take(read_document(self.path))

    @property
    def text(self) -> str:
        """The text, repaired if a run was interrupted."""
        return self._repaired.text

    @property
    def notes(self) -> tuple[str, ...]:
        """What was repaired in the text, in words."""
        return self._repaired.notes

    @cached_property
    def tree(self) -> SyntaxTree:
        """The text as nodes, without what it imports."""
        return parse_cached(self.text, str(self.path or ""))

    @cached_property
    def agent(self) -> AgentSpec:
        """The meaning of the text: its ``config``, its ``tools``, the ``items`` of the conversation.

        Raises:
            InvalidDocument: the text has errors.
        """
        return read_agent(self._reading_run.rules.imported(self.tree))

    @property
    def turn_of(self) -> Literal["user", "model"]:
        """Whose turn it is.

        Raises:
            InvalidDocument: the text has errors.
        """
        return "user" if self.agent.waits_for_user else "model"

    @property
    def answer(self) -> str:
        """The last reply of the model; empty if somebody has said something since.

        Raises:
            InvalidDocument: the text has errors.
        """
        return answer_of(self.agent.items)

    def problems(self, *, replay: bool = False) -> tuple[Problem, ...]:
        """Return the problems of the text, of its imports and of what it refers to, without asking a model.

        With `replay`, also report where a run today would differ from the transcript (`chatmd.checking`).

        >>> [problem.message for problem in Chat.from_text("<usr>Hello</usr>").problems()]
        ['this text is outside of any element, and would not be sent']

        Raises:
            ConfigError: the configuration has an unknown setting.
        """
        self.reload()
        # The text as it is on disk: what will be repaired is a warning.
        run = self._reading_run
        found = check_text(self._raw or "", self._place, run)
        if replay and not errors_of(found):
            found += run_blocking(differences(self.text, self._place, run))
        return tuple(found)

    @background
    async def arender(
        self, *, servers: bool = False, run_agents: bool = False, **options: Annotated[Any, RunOptions]
    ) -> Rendered:
        """Return the next request to the model, with its number of tokens; no model is asked, and nothing is written.

        Agents whose answers were not recorded are asked only with `run_agents`, MCP servers only with `servers`.

        Raises:
            InvalidDocument: the text has errors.
            ChatmdError: something that a message refers to cannot be read.
            ConsentNeeded: agents or servers would be asked, but nobody agreed to what the tools can do.
        """
        self.reload()
        run = self._prepared(**options)
        return await render_text(self.text, self._place, run, run_agents=run_agents, servers=servers)

    render = blocking(arender)

    @background
    async def aexport(self, **options: Annotated[Any, RunOptions]) -> str:
        """Return the transcript as one text that includes everything its messages refer to, to continue elsewhere.

        Raises:
            InvalidDocument: the text has errors.
            ChatmdError: something that a message refers to cannot be read.
        """
        self.reload()
        return await self_contained(self.text, self._place, self._prepared(**options))

    export = blocking(aexport)

    @background
    async def aoffers(self, *, servers: bool = False, **options: Annotated[Any, RunOptions]) -> tuple[Offer, ...]:
        """Return the tools as a model gets them, and what they can do; MCP servers are asked only with `servers`.

        Raises:
            InvalidDocument: the text has errors.
            ConsentNeeded: servers would be asked, but nobody agreed to that.
        """
        self.reload()
        run = self._prepared(**options)
        run = replace(run, settings=settings_of(self.agent.config, run.configuration), ask=ask_nobody)
        if servers and any(tool.kind == "mcp" for tool in self.agent.tools):
            await asyncio.to_thread(consent, self.agent, run)
        return await offered_by(self.agent, run, servers=servers)

    offers = blocking(aoffers)

    def required_consent(self) -> tuple[Declaration, ...]:
        """Return what the user must agree to before the file, and the agents that it asks, may run.

        Raises:
            InvalidDocument, ChatmdError: the text has errors, or names a tool that does not exist.
        """
        return tuple(one for file in declared_by(self.agent, self._reading_run) for one in file.needing_consent)

    def is_agreed(self) -> bool:
        """Return whether a run would ask for no consent. Raises the same errors as `required_consent`."""
        return is_agreed(self.agent, self._reading_run)

    # -- going on --------------------------------------------------------------------------------------

    def say(self, message: str | Element, *, docs: Sequence[str | Path] = ()) -> None:
        """Write a message of the user at the end; a text is taken literally, tags in an element have their meaning.

        `docs` are files to append to the message, relative to the chat's folder, or URLs.

        >>> chat = Chat.from_text("")
        >>> chat.say("Is <b> right?", docs=["notes.md"])
        >>> chat.text
        '<user>RAW|Is <b> right?\\n\\nnotes.md:\\n|RAW<doc src="notes.md" local/></user>\\n'

        Raises:
            ChatmdError: the element is not ``<user>``, or contains a tag that has no meaning there.
            DocumentBusy: another process is running the file.
            FileWriteError: the file cannot be written.
        """
        if docs:
            if isinstance(message, Element):
                raise ChatmdError("docs can only be added to a text", hint="put <doc> elements into the element")
            message = message_element(Draft(message), [str(name) for name in docs])
        with self._writing(goes_on=True) as transcript:
            Conversation(self._prepared(), transcript).say(message)

    @background
    async def arun(self, **options: Annotated[Any, RunOptions]) -> RunResult:
        """Ask the model and make its calls until it is the user's turn; each message and result is written at once.

        Raises:
            InvalidDocument: the text has errors.
            ConsentNeeded: the tools can do more than read in the file's folder, and nobody agreed to that.
            ModelError, LimitReached: the model did not answer, or the run reached a limit. Everything before that is
                in the chat, and another run continues from there.
            DocumentError: the file cannot be read or written, or another process is running it.
        """
        with self._running(await asyncio.to_thread(self._open_run, options)) as runner:
            return await runner.run()

    run = blocking(arun)

    async def stream(self, **options: Annotated[Any, RunOptions]) -> AsyncGenerator[tuple[Event, Place]]:
        """Run, and yield each event with its place; the last is the `RunResult`. Closing it cancels the run."""
        with self._running(await asyncio.to_thread(self._open_run, options)) as runner:
            async with aclosing(runner.stream()) as events:
                async for happened in events:
                    yield happened

    @property
    def transcript(self) -> str:
        """The text so far; for a chat without a file, also while it runs."""
        memory = self._runner.memory if self._runner is not None else None
        return memory.text if memory is not None else self.text

    def steer(self, text: str) -> None:
        """Send a note to the running model, from any thread; the model gets it with the next result of a tool.

        If no call follows, the note becomes a message of its own.

        Raises:
            ChatmdError: nothing is running.
        """
        if self._runner is None:
            raise ChatmdError("nothing is running that could be steered", where=str(self.path or ""), hint="use say")
        self._runner.steer(text)

    def cancel(self) -> None:
        """Cancel the turn, from any thread; `run` returns, and everything so far stays in the text."""
        if self._runner is not None:
            self._runner.cancel()

    @overload
    async def aask(self, input: str = "", *, schema: None = None, **options: Any) -> str: ...
    @overload
    async def aask(self, input: str = "", *, schema: type[T], **options: Any) -> T: ...
    @overload
    async def aask(self, input: str = "", *, schema: Any, **options: Any) -> Any: ...
    async def aask(self, input: str = "", *, schema: Any = None, **options: Annotated[Any, RunOptions]) -> Any:
        """`ask` as a coroutine."""
        return await run_async(self._ask(input, schema, options))

    @overload
    def ask(self, input: str = "", *, schema: None = None, **options: Any) -> str: ...
    @overload
    def ask(self, input: str = "", *, schema: type[T], **options: Any) -> T: ...
    @overload
    def ask(self, input: str = "", *, schema: Any, **options: Any) -> Any: ...
    def ask(self, input: str = "", *, schema: Any = None, **options: Annotated[Any, RunOptions]) -> Any:
        """Return the answer to an input, without changing the chat or writing anything.

        Without `input`, the question in the text itself is answered, with the ``inputs`` that are given. With a
        `schema` (a Pydantic model, another type, a JSON schema), the answer is data of that type:

        >>> from lmm.testing import ScriptedModel
        >>> model = ScriptedModel(["Oak.", "2"])
        >>> chat = Chat.from_text('<input name="n"/><user>{{n}} trees?</user>')
        >>> chat.ask(inputs={"n": 1}, model=model), model.seen[0].messages[0].text
        ('Oak.', '1 trees?')
        >>> chat.ask("How many?", schema=int, inputs={"n": 2}, model=model)
        2

        Raises: as `run`.
        """
        return run_blocking(self._ask(input, schema, options))

    async def _ask(self, input: str, schema: Any, options: dict[str, Any]) -> Any:
        self.reload()
        answer, _ = await reply_to(self.text, input, self._prepared(schema=schema, **options))
        return answer if schema is None else value_in(answer, make_schema(schema))

    @background
    async def areply(self, input: str = "", **options: Annotated[Any, RunOptions]) -> tuple[str, Chat]:
        """Return the answer to an input, and the continued chat in memory; this chat stays unchanged.

        A conversation is then a fold over its inputs.

        >>> from functools import reduce
        >>> from lmm.testing import ScriptedModel
        >>> model = ScriptedModel(["Oak.", "Beech."])
        >>> counter = Chat.from_text("<system>Name plants.</system>")
        >>> inputs = ["A tree?", "Another?"]
        >>> reduce(lambda state, input: state[1].reply(input, model=model), inputs, ("", counter))[0]
        'Beech.'

        Raises: as `run`.
        """
        self.reload()
        answer, text = await reply_to(self.text, input, self._prepared(**options))
        other = Chat.from_text(text, folder=self.folder.resolve())
        other.options = self.options
        return answer, other

    reply = blocking(areply)

    # -- the conversation as a whole -------------------------------------------------------------------

    @background
    async def acompact(self, *, keep: int = KEEP, to: int | None = None, model: ModelLike = "") -> Compaction:
        """Replace the older part by a summary, so that the chat fits its model; the original is kept.

        Args:
            keep: how many of the last turns stay.
            to: keep fewer turns if needed to get down to this many tokens.
            model: the model that summarises, instead of the aux model.

        Raises:
            NothingToCompact: the chat cannot be made shorter.
            ModelError, ChatmdError: no summary could be made; the chat is unchanged.
        """
        with self._writing() as transcript:
            return await compact_transcript(transcript, self._prepared(), CompactOptions(keep, to), model=model)

    compact = blocking(acompact)

    def rewind(self) -> Draft | None:
        """Remove the user's last message and everything after it, and return it, or None. The original is kept.

        >>> chat = Chat.from_text("<user>A tree?</user><assistant>Oak.</assistant>")
        >>> chat.rewind().text, chat.turn_of
        ('A tree?', 'user')

        Raises:
            DocumentBusy: another process is working on the file.
        """
        with self._writing() as transcript:
            rewound = rewind_transcript(transcript)
        return rewound.draft if rewound is not None else None

    @background
    async def arefine(
        self,
        cases: str | Path,
        *,
        rounds: int = ROUNDS,
        again: bool = False,
        progress: Progress = lambda text: None,
        **options: Annotated[Any, RunOptions],
    ) -> Refinement:
        """Measure the instructions on the cases in a file, and search for better ones; without rounds, only measure.

        The chat stays unchanged: `Refinement.apply` writes the winner, if there is one. Earlier replies of models are
        taken from the journal, so that an interrupted refinement continues.

        Args:
            rounds: the number of rounds of proposals.
            again: ask also what an earlier refinement has asked.

        Raises:
            InvalidCases, RefineError: the cases or the file cannot be used.
            ConsentNeeded: nobody agreed to what the file's tools can do.
        """
        self.reload()
        if self.path is None:
            raise ChatmdError("only a chat in a file can be refined", hint='copy("….chatmd") writes one')
        found = await asyncio.to_thread(read_cases, Path(cases))
        text = await asyncio.to_thread(read_document, self.path)  # as it is on disk, where the winner is written
        run = self._prepared(**options)
        if run.options.listener is log_notices:  # each run would log the same
            run = run.with_options(listener=ignore)
        return await refine(text, self.path, found, run, rounds=rounds, again=again, progress=progress)

    refine = blocking(arefine)

    # -- inside ----------------------------------------------------------------------------------------

    @property
    def _place(self) -> Path:
        """The path of the file, or a path in the folder if there is no file."""
        return self.path or self.folder.resolve() / "text"

    def _take(self, text: str) -> None:
        """Set the chat's text, and drop what was derived from the text before."""
        if text == self._raw:
            return
        self._raw = text
        for name in ("_repaired", "tree", "agent"):
            self.__dict__.pop(name, None)

    @cached_property
    def _repaired(self) -> RepairedText:
        return repair(self._raw or "", str(self.path or ""), goes_on=False)

    def _prepared(self, **options: Any) -> Run:
        options["tools"] = (*self.options.tools, *options.get("tools", ()))
        return prepare(self.path, replace(self.options, **options), folder=self.folder.resolve())

    @property
    def _reading_run(self) -> Run:
        """The run for looking at the text, with the files outside of its folder that it names."""
        return self._prepared().with_outside(self._raw or "")

    @contextlib.contextmanager
    def _writing(self, *, goes_on: bool = False) -> Iterator[Transcript]:
        """Open the transcript to change it; afterwards its text is the chat's. See `open_transcript`."""
        self.reload()
        if self.path is None:
            transcript = Transcript(repair(self._raw or "", goes_on=goes_on).text)
            yield transcript
        else:
            with open_transcript(self.path, goes_on=goes_on) as transcript:
                yield transcript
        self._take(transcript.text)

    def _open_run(self, options: dict[str, Any]) -> Runner:
        self.reload()
        run = self._prepared(**options)
        if self.path is None:
            return open_text(self.text, run)
        return open_run(self.path, run)

    @contextlib.contextmanager
    def _running(self, runner: Runner) -> Iterator[Runner]:
        """Let `runner` be steered and cancelled in this context; afterwards, take the text that it wrote."""
        if self._runner is not None:  # another thread was faster: this raises
            self.reload()
        self._runner = runner
        try:
            yield runner
        finally:
            self._runner = None
            if runner.memory is not None:
                self._take(runner.memory.text)
            else:
                with contextlib.suppress(FileReadError):  # reported by the error that ended the run
                    self.reload()
