"""Replies on disk: nothing else changes, any reply comes back exactly, what others write meanwhile stays."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from edge.races import WAYS, race
from edge.support import MANY, exchanges_of, files_in, waiting
from fakes.openai_server import Action, ScriptedServer, hang
from hypothesis import HealthCheck, example, given, settings, strategies as st

from lmm.pipeline import Report
from lmm.scan import scan_messages

DOCUMENT = """\
---
title:   "A  title"   # kept
---

A paragraph with trailing spaces.   \n\t
---
# a comment
?: the question
Date: 2025-05-21
---
The annotated paragraph.


# A heading {#id .class}

Text with a tab\t, a form\x0cfeed, and \u2028.

```
---
?: not a question
---
```

---
- no: rule
"""
LOG = """\
~chat_:
  - query: the question
    ~reply: The answer.
    ~~model: OpenAICompatible/test
    ~~text: 9UL3dZqg0a
"""

# -- bytes -----------------------------------------------------------------------------------------


def _crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "CRLF": _crlf,
    "byte order mark": lambda text: "\ufeff" + text,
    "no final newline": lambda text: text.rstrip("\n"),
    "BOM, CRLF, no final newline": lambda text: "\ufeff" + _crlf(text.rstrip("\n")),
    "many final newlines": lambda text: text + "\n\n\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_nothing_but_the_prompt_changes(server: ScriptedServer, folder: Path, form: str) -> None:
    """Golden: the prompt's line becomes the log, every other byte of the file stays."""
    server.queue("The answer.")
    path = folder / "d.md"
    path.write_bytes(FORMS[form](DOCUMENT).encode())
    scan_messages(path)
    assert path.read_bytes() == FORMS[form](DOCUMENT.replace("?: the question\n", LOG)).encode()


@pytest.mark.parametrize("form", FORMS)
def test_a_second_run_does_nothing(server: ScriptedServer, folder: Path, form: str) -> None:
    """No request, the same bytes, and the file is not even rewritten."""
    path = folder / "d.md"
    path.write_bytes(FORMS[form](DOCUMENT).encode())
    scan_messages(path)
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    outcome = scan_messages(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert (len(server.requests), outcome.results, files_in(folder)) == (1, (), {"config.toml", "d.md"})


def test_the_mode_is_kept(server: ScriptedServer, folder: Path) -> None:
    """The new file has the old one's permissions, whatever the umask is."""
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    path.chmod(0o640)
    scan_messages(path)
    assert (path.stat().st_mode & 0o7777, len(exchanges_of(path))) == (0o640, 1)


def test_a_link_is_followed_not_replaced(server: ScriptedServer, folder: Path) -> None:
    """The file behind a symbolic link is rewritten in its own folder; the link stays a link."""
    (folder / "far").mkdir()
    target, link = folder / "far" / "target.md", folder / "link.md"
    target.write_text(DOCUMENT)
    link.symlink_to(Path("far") / "target.md")
    scan_messages(link)
    assert (link.is_symlink(), link.readlink()) == (True, Path("far") / "target.md")
    assert len(exchanges_of(target)) == 1
    assert files_in(folder / "far") == {"target.md"}


def test_a_file_with_a_long_name(server: ScriptedServer, folder: Path) -> None:
    """A name as long as the file system allows."""
    path = folder / ("n" * 252 + ".md")
    path.write_text(DOCUMENT)
    scan_messages(path)
    assert len(exchanges_of(path)) == 1


# -- any reply -------------------------------------------------------------------------------------

NASTY = [
    "---",
    "...",
    "a\n---\nb\n...\nc\n---\n",
    "---\ntitle: x\n---\n",
    "```python\nprint('---')\n```",
    "```{r}\nsystem('true')\n```",
    "inline `r 1 + 1` code",
    "~~~\nopen fence",
    "\ttab at the start",
    "    four spaces at the start\nand none",
    "  two\n four\n  two",
    "trailing spaces   \nand tab\t\n",
    "\n\nblank lines before and after\n\n\n",
    "both 'single' and \"double\" and `back`\\slash\\n",
    "a\r\nb\r\nc",
    "a\rb",
    "a\r\n",
    "nul \x00 bell \x07 escape \x1b[31m delete \x7f",
    "next \x85 line \u2028 separator \u2029 paragraph",
    "\ufeffbyte order mark, and \ufeff inside",
    "emoji 👩\u200d👩\u200d👧 and \U0010ffff",
    "\ud800 lone, \udc00 lone, \ud83d\ude00 a pair",
    "# heading\n\n###### new text\n\ntext",
    "?: a question?\n+: more\n=: edit",
    "key: value # comment\n- item\n* item\n? key\n| a | b |",
    "|",
    ">",
    "%YAML 1.2",
    "&anchor *alias !tag @at `tick",
    "null",
    "true",
    "12",
    "1e3",
    "0x1f",
    "~",
    "<!-- comment",
    "$$ x",
    "{{< include x >}} {% x %} <?php ?>",
    "".join(map(str, range(40_000))),
    "".join(f"line {n}\n" for n in range(20_000)),
    "\n\n".join(" ".join(f"word{n + m}" for m in range(500)) for n in range(40)),
    "a\x0bb\x0cc",
    "\u00a0no-break at the start",
    "#",
    ":",
    "- ",
    "`<think>` begins a thought, `</think>` ends it",
]


def as_text(reply: str) -> str:
    """What a reply is once it must go into a UTF-8 file: surrogate pairs are characters, lone ones are not."""
    return reply.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


ANY_REPLY = (
    st.lists(
        st.one_of(
            st.text(alphabet=st.characters(exclude_categories=()), max_size=20),
            st.sampled_from(
                [
                    "\n",
                    "\n\n",
                    "---\n",
                    "...\n",
                    "```\n",
                    "```{r}\n",
                    "`r ",
                    "\t",
                    "  ",
                    "\r\n",
                    ": ",
                    " #",
                    "'",
                    '"',
                    "- ",
                ]
            ),
            st.sampled_from(NASTY[:32]),
        ),
        max_size=12,
    )
    .map("".join)
    .filter(lambda reply: reply.strip() and "think" not in reply.lower())
)  # thoughts are no reply


def reply_through_the_pipeline(server: ScriptedServer, reply: str, document: str) -> Path:
    """One question answered with `reply`, from the wire to the disk."""
    path = Path("d.md")
    path.write_text(document, newline="")
    server.queue(Action(reply))
    scan_messages(path, again=True)
    return path


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_nasty_replies_come_back_exactly(server: ScriptedServer, newline: str) -> None:
    """Whatever is in a reply, it is read back from the file exactly, and harms nothing around it."""
    before, after = "# A\n\n---\nx: 1\n".replace("\n", newline), "---\nText.\n\n# B\n".replace("\n", newline)
    for reply in NASTY if newline == "\n" else NASTY[::4]:
        path = reply_through_the_pipeline(server, reply, f"{before}?: q{newline}{after}")
        text = path.read_bytes().decode()
        assert exchanges_of(path) == [("q", as_text(reply))]
        assert text.startswith(before), reply
        assert text.endswith(after), reply
        assert waiting(text) == [], reply


@settings(max_examples=20 * MANY, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(first=ANY_REPLY, second=ANY_REPLY)
@example(first="\ttab", second="---")
def test_any_replies_come_back_exactly(server: ScriptedServer, first: str, second: str) -> None:
    """Two replies in one log, neither disturbing the other; the second request repeats the first exactly."""
    path = reply_through_the_pipeline(server, first, "---\n?: one\nx: 1\n---\nText.\n")
    path.write_text(path.read_bytes().decode().replace("x: 1\n---\nText", "x: 1\n+: two\n---\nText"), newline="")
    server.queue(Action(second))
    scan_messages(path, again=True)
    assert exchanges_of(path) == [("one", as_text(first)), ("two", as_text(second))]
    assert server.requests[-1].messages[2] == ("assistant", as_text(first))
    assert path.read_bytes().decode().endswith("x: 1\n---\nText.\n")


# -- somebody else writes while the server holds its answer -----------------------------------------

HELD = """\
---
title: T
---

First paragraph.

---
kind: x
?: the question
---
The annotated paragraph.

Last paragraph.
"""
ANSWERED = HELD.replace("?: the question\n", LOG)


def while_the_server_holds(server: ScriptedServer, path: Path, script: str) -> Report[Any]:
    """Ask, and run `script` (which sees `path` and its `text`) in another process before the answer comes."""
    release = threading.Event()
    server.queue(hang(release, text="The answer."))
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(scan_messages, path)
        try:
            server.wait_for(1)
            code = f"import sys, os, pathlib\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\n{script}"
            subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)
        finally:
            release.set()
        return answering.result(60)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("path.write_text(text + '\\nAppended.\\n')", ANSWERED + "\nAppended.\n"),
        (
            "path.write_text(text.replace('First', 'Inserted.\\n\\nFirst'))",
            ANSWERED.replace("First", "Inserted.\n\nFirst"),
        ),
        (
            "path.write_text(text.replace('The annotated', 'The newly edited'))",
            ANSWERED.replace("The annotated", "The newly edited"),
        ),
        (
            "path.write_text(text.replace('kind: x', 'kind: x\\nnew: 1'))",
            ANSWERED.replace("kind: x", "kind: x\nnew: 1"),
        ),
        ("path.write_text(text.replace('kind: x', 'kind: y'))", ANSWERED.replace("kind: x", "kind: y")),
        ("path.write_text(text.replace('title: T', 'title: U'))", ANSWERED.replace("title: T", "title: U")),
        (
            "new = path.with_name('.swp'); new.write_text('Renamed over.\\n\\n' + text[20:]); new.replace(path)",
            "Renamed over.\n\n" + ANSWERED[20:],
        ),
        ("path.write_bytes(text.replace('\\n', '\\r\\n').encode())", None),
    ],
    ids=[
        "appends",
        "inserts before",
        "edits the annotated paragraph",
        "adds a key to the block",
        "changes a key of the block",
        "edits the header",
        "renames over",
        "converts to CRLF",
    ],
)
def test_what_others_write_meanwhile_stays(
    server: ScriptedServer, folder: Path, script: str, expected: str | None
) -> None:
    """Their version, with our reply in it; nothing of either is lost."""
    path = folder / "d.md"
    path.write_text(HELD)
    while_the_server_holds(server, path, script)
    assert exchanges_of(path) == [("the question", "The answer.")]
    assert waiting(path.read_bytes().decode()) == []
    assert files_in(folder) == {"config.toml", "d.md"}
    if expected is not None:
        assert path.read_bytes().decode().splitlines() == _with_log_where_it_is(expected, path)


def _with_log_where_it_is(expected: str, path: Path) -> list[str]:
    """`expected`, its log at the place within the block where the file has it: beside other new keys, any will do."""
    lines = path.read_bytes().decode().splitlines()
    at = lines.index("~chat_:")
    log = LOG.splitlines()
    rest = expected.replace(LOG, "").splitlines()
    return [*rest[:at], *log, *rest[at:]]


def test_a_prompt_typed_meanwhile_stays_for_the_next_run(server: ScriptedServer, folder: Path) -> None:
    """A second question written into the block under work is neither lost nor answered unasked."""
    path = folder / "d.md"
    path.write_text(HELD)
    while_the_server_holds(
        server, path, "path.write_text(text.replace('?: the question', '?: the question\\n+: and this'))"
    )
    assert exchanges_of(path) == [("the question", "The answer.")]
    assert waiting(path.read_text()) == ["and this"]
    scan_messages(path)
    assert exchanges_of(path)[1] == ("and this", "Reply to: and this")
    assert server.requests[1].messages[2] == ("assistant", "The answer.")


# -- an editor saves in the very moment in which we write --------------------------------------------


@pytest.mark.parametrize("how", WAYS)
def test_a_save_in_the_moment_of_ours_is_never_lost(folder: Path, how: str) -> None:
    """Saves of another process, aimed at ours: each is in the file afterwards, ours too if it came first."""
    assert race(folder / "d.md", how, 30 * MANY) == []
    assert files_in(folder) <= {"config.toml", "d.md"}
