"""The central class, `Document`: a markdown file that talks.

A `Document` is in memory until `save`; none of its attributes reads or writes a file. If its author saved in the
meantime, its changes are applied again to their text. Methods that ask a model hold the document's lock, and journal
each reply when it arrives, so that no reply that was paid for can be lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack

from lmm import config_files
from lmm.arguments import check_arguments
from lmm.bibliography import known_references
from lmm.book_project import book_of
from lmm.config import ANNOTATIONS, Settings, check_annotations
from lmm.config_tables import Config
from lmm.disk import files, journal, undo
from lmm.disk.shared import Saved, SharedFile
from lmm.disk.undo import UndoneChange
from lmm.errors import IN_PYTHON, DocumentError, Failure, FileWriteError, Finding, LmmError, Place
from lmm.extraction import Record, RecordSource, plan_records, read_records
from lmm.loop import Stopped, background, blocking, run, run_async
from lmm.markdown.blocks import Block, MetadataBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import HeaderNode, tree_to_blocks, without_metadata
from lmm.messages import Failed, Listener, Notice, Waiting, ignore
from lmm.models.budget import SharedBudget
from lmm.models.client import Client
from lmm.models.port import Ask, ModelLike, given_model
from lmm.models.structured import load_schema, make_schema
from lmm.models.tokens import known_window
from lmm.notebook import authorship, edits as pending_edits
from lmm.notebook.annotations import rag_annotations
from lmm.notebook.answers import AnsweredPrompt, AnswerPlanner, PromptKey
from lmm.notebook.authorship import Authorship
from lmm.notebook.batch import BatchFunction, FieldPlanner, changed_metadata, find_batch_model, find_nodes, old_tree
from lmm.notebook.chat_log import ChatExchange, clear_chat, cleared, read_log, waiting_texts
from lmm.notebook.edits import EDIT, is_sound
from lmm.notebook.generated_fields import FieldStatus
from lmm.notebook.header import check_conflicts, check_readable, complete_header, make_docid
from lmm.notebook.mentions import load_mentions
from lmm.notebook.patches import changes_between
from lmm.notebook.pending_prompts import PendingPrompt, plan as pending_threads
from lmm.notebook.problems import find_problems, header_gaps, with_fixes, without_running_code
from lmm.notebook.references import citation_warning, find_unknown_references, unknown_references
from lmm.notebook.staleness import State, without_generated
from lmm.pipeline import P, ParsedDocument, Patch, Planner, R, Report
from lmm.prompts.templates import load_prompts
from lmm.terminal import word_diff

T = TypeVar("T")
SETTLE = 0.1  # seconds without a save by others, before we write


class ModelOptions(TypedDict, total=False):
    """Options of all methods that ask a model.

    `model` is a name such as ``Ollama/llama3.2``, or a model; else the configured one. `again` sends requests even if
    the journal has a reply. `budget` is the limit in tokens (``20000``) or money (``0.50$``), or a budget that several
    documents share; requests that it does not cover are not sent.
    """

    model: ModelLike | None
    again: bool
    budget: str | float | SharedBudget


class BatchFailed(LmmError):
    """The function of a batch model failed; `report` has the results until then, which are in the document."""

    def __init__(self, error: LmmError, report: Report[Any]) -> None:
        super().__init__(error.message, where=error.where, hint=error.hint)
        self.report = report


class Edit:
    """A pending edit in a document: the old text, and the model's version."""

    def __init__(self, edit: pending_edits.WaitingEdit, document: Document) -> None:
        self.id, self.line, self.prompt, self.model = edit.id, edit.line, edit.prompt, edit.model
        self.old, self.new, self.remark = serialize(edit.old), serialize(edit.new), edit.remark
        self._document, self._edit = document, edit

    def __repr__(self) -> str:
        return f"Edit(line {self.line}, {self.prompt!r})"

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What accepting it would lose, a change of the old text, and other peculiarities of the new one."""
        return self._edit.warnings

    @cached_property
    def hunks(self) -> tuple[pending_edits.EditHunk, ...]:
        """Its changes, in order."""
        return tuple(pending_edits.hunks_of(self._edit))

    def accept(self, *, force: bool = False) -> None:
        """Keep the new text, with the author's changes to it.

        Raises:
            EditError: text would be lost, and `force` is not set.
            DocumentError: it is no longer pending.
        """
        self._document.accept(line=self._line_now(), force=force)

    def reject(self) -> None:
        """Restore the old text, byte for byte.

        Raises:
            DocumentError: it is no longer pending.
        """
        self._document.reject(line=self._line_now())

    def difference(self, *, err: bool = False) -> str:
        """Return the text with its change marked; of several changes only these, by the numbers that `accept` takes.

        It is coloured if it is printed to a terminal: to standard output, or, with `err`, to standard error.
        """
        if len(self.hunks) < 2:
            return word_diff(self.old.strip(), self.new.strip(), err=err)
        changes = (word_diff(hunk.old.rstrip(), hunk.new.rstrip(), err=err) for hunk in self.hunks)
        return "\n".join(f"change {number}: {shown}" for number, shown in enumerate(changes, 1))

    def _line_now(self) -> int:
        for edit in pending_edits.find_edits(self._document.blocks):
            if edit.id == self.id:
                return edit.line
        raise DocumentError("this edit is no longer pending", where=self._document._parsed.file)


IN_PYTHON.update({f"lmm {name}": f"document.{name}()" for name in ("accept", "annotate", "reject")})
IN_PYTHON.update({f"--{name}": f"{name}=…" for name in ("budget", "edits", "model", "timeout")})
IN_PYTHON.update({"lmm scan": "document.problems()", "--again": "again=True", "--force": "force=True"})


@check_arguments
class Document:
    """A markdown document with questions, edits and annotations.

    >>> from lmm.testing import ScriptedModel
    >>> doc = Document.from_text("---\\n?: which colour?\\n---\\nA leaf is green.\\n")
    >>> [(question.line, question.prompt.text, str(question.subject)) for question in doc.pending]
    [(2, 'which colour?', "the document ''")]
    >>> doc.answer(model=ScriptedModel(["Green."])).check().results[0].reply.text
    'Green.'
    >>> doc.pending, doc.chats[0].reply
    ((), 'Green.')
    """

    def __init__(
        self,
        version: ParsedDocument,
        file: SharedFile | None = None,
        *,
        path: Path | None = None,
        config: str | Path | Config | None = None,
        listener: Listener = ignore,
    ) -> None:
        """Initialize a document; use `open` or `from_text` instead."""
        self.path = path
        self.listener = listener
        self._file = file
        self._config = Path(config) if isinstance(config, str) else config
        self._parsed = version
        self._tree: HeaderNode | None = None
        self._patches: list[Patch] = []  # since the file was read or saved
        self._fixed = False  # whether prompts were corrected by them
        self._lost: tuple[Failure, ...] = ()  # those that could not be applied to what its author saved since
        self._held: list[contextlib.AsyncExitStack] = []  # one for everything that holds the lock
        self._in_flight = set[PromptKey]()

    @classmethod
    def open(cls, path: str | Path, *, config: str | Path | Config | None = None, listener: Listener = ignore) -> Self:
        """Read a UTF-8 markdown file, every byte as it is. No lock is taken.

        Args:
            config: a configuration file; else it is looked for as usual.
            listener: is called with events (`lmm.messages`), one at a time, in another thread.

        Raises:
            FileReadError: it is missing, not an ordinary file, not readable, or not UTF-8.
        """
        path = Path(path)
        file = SharedFile.open(path)
        version = ParsedDocument(file.base, files.title_of(path), str(path))
        return cls(version, file, path=path, config=config, listener=listener)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        title: str = "",
        path: Path | None = None,
        config: str | Path | Config | None = None,
        listener: Listener = ignore,
    ) -> Self:
        """Create a document without a file; `title` is its name if it has no title of its own.

        `path` says where it belongs, for its configuration and the files it names; the file itself is not touched.
        """
        version = ParsedDocument(text, title or (files.title_of(path) if path else ""), str(path or ""))
        return cls(version, path=path, config=config, listener=listener)

    def __repr__(self) -> str:
        return f"Document({str(self.path or self._parsed.name)!r}, {len(self.text):,} characters)"

    def _repr_markdown_(self) -> str:
        """Return the text as its readers see it, for a notebook: without header and metadata."""
        return without_metadata(self.blocks)

    def __enter__(self) -> Self:
        """Hold the document's lock until the end of the block. Leaving the block does not save."""
        run(self._acquire())
        return self

    def __exit__(self, *error: object) -> None:
        run(self._release())

    async def __aenter__(self) -> Self:
        await run_async(self._acquire())
        return self

    async def __aexit__(self, *error: object) -> None:
        await run_async(self._release())

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text of the document as it is now."""
        return self._version.text

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the document, in order."""
        return self._version.blocks

    @property
    def _version(self) -> ParsedDocument:
        """The current version, including changes made in `tree`."""
        if self._tree is not None:
            text = serialize(tree_to_blocks(self._tree))
            if text != self._parsed.text:
                changed = replace(self._parsed, text=text)
                self._patches += changes_between(self._parsed.blocks, changed.blocks)
                self._parsed = changed
        return self._parsed

    @property
    def tree(self) -> HeaderNode:
        """The document as a tree of nodes; changes to them change the document.

        A method that changes the document ends this tree: access `tree` again. Changing a node of the old tree raises
        DocumentError.
        """
        if self._tree is None:
            self._tree = self._parsed.tree()
        return self._tree

    @property
    def settings(self) -> Settings:
        """The settings for this document; the ``model:`` in its header takes precedence.

        Raises:
            ConfigError: the configuration or the header names something unknown.
        """
        return self._settings({})

    @property
    def pending(self) -> tuple[PendingPrompt, ...]:
        """The pending prompts."""
        return tuple(ask for thread in pending_threads(self.blocks, title=self._parsed.name) for ask in thread.prompts)

    @property
    def chats(self) -> tuple[ChatExchange, ...]:
        """All exchanges in the chat logs, in document order."""
        found = (block.values() for block in self.blocks if isinstance(block, MetadataBlock))
        return tuple(exchange for values in found for exchange in read_log(values))

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The pending edits."""
        return tuple(Edit(edit, self) for edit in pending_edits.find_edits(self.blocks))

    def problems(self, *, gaps: bool = False, results: bool = False) -> tuple[Finding, ...]:
        """Find problems in the document, present or imminent; with `gaps`, also what `complete` would add; with
        `results`, also numbers that differ from what the code printed when it was last knitted.
        """
        found = [*(header_gaps(self.blocks, chapter=self._is_chapter) if gaps else ()), *find_problems(self.blocks)]
        if "@" in self.text:
            found += find_unknown_references(self.blocks, self._known_references())
        if results and self.path is not None:
            from lmm.notebook.results import result_problems  # its tables of units take time to build

            found += result_problems(self.blocks, self.path)
        return tuple(sorted(found, key=lambda one: (one.line, one.column)))

    def _known_references(self) -> frozenset[str] | None:
        header = self._version.header
        return known_references(self.path, header.values() if header is not None else {})

    def requests(
        self, *, at: int | None = None, stale: bool = False, load: bool = True, **asking: Unpack[ModelOptions]
    ) -> tuple[Ask, ...]:
        """Return the requests that `answer` would send, with their files, pages and pictures; nothing is sent.

        Without `load`, pages and passages of the course are only named, and nothing is fetched.

        Raises:
            PartlyFailed: something that a prompt names cannot be loaded; `report.results` are the other requests.
        """
        settings = self._check_settings("major", given_model(asking.get("model"))[0])
        planner = self._planner(settings, at, again=asking.get("again", False), stale=stale)
        named = partial(load_mentions, self.path, fetch=False)
        planner = planner if load else replace(planner, load_mentions=named, window=known_window)
        return run(planner.requests(planner.plan(self._version, settings))).check().results

    def stale(self, *fields: str, refresh: bool = False) -> tuple[FieldStatus, ...]:
        """Return the annotations that are missing, stale, or edited by hand, with reasons; no model is asked."""
        report = self.annotate(*fields, refresh=refresh, estimate=True)
        return tuple(visited for visited in report.results if visited.state in STALE)

    # -- with a model ----------------------------------------------------------------------------------

    @background
    async def aanswer(
        self, *, at: int | None = None, stale: bool = False, **asking: Unpack[ModelOptions]
    ) -> Report[AnsweredPrompt]:
        """Answer pending prompts: all, or those of the metadata block that covers the line `at`.

        A failed call leaves its prompt in place and is in the report's `failures`. Nothing is saved. While a prompt is
        asked, another call of this method asks the others only.

        Args:
            stale: also ask again the prompts whose text has changed since the answer.
            asking: see `ModelOptions`. With `again` and `at`, the last answered prompt of that block is also asked
                again; the old reply stays above the new one.

        Raises:
            ConfigError: the configuration or the header names something unknown.
            DocumentError: the file can no longer be read, or could not be written.
        """
        async with self._locked():
            wanted = any(waiting_texts(self.blocks)) or at is not None or stale
            if self._file is not None and wanted:
                files.check_writable(self._file.path)
            client = self._client("major", **asking)
            if not wanted:
                return Report(model=client.name, hints=client.settings.hints)
            again = asking.get("again", False)
            planner = self._planner(client.settings, at, again=again, stale=stale)
            client.open()
            return await self._work(planner, client)

    answer = blocking(aanswer)

    @background
    async def aannotate(
        self,
        *fields: str,
        flags: Mapping[str, bool | None] | None = None,
        refresh: bool = False,
        estimate: bool = False,
        **asking: Unpack[ModelOptions],
    ) -> Report[FieldStatus]:
        """Add annotations to sections where they are missing or the text has changed: those named, or as configured.

        What people wrote or edited is kept. If the call for a section fails, its field and those above it are skipped.

        Args:
            fields: ``titles``, ``summary``, ``questions``, ``keywords``; none: as the settings say.
            flags: switches individual annotations on or off, overriding the settings.
            refresh: also regenerate annotations made with another prompt, model or heading path.
            estimate: ask no model, change nothing; the usage is an estimate.
            asking: see `ModelOptions`.

        Raises:
            ConfigError, DocumentError: as for `answer`.
        """
        check_annotations({*fields, *(flags or {})})
        chosen = {name: name in fields for name in ANNOTATIONS} if fields else {}
        named = asking.get("model") is not None or estimate
        planner = FieldPlanner(rag_annotations({**chosen, **(flags or {})}, load_prompts, named=named), refresh)
        return await self._fields(planner, estimate, **asking)

    annotate = blocking(aannotate)

    @background
    async def abatch(
        self,
        function: str | BatchFunction,
        *,
        refresh: bool = False,
        estimate: bool = False,
        **asking: Unpack[ModelOptions],
    ) -> Report[FieldStatus]:
        """Run a batch model, given its registered name or a function. Only its changes to metadata are kept.

        Raises:
            ConfigError: there is no batch model of that name.
            BatchFailed: the function failed; its results until then are in the document.
        """
        function = find_batch_model(function) if isinstance(function, str) else function
        header = {"docid": make_docid(self._name, self.text)} if self._is_chapter else None
        return await self._fields(FieldPlanner(lambda settings: function, refresh, header), estimate, **asking)

    batch = blocking(abatch)

    async def _fields(
        self, planner: FieldPlanner, estimate: bool, **asking: Unpack[ModelOptions]
    ) -> Report[FieldStatus]:
        async with self._locked(estimate):
            if self._file is not None and not estimate:
                files.check_writable(self._file.path)
            report: Report[FieldStatus] = await self._work(planner, self._client("minor", estimate=estimate, **asking))
        if report.error is not None:
            raise BatchFailed(report.error, report) from report.error
        return report

    @background
    async def aextract(
        self, schema: Any, *, select: str | None = None, **asking: Unpack[ModelOptions]
    ) -> Report[Record[Any]]:
        """Extract one record per section, or several if `schema` is a list; the document does not change.

        Every record is valid: an invalid reply is sent back with the error, up to twice.

        Args:
            schema: a Pydantic model, a list of one, any type that Pydantic supports, a JSON schema as a mapping, or
                the name of one of these (``file.py:Model``, ``schema.json``).
            select: a title or part of one, or ``key=value`` for metadata; else every section with text of its own.
            asking: see `ModelOptions`.

        Raises:
            ConfigError: the schema or the configuration cannot be read.
        """
        compiled = load_schema(schema) if isinstance(schema, str) else make_schema(schema)
        return await read_records(plan_records([record_source(self, **asking)], compiled, select), compiled)

    extract = blocking(aextract)

    def _planner(self, settings: Settings, at: int | None, *, again: bool, stale: bool) -> AnswerPlanner:
        return AnswerPlanner(
            load_prompts(settings.prompts.folder),
            at,
            again=again,
            stale=stale,
            load_mentions=partial(load_mentions, self.path),
            known_references=self._known_references,
            in_flight=self._in_flight,
        )

    async def _work(self, planner: Planner[P, R], client: Client) -> Report[Any]:
        """Plan, ask and apply."""
        patch, report = await planner.ask(planner.plan(self._version, client.settings), client)
        report += self._apply(patch)
        for failure in report.failures:
            client.tell(Failed(failure.error, failure.what), failure.place)
        if client.usage.requests and not client.estimate:
            journal.forget_old()
        return replace(
            report,
            usage=client.usage,
            hints=tuple(dict.fromkeys((*client.settings.hints, *report.hints))),
            model=client.name,
            interrupted=client.interrupted,
        )

    def _client(self, tier: str, *, model: ModelLike | None = None, **how: Any) -> Client:
        name, given = given_model(model)
        settings = self._check_settings(tier, name)
        return Client(settings, tier=tier, model=given, listener=self.listener, **how)

    def _check_settings(self, tier: str, model: str) -> Settings:
        """Return the settings with the named model; fail if metadata that say what may be sent cannot be read."""
        check_readable(self.blocks, ("model",) if tier == "major" else ("model", "skip", "frozen"), self._parsed.file)
        return self._settings({tier: model} if model else {})

    def _settings(self, overrides: Mapping[str, str]) -> Settings:
        header = self._version.header
        values = header.values() if header is not None else None
        return config_files.settings_for(self.path, values, config=self._config, overrides=overrides)

    # -- without one -----------------------------------------------------------------------------------

    def complete(self) -> bool:
        """Add ``title`` and ``docid`` to the header if they are missing; return whether they were.

        A chapter of a book gets no title: its first heading is the title, and Pandoc would print both.
        """
        found = find_nodes(replace(self._version, name=self._name))
        complete_header(found[0][1].root, self.blocks, name=self._name, chapter=self._is_chapter)
        return self._apply(changed_metadata(found)).changed

    @property
    def _name(self) -> str:
        return self._parsed.name or "document"

    @property
    def _is_chapter(self) -> bool:
        path = self.path.absolute() if self.path is not None else None
        book = book_of(path) if path is not None else None
        return path is not None and book is not None and book.whole and book.position(path) is not None

    def fix(self) -> int:
        """Correct misspelt prompts, and values in which knitr would run code; return how many."""
        blocks, count = without_running_code(self.blocks)
        text, mended = with_fixes(serialize(blocks), find_problems(blocks))
        self._fixed |= mended > 0
        self._replace(parse_markdown_text(text))
        return count + mended

    def accept(
        self, *, line: int | None = None, hunk: int | None = None, force: bool = False, metadata: bool = False
    ) -> int:
        """Accept the new texts of pending edits (with `line`, of the one that covers it); return their number.

        With `hunk`, a number from 1, only that change of the edit (`Edit.hunks`) is accepted; the others stay pending.

        The author's changes to a new text are kept. Prompts and other metadata that the model wrote are commented out;
        with `metadata`, they become effective.

        Raises:
            EditError: text would be lost, because a reply was cut off or drops something, which `force` accepts, or the
                author changed the old text. The edits that lose nothing are accepted nevertheless.
            LmmError: no edit is pending at `line`, or an edit lacks its marks.
        """
        return self._resolve("accept", line=line, hunk=hunk, force=force, metadata=metadata)

    def reject(self, *, line: int | None = None, hunk: int | None = None, again: bool = False) -> int:
        """Restore the old texts of pending edits, byte for byte (`again`: also the questions); return their number.

        With `hunk`, only that change is removed from the new text.
        """
        return self._resolve("again" if again and hunk is None else "reject", line=line, hunk=hunk)

    def _resolve(
        self,
        verdict: pending_edits.Verdict,
        *,
        line: int | None = None,
        hunk: int | None = None,
        force: bool = False,
        metadata: bool = False,
    ) -> int:
        check_conflicts(self.text, self._parsed.file)
        signs = verdict == "accept" and EDIT in self.text
        signs = signs and config_files.settings_for(self.path, config=self._config).notebook.authorship
        sign = authorship.sign if signs else None
        if hunk is not None:
            return int(self._replace(pending_edits.resolve_hunk(self.blocks, verdict, hunk, line, force, sign)))
        blocks, edits, refused = pending_edits.resolve(
            self.blocks, verdict, line=line, force=force, with_metadata=metadata, sign=sign
        )
        for edit in edits if verdict == "accept" else ():
            text = serialize(edit.new)
            known = self._known_references() if "@" in text else None
            cites = citation_warning(unknown_references(text, known, around=serialize(edit.old)))
            for note in (*edit.notices, *filter(None, [cites])):
                self.listener(Notice(note), Place(self._parsed.file, edit.line))
        self._replace(blocks)
        if refused:
            raise pending_edits.edit_error(refused, len(edits))
        return len(edits)

    @property
    def authors(self) -> tuple[Authorship, ...]:
        """Who wrote the text, as far as ``[notebook] authorship`` recorded it: people first, then models."""
        return tuple(authorship.authors_of(self.blocks))

    def clear(self, *, line: int | None = None, pending: bool = False) -> bool:
        """Remove the chats, with `pending` also pending prompts; return whether there were any.

        With `line`, only that of the block which covers it. Metadata blocks that become empty are removed, too.
        """
        chosen = {b.source for b in self.blocks if line is None or b.line <= line < b.line + b.source.count("\n")}

        def clear(block: MetadataBlock) -> MetadataBlock:
            return clear_chat(block, pending=pending) if line is None or block.source in chosen else block

        return self._replace(cleared(self.blocks, clear))

    def clear_annotations(self, *fields: str) -> bool:
        """Remove generated annotations, all or those named; return whether there were any. What people edited stays.

        Metadata blocks that become empty are removed, too.

        Raises:
            ConfigError: there is no annotation of that name.
        """
        check_annotations(fields)
        return self._replace(cleared(self.blocks, lambda block: without_generated(block, fields or ANNOTATIONS)))

    def _apply(self, patch: Patch) -> Report[Any]:
        """Apply a patch, and keep it, to be applied to what the author saves meanwhile."""
        applied = patch(self._version)  # another call may have changed it
        changed = self._take(serialize(applied.blocks))
        self._patches += [patch] if changed else []
        return replace(applied.report, changed=changed)

    def _replace(self, blocks: Sequence[Block]) -> bool:
        """Replace the document's blocks; what is to be replaced must still be there when it is saved."""
        before = self.blocks
        made = self._take(serialize(blocks))
        self._patches += changes_between(before, blocks) if made else []
        return made

    def _take(self, text: str) -> bool:
        """Replace the text, and end the tree of the old one if the text differs; return whether it does."""
        if text == self.text:
            return False
        if self._tree is not None:
            self._tree.ended = True
            self._tree = None
        self._parsed = replace(self._parsed, text=text)
        return True

    def _rebase(self, theirs: str) -> tuple[str, tuple[Failure, ...]]:
        """Apply the changes since the file was read to another text; return the result and what could not be applied.

        Raises:
            Changed: its author has changed lines that were rewritten.
        """
        version, failures = replace(self._version, text=theirs), list[Failure]()
        for patch in self._patches:
            applied = patch(version)
            version = replace(version, text=serialize(applied.blocks))
            failures += applied.report.failures
        return version.text, tuple(failures)

    def rebased(self, theirs: str) -> tuple[str, tuple[Failure, ...]]:
        """Apply the changes to another version of the text, such as an editor's; also return what could not be applied.

        Raises:
            Changed: lines that were rewritten here were changed there too.
            DocumentError: the changes would alter the meaning of another part of the text.
        """
        known = self._file is not None and theirs == self._file.base
        text, failures = (self.text, self._lost) if known else self._rebase(theirs)
        if text != theirs and not is_sound(theirs, text, fixed=self._fixed):
            why = "nothing was written, because another part of the file would change its meaning"
            hint = "lmm scan --check shows what cannot be read; correct it and run again: replies are kept"
            raise DocumentError(why, where=self._parsed.file, hint=hint)
        return text, failures

    # -- the disk --------------------------------------------------------------------------------------

    @background
    async def asave(self, to: str | Path | None = None, *, overwrite: bool = False, settle: float = SETTLE) -> Saved:
        """Write the document to its file; if its author saved there in the meantime, merge the changes into their text.

        The changes are applied again: replies go to the same questions, metadata to the same sections. What could not
        be applied is reported, and is in the result's `failures`; replies are remembered.

        Args:
            to: another file, which becomes the document's; an existing one only with `overwrite`.
            settle: seconds for which a file that has changed must have been unchanged before it is written.

        Raises:
            FileReadError, FileWriteError: the file is gone, or cannot be written; `to` exists; there is no file.
            Changed: lines that were rewritten here (in `tree`, by `accept`, `reject`) were changed there too.
            DocumentError: the changes would alter the meaning of another part of the text. Nothing is written then.
        """
        if to is not None:
            return self._save_as(Path(to), overwrite)
        if self._file is None or self.path is None:
            raise FileWriteError("this document has no file yet", hint='give one: save("notes.md")')
        if self.text == self._file.base and not self._lost:
            return Saved(self.text)
        async with self._locked(refresh=False):
            files.check_writable(self.path)
            await self._file.still(settle)
            saved = self._file.save(self.rebased)
        self._forget_patches()
        for failure in saved.failures:
            self.listener(Failed(failure.error, failure.what), failure.place)
        for kept in saved.recovered:
            what = f"{files.shown(kept.name)} contains your save, which an interrupted run had put aside; compare it"
            self.listener(Notice(what), Place(str(self.path)))
        if saved.unrecorded:
            what = f"saved, but lmm undo cannot take this back: {saved.unrecorded}"
            self.listener(Notice(what), Place(str(self.path)))
        self._take(saved.text)
        return saved

    save = blocking(asave)

    def _save_as(self, path: Path, overwrite: bool) -> Saved:
        if path.exists() and not overwrite:
            raise FileWriteError("this file exists", where=str(path), hint="choose another one, or overwrite=True")
        files.replace(path, self.text)
        self.path, self._file = path, SharedFile.open(path)
        self._forget_patches()
        self._parsed = ParsedDocument(self.text, self._parsed.name or files.title_of(path), str(path))
        return Saved(self.text)

    def reload(self) -> None:
        """Read the file again; unsaved changes are applied to its new text.

        Raises:
            FileReadError: the file is gone, or cannot be read.
            Changed: lines that were rewritten here were changed there too.
        """
        if self._file is not None and self._file.changed():
            text, self._lost = self._file.reread(self._rebase)
            self._take(text)

    def _forget_patches(self) -> None:
        self._patches, self._lost, self._fixed = [], (), False

    def undo(self) -> UndoneChange:
        """Undo the last change that we saved in the file, byte for byte; the author's changes elsewhere stay.

        Raises:
            FileWriteError: the document has no file.
            LmmError: there is nothing to undo, or the author has changed that place.
        """
        if self.path is None:
            raise FileWriteError("this document has no file yet", hint='give one: save("notes.md")')
        taken = undo.take_back(self.path)
        self.reload()
        return taken

    # -- the lock --------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _locked(self, free: bool = False, *, refresh: bool = True) -> AsyncGenerator[None]:
        """Hold the lock, unless it is not needed (`free`); first reload what others saved."""
        mine = self._file is not None and not free
        if mine:
            await self._acquire()
        try:
            if refresh and not free:
                self.reload()
            yield
        finally:
            if mine:
                await self._release()

    async def _acquire(self) -> None:
        stack = contextlib.AsyncExitStack()
        if self._file is not None and not self._held:
            told, place = Waiting("another lmm command is working on it; waiting"), Place(str(self.path))
            await stack.enter_async_context(self._file.locked(on_wait=lambda: self.listener(told, place)))
        self._held.append(stack)

    async def _release(self) -> None:
        if self._held:
            await self._held.pop().aclose()


def record_source(document: Document, **asking: Unpack[ModelOptions]) -> RecordSource:
    """Return a document as a source of records; for pending edits, the old text is used."""
    client = document._client("minor", **asking)
    version = document._version
    return RecordSource(old_tree(version), client, load_prompts(client.settings.prompts.folder), version.file)


def saved(document: Document, verb: Callable[[Document], Report[T]]) -> Report[T]:
    """Run a verb on a locked document, save the document if it has a file, and return the report.

    Raises:
        Stopped, BatchFailed: the verb ended early; its results until then are saved, and in the exception's report.
    """
    with document:
        try:
            report, ended = verb(document), None
        except (Stopped, BatchFailed) as error:
            report, ended = error.report, error
        if document.path is not None:
            try:
                report += Report(failures=document.save().failures)
            except LmmError as error:
                if report.usage.requests:
                    error.hint += f"{'; ' * bool(error.hint)}the replies are kept: asking the same again costs nothing"
                raise
        if ended is not None:
            ended.report = report
            raise ended
        return report


STALE = (State.MISSING, State.CHANGED, State.OLD_HASH, State.EDITED, State.OTHER_RECIPE, State.GONE)
