"""The options of a search, of a question, and of an ingestion, in Python, on the command line and over the API.

Each field with an `Option` is a keyword of the method, and with `flags` an option of the command; `lmm.arguments` reads
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import msgspec

from lmm.config_tables import Config, Count, CountOrZero, Names, NotNegative, Option, Table

if TYPE_CHECKING:
    from lmm_education.config import SearchSettings
    from lmm_education.material import Passage
else:  # it imports what the help of a command does not need
    Passage = Any

History = Literal["none", "summary", "extraction", "rewrite"]
Edits = Literal["refuse", "old", "new"]
Value = str | int | bool


class SearchOptions(Table, frozen=True):
    """How to search; None means as configured under [search]. These are the keywords of `Course.search`, the options of
    ``lmm search`` and the fields of ``POST /search``.

    `types`, `documents` and `where` are conditions that a passage must meet; of several values, one is enough.
    `sections` says whether the sections of the passages are ranked, too. `here` is the reader's place, whose passages
    come first; `section` is the section there. `reworded`, for an answer: if `expand` is unset, the aux model may write
    a question in the course's words, and a model that fails is no error.
    """

    types: Annotated[str | Names, Option("Only material of this type; may be repeated.", flags="--type TYPE")] = ()
    documents: Annotated[
        str | Names, Option("Only this document: its docid, file or file name.", flags="--doc DOC")
    ] = ()
    where: Annotated[
        Mapping[str, Value | Sequence[Value]],
        Option("Only passages with this metadata.", {"level": "easy"}, flags="--where KEY=VALUE"),
    ] = MappingProxyType({})
    here: Annotated[
        str,
        Option(
            "The reader's place: a page of the book, or a file with the id or title of a heading.",
            "leaves.md#colour",
            flags="--here PLACE",
        ),
    ] = ""
    limit: Annotated[Count | None, Option("Show at most this many results.", flags="--limit N")] = None
    companion: Annotated[bool | None, Option("Show whole sections, or passages.", flags="--documents/--chunks")] = None
    expand: Annotated[CountOrZero | None, Option("Let the aux model write N sub-questions.", flags="--expand N")] = None
    reranker: Annotated[
        str | None, Option("Rank again with: none, model, http, FastEmbed/….", flags="--rerank NAME")
    ] = None
    fields: Annotated[bool | Names, Option("payload fields to return with each passage; True for all")] = ()
    sections: Annotated[bool, Option("also rank the sections")] = True
    section: Passage | None = None
    reworded: bool = False

    def filled(self, settings: SearchSettings) -> Self:
        """Return the options with None replaced by the configured values, and single values by lists of one."""
        return self.replace(
            types=several(self.types),
            documents=several(self.documents),
            limit=settings.limit if self.limit is None else self.limit,
            companion=settings.companion if self.companion is None else self.companion,
            expand=settings.expand if self.expand is None else self.expand,
            reranker=(settings.reranker if self.reranker is None else self.reranker) or "none",
        )


def several(value: Any) -> tuple[Any, ...]:
    """Return a value, or the values of a list, as a tuple.

    >>> several("exercise"), several(["exercise", "summary"])
    (('exercise',), ('exercise', 'summary'))
    """
    return (value,) if isinstance(value, str | int) else tuple(value)


class AskOptions(SearchOptions, frozen=True):
    """How to answer; None means as configured under [answer]. These are the keywords of `Course.ask` and the options of
    ``lmm ask``.

    `history` are earlier exchanges: answers, or pairs of question and answer, oldest first. `budget` limits all the
    requests together, in tokens (``20000``) or money (``0.50$``); the length of a reply is known only after it.
    `model` is a name, such as ``Ollama/llama3.2``, a tier (``minor``), or a model.
    """

    history: Annotated[Any, Option("earlier answers, or pairs of question and answer")] = ()
    mode: Annotated[
        History | None,
        Option("How the history is used: none, summary, extraction, rewrite.", flags="--mode MODE"),
    ] = None
    agent: Annotated[bool | None, Option("Let the model search with tools, or not.", flags="--agent/--no-agent")] = None
    context_tokens: Annotated[
        Count | None, Option("Show the model at most this many tokens of material.", flags="--context-tokens N")
    ] = None
    budget: Annotated[Any, Option("the limit of all requests together")] = ""
    model: Annotated[Any, Option("the model that answers")] = None
    temperature: Annotated[NotNegative | None, Option("The model's temperature.", flags="--temperature NUMBER")] = None


class IngestOptions(Table, frozen=True):
    """How documents are ingested. `repair` rebuilds the store in any case, without opening it."""

    again: Annotated[
        bool, Option("Embed everything again; if settings changed, rebuild the store.", flags="--again")
    ] = False
    dry_run: Annotated[
        bool, Option("Show what would change, and how many chunks would be embedded.", flags="--dry-run")
    ] = False
    save_files: Annotated[
        bool, Option("Write the result of each step as markdown, beside the document.", flags="--save-files")
    ] = False
    output: Annotated[Path | None, Option("Write these files there (implies --save-files).", flags="--output DIR")] = (
        None
    )
    ingest: Annotated[bool, Option("Prepare only; embed and store nothing.", flags="--no-ingest")] = True
    prune: Annotated[bool, Option("Remove documents from the store if their files are gone.", flags="--prune")] = False
    annotate: Annotated[
        bool, Option("First make missing or outdated annotations, as lmm annotate does.", flags="--annotate")
    ] = False
    repair: bool = False

    def __post_init__(self) -> None:
        if self.output is not None:
            msgspec.structs.force_setattr(self, "save_files", True)

    @property
    def is_review(self) -> bool:
        """Whether documents are only prepared, into files that are looked at before they are ingested."""
        return self.save_files and not self.ingest and not self.dry_run


class ExportOptions(Table, frozen=True):
    """How notes are exported; None means as configured under [study]. `keep` is in addition to what is configured."""

    keep: Annotated[
        str | Names, Option("Leave texts of this type in the notes; may be repeated.", flags="--keep TYPE")
    ] = ()
    edits: Annotated[
        Edits | None,
        Option(
            "For pending edits: refuse to export, or use the old or the new text.", flags="--edits [refuse|old|new]"
        ),
    ] = None
    keep_lines: Annotated[
        bool, Option("Write blank lines for what is left out, to keep line numbers.", flags="--keep-lines")
    ] = False
    config: str | Path | Config | None = None
