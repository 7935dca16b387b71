"""The noun: an agent and its transcript.

A `Chat` is a text that was read; no attribute of it reads or writes a file. What a verb did is on disk when it
returns, so there is nothing to save. Every verb begins with what others have written meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack, overload

from chatmd.checking import check_text, differences
from chatmd.compaction.compact import KEEP, Compaction, CompactOptions
from chatmd.context import Approve, AskUser, Confirm, Run, ask_nobody, settings_of
from chatmd.errors import ChatmdError
from chatmd.language.agent import AgentSpec, read_agent
from chatmd.language.nodes import Element, Problem, SyntaxTree
from chatmd.language.repair import RepairedText, repair
from chatmd.language.syntax import errors_of
from chatmd.language.transcript import answer_of, parse_cached
from chatmd.refine.cases import read_cases
from chatmd.refine.search import ROUNDS, Progress, Refinement, refine
from chatmd.rendering import Rendered, render_text, self_contained
from chatmd.runtime.events import RunResult
from chatmd.runtime.output import value_in
from chatmd.runtime.rewind import Draft, compact_transcript, message_element, rewind_transcript
from chatmd.runtime.runner import Runner, open_run, open_text, prepare, reply_to, write_copy
from chatmd.runtime.transcript_file import Transcript, open_transcript, read_transcript
from chatmd.runtime.turns import Conversation
from chatmd.tools.calling import Offer, offered_by
from chatmd.tools.consent import Declaration, consent, declared_by, is_agreed
from chatmd.tools.registry import PythonTool
from lmm.disk.files import document_lock, read_document
from lmm.errors import DocumentBusy, FileReadError, Place, check_keywords
from lmm.loop import background, blocking, run as run_blocking, run_async
from lmm.messages import Event, Listener, ignore
from lmm.models.port import ChatModel
from lmm.models.structured import make_schema

T = TypeVar("T")


class How(TypedDict, total=False):
    """Options of a run; all of them are optional.

    `model` is a name such as ``Ollama/llama3.2``, or a model; it counts more than the file's. `once` stops after one
    reply and its calls. `max_turns` bounds the requests to models, `budget` tokens (``20000``) or money (``0.50$``), of
    this run and all agents that it asks; `timeout` is in seconds, for a turn. `yes` agrees to what the tools can do, or
    `confirm` is asked; `approve` is asked about each call, `ask_user` for the next message. With `replay`, documents
    and agents in messages are taken as they were recorded; with `skip_missing_tools`, programs and MCP servers that
    cannot be started are left out. `tools` are Python functions that the model may call (`chatmd.tools.registry`);
    `inputs` are values of what ``<input>`` declares, which stay in the file. The last reply
    passes `check`, which is called with it and returns what is wrong, or the model is asked again, `retries` times (2).
    """

    model: str | ChatModel
    once: bool
    max_turns: int | None
    budget: str
    timeout: float | None
    yes: bool
    replay: bool
    skip_missing_tools: bool
    tools: Sequence[PythonTool]
    inputs: Mapping[str, object]
    check: Callable[[str], object] | None
    retries: int | None
    confirm: Confirm | None
    approve: Approve | None
    ask_user: AskUser | None


class Setup(TypedDict, total=False):
    """What a chat works with; all of it is optional.

    `config` is a configuration file; else it is looked for as always. `roots` are further folders that files may be
    imported from, `tools` Python functions that the model may call besides what the file declares. `listener` is called
    with what happens (`lmm.messages`, `chatmd.runtime.events`), in another thread.
    """

    config: str | Path | None
    roots: Sequence[str | Path]
    tools: Sequence[PythonTool]
    listener: Listener


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
        self, text: str, *, path: Path | None = None, folder: str | Path = ".", **setup: Unpack[Setup]
    ) -> None:
        check_keywords("Chat", setup, Setup)
        self.path = path
        self.folder = path.resolve().parent if path else Path(folder)
        self.listener = setup.get("listener", ignore)
        self._setup = setup
        self._lock = contextlib.ExitStack()
        self._locked = False
        self._runner: Runner | None = None
        self._raw: str | None = None
        self._prepared()  # what the configuration asks for that we do not know is told at once
        self._take(text)

    @classmethod
    def open(cls, path: str | Path, **setup: Unpack[Setup]) -> Self:
        """Read a ChatMD file.

        What an interrupted run left is repaired in memory (`notes` say how), and on disk by what writes next. `setup`
        holds ``config``, ``roots``, ``tools`` and ``listener`` (`chatmd.chat.Setup`), all of them optional.

        Raises:
            FileReadError: it is missing, not readable, or not UTF-8.
            ConfigError: the configuration asks for something unknown.
        """
        return cls(read_transcript(Path(path)), path=Path(path), **setup)

    @classmethod
    def from_text(cls, text: str, *, folder: str | Path = ".", **setup: Unpack[Setup]) -> Self:
        """A chat in memory, which is never written; what it names is relative to `folder`. `setup` as in `open`."""
        return cls(text, folder=folder, **setup)

    def copy(self, path: str | Path) -> Self:
        """Write the chat into a new file in its folder, and open that.

        Raises:
            FileWriteError: this file exists already, it is in another folder, or it cannot be written.
        """
        self.reload()
        write_copy(self._place, self.text, Path(path))
        return type(self).open(path, **self._setup | {"listener": self.listener})

    def __repr__(self) -> str:
        return f"Chat({str(self.path or '')!r}, {len(self.text):,} characters)"

    def __enter__(self) -> Self:
        """Hold the file's lock until the end of the block.

        Raises:
            DocumentBusy: another process works on it.
        """
        if self.path is not None:
            self._lock.enter_context(document_lock(self.path, timeout=0))
            self._locked = True
        self.reload()
        return self

    def __exit__(self, *error: object) -> None:
        self._locked = False
        self._lock.close()

    # -- reading ---------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read what others have written; every verb begins so.

        Raises:
            FileReadError: the file cannot be read any more.
            DocumentBusy: this chat runs: `steer` and `cancel` are what can be done meanwhile.
        """
        if self._runner is not None:
            raise DocumentBusy(
                "this chat is already running",
                where=str(self.path or ""),
                hint="steer or cancel it, or wait until it ends",
            )
        if self.path is not None:
            self._take(read_transcript(self.path))

    @property
    def text(self) -> str:
        """The text, repaired if a run was interrupted."""
        return self._repaired.text

    @property
    def notes(self) -> tuple[str, ...]:
        """What was repaired in it, for people."""
        return self._repaired.notes

    @cached_property
    def tree(self) -> SyntaxTree:
        """The text as nodes, without what it imports."""
        return parse_cached(self.text, str(self.path or ""))

    @cached_property
    def agent(self) -> AgentSpec:
        """What the text means: its ``config``, its ``tools``, the ``items`` of the conversation.

        Raises:
            InvalidDocument: it has errors.
        """
        return read_agent(self._prepared().rules.imported(self.tree))

    @property
    def turn_of(self) -> Literal["user", "model"]:
        """Whose turn it is.

        Raises:
            InvalidDocument: the text has errors.
        """
        return "user" if self.agent.waits_for_user else "model"

    @property
    def answer(self) -> str:
        """What the model said last, if nothing was said since.

        Raises:
            InvalidDocument: the text has errors.
        """
        return answer_of(self.agent.items)

    def problems(self, *, strict: bool = False, replay: bool = False) -> tuple[Problem, ...]:
        """Find what is wrong with the text, what it imports and what it refers to, without asking a model.

        With `replay`, also where a run today would differ from the transcript (`chatmd.checking`).

        >>> [problem.message for problem in Chat.from_text("<usr>Hello</usr>").problems()]
        ['this text is outside of any element, and would not be sent']

        Raises:
            ConfigError: the configuration asks for something unknown.
        """
        self.reload()
        # As it is on disk: what will be mended is a warning.
        run = self._prepared()
        found = check_text(self._raw or "", self._place, run, strict=strict)
        if replay and not errors_of(found):
            found += run_blocking(differences(self.text, self._place, run))
        return tuple(found)

    @background
    async def arender(self, *, servers: bool = False, run_agents: bool = False, **how: Unpack[How]) -> Rendered:
        """Show what a model would get next, and how many tokens it has; the model is not asked, nothing is written.

        Agents whose answers were not recorded are asked only with `run_agents`, MCP servers only with `servers`.

        Raises:
            InvalidDocument: the text has errors.
            ChatmdError: something that a message refers to cannot be had.
            ConsentNeeded: agents or servers should be asked, without agreement to what the tools can do.
        """
        self.reload()
        return await render_text(self.text, self._place, self._prepared(**how), run_agents=run_agents, servers=servers)

    render = blocking(arender)

    @background
    async def aexport(self, **how: Unpack[How]) -> str:
        """Write the transcript as one text with all that its messages refer to, to continue elsewhere.

        Raises:
            InvalidDocument: the text has errors.
            ChatmdError: something that a message refers to cannot be had.
        """
        self.reload()
        return await self_contained(self.text, self._place, self._prepared(**how))

    export = blocking(aexport)

    @background
    async def aoffers(self, *, servers: bool = False, **how: Unpack[How]) -> tuple[Offer, ...]:
        """Describe the tools as a model gets them, and what they can do; MCP servers are asked with `servers`.

        Raises:
            InvalidDocument: the text has errors.
            ConsentNeeded: servers should be asked, without agreement to that.
        """
        self.reload()
        run = self._prepared(**how)
        run = replace(run, settings=settings_of(self.agent.config, run.configuration), ask=ask_nobody)
        if servers and any(tool.kind == "mcp" for tool in self.agent.tools):
            await asyncio.to_thread(consent, self.agent, run)
        return await offered_by(self.agent, run, servers=servers)

    offers = blocking(aoffers)

    def asks(self) -> tuple[Declaration, ...]:
        """What somebody has to agree to before it runs, it and the agents that it asks.

        Raises:
            InvalidDocument, ChatmdError: the text has errors, or names a tool that does not exist.
        """
        return tuple(one for file in declared_by(self.agent, self._prepared()) for one in file.asking)

    def is_agreed(self) -> bool:
        """Whether it would run without a question. Raises what `asks` does."""
        return is_agreed(self.agent, self._prepared())

    # -- going on --------------------------------------------------------------------------------------

    def say(self, said: str | Element, *, docs: Sequence[str | Path] = ()) -> None:
        """Say something as the user, in the place that waits for it: a text means itself, an element's tags count.

        `docs` are files behind it, relative to the chat's folder, or URLs.

        >>> chat = Chat.from_text("")
        >>> chat.say("Is <b> right?", docs=["notes.md"])
        >>> chat.text
        '<user>RAW|Is <b> right?\\n\\nnotes.md:\\n|RAW<doc src="notes.md" local/></user>\\n'

        Raises:
            ChatmdError: an element other than ``<user>``, or one with a tag that means nothing there.
            DocumentBusy: another process runs the file.
            FileWriteError: it cannot be written.
        """
        if docs:
            if isinstance(said, Element):
                raise ChatmdError("docs can only be added to a text", hint="put <doc> elements into the element")
            said = message_element(Draft(said), [str(name) for name in docs])
        with self._writing(goes_on=True) as transcript:
            Conversation(self._prepared(), transcript).say(said)

    @background
    async def arun(self, **how: Unpack[How]) -> RunResult:
        """Ask the model, and carry out its calls, until it is the user's turn; all is written as it happens.

        Raises:
            InvalidDocument: the text has errors.
            ConsentNeeded: its tools can do more than read in its folder, without agreement to that.
            ModelError, LimitReached: the model did not answer, or the run has used up what it may. What was said and
                done before is in the chat, and running it again continues from there.
            DocumentError: the file cannot be read or written, or another process runs it.
        """
        with self._running(await asyncio.to_thread(self._open_run, how)) as runner:
            return await runner.run()

    run = blocking(arun)

    async def stream(self, **how: Unpack[How]) -> AsyncGenerator[tuple[Event, Place]]:
        """`run`, watched: what happens, and where, as it happens; the last is the `RunResult`. Closing it cancels."""
        with self._running(await asyncio.to_thread(self._open_run, how)) as runner:
            async with aclosing(runner.stream()) as events:
                async for happened in events:
                    yield happened

    @property
    def transcript(self) -> str:
        """The text as far as it goes; of a chat that is in no file, also while it runs."""
        memory = self._runner.memory if self._runner is not None else None
        return memory.text if memory is not None else self.text

    def steer(self, text: str) -> None:
        """Say something while the model is at work, from any thread: it comes with the next result of a tool.

        If no call follows, it is a message of its own.

        Raises:
            ChatmdError: nothing runs.
        """
        if self._runner is None:
            raise ChatmdError("nothing is running that could be steered", where=str(self.path or ""), hint="use say")
        self._runner.steer(text)

    def cancel(self) -> None:
        """End the turn, from any thread: `run` returns, and what was said and done so far stays."""
        if self._runner is not None:
            self._runner.cancel()

    @overload
    async def aask(self, input: str = "", *, schema: None = None, **how: Unpack[How]) -> str: ...
    @overload
    async def aask(self, input: str = "", *, schema: type[T], **how: Unpack[How]) -> T: ...
    @overload
    async def aask(self, input: str = "", *, schema: Any, **how: Unpack[How]) -> Any: ...
    async def aask(self, input: str = "", *, schema: Any = None, **how: Unpack[How]) -> Any:
        """The same as a coroutine."""
        return await run_async(self._ask(input, schema, how))

    @overload
    def ask(self, input: str = "", *, schema: None = None, **how: Unpack[How]) -> str: ...
    @overload
    def ask(self, input: str = "", *, schema: type[T], **how: Unpack[How]) -> T: ...
    @overload
    def ask(self, input: str = "", *, schema: Any, **how: Unpack[How]) -> Any: ...
    def ask(self, input: str = "", *, schema: Any = None, **how: Unpack[How]) -> Any:
        """Answer an input, as a function does, and forget it; nothing is written.

        Without `input`, what the text itself asks is answered, with the ``inputs`` that are given. With a `schema` (a
        Pydantic model, another type, a JSON schema), the answer is data of that type:

        >>> from lmm.testing import ScriptedModel
        >>> model = ScriptedModel(["Oak.", "2"])
        >>> chat = Chat.from_text('<input name="n"/><user>{{n}} trees?</user>')
        >>> chat.ask(inputs={"n": 1}, model=model), model.seen[0].messages[0].text
        ('Oak.', '1 trees?')
        >>> chat.ask("How many?", schema=int, inputs={"n": 2}, model=model)
        2

        Raises: as `run`.
        """
        return run_blocking(self._ask(input, schema, how))

    async def _ask(self, input: str, schema: Any, how: How) -> Any:
        self.reload()
        answer, _ = await reply_to(self.text, input, self._prepared(schema, **how))
        return answer if schema is None else value_in(answer, make_schema(schema))

    @background
    async def areply(self, input: str = "", **how: Unpack[How]) -> tuple[str, Chat]:
        """Answer an input, and return the continued chat in memory; this one stays as it is.

        So a conversation is a fold.

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
        answer, text = await reply_to(self.text, input, self._prepared(**how))
        return answer, Chat.from_text(text, folder=self.folder.resolve(), **self._setup | {"listener": self.listener})

    reply = blocking(areply)

    # -- the conversation as a whole -------------------------------------------------------------------

    @background
    async def acompact(self, *, keep: int = KEEP, to: int | None = None, model: str | ChatModel = "") -> Compaction:
        """Put a summary in the place of the older part, so that the chat fits its model; the original is kept.

        Args:
            keep: how many of the last turns stay.
            to: keep fewer, if that is needed to get down to so many tokens.
            model: who summarises, instead of the aux model.

        Raises:
            NothingToCompact: it is as short as it can be made.
            ModelError, ChatmdError: there is no summary; the chat is as it was.
        """
        with self._writing() as transcript:
            return await compact_transcript(transcript, self._prepared(), CompactOptions(keep, to), model=model)

    compact = blocking(acompact)

    def rewind(self) -> Draft | None:
        """Take the user's last message back, and what followed it; None if there is none. The original is kept.

        >>> chat = Chat.from_text("<user>A tree?</user><assistant>Oak.</assistant>")
        >>> chat.rewind().text, chat.turn_of
        ('A tree?', 'user')

        Raises:
            DocumentBusy: another process works on the file.
        """
        with self._writing() as transcript:
            taken = rewind_transcript(transcript)
        return taken.draft if taken is not None else None

    @background
    async def arefine(
        self,
        cases: str | Path,
        *,
        rounds: int = ROUNDS,
        progress: Progress = lambda text: None,
        **how: Unpack[How],
    ) -> Refinement:
        """Measure the instructions on the cases in a file, and look for better ones; no rounds only measure.

        The chat stays as it is: `Refinement.apply` writes the winner, if there is one. What models were asked before is
        taken from the journal, so that an interrupted refinement continues.

        Args:
            rounds: of proposals.

        Raises:
            InvalidCases, RefineError: the cases or the file cannot be used.
            ConsentNeeded: what the file's tools can do was not agreed to.
        """
        self.reload()
        if self.path is None:
            raise ChatmdError("only a chat in a file can be refined", hint='copy("….chatmd") writes one')
        found = await asyncio.to_thread(read_cases, Path(cases))
        text = await asyncio.to_thread(read_document, self.path)  # as it is on disk: there the winner goes
        run = self._prepared(**how)
        return await refine(text, self.path, found, run, rounds=rounds, progress=progress)

    refine = blocking(arefine)

    # -- inside ----------------------------------------------------------------------------------------

    @property
    def _place(self) -> Path:
        """The path of the file, or one in the folder where it could stand."""
        return self.path or self.folder.resolve() / "text"

    def _take(self, text: str) -> None:
        """Take a text as the chat's; what was read from the one before is void."""
        if text == self._raw:
            return
        self._raw = text
        for name in ("_repaired", "tree", "agent"):
            self.__dict__.pop(name, None)

    @cached_property
    def _repaired(self) -> RepairedText:
        return repair(self._raw or "", str(self.path or ""))

    def _prepared(self, schema: Any = None, **how: Unpack[How]) -> Run:
        check_keywords("Chat.run", how, How)
        how["tools"] = (*self._setup.get("tools", ()), *how.get("tools", ()))
        config, roots = self._setup.get("config"), tuple(map(Path, self._setup.get("roots", ())))
        return prepare(
            self.path, self.folder.resolve(), config=Path(config) if config is not None else None, roots=roots,
            listener=self.listener, schema=schema, **how,
        )  # fmt: skip

    @contextlib.contextmanager
    def _writing(self, *, goes_on: bool = False) -> Iterator[Transcript]:
        """The transcript as it is now, to be changed; what comes of it is the chat's text. See `open_transcript`."""
        self.reload()
        if self.path is None:
            transcript = Transcript(repair(self._raw or "", goes_on=goes_on).text)
            yield transcript
        else:
            with open_transcript(self.path, locked=self._locked, goes_on=goes_on) as transcript:
                yield transcript
        self._take(transcript.text)

    def _open_run(self, how: How) -> Runner:
        self.reload()
        run = self._prepared(**how)
        if self.path is None:
            return open_text(self.text, run)
        return open_run(self.path, run, locked=self._locked)

    @contextlib.contextmanager
    def _running(self, runner: Runner) -> Iterator[Runner]:
        """While this is open, `runner` can be steered and cancelled; then, what it wrote is the chat's text."""
        if self._runner is not None:  # another thread was faster
            self.reload()
        self._runner = runner
        try:
            yield runner
        finally:
            self._runner = None
            if runner.memory is not None:
                self._take(runner.memory.text)
            else:
                with contextlib.suppress(FileReadError):  # told by what ended the run
                    self.reload()
