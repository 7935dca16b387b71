"""The command table: name, module, one line of help. Modules are imported when their command is used.

Other packages' commands are named here too, so that `lmm --help` imports none of them.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One row: `module` has a Typer app called `app`."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("demo", "lmm.cli.demo", "show the whole round on an example course: offline, in a temporary folder"),
    Command("init", "lmm.cli.setup", "write a commented config.toml"),
    Command("status", "lmm.cli.setup", "show which models are used, and where each setting comes from"),
    Command("trust", "lmm.cli.setup", "agree to what a folder's config.toml asks for beyond the folder"),
    Command("scan", "lmm.cli.scan", "complete the header, report problems"),
    Command("messages", "lmm.cli.messages", "answer the questions that wait in a document"),
    Command("watch", "lmm.cli.watch", "answer on every save"),
    Command("accept", "lmm.cli.edits", "keep the new text of edits that wait"),
    Command("reject", "lmm.cli.edits", "restore the old text of edits that wait"),
    Command("undo", "lmm.cli.edits", "take back our last change to a document"),
    Command("annotate", "lmm.cli.batch", "add titles, questions, keywords, summaries to sections"),
    Command("batch", "lmm.cli.batch", "run a batch model of yours"),
    Command("extract", "lmm.cli.extract", "structured data from sections, by a Pydantic model or JSON schema"),
    Command("import", "lmm.cli.importing", "turn PDF, Word, HTML, EPUB and Jupyter files into markdown"),
    Command("clear", "lmm.cli.scan", "remove the chats from a document"),
    Command("ingest", "lmm_education.cli.ingest", "prepare documents and store them, so that they can be searched"),
    Command("search", "lmm_education.cli.search", "find passages in what was ingested"),
    Command("ask", "lmm_education.cli.ask", "answer a question from the course, with sources"),
    Command("serve", "lmm_education.cli.serve", "the course as a web chat, and as an API for OpenAI clients"),
    Command("log", "lmm_education.cli.log", "what students asked: show it, export it, delete it"),
    Command("eval", "lmm_education.cli.evaluation", "measure how well your questions find what answers them"),
    Command("toc", "lmm_education.cli.study", "the headings of documents, with their lines"),
    Command("plan", "lmm_education.cli.study", "a study plan: sections in order, with summaries and reading times"),
    Command("cards", "lmm_education.cli.study", "study cards, as CSV or for Anki"),
    Command("exercises", "lmm_education.cli.study", "the exercises, with or without solutions"),
    Command("export", "lmm_education.cli.export", "clean notes for students: no metadata, chats, edits, special texts"),
    Command("store", "lmm_education.cli.store", "look at the store, compact it, copy it to a server and back"),
    Command("run", "chatmd.cli.run", "run a ChatMD file: model and tools, everything appended to the file"),
    Command("agents", "chatmd.cli.agents", "ready-made agents: list them, copy one to start from"),
    Command("check", "chatmd.cli.check", "report what is wrong with ChatMD files, and what would be dropped"),
    Command("render", "chatmd.cli.render", "print what the model would get of a ChatMD file, with its tokens"),
    Command("tools", "chatmd.cli.tools", "show the tools that a ChatMD file offers its model, and what they can do"),
    Command("compact", "chatmd.cli.compact", "replace the older part of a long conversation by a summary"),
    Command("refine", "chatmd.cli.refine", "measure a prompt on cases, and find a better one"),
    Command("mcp", "chatmd.cli.mcp", "publish the course and prompt files to programs that speak MCP"),
)
