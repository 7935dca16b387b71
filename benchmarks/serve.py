"""A class asks `lmm serve` at once, as it is installed: questions within two seconds, and a model that streams for two.

Model, server and students are processes of their own. How long the first word takes depends on the cores they share;
the processor time of the server for one question hardly does.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.documents import large_document
from benchmarks.measure import Row, seconds, show

WITHIN, LASTS, SHORTLY = 2.0, 2.0, 0.3
"""Seconds in which all ask, for which an answer streams, and after which the model has said what to look up as well."""
CLASSES = ((50, 100), (200, 100), (60, 401))  # students, and pieces of an answer
LIMIT = 0.06  # seconds of processor time for a question
_WORDS = ("Leaf {} ", "is green ", "because of ", "chlorophyll [1], ", "which absorbs light.\n\n")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


# -- the model -------------------------------------------------------------------------------------


def _event(**values: object) -> bytes:
    data = json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "test", **values})
    event = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(event), event)


def _piece(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _event(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


_USED = {"prompt_tokens": 3000, "completion_tokens": 100, "total_tokens": 3100}
_COURSE_WORDS = _piece({"content": json.dumps({"texts": ["how chlorophyll absorbs light"]})})
_END = _piece({}, "stop") + _event(choices=[], usage=_USED) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def _answer(pieces: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection: what is wanted as JSON shortly, anything else in all these pieces."""
    loop = asyncio.get_running_loop()
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(length[1]) if length else 0)
            begun, short = loop.time(), b'"response_format"' in body
            writer.write(_HEAD)
            for number, piece in enumerate([_COURSE_WORDS] if short else pieces):
                writer.write(piece)
                lasts = SHORTLY if short else (number + 1) * LASTS / len(pieces)
                await asyncio.sleep(max(0.0, begun + lasts - loop.time()))
            writer.write(_END)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve_model(pieces: int) -> None:
    """Listen on a free port, which is printed, until the process is ended."""
    made = [_piece({"content": _WORDS[number % len(_WORDS)].format(number)}) for number in range(pieces)]
    server = await asyncio.start_server(functools.partial(_answer, made), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await server.serve_forever()


# -- the students ----------------------------------------------------------------------------------


async def _ask(address: str, model: str, question: str, after: float) -> tuple[float, bool]:
    """Seconds to the first word, and whether the answer came to its end."""
    await asyncio.sleep(after)
    found = re.match(r"http://([\d.]+):(\d+)", address)
    assert found is not None
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}).encode()
    begun, first, end = time.perf_counter(), 0.0, b""
    reader, writer = await asyncio.open_connection(found[1], int(found[2]))
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {found[1]}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    while b"[DONE]" not in end and (data := await reader.read(1 << 16)):
        end = (end + data)[-4000:]
        if not first and b'"content":' in end:
            first = time.perf_counter() - begun
    writer.close()
    return first, b"[DONE]" in end


async def _class(address: str, model: str, questions: list[str]) -> list[float]:
    """Seconds to the first word of every student, ascending."""
    each = WITHIN / len(questions)
    told = await asyncio.gather(*(_ask(address, model, text, i * each) for i, text in enumerate(questions)))
    assert all(whole for _, whole in told), "an answer broke off"
    return sorted(first for first, _ in told)


# -- the measurement -------------------------------------------------------------------------------


@contextmanager
def _running(*words: str, env: dict[str, str], told: int) -> Iterator[tuple[str, int]]:
    """A process and the address that it prints to the stream `told` (1 or 2)."""
    pipes = {"stdout": subprocess.PIPE if told == 1 else subprocess.DEVNULL}
    pipes["stderr"] = subprocess.PIPE if told == 2 else subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-m", *words], env=env, **pipes) as process:  # type: ignore[call-overload]
        try:
            stream = process.stdout if told == 1 else process.stderr
            lines = iter(stream.readline, b"")
            yield (
                next(found[0] for line in lines if (found := re.search(r"http://[\d.:]+", line.decode()))),
                process.pid,
            )
        finally:
            process.terminate()


def _processor_time(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _course(folder: Path, model: str, env: dict[str, str], students: int) -> list[str]:
    """A course of 300 kB in the folder; questions with words of its."""
    text = large_document(300_000, 180)
    (folder / "notes.md").write_text(text, encoding="utf-8")
    major = f'[major]\nmodel = "OpenAICompatible/test"\nbase_url = "{model}/v1"\n'
    models = f'{major}[embedding]\nmodel = "Builtin/wordllama"\n'
    (folder / "config.toml").write_text(f"{models}[serve]\nquestions_per_minute = 0\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "lmm", "ingest", "-q", "notes.md"], cwd=folder, env=env, check=True)
    words = re.findall(r"[a-z]{4,}", text)
    return [f"What about {' '.join(words[at : at + 6])}?" for at in range(0, 50 * students, 50)]


def rows() -> list[Row]:
    """The same classes, asking the model and the course."""
    return [row for students, pieces in CLASSES for row in _class_rows(students, pieces)]


def _class_rows(students: int, pieces: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, "LMM_STATE_DIR": f"{name}/state", "LMM_CACHE_DIR": f"{name}/cache"}
        with _running("benchmarks.serve", "model", str(pieces), env=env, told=1) as (model, _):
            questions = _course(folder, model, env, students)
            words = ("lmm", "serve", "--config", f"{name}/config.toml", "--port", "0")
            with _running(*words, env=env, told=2) as (address, process):
                asyncio.run(_class(address, "course", questions[:3]))
                alone = asyncio.run(_class(model, "test", questions))
                before = _processor_time(process)
                ours = asyncio.run(_class(address, "course", questions))
                cost = (_processor_time(process) - before) / students
    p95 = int(students * 0.95)
    return [
        Row(
            f"{students} questions to lmm serve in {WITHIN:.0f} s: first word, median and p95",
            f"the model alone: {seconds(alone[students // 2])}, {seconds(alone[p95])}",
            f"{seconds(ours[students // 2])}, {seconds(ours[p95])}",
        ),
        Row(
            f"processor time of the server for an answer of {pieces} pieces, {students} in {WITHIN:.0f} s",
            "",
            seconds(cost),
            "",
            f"≤ {seconds(LIMIT)}",
            cost <= LIMIT,
        ),
    ]


def main() -> None:
    """Measure and print; as ``model``, be the model."""
    if sys.argv[1:2] == ["model"]:
        asyncio.run(serve_model(int(sys.argv[2])))
    else:
        show(rows())


if __name__ == "__main__":
    main()
