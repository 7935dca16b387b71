"""Which sections of which documents are read, and what is asked about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmm import config_files
from lmm.config import Settings
from lmm.disk import files, journal
from lmm.extraction.schemas import Schema
from lmm.extraction.sections import Section, choose
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import HeaderNode, HeadingNode, blocks_to_tree
from lmm.messages import Attachment, ChatRequest, Message, render
from lmm.models.port import ChatModel
from lmm.prompts.load import load_prompts
from lmm.prompts.templates import Prompts
from lmm.scan.edits import old_view

Source = str | Path | HeadingNode


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """How data is extracted.

    `select` chooses the sections (see `lmm.extraction.sections.choose`); `model` overrides the configured
    minor model; `config` names a configuration file; `again` asks anew what the journal could answer.
    """

    select: str | None = None
    model: str | None = None
    config: Path | None = None
    again: bool = False

    def settings(self, document: Path | None, header: Mapping[str, Any]) -> Settings:
        """The settings for a document with this header."""
        overrides = {"minor": self.model} if self.model else {}
        return config_files.settings_for(document, header, config=self.config, overrides=overrides)


@dataclass(frozen=True, slots=True)
class Job:
    """One section to be read: what is asked of which model, and in what words it is asked again."""

    file: str
    section: Section
    settings: Settings
    given: ChatModel | None
    request: ChatRequest
    prompts: Prompts

    @property
    def model_name(self) -> str:
        """The model's name, for which it need not be opened."""
        return self.given.name if self.given else str(self.settings.minor.model)

    def key(self, request: ChatRequest) -> str:
        """The journal's key of a request."""
        return journal.key_of("extract", self.model_name, [[m.role, render(m)] for m in request.messages])

    @property
    def is_remembered(self) -> bool:
        """Whether the journal has a reply."""
        return journal.get(self.key(self.request)) is not None


def plan_extraction(
    documents: Sequence[Source], schema: Schema, options: ExtractOptions, model: ChatModel | None = None
) -> list[Job]:
    """The sections to be read, in the order of the documents. Asks nothing."""
    trees = [_tree_of(document) for document in documents]
    jobs = []
    for (file, tree), sections in zip(trees, choose([tree for _, tree in trees], options.select), strict=True):
        settings = options.settings(Path(file) if file else None, tree.root.metadata)
        prompts = load_prompts(settings.prompts_folder)
        # The default system message is about chats; one that somebody wrote counts here too.
        system = () if settings.origins["system"] == "default" else (Message("system", settings.system),)
        prompt = prompts.fill("extract", schema=schema.text)
        for section in sections:
            asked = Message("user", prompt, (Attachment(section.text, "text", section.source.replace('"', "'")),))
            jobs.append(Job(file, section, settings, model, ChatRequest((*system, asked), "extract"), prompts))
    return jobs


def _tree_of(document: Source) -> tuple[str, HeadingNode]:
    """A document's file name, empty if it has none, and its tree; where an edit waits, the old text counts."""
    if isinstance(document, HeadingNode):
        return "", document
    is_text = isinstance(document, str) and "\n" in document
    text = str(document) if is_text else files.read_document(Path(document))
    title = "" if is_text else files.title_of(Path(document))
    tree = blocks_to_tree(old_view(parse_markdown_text(text)), title=title)
    return "" if is_text else str(document), tree or HeaderNode(title=title)
