"""`lmm demo`: the whole round on the example course, with real commands on real files.

Each step is a row of `STEPS`: what an author would type into the file, and the command they would run.
The commands run as processes of their own, without keys and configuration, so that the built-in models
answer whatever is set on this machine. Nothing is written outside the demo's folder.
"""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import LmmError
from lmm.providers import PROVIDERS
from lmm.terminal import DONE, FAILED

LECTURE = "01-linear-models.md"
STATE = ".lmm"
MOST_LINES = 40  # of a change that is shown
RECORDED = "recorded-replies.json"
AGENT = "question-setter.chatmd"
_SECTION = "## How the coefficients are estimated\n"
_GENERALIZED = "The linear predictor may take any value"
_PARAGRAPH = "In explanation, we want to know how the outcome"


@dataclass(frozen=True, slots=True)
class Typed:
    """What the author types: `text` goes before the first line that begins with `before`."""

    before: str
    text: str

    def apply(self, document: str) -> str:
        """`document` with the text typed in."""
        at = 0 if document.startswith(self.before) else document.index("\n" + self.before) + 1
        return document[:at] + self.text + document[at:]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: why, what is typed into the lecture (if anything), and the command that follows."""

    title: str
    explanation: str
    command: tuple[str, ...]
    typed: Typed | None = None
    file: str = LECTURE


STEPS = (
    Step(
        "The course",
        "Three lectures on linear models, in plain markdown. `lmm scan --check` looks for broken metadata, missing\n"
        "titles and the like, and writes nothing.",
        ("scan", "--check", LECTURE, "02-inference.Rmd", "03-generalized.md"),
    ),
    Step(
        "Ask about a section",
        "A metadata block before a heading annotates the text under that heading, subheadings included. A line `?:`\n"
        "in it asks the model. `lmm messages` answers inside the file; nothing else in the file changes.",
        ("messages", LECTURE),
        Typed(_SECTION, "---\n?: what is a residual, and what does least squares minimise?\n---\n"),
    ),
    Step(
        "Ask about a paragraph",
        "Before a paragraph, the block is about that paragraph; the model gets its section as context.",
        ("messages", LECTURE),
        Typed(_PARAGRAPH, "---\n?: when can a coefficient be read as an effect?\n---\n"),
    ),
    Step(
        "Go on",
        "`+:` continues a chat: the model gets the earlier question and answer too. (`?:` would start a new one.)",
        ("messages", LECTURE),
        Typed("---\n" + _SECTION, "+: and how are the coefficients computed from the matrix of predictors?\n"),
    ),
    Step(
        "Take the chats out again",
        "`lmm clear` removes the chats. The lecture is then what it was, byte for byte.",
        ("clear", LECTURE),
    ),
    Step(
        "Ask for an edit",
        "`=:` asks for another version of the text. The built-in model cannot write, so this reply is a recorded\n"
        "one (`Recorded/…` says so in the file). The new text stands beside the old one until you decide.",
        ("messages", "--diff", "--model", f"Recorded/{RECORDED}", LECTURE),
        Typed(_PARAGRAPH, "---\n=: say this in one sentence\n---\n"),
    ),
    Step(
        "Accept it, or not",
        "`lmm accept` keeps the new text, with whatever you change in it; `lmm reject` restores the old one.",
        ("reject", LECTURE),
    ),
    Step(
        "Annotate sections",
        "`lmm annotate` adds what search will use later: titles, key terms, summaries. `~` marks what a model\n"
        "wrote; you may edit it, and it is made again only where the text changes.",
        ("annotate", "--keywords", "--summaries", "--model", "Builtin/extractive", "03-generalized.md"),
        file="03-generalized.md",
    ),
    Step(
        "Ingest the course",
        "`lmm ingest` cuts the lectures into chunks, embeds them with the built-in model, and stores them in the\n"
        "folder .lmm, so that they can be searched.",
        ("ingest", "."),
    ),
    Step(
        "Ingest it again after a change",
        "Only what changed is embedded and stored anew: after a new paragraph, one or two chunks.",
        ("ingest", "."),
        Typed(
            _GENERALIZED,
            "A generalized model reads like a linear one, once it is clear on which scale its coefficients are.\n\n",
        ),
        file="03-generalized.md",
    ),
    Step(
        "Search it",
        "`lmm search` finds passages by their words and by their meaning, and shows where they stand.",
        ("search", "--limit", "2", "which assumptions must the errors meet?"),
    ),
    Step(
        "Ask it",
        "`lmm ask` answers from the course alone, with numbered sources. The built-in model quotes; a language model\n"
        "would write, and numbers that it was not shown would be taken out of its answer.",
        ("ask", "What is a confidence interval?"),
    ),
    Step(
        "Make a study plan of it",
        "`lmm plan` lists what there is to read, from headings, summaries and metadata; `lmm cards` makes study\n"
        "cards, `lmm exercises` collects exercises, `lmm export` writes the notes without all of this.",
        ("plan", "03-generalized.md"),
        file="03-generalized.md",
    ),
    Step(
        "An agent is a text file",
        "It says which tools a model gets, and what is to be done with them. `lmm agents` has some to start from;\n"
        "this one sets exercises: it can search this course, and add to files in this folder, and nothing else.",
        ("agents", AGENT.removesuffix(".chatmd")),
    ),
    Step(
        "Run it",
        "What is said and done is appended to the file, so that it can be read, compared, and gone on with. The\n"
        "built-in model cannot use tools: what it says here was recorded (--model Recorded/…); the tools are real.",
        ("run", "--yes", "--model", f"Recorded/{RECORDED}", AGENT),
        Typed("</user>", "One exercise on confounding, please.\n"),
        file=AGENT,
    ),
    Step(
        "See what came of it",
        "The exercise is marked as one, so `lmm exercises` finds it, and `lmm export` leaves its solution out.",
        ("exercises", "exercises.md"),
        file="exercises.md",
    ),
)


@options.command()
@click.option("--folder", metavar="DIR", type=options.PATH, help="Put the course here instead of a temporary folder.")
def demo(*, folder: Path | None) -> int:
    """Show what LM Markdown does on an example course: offline, with the built-in models, in a few seconds."""
    started = time.perf_counter()
    course = _new_folder(folder)
    with resources.as_file(resources.files("lmm").joinpath("example/course")) as source:
        shutil.copytree(source, course, dirs_exist_ok=True)
    (course / STATE).mkdir(exist_ok=True)  # marks the course's folder: no configuration above it counts
    original = (course / LECTURE).read_bytes()
    _say(f"The example course is in {course}\n")
    for number, step in enumerate(STEPS, 1):
        _run(step, number, course)
    same = (course / LECTURE).read_bytes() == original
    _say(f"{LECTURE} is {'identical to the original' if same else 'NOT identical to the original'}.\n")
    _say(_what_next(course))
    _say(f"The demo took {time.perf_counter() - started:.1f} s.\n")
    return DONE if same else FAILED


def _new_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="lmm-demo-"))
    if folder.exists() and any(folder.iterdir()):
        raise LmmError("this folder is not empty", where=str(folder), hint="name a new one")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run(step: Step, number: int, course: Path) -> None:
    _say(terminal.styled(f"{number}. {step.title}", "bold") + f"\n{step.explanation}\n\n")
    file = course / step.file
    if step.typed is not None:
        before = _read(file)
        file.write_bytes(step.typed.apply(before).encode())
        _say(f"You type into {step.file}:\n{_diff(before, _read(file))}\n")
    before = _read(file)
    _say(terminal.styled(f"$ {shlex.join(['lmm', *step.command])}\n", "cyan"))
    result = subprocess.run(
        [sys.executable, "-m", "lmm", *step.command], cwd=course, env=offline_environment(course), check=False
    )
    if result.returncode:
        raise LmmError(f"the command ended with exit code {result.returncode}", hint="please report this")
    if _read(file) != before:
        _say(f"\nWhat changed in {step.file}:\n{_diff(before, _read(file))}")
    _say("\n")


def offline_environment(course: Path) -> dict[str, str]:
    """The environment without anything that would choose or pay a model; state goes into the demo's folder.

    Its vectors are the fast model's, also where the extra ``meaning`` is: the demo took twice the time with the other.
    """
    keys = {key for provider in PROVIDERS.values() for key in (*provider.keys, provider.base_url_variable)}
    kept = {k: v for k, v in os.environ.items() if k not in keys and not k.startswith("LMM_")}
    return kept | {
        "LMM_MODEL_EMBEDDING": "Builtin/wordllama",
        "LMM_STATE_DIR": str(course / STATE),
        "LMM_CACHE_DIR": str(course / STATE / "cache"),
        "PYTHONUNBUFFERED": "1",
    }


def _read(file: Path) -> str:
    return file.read_bytes().decode("utf-8") if file.exists() else ""


def _diff(before: str, after: str) -> str:
    """The changed lines with two lines around them, coloured on a terminal."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm=""))[2:]
    shown = []
    for line in lines:
        if line.startswith("@@"):
            number = line.split("+")[1].split(",")[0].split(" ")[0]
            shown.append(terminal.styled(f"  line {number}:", "dim"))
        else:
            colour = {"+": "green", "-": "red"}.get(line[:1])
            shown.append("  " + (terminal.styled(line, colour) if colour else line))
    more = [f"  … and {len(shown) - MOST_LINES} lines more"] if len(shown) > MOST_LINES + 5 else []
    return "\n".join((shown[:MOST_LINES] if more else shown) + more) + "\n"


def _what_next(course: Path) -> str:
    return (
        "The built-in model quoted its answers from the text: it runs anywhere, and understands nothing.\n\n"
        "What to try next:\n"
        f"  cd {course}\n"
        f"  open {LECTURE} in your editor, write a question before a paragraph, save, and run: lmm messages {LECTURE}\n"
        "  lmm messages --dry-run FILE      shows what a model would be sent\n"
        "  export OPENAI_API_KEY=…          then the same commands ask OpenAI's models\n"
        "  lmm init                         writes a config.toml, for Ollama and other servers\n"
        "  lmm status                       shows which models are in use\n"
    )


def _say(text: str) -> None:
    terminal.say(text, end="")
