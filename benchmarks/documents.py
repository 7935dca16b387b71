"""The documents that are measured: real files, where they are there, and one that is made up."""

from __future__ import annotations

import random
import re
import sysconfig
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
FOLDERS = ("corpus", "eval")

_PLAIN = re.findall(
    r"[a-z]+",
    "the a of in and to is that model data value function between estimate variance regression matrix parameter "
    "sample mean distribution hypothesis test section figure describes follows obtained because when each given "
    "two their linear effect random error term",
)
_WORDS = [*_PLAIN, "*outcome*", "`lm()`", "**predictor**", "[@fox2015]", "$x_i$"]


def real_files(folder: str) -> list[Path]:
    """The markdown files under ``../shared/FOLDER``; empty where that is not there."""
    return sorted((SHARED / folder).rglob("*.md"))


def installed_files() -> list[Path]:
    """The markdown files that installed packages brought along."""
    return sorted(path for path in Path(sysconfig.get_path("purelib")).rglob("*.md") if path.is_file())


def large_document(size: int = 5_000_000, metadata_blocks: int = 3_000) -> str:
    """A made-up course of about `size` characters whose sections are annotated, asked about and answered.

    The header counts as one of the `metadata_blocks`; the same arguments give the same text.
    """
    draw = random.Random(7)
    parts = [
        "---\ntitle: A made-up course\ndocid: course-000000\nlang: en\nmodel:\n  minor: OpenAI/gpt-4.1-mini\n---\n\n"
    ]
    written = len(parts[0])
    for number in range(1, metadata_blocks):
        parts.append(_section(number, draw))
        written += len(parts[-1])
        while written < size * (number + 1) // metadata_blocks:
            parts.append(_paragraph(draw))
            written += len(parts[-1])
    return "".join(parts)


def _section(number: int, draw: random.Random) -> str:
    level = 1 if number % 20 == 1 else draw.choice((2, 2, 3, 3, 4))
    title = f"{_sentence(draw, 4)} {number}"
    metadata = (_annotated, _annotated_fields, _exercise, _annotated, _asked)[number % 5](number, title, draw)
    extra = (_code, _list, _table, _equation)[number % 4](draw) if number % 3 == 0 else ""
    return f"---\n{metadata}---\n{'#' * level} {title} {{#sec-{number}}}\n\n{extra}"


def _annotated(number: int, title: str, draw: random.Random) -> str:
    """As in the seed's example: one hash for all fields."""
    return (
        f"~txthash_: {draw.getrandbits(64):016x}\ntitles: A made-up course - {title}\nquestions: {_questions(draw)}\n"
    )


def _annotated_fields(number: int, title: str, draw: random.Random) -> str:
    """As `lmm annotate` writes it: two hashes per field."""
    hashes = "".join(
        f"  {field}: h{draw.getrandbits(48):012x}-{draw.getrandbits(48):012x}\n" for field in ("questions", "keywords")
    )
    keywords = "".join(f"  - {_sentence(draw, 2)}\n" for _ in range(3))
    return f"~txthash_:\n{hashes}~questions_: {_questions(draw)}\n~keywords_:\n{keywords}"


def _exercise(number: int, title: str, draw: random.Random) -> str:
    note = f'"{_sentence(draw, 6)}: with care"   # mine'
    return f"type: exercise\nskip: false\npoints: {draw.randint(1, 5)}\nnote: {note}\n"


def _asked(number: int, title: str, draw: random.Random) -> str:
    """A block with a chat log; replies are block scalars of several lines."""
    exchanges = []
    for word in ("query", "message")[: draw.randint(1, 2)]:
        lines = "".join(f"      {_sentence(draw, 14)}\n\n" for _ in range(draw.randint(1, 3))).removesuffix("\n")
        exchanges.append(
            f'  - {word}: "{_sentence(draw, 8)}: yes or no?"\n    ~reply: |-\n{lines}    ~~model: OpenAI/gpt-4.1-mini\n'
        )
    return f"type: lecture\n~chat_:\n{''.join(exchanges)}"


def _questions(draw: random.Random) -> str:
    return " - ".join(f"What {_sentence(draw, 7)}?" for _ in range(2))


def _sentence(draw: random.Random, words: int) -> str:
    """Plain words only: safe in titles and in metadata without quotes."""
    return " ".join(draw.choices(_PLAIN, k=words))


def _paragraph(draw: random.Random) -> str:
    lines = (" ".join(draw.choices(_WORDS, k=13)) for _ in range(draw.randint(2, 8)))
    return "\n".join(lines) + ".\n\n"


def _code(draw: random.Random) -> str:
    return f"```{{r}}\n# a comment\n\nfit <- lm(y ~ x{draw.randint(1, 9)}, data = d)\nsummary(fit)\n```\n\n"


def _list(draw: random.Random) -> str:
    return "".join(f"- {_sentence(draw, 9)}\n" for _ in range(4)) + "\n"


def _table(draw: random.Random) -> str:
    rows = "".join(f"| {_sentence(draw, 2)} | {draw.random():.3f} |\n" for _ in range(4))
    return f"| term | estimate |\n|------|---------:|\n{rows}\n"


def _equation(draw: random.Random) -> str:
    return f"$$\ny_i = \\beta_0 + \\beta_{draw.randint(1, 9)} x_i\n\n+ \\epsilon_i\n$$\n\n"
