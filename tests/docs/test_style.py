"""Pages are in plain English: none of the phrases that docs/style.md replaces, in prose (code is left out)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
_CODE = re.compile(
    r"^<!-- every key.*?end of every key -->|^(`{3,})[^\n]*\n.*?^\1[ \t]*$|^ {4}[^\n]*$|<!--.*?-->|`[^`\n]+`",
    re.DOTALL | re.MULTILINE,
)
_PHRASES = {  # phrase: what to write
    r"(is|are|was|were|be) told( of)?\b": "report, show, name",
    r"told of\b": "report",
    r"tells? of\b": "report, say",
    r"(?<![a-z] )who(ever)? (asks|waits|comes|wants|has|ticks|logs|reads)\b": "name the person",
    r"is heeded\b": "respect",
    r"knows? (no|nothing|neither)\b": "do not support",
    r"stands? (there|in|on|at|below|above|beside|under|by itself)\b": "appear, be",
    r"finds better\b": "finds more",
    r"what (it costs|they cost)\b": "cost",
    r"what (came|comes) of (it|them)\b": "result",
    r"all the same\b": "still, anyway",
    r"as (it|they) (is|are) typed\b": "literally",
    r"without a word\b": "silently",
    r"at one's side\b": "beside you",
    r"is no (failure|name|proof|parameter|key)\b": "is not a",
    r"are no (tags|powers|names)\b": "are not",
    r"in vain\b": "for nothing",
    r"what (waits|stands)\b": "pending; what is in",
}
_PHRASE = re.compile(rf"\b(?:{'|'.join(_PHRASES)})", re.IGNORECASE)


def problems(page: Path) -> list[str]:
    """Each phrase with its line and what to write."""
    prose = _CODE.sub(lambda code: "\n" * code.group().count("\n"), page.read_text(encoding="utf-8"))
    found = []
    for match in _PHRASE.finditer(prose):
        advice = next(words for phrase, words in _PHRASES.items() if re.fullmatch(phrase, match[0], re.IGNORECASE))
        found.append(f"{page.name}:{prose.count(chr(10), 0, match.start()) + 1}: '{match[0]}' (write: {advice})")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_in_plain_english(page: Path) -> None:
    """The message names the line, the phrase and what to write."""
    if page.name not in ("style.md", "commands.md"):
        assert problems(page) == []


def test_a_phrase_is_found_in_prose_and_not_in_code(tmp_path: Path) -> None:
    """The check can fail."""
    page = tmp_path / "page.md"
    page.write_text(
        "Fine.\n\n```sh\nwho waits\n```\n\nYou are `told of` it, and\nwho waits is told of it.\n", encoding="utf-8"
    )
    assert [problem.split(" (")[0] for problem in problems(page)] == [
        "page.md:8: 'who waits'",
        "page.md:8: 'is told of'",
    ]
