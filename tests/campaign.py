"""Everything that could lose something, many times: ``python tests/campaign.py [--documents 20000] [--seed 1] …``.

Mutated documents go through messages, accept, reject, clear, scan, a save of their author meanwhile, and undo; an
editor saves in the moment of our saves; real commands are killed; stores are damaged. It prints what it saw, and ends
with exit code 1 if anything was lost. The same seed makes the same documents. A document alone: ``--only NUMBER``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import talking
from edge.conftest import write_config
from edge.damage_store import campaign as damage_stores
from edge.kills import COMMANDS, kill_command, kill_ingest
from edge.races import WAYS, race
from fakes.courses import folder_in_memory
from fakes.openai_server import ScriptedServer
from harmless import authors_keys, others
from strategies import ODD_TEXTS

from lmm import Document
from lmm.errors import DocumentError, EditError, LmmError
from lmm.markdown.blocks import ErrorBlock, MetadataBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.messages import Reply
from lmm.notebook.edits import is_sound
from lmm.testing import ScriptedModel

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = ("docs", "tests/golden", "../shared/corpus", "README.md")
SIZE = 40  # lines of a document before it is mutated
DISK_EVERY = 10  # documents that go through files too: a save of ours waits for its author to be done

_METADATA = [
    "?: why?", "?: |\n  more than\n\n  one line", "+: go on", "query: what?", "message: 'and: this'", "=: shorten",
    "edit: |\n  say it\n    otherwise", "title: x", "type: y # mine", "# a note", "", "  ", "list:\n  - a\n\n  - b",
    "~chat_:\n  - query: a\n    ~reply: |-\n      b\n\n      c\n    ~~model: m", "~summary_: s\n~~summary_text: abcd",
    "~chat: [q, a]", "~txthash_: abc\nsummary: old", "frozen: true", "skip: true", "key: [", "- a: 1\n- b: 2",
]  # fmt: skip
_PIECES = [
    "# A", "## B {#b}", "###### old text", "###### new text", "Setext\n===", "Setext\n---", "```", "````\nx\n````",
    "```{r}\n1 + 1\n```", "~~~", ":::", "::: {.note}\nIn a div.\n:::", "| a | b |\n|---|---|\n| 1 | 2 |", "$$", "<!--",
    "-->", "---", "...", "***", "- item\n\n  more", "[^1]: note", "Text[^1] and [@fox2015].", "> quote\n> ---",
    "<!-- lmm:new abcdef -->", "<!-- lmm:end abcdef -->", "    code\n\n    ---",
]  # fmt: skip
_REPLIES = [
    "An answer.", "---", "---\n?: mine?\n---\n", "# A heading\n\nText.", "```\nopen", "```{r}\nsystem('true')\n```",
    "a\r\nb", "\ttab\n  two", "`r 1`", "::: {.note}\nopen div", "###### new text\n\n<!-- lmm:end abcdef -->", "~~~",
    "| a |\n|---|", "x\n---\n", "\n\nblank\n\n\n", "Text.\n\n<!-- open", "a: b", "...", "\ud800 lone", "$$\nx",
    "key: |\n  x\n\n   y", "#", "[^2]: other note", "\ufeffmark", "word " * 300,
]  # fmt: skip


class Lost(Exception):
    """Something is not there any more, or not as it was."""


def expect(true: bool, what: str) -> None:
    """Raises: Lost."""
    if not true:
        raise Lost(what)


# -- documents -------------------------------------------------------------------------------------


def real_texts() -> list[str]:
    """Markdown that people wrote: in this repository, and the shared corpus where it is there."""
    found: list[Path] = []
    for source in SOURCES:
        path = REPOSITORY / source
        found += [path] if path.is_file() else sorted(path.rglob("*.md"))
    return [text for path in found if (text := path.read_bytes().decode("utf-8", "replace")).strip()]


def mutated(texts: list[str], chance: random.Random) -> str:
    """A part of one of the texts, with a few things done to it that an author or another program may do."""
    lines = chance.choice(texts).splitlines(keepends=True)
    start = chance.choice([0, chance.randrange(len(lines))])
    lines = lines[start : start + chance.randint(1, SIZE)]
    for _ in range(chance.randint(1, 8)):
        lines = chance.choices(MUTATIONS, [1, 1, 1, 1, 6, 3, 1])[0](lines, chance)
    for _ in range(chance.choice([0, 1, 1, 2])):  # what can be answered, as a rule
        lines = _insert(lines, f"\n---\n{chance.choice(_METADATA[:7])}\n---", chance)
    text = "".join(lines)
    if chance.random() < 0.25:
        text = _with_waiting_edits(text, chance)
    forms = [text] * 5 + [text.replace("\r\n", "\n").replace("\n", "\r\n"), f"\ufeff{text}", text.rstrip("\n")]
    return chance.choice(forms)


def _with_waiting_edits(text: str, chance: random.Random) -> str:
    """Answered once, and then its author went on: texts of waiting edits changed, marks perhaps torn."""
    try:
        text = talking.answered(text, model=model(chance), again=True).text
    except LmmError:
        return text
    lines = text.splitlines(keepends=True)
    for _ in range(chance.randint(0, 3)):
        lines = chance.choice(MUTATIONS)(lines, chance)
    return "".join(lines)


def _at(lines: list[str], chance: random.Random) -> int:
    return chance.randint(0, len(lines))


def _insert(lines: list[str], piece: str, chance: random.Random) -> list[str]:
    at = _at(lines, chance)
    return [*lines[:at], *f"{piece}\n".splitlines(keepends=True), *lines[at:]]


def _delete(lines: list[str], chance: random.Random) -> list[str]:
    at = _at(lines, chance)
    return lines[:at] + lines[at + chance.randint(1, 3) :]


def _duplicate(lines: list[str], chance: random.Random) -> list[str]:
    at, to = _at(lines, chance), _at(lines, chance)
    return lines[:to] + lines[at : at + chance.randint(1, 6)] + lines[to:]


def _swap(lines: list[str], chance: random.Random) -> list[str]:
    if lines:
        one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines = list(lines)
        lines[one], lines[two] = lines[two], lines[one]
    return lines


def _blank(lines: list[str], chance: random.Random) -> list[str]:
    return _insert(lines, chance.choice(["", "", "  ", "\t", "\n"]), chance)


def _metadata(lines: list[str], chance: random.Random) -> list[str]:
    body = "\n".join(dict.fromkeys(chance.choices(_METADATA, k=chance.randint(1, 4))))
    above = chance.choice(["", "\n", "\n"])  # right below a paragraph, it would underline a heading
    return _insert(lines, f"{above}---\n{body}\n---", chance)


def _piece(lines: list[str], chance: random.Random) -> list[str]:
    return _insert(lines, chance.choice(_PIECES + chance.choices(_METADATA, k=8)), chance)


def _odd(lines: list[str], chance: random.Random) -> list[str]:
    return _insert(lines, chance.choice([text for text in ODD_TEXTS if "\ud800" not in text]), chance)


MUTATIONS: list[Callable[[list[str], random.Random], list[str]]] = [
    _delete, _duplicate, _swap, _blank, _metadata, _piece, _odd,
]  # fmt: skip


def model(chance: random.Random) -> ScriptedModel:
    """Replies of every kind, for ever; some cut off."""

    def replies() -> Iterator[str | Reply]:
        while True:
            text = "\n".join(chance.choices(_REPLIES, k=chance.choice([1, 1, 2])))
            yield Reply(text, "Scripted/replies", cut=True) if chance.random() < 0.15 else text

    return ScriptedModel(replies())


# -- what each goes through ------------------------------------------------------------------------


def check_document(text: str, seen: Counter[str], chance: random.Random, folder: Path | None) -> None:
    """All verbs on one document.

    Raises:
        Lost: something of it is not as it has to be.
    """
    expect(serialize(parse_markdown_text(text)) == text, "read and written: another text")
    try:
        answered = talking.answered(text, model=model(chance), again=True).text
    except LmmError:
        seen["messages refused"] += 1
        return
    seen["answered"] += answered != text
    if not _goes_through(text, answered, "messages", seen):
        return
    _check_texts(text, answered)
    _check_prompts(text, answered)
    accepted = _accepted(answered, seen)
    if accepted is not None:
        _goes_through(answered, accepted, "accept", seen)
    rejected, before = _or_none(lambda: talking.rejected(answered)), _or_none(lambda: talking.rejected(text))
    if rejected is not None and before is not None:
        seen["rejected"] += rejected != answered
        if _goes_through(answered, rejected, "reject", seen) and is_sound(text, before):
            bare, wanted = _cleared(rejected, pending=True), _cleared(before, pending=True)
            if bare is not None and wanted is not None:
                _check_taken_back(bare, wanted, seen)
    cleared = _cleared(answered)
    seen["clear refused"] += cleared is None
    if cleared is not None:
        _goes_through(answered, cleared, "clear", seen)
    completed = _or_none(lambda: talking.fixed(text))
    if completed is not None:
        seen["scanned"] += completed != text
        expect(others(completed) == others(text), "scan: another text")
        expect(is_sound(text, completed), "scan: not sound")
    theirs = "".join(chance.choice(MUTATIONS)(text.splitlines(keepends=True), chance))
    if folder is not None:
        _check_files(folder, text, theirs, chance)
        seen["on disk"] += 1


def _cleared(text: str, *, pending: bool = False) -> str | None:
    return _or_none(lambda: talking.cleared(text, pending=pending))


def _or_none(verb: Callable[[], str]) -> str | None:
    try:
        return verb()
    except LmmError:
        return None


def _accepted(answered: str, seen: Counter[str]) -> str | None:
    """With ``--force`` where that is asked for; None where all of it is refused."""
    try:
        accepted = _or_force(answered, seen)
    except LmmError:
        seen["accept refused"] += 1
        return None
    seen["accepted"] += accepted != answered
    return accepted


def _or_force(answered: str, seen: Counter[str]) -> str:
    try:
        return talking.accepted(answered)
    except EditError:
        seen["accept needed --force"] += 1
        return talking.accepted(answered, force=True)


def _goes_through(before: str, after: str, verb: str, seen: Counter[str]) -> bool:
    """Whether a change is one that is saved, the author's metadata being there; what is not leaves the file alone."""
    if not is_sound(before, after):
        _check_held_back(before, after, verb)
        seen[f"held back: {verb}"] += 1
        return False
    kept = list(map(repr, authors_keys(after)))  # no number is not equal to itself
    if verb == "reject":  # what was written in a new text goes with it
        kept += [repr(keys) for edit in Document.from_text(before).edits for keys in authors_keys(edit.new)]
    for keys in authors_keys(before):
        expect(verb == "accept" or repr(keys) in kept, f"{verb}: metadata is gone: {keys}")
    return True


def _check_held_back(before: str, after: str, verb: str) -> None:
    """Of torn documents: the file is as it was, and the error says so."""
    with folder_in_memory() as folder:
        path = folder / "d.md"
        path.write_bytes(before.encode())
        document = Document.open(path)
        document._become(after)
        with contextlib.suppress(DocumentError):
            document.save()
        expect(path.read_bytes() == before.encode(), f"{verb}: held back, and the file is another one")


def _check_texts(before: str, after: str) -> None:
    """What is no metadata is all there, in its order, byte for byte."""
    at = 0
    for block in parse_markdown_text(before):
        if not isinstance(block, MetadataBlock) and (piece := block.content.rstrip("\r\n")):
            found = after.find(piece, at)
            expect(found >= 0, f"messages: a text is gone: {piece!r}")
            at = found + len(piece)


def _check_taken_back(bare: str, wanted: str, seen: Counter[str]) -> None:
    """Answered, rejected and cleared is cleared; where a block was emptied, blank lines around it may be others."""
    seen["taken back byte for byte"] += bare == wanted
    seen["taken back but for blank lines and empty blocks"] += bare != wanted
    one, two = ([line for line in text.splitlines() if line.strip("- \t\ufeff")] for text in (bare, wanted))
    expect(one == two, f"messages, reject, clear: not the document without its prompts\n{bare!r}\n{wanted!r}")


def _check_prompts(before: str, after: str) -> None:
    """Every prompt still waits, or is in a log or an edit."""
    one, two = Document.from_text(before), Document.from_text(after)
    there = [pending.prompt.text for pending in two.pending]
    there += [exchange.prompt for exchange in two.chats] + [edit.prompt for edit in two.edits]
    words = {" ".join(text.split()) for text in there}
    for pending in one.pending:
        expect(" ".join(pending.prompt.text.split()) in words, f"messages: a prompt is gone: {pending.prompt.text!r}")


def _lines(text: str) -> Counter[str]:
    """The lines that are their author's for certain: of text, and of blocks that cannot be read."""
    blocks = [block for block in parse_markdown_text(text) if not isinstance(block, MetadataBlock | ErrorBlock)]
    return Counter(line.strip() for block in blocks for line in block.source.splitlines() if line.strip())


def _all_lines(*texts: str) -> Counter[str]:
    return Counter(line.strip() for text in texts for line in text.splitlines())


def _check_files(folder: Path, text: str, theirs: str, chance: random.Random) -> None:
    """Through a file, and back; then with a save of the author in between."""
    path = folder / "d.md"
    before = text.encode()
    path.write_bytes(before)
    document = Document.open(path)
    document.answer(model=model(chance), again=True)
    if document.text != text:
        document.save()
        if path.read_bytes() != before:
            document.undo()
            expect(path.read_bytes() == before, "undo: other bytes than before")
    path.write_bytes(before)
    document = Document.open(path)
    document.answer(model=model(chance), again=True)
    path.write_bytes(theirs.encode())
    with contextlib.suppress(DocumentError):  # nothing was written: it would be read as what it is not
        document.save(settle=0.0)
    missing = _lines(theirs) - _all_lines(path.read_bytes().decode())
    expect(not missing, f"save: lines of the author are gone: {missing}")


# -- the parts -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """What a part did, and what it found."""

    name: str
    done: int
    seen: Counter[str]
    lost: list[str]
    seconds: float = 0.0

    def __str__(self) -> str:
        seen = ", ".join(f"{what}: {number:,}" for what, number in sorted(self.seen.items()) if number)
        return f"{self.name}: {self.done:,} in {self.seconds:.0f} s, {len(self.lost)} failures ({seen})"


def documents(numbers: range, seed: int) -> Part:
    """Mutated documents through every verb."""
    texts, seen, failures = real_texts(), Counter[str](), list[str]()
    with folder_in_memory() as folder:
        for number in numbers:
            chance = random.Random(f"{seed}/{number}")
            text = mutated(texts, chance)
            path = folder if number % DISK_EVERY == 0 else None
            try:
                text.encode()
                check_document(text, seen, chance, path)
            except UnicodeEncodeError:
                seen["no UTF-8"] += 1
            except (Lost, LmmError) as error:
                failures.append(f"document {number}: {type(error).__name__}: {error}\n{text!r}")
            except Exception:
                failures.append(f"document {number}: {traceback.format_exc()}\n{text!r}")
            if (number + 1) % 1000 == 0:
                sys.stderr.write(f"document {number + 1:,}: {len(failures)} failures\n")
    return Part("mutated documents", len(numbers), seen, failures)


def races(number: int, seed: int) -> Part:
    """Saves of an editor aimed at ours."""
    lost, each = list[str](), -(-number // len(WAYS))
    for how in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            lost += race(Path(folder) / "d.md", how, each, seed)
    return Part("aimed races", each * len(WAYS), Counter(dict.fromkeys(WAYS, each)), lost)


def kills(number: int, seed: int) -> Iterator[Part]:
    """Real commands, killed."""
    for name in (*COMMANDS, "ingest"):
        with folder_in_memory() as folder, ScriptedServer() as server:
            os.chdir(folder)
            seen, lost = Counter[str](), list[str]()
            try:
                if name == "ingest":
                    seen = kill_ingest(folder, number, seed)
                else:
                    _write_models(folder, server)
                    seen = kill_command(server, folder, Path(os.environ["LMM_STATE_DIR"]), name, number, seed)
            except AssertionError:
                lost = [traceback.format_exc()]
            os.chdir(REPOSITORY)
            yield Part(f"kills of {name}", number, seen, lost)


def _write_models(folder: Path, server: ScriptedServer) -> None:
    config = write_config(folder, server)
    config.write_text(config.read_text() + config.read_text().replace("[major]", "[minor]"))


def stores(number: int, seed: int) -> Part:
    """Damaged stores."""
    with folder_in_memory() as folder:
        trials = damage_stores(folder, number, seed)
    lost = [f"{trial.damage}: {trial.outcome}" for trial in trials if not trial.held]
    return Part("damaged stores", len(trials), Counter(trial.outcome for trial in trials if trial.held), lost)


def chosen(options: argparse.Namespace) -> Iterator[Part]:
    """The parts that were asked for."""
    if options.only is not None:
        yield documents(range(options.only, options.only + 1), options.seed)
        return
    if options.races:
        yield races(options.races, options.seed)
    if options.kills:
        yield from kills(options.kills, options.seed)
    if options.stores:
        yield stores(options.stores, options.seed)
    if options.documents:
        yield documents(range(options.first, options.first + options.documents), options.seed)


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("documents", 20_000), ("races", 300), ("kills", 60), ("stores", 100), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="NUMBER", help=f"default: {default:,}")
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="the first document, to go on from it")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this document alone")
    options = parser.parse_args()
    failed = False
    with folder_in_memory() as place:
        os.environ |= {"LMM_STATE_DIR": f"{place}/state", "LMM_CACHE_DIR": f"{place}/cache"}
        begun = time.monotonic()
        for part in chosen(options):
            now = time.monotonic()
            part = Part(part.name, part.done, part.seen, part.lost, now - begun)
            for failure in part.lost:
                sys.stdout.write(f"LOST: {failure}\n\n")
            sys.stdout.write(f"{part}\n")
            sys.stdout.flush()
            failed, begun = failed or bool(part.lost), now
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
