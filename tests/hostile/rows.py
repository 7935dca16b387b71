"""What is run in the clone: every command of the table, as a user would type it there, and with each of its tricks."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from hostile.clone import COLLECTOR, World, config, store_files, store_link
from hostile.world import Poke

from lmm.terminal import visible

Prepare = Callable[[World], None]


@dataclass(frozen=True)
class Row:
    """One run: the words behind `lmm`; `*` in a word stands for all names that a shell would put there.

    `explains` has to stand in what it prints: why it did not do what the clone wanted.
    """

    words: str
    folder: str = "."
    prepare: Prepare | None = None
    explains: str = ""
    codes: tuple[int, ...] = (0, 1, 2)
    long_running: bool = False
    poke: Poke = lambda world, said: ""
    first: str = ""  # what is run before, in a clone without the preparation
    exact: bool = False  # it writes a document, which reaches a pipe byte for byte


def visit(world: World, said: str) -> str:
    """Ask a served course for its page, and for files beside it."""
    found = re.search(r"http://\S+?(?=\s|$)", said)
    assert found, said
    told = []
    for path in (
        "",
        *(f"{way}/{name}" for way in WAYS for name in ("home/diary.md", "home/.ssh/id_rsa", "notes/key.md")),
    ):
        try:
            with urllib.request.urlopen(f"{found[0].rstrip('/')}/{path}", timeout=10) as page:
                told.append(page.read().decode("utf-8", "backslashreplace"))
        except urllib.error.HTTPError as error:
            told.append(f"{path}: {error.code} {error.read().decode('utf-8', 'backslashreplace')}")
    assert "<html" in told[0], told[0]
    return visible("\n".join(told))


WAYS = (
    "..",
    "../..",
    "%2e%2e/%2e%2e",
    "..%2f..",
    "pictures/../..",
    "pictures/..%2f..",
    "material/%2e%2e%2f%2e%2e",
    "static/../..",
)


def save(world: World, said: str) -> str:
    """Save documents that are watched, and put another link beside them."""
    (world.clone / "notes/good.md").write_text("# Good\n\n---\n?: why are leaves green?\n---\n\nText about plants.\n")
    (world.clone / "notes/late.md").symlink_to(world.home / "diary.md")
    return ""


MUCH = "notes/*.md"
ROWS = [
    Row("demo --folder outbox", explains="not empty|link"),
    Row("init"),
    Row("init notes/documents"),
    Row("status"),
    Row("status notes/good.md"),
    Row("status --json notes/header.md"),
    Row("status notes/diary.md"),
    Row("trust"),
    Row("scan --check " + MUCH),
    Row("scan -- *.md", folder="notes"),
    Row("scan *.md", folder="notes", explains="no such option", codes=(2,)),
    Row("scan --check .big/headings.md"),
    Row("scan --check .big/fences.md .big/line.md"),
    Row("scan --check huge.md", explains="huge.md", codes=(1,)),
    Row("scan notes/zero.md", codes=(1, 2)),
    Row("messages " + MUCH),
    Row("messages --dry-run notes/bidi.md notes/good.md"),
    Row("messages notes/diary.md", codes=(1, 2), explains="link|outside|leads"),
    Row("messages notes/header.md"),
    Row("watch notes", long_running=True),
    Row("watch --quiet 0 notes", long_running=True, poke=save),
    Row("watch notes/diary.md", long_running=True),
    Row("accept " + MUCH),
    Row("reject notes/edit.md notes/diary.md"),
    Row("undo notes/good.md notes/diary.md"),
    Row("annotate --summaries --questions notes/good.md notes/bidi.md notes/diary.md notes/deep.md"),
    Row("batch missing notes/good.md notes/diary.md"),
    Row("batch missing notes/documents/letter.md"),
    Row("extract schema.json notes/good.md notes/diary.md", codes=(1, 2)),
    Row("extract schema.json notes/good.md -o outbox/x.csv"),
    Row("import archives/entity.docx archives/laughs.docx archives/page.html archives/book.ipynb archives/bad.pdf"),
    Row("import archives/bomb.docx", codes=(1, 2)),
    Row("import archives/slip.epub archives/many.epub"),
    Row("import archives/link.docx -o outbox"),
    Row("import archives/page.html -o notes/dangling.md --force"),
    Row("clear -- *.md", folder="notes"),
    Row("ingest ."),
    Row("ingest notes/good.md notes/diary.md notes/documents notes/up"),
    Row("ingest --dry-run notes"),
    Row("ingest --output outbox notes/good.md"),
    Row("ingest notes/good.md", prepare=store_link("store", "home/documents"), codes=(1, 2), explains="link"),
    Row("ingest notes/good.md", prepare=store_link("store/course", "home"), codes=(1, 2), explains="link"),
    Row("ingest notes/good.md", prepare=store_link("store/course/generations", "home"), codes=(1, 2), explains="link"),
    Row(
        "ingest notes/good.md",
        prepare=store_link("store/course/current", "home/diary.md"),
        codes=(1, 2),
        explains="link",
    ),
    Row("ingest notes/good.md", prepare=store_link("store/course/writing.lock", "home/diary.md"), codes=(0, 1, 2)),
    Row("ingest --again notes/good.md", prepare=store_link("store/course/generations/000001-00000000", "home")),
    Row("ingest --prune notes", prepare=store_files({"current": '{"format": 2, "generation": "../../../../home"}'})),
    Row("ingest notes/good.md", prepare=store_files({"current": '{"format": 99, "generation": "000001-00000000"}'})),
    Row("search leaves", prepare=store_files({"current": "\0" * 5000, "generations/000001-00000000/sizes.json": "{"})),
    Row("search leaves", prepare=store_link("store/course", "home"), codes=(1, 2)),
    Row("search leaves"),
    Row("help how do I undo an edit"),
    Row("search leaves", first="ingest notes/good.md notes/bidi.md"),
    Row("ask leaves", first="ingest notes/good.md notes/bidi.md"),
    Row("export notes/good.md", first="messages notes/good.md", exact=True),
    Row("ask leaves"),
    Row("ask --history history.json --agent leaves"),
    Row("ask --history notes/diary.md leaves"),
    Row("serve --port 0", long_running=True),
    Row("serve --port 0", first="ingest notes/good.md notes/bidi.md", long_running=True, poke=visit),
    Row("ingest --watch notes/good.md notes/edit.md", long_running=True, poke=save),
    Row("serve password", codes=(1, 2)),
    Row("serve teacher", codes=(1, 2)),
    Row("serve users list"),
    Row("serve users add ada", codes=(1, 2)),
    Row("serve users remove ada", codes=(0, 1, 2)),
    Row("serve keys list"),
    Row("serve keys add ada"),
    Row("serve keys remove ada"),
    Row("log show --log course-log.sqlite"),
    Row("log questions --log course-log.sqlite"),
    Row("log show", prepare=config('[serve]\nlog = "course-log.sqlite"\n'), codes=(1, 2)),
    Row(
        "log export",
        prepare=config('[serve]\nlog = "../home/mail.sqlite"\n'),
        codes=(1, 2),
        explains="lmm trust|below|outside",
    ),
    Row("log clear --all", prepare=config('[serve]\nlog = "course-log.sqlite"\n'), codes=(1, 2)),
    Row("eval questions.jsonl --documents notes/good.md"),
    Row("eval search questions.jsonl --documents notes/good.md"),
    Row("eval leaks"),
    Row("eval answers questions.jsonl --documents notes/good.md"),
    Row("eval compare questions.jsonl encoding=content,hybrid --documents notes/good.md"),
    Row("eval calibrate questions.jsonl --documents notes/good.md"),
    Row("eval questions.csv --documents notes/documents"),
    Row("toc ."),
    Row("toc .big/headings.md"),
    Row("toc --json -- *.md", folder="notes"),
    Row("plan notes"),
    Row("plan .big"),
    Row("export .big -o out"),
    Row("exercises .big"),
    Row("ingest --no-ingest --output out .big/line.md .big/fences.md"),
    Row("cards notes"),
    Row("cards notes/good.md notes/diary.md -o outbox/cards.csv"),
    Row("exercises --solutions notes"),
    Row("export notes/good.md", exact=True),
    Row("export notes -o out"),
    Row("export notes -o outbox"),
    Row("export notes/diary.md"),
    Row("store status"),
    Row("store status", prepare=store_link("store/course/current", "home/diary.md"), codes=(1, 2), explains="link"),
    Row("store check"),
    Row("store check", prepare=store_files({"current": "{", "generations/000001-00000000/sizes.json": "{"})),
    Row("store repair notes/good.md", prepare=store_link("store/course/generations", "home"), codes=(1, 2)),
    Row("store repair notes", prepare=store_files({"current": '{"format": 2, "generation": "../../../../home"}'})),
    Row("store push outbox"),
    Row("store pull outbox"),
    Row("store delete good.md"),
    Row("lsp", long_running=True),
    Row("completion bash"),
    Row("run chats/doc.chatmd"),
    Row("run chats/doc-up.chatmd"),
    Row("run chats/doc-link.chatmd"),
    Row("run chats/doc-file.chatmd"),
    Row("run chats/doc-here.chatmd", codes=(1, 2)),
    Row("run chats/import.chatmd", codes=(1, 2)),
    Row("run chats/import-link.chatmd", codes=(1, 2)),
    Row("run chats/agent-up.chatmd"),
    Row("run chats/shell.chatmd", codes=(1, 2), explains="agree"),
    Row("run chats/shell-here.chatmd", codes=(1, 2), explains="agree"),
    Row("run chats/mcp.chatmd", codes=(1, 2), explains="agree"),
    Row("run chats/mcp-web.chatmd", codes=(1, 2), explains="agree"),
    Row("run chats/files.chatmd"),
    Row("run chats/writes.chatmd", codes=(1, 2), explains="agree"),
    Row("run --yes chats/writes.chatmd"),
    Row("run chats/sends.chatmd", codes=(1, 2), explains="agree"),
    Row("run chats/roots.chatmd", codes=(1, 2)),
    Row("run chats/names.chatmd", codes=(1, 2)),
    Row("run chats/server.chatmd", codes=(1, 2)),
    Row("run chats/recorded.chatmd"),
    Row("run chats/deep.chatmd"),
    Row("run chats/loop.chatmd", codes=(1, 2)),
    Row("run -i chats/files.chatmd", codes=(2,), explains="terminal"),
    Row("run notes/key.md", codes=(1, 2)),
    Row("agents"),
    Row("agents reviewer --to outbox"),
    Row("check chats/*.chatmd notes/diary.md"),
    Row("render chats/doc.chatmd"),
    Row("render chats/recorded.chatmd"),
    Row("render --servers chats/mcp.chatmd", codes=(1, 2), explains="agree"),
    Row("tools chats/names.chatmd"),
    Row("tools chats/shell.chatmd"),
    Row("compact chats/long.chatmd"),
    Row("compact chats/recorded.chatmd"),
    Row("refine chats/files.chatmd --cases cases.yaml --check", codes=(1, 2)),
    Row("refine chats/files.chatmd --cases notes/diary.md --check", codes=(1, 2)),
    Row("mcp --no-course --prompts chats"),
    Row("mcp --prompts notes"),
]


# -- what a config.toml of the clone asks for ------------------------------------------------------

_SERVER = f'model = "OpenAICompatible/x"\nbase_url = "http://{COLLECTOR}/v1"\n'
POWERS = [
    Row("messages notes/good.md", prepare=config(f"[major]\n{_SERVER}")),
    Row("messages notes/good.md", prepare=config(f'[major]\n{_SERVER}api_key_env = "AWS_SECRET_ACCESS_KEY"\n')),
    Row("annotate --questions notes/good.md", prepare=config(f"[minor]\n{_SERVER}")),
    Row("annotate --summaries notes/good.md", prepare=config('[prompts]\nfolder = "prompts"\n')),
    Row("ingest notes/good.md", prepare=config(f"[embedding]\n{_SERVER}")),
    Row("ingest notes/good.md", prepare=config('[embedding]\nmodel = "Model2Vec/./model"\n')),
    Row("ingest notes/good.md", prepare=config(f'[storage]\nurl = "http://{COLLECTOR}"\n')),
    Row("ingest notes/good.md", prepare=config('[storage]\nfolder = "../neighbour/store"\n')),
    Row("ingest notes/good.md", prepare=config('[storage]\nfolder = "HOME/store"\n')),
    Row("store status", prepare=config('[storage]\nfolder = "../neighbour"\n')),
    Row("search leaves", prepare=config(f'[search]\nreranker = "http"\nreranker_url = "http://{COLLECTOR}"\n')),
    Row("ask leaves", prepare=config(f"[major]\n{_SERVER}"), first="ingest notes/good.md"),
    Row("serve --port 0", prepare=config('[serve]\nlog = "../neighbour/log.sqlite"\n'), long_running=True),
    Row("run chats/doc.chatmd", prepare=config('[chatmd]\nroots = ["/"]\n')),
    Row("run chats/import.chatmd", prepare=config('[chatmd]\nroots = ["HOME"]\n')),
    Row("run chats/doc-here.chatmd", prepare=config("[chatmd]\nprivate_network = true\n")),
    Row("status", prepare=config("[chatmd]\nprivate_network = true\n")),
    Row(
        "trust",
        prepare=config('[chatmd]\nprivate_network = true\nroots = ["/"]\n[embedding]\nmodel = "Model2Vec/./model"\n'),
    ),
    Row("compact --model OpenAICompatible/x chats/long.chatmd", prepare=config(f"[aux]\n{_SERVER}")),
    Row("watch notes/good.md", prepare=config(f"[major]\n{_SERVER}"), long_running=True),
    Row("mcp", prepare=config(f'[storage]\nurl = "http://{COLLECTOR}"\n')),
    Row("status", prepare=config(f'[major]\n{_SERVER}api_key_env = "AWS_SECRET_ACCESS_KEY"\n')),
    Row("trust", prepare=config(f'[major]\n{_SERVER}api_key_env = "AWS_SECRET_ACCESS_KEY"\n')),
]
# What is taken from the web by design: the page that the file names, and nothing of the user's goes with it.
WEB = [
    Row("run chats/doc-web.chatmd"),
    Row("run chats/agent.chatmd"),
    Row("render chats/doc-web.chatmd"),
]
