"""Files that cannot be read, cannot be written, or are very large; a disk that is full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.support import Ran, exchanges_of, files_in, lmm, run_here
from fakes.forked import python
from fakes.openai_server import ScriptedServer

DOCUMENT = "---\n?: q\n---\nText.\n"
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"---\n?: q\n---\nK\xe4se.\n", ":4:2: byte 0xe4 is not UTF-8 (convert it, for example with: iconv -f WINDOWS"),
        (b"\xff\xfe#\x00 \x00A\x00", ":1:1: byte 0xff is not UTF-8 (convert it, for example with: iconv -f UTF-16"),
        (b"ok\n\xc3\xa9\xed\xa0\x80", ":2:3: byte 0xed is not UTF-8"),
        (b"cut off \xe2\x82", ":1:9: byte 0xe2 is not UTF-8"),
    ],
    ids=["Latin-1", "UTF-16", "surrogate", "cut off"],
)
@pytest.mark.parametrize("command", ["messages", "scan"])
def test_a_file_that_is_not_utf_8(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str], command: str, data: bytes, says: str
) -> None:
    """Path, line and column (in bytes) of the first bad byte; nothing is converted, nothing asked."""
    path = folder / "d.md"
    path.write_bytes(data)
    ran = run_here(capsys, command, "d.md")
    assert (ran.code, ran.out, path.read_bytes(), server.requests) == (1, "", data, [])
    assert ran.err.startswith(f"lmm: d.md{says}")


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
@pytest.mark.parametrize(
    "command",
    [
        "scan", "scan --json", "messages", "clear", "accept", "reject", "export -o out.md", "annotate --titles", "toc",
        "extract schema.json --model Recorded/replies.json", "run", "compact", "ingest",
    ],
)  # fmt: skip
def test_a_name_that_is_not_utf_8(folder: Path, command: str) -> None:
    """Its odd byte is spelled out on the screen, in a title, in JSON; no command ends in a traceback."""
    name = os.fsdecode(b"caf\xe9.chatmd" if command in ("run", "compact") else b"caf\xe9.md")
    text = (
        "<user>hello</user>\n" if name.endswith("chatmd") else "A leaf is green.\n\n---\n?: what is it?\n---\nIt is.\n"
    )
    (folder / name).write_text(text)
    (folder / "schema.json").write_text('{"type": "object", "properties": {"a": {"type": "string"}}}')
    (folder / "replies.json").write_text('[{"prompt": "", "reply": "{}"}]')
    ran = lmm(*command.split(), name)
    assert "Traceback" not in ran.err
    assert ran.code == (1 if command in ("ingest", "toc") else 0), ran.err  # ids of documents are text
    if command == "scan":
        assert "title: caf\\xe9\n" in (folder / name).read_text()
        assert "caf\\xe9.md: completed the header" in ran.out
    if command == "ingest":
        assert "the name of this file is not UTF-8 (rename it)" in ran.err


@pytest.mark.parametrize("command", ["messages", "scan", "clear"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing.md", "there is no such file (check the path)"),
        ("d.md/x.md", "part of this path is not a folder (check the path)"),
        ("n" * 300, "this name is too long"),
    ],
    ids=["missing", "under a file", "too long"],
)
def test_no_file_to_read(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str], command: str, name: str, says: str
) -> None:
    """One line that says what is wrong; exit 2 if nothing is there."""
    (folder / "d.md").write_text(DOCUMENT)
    ran = run_here(capsys, command, name)
    assert (ran.code, ran.out, ran.err) == (2 if name == "missing.md" else 1, "", f"lmm: {name}: {says}\n")


def test_an_empty_file(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no question."""
    (folder / "d.md").write_text("")
    assert run_here(capsys, "messages", "d.md") == Ran(0, "d.md: no questions are pending\n", "")
    assert (folder / "d.md").read_bytes() == b""


def test_a_read_only_file_is_refused_before_a_request(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reply that could not be saved is not asked for."""
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    path.chmod(0o444)
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, ran.err) == (1, "lmm: d.md: the file is read-only (chmod u+w d.md)\n")
    assert (server.requests, path.read_text(), files_in(folder)) == ([], DOCUMENT, {"config.toml", "d.md"})


def test_a_read_only_file_without_questions_is_read(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What need not be written may be read-only."""
    path = folder / "d.md"
    path.write_text("# A\n\nText.\n")
    path.chmod(0o444)
    assert run_here(capsys, "messages", "d.md").code == 0
    assert run_here(capsys, "scan", "--check", "d.md").code == 0


# -- permissions of another user --------------------------------------------------------------------

# Everything that the command imports on its way is imported before the process gives up its rights:
# the interpreter itself may lie where nobody may read. So the command runs once with rights first.
_AS_NOBODY = """\
import os, sys
from pathlib import Path
from lmm.cli.main import main

Path("warm.md").write_text("---\\n?: q\\n---\\nText.\\n")
for words in (["messages", "warm.md", "missing.md", "--model", "Builtin/extractive"], ["scan", "warm.md"]):
    main(words)
for stream in (sys.stdout, sys.stderr):
    stream.flush()
    stream.seek(0)
    stream.truncate()
for path in Path("state").rglob("*"):
    path.chmod(0o777)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user may enter and write to."""
    place = Path(tempfile.mkdtemp(prefix="lmm-test-"))
    place.chmod(0o777)
    (place / "state").mkdir(mode=0o777)
    (place / "state").chmod(0o777)
    monkeypatch.setenv("LMM_STATE_DIR", str(place / "state"))
    yield place
    shutil.rmtree(place)


def as_nobody(public: Path, *words: str) -> Ran:
    """Run the command as a user without rights, in `public`."""
    out, err = public / "out", public / "err"
    with (
        out.open("w+b") as out_file,
        err.open("w+b") as err_file,
        python("-c", _AS_NOBODY, *words, cwd=public, stdout=out_file, stderr=err_file) as process,
    ):
        code = process.wait(60)
    return Ran(code, out.read_text(), err.read_text())


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are POSIX")
@pytest.mark.parametrize("command", ["messages", "scan"])
def test_a_file_without_permission_to_read(public: Path, command: str) -> None:
    """One line that says so, exit 1."""
    path = public / "d.md"
    path.write_text(DOCUMENT)
    path.chmod(0o200 if IS_ROOT else 0)
    ran = as_nobody(public, command, "d.md")
    assert (ran.code, ran.out, ran.err) == (1, "", "lmm: d.md: you may not read this file (chmod u+r d.md)\n")


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are POSIX")
def test_a_file_of_somebody_else(public: Path) -> None:
    """Readable, not writable: refused before anything is asked, even from the built-in model."""
    path = public / "d.md"
    path.write_text(DOCUMENT)
    path.chmod(0o644 if IS_ROOT else 0o444)
    ran = as_nobody(public, "messages", "d.md", "--model", "Builtin/extractive")
    assert (ran.code, ran.err) == (1, "lmm: d.md: the file is read-only (chmod u+w d.md)\n")
    assert path.read_text() == DOCUMENT


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are POSIX")
def test_a_folder_of_somebody_else(public: Path) -> None:
    """A file is replaced through its folder; a folder that may not be written is told before anything is asked."""
    (public / "sub").mkdir()
    path = public / "sub" / "d.md"
    path.write_text(DOCUMENT)
    path.chmod(0o666)
    (public / "sub").chmod(0o555)
    ran = as_nobody(public, "messages", "sub/d.md", "--model", "Builtin/extractive")
    (public / "sub").chmod(0o755)
    assert (ran.code, path.read_text()) == (1, DOCUMENT)
    assert "its folder is read-only" in ran.err


# -- size ------------------------------------------------------------------------------------------

MEGABYTE = 1_000_000


def large_document() -> str:
    """10 MB of headings and paragraphs, with one question about one paragraph in the middle."""
    section = (
        "# Section\n\n" + ("Some words in a paragraph of a large document, and some more of them.\n" * 4 + "\n") * 50
    )
    half = section * (5 * MEGABYTE // len(section))
    return f"---\ntitle: T\ndocid: t\n---\n\n{half}---\n?: q\n---\nText.\n\n{half}"


@pytest.mark.slow
def test_a_file_of_10_megabytes(server: ScriptedServer, folder: Path) -> None:
    """It is checked and answered, and only the log is added."""
    text = large_document()
    path = folder / "d.md"
    path.write_text(text)
    server.queue("Done.")
    checked, answered = lmm("scan", "--check", "d.md"), lmm("messages", "d.md")
    assert (checked.code, checked.err) == (0, "")
    assert (answered.code, answered.err) == (0, "")
    log = "~chat_:\n  - query: q\n    ~reply: Done.\n    ~~model: OpenAICompatible/test\n    ~~text: 8G3OJ7hOGM\n"
    assert path.read_text() == text.replace("?: q\n", log)
    assert len(server.requests[0].last) < 13_000


# -- a full disk -----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if not IS_ROOT or not shutil.which("mount"):
        pytest.skip("only root may mount a small file system")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small file system: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk(server: ScriptedServer, small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The old content stays; once there is space, the reply is there without a request."""
    path = small_disk / "d.md"
    text = DOCUMENT + "\n" + "x" * 40_000 + "\n"
    path.write_text(text)
    full = run_here(capsys, "messages", str(path))
    assert (full.code, path.read_text(), files_in(small_disk)) == (1, text, {"d.md"})
    assert "the disk is full; nothing was changed (free some space" in full.err
    subprocess.run(["mount", "-o", "remount,size=256k", small_disk], check=True)
    assert run_here(capsys, "messages", str(path)).code == 0
    assert (exchanges_of(path), len(server.requests)) == ([("q", "Reply to: q")], 1)


def test_a_limit_on_file_size(server: ScriptedServer, folder: Path) -> None:
    """The same, where the system refuses the write itself: old content, and a reply for nothing later."""
    path = folder / "d.md"
    text = DOCUMENT + "\n" + "x" * 100_000 + "\n"
    path.write_text(text)
    script = (
        "import resource, sys; from lmm.cli.main import main; import lmm.models.completions, httpx2; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)); sys.exit(main(['messages', 'd.md']))"
    )
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, env=env)
    assert (done.returncode, path.read_text(), files_in(folder)) == (1, text, {"config.toml", "d.md"})
    assert b"cannot be written: File too large" in done.stderr
    assert b"Traceback" not in done.stderr
    assert lmm("messages", "d.md").code == 0
    assert (exchanges_of(path), len(server.requests)) == ([("q", "Reply to: q")], 1)
