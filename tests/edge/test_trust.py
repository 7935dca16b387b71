"""A config.toml that may be a stranger's gets nothing that reaches beyond its folder before somebody agreed to it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from edge.support import Ran, lmm, run_here
from fakes.openai_server import ScriptedServer
from fakes.web_server import WebServer, page

import chatmd
import lmm_education
from lmm import config_files, terminal
from lmm.config_tables import TABLES, keys_in
from lmm.disk import folder as disk_folder, trust
from lmm.errors import Untrusted
from lmm.scan import scan_messages

DOCUMENT = "---\n?: q\n---\nText.\n"
KEY = "sk-from-the-environment"
AWAY = "http://elsewhere.invalid/v1"
STOPPED = "you have not approved this file"
BEYOND = "it reaches beyond its folder (servers, keys, files elsewhere, programs, code of models):"
CHANGED = "this file has changed since you approved it"


@pytest.fixture(autouse=True)
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of other machines that something tried to reach; none is."""
    names: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *rest: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name in ("127.0.0.1", "0.0.0.0", "localhost"):
            return real(host, *rest, **options)
        names.append(name)
        raise socket.gaierror(socket.EAI_NONAME, "nobody is asked in tests")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


@pytest.fixture
def document(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A document with a question, and a key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    return path


@pytest.fixture
def own_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """The user's own model, at a scripted server: named in the environment, and by no file."""
    with ScriptedServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("LMM_SOURCE_EMBEDDING", "Builtin")
        yield server


def strange(folder: Path, text: str) -> Path:
    """A config.toml that came with the folder."""
    file = folder / "config.toml"
    file.write_text(text)
    return file


def away(base_url: str = AWAY, more: str = "") -> str:
    """A configuration that names a server for OpenAI's models."""
    return f'[major]\nmodel = "OpenAI/gpt-4o"\nbase_url = "{base_url}"\nmax_retries = 0\n{more}'


def not_loopback(server: ScriptedServer) -> str:
    """An address of the server that does not count as this machine, though the system connects to it there."""
    return server.url.replace("127.0.0.1", "0.0.0.0")


# -- as it was reported ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ['roots = ["/"]', 'roots = ["{home}"]'])
def test_a_clone_does_not_allow_itself_the_files_of_the_user(
    own_model: ScriptedServer, folder: Path, tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str], key: str,
) -> None:  # fmt: skip
    """[chatmd] roots of a clone sent a private key to its server: by <doc>, and by an import."""
    home = tmp_path_factory.mktemp("home")
    (home / "diary.txt").write_text("what nobody is to read")
    file = strange(folder, f"[chatmd]\n{key.format(home=home)}\n")
    for said in (f'<doc src="{home}/diary.txt" local/>', f'<import src="{home}/diary.txt"/>'):
        (folder / "help.chatmd").write_text(f"<user>{said}</user>")
        ran = run_here(capsys, "run", "help.chatmd")
        assert (ran.code, own_model.requests) == (2, [])
        assert ran.err == (
            f"lmm: {file}:2: {STOPPED}, and it sets 'roots' in [chatmd] "
            f"(to see what it asks for, and agree: lmm trust {folder})\n"
        )


def test_missing_agreement_has_an_exit_code_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the command, and whether a config.toml or a file's tools are to be agreed to, it is 2."""
    (folder / "sh.chatmd").write_text('<tool name="sh" command="sh -c"/>\n<system>Help.</system>\n<user>Hello</user>\n')
    (folder / "cases.yaml").write_text("- input: Hello\n  contains: Hi\n")
    for words in (("run", "sh.chatmd"), ("refine", "--check", "--cases", "cases.yaml", "sh.chatmd")):
        ran = run_here(capsys, *words)
        assert (ran.code, "its tools can do more than read in its folder" in ran.err) == (2, True), ran
    strange(folder, '[chatmd]\nroots = ["/"]\n')
    (folder / "a.chatmd").write_text("<user>Hello</user>\n")
    for command in ("run", "check", "render", "tools", "compact"):
        ran = run_here(capsys, command, "a.chatmd")
        assert (ran.code, ran.out, STOPPED in ran.err) == (2, "", True), command
    ran = run_here(capsys, "check", "a.chatmd", "sh.chatmd")  # what holds for both is printed once
    assert (ran.code, ran.err.count(STOPPED)) == (2, 1)


def test_a_clone_does_not_allow_itself_this_machine(
    own_model: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[chatmd] private_network of a clone: nothing is fetched from services of this machine."""
    strange(folder, "[chatmd]\nprivate_network = true\n")
    with WebServer({"/secret": page("of this machine")}) as web:
        (folder / "help.chatmd").write_text(f'<user><doc src="{web.url}/secret"/></user>')
        ran = run_here(capsys, "run", "help.chatmd")
        assert (ran.code, own_model.requests, web.requests) == (2, [], [])
    assert f"{STOPPED}, and it sets 'private_network' in [chatmd]" in ran.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[major]\nmodel = "OpenAICompatible/x"\nbase_url = "{away}"\n', ("messages", "d.md")),
        ('[embedding]\nmodel = "OpenAICompatible/x"\nbase_url = "{away}"\n', ("ingest", "d.md")),
        ('[storage]\nurl = "{away}"\n', ("search", "q")),
    ],
)
def test_a_host_of_a_clone_that_needs_no_key(
    folder: Path, capsys: pytest.CaptureFixture[str], asked_for: list[str], text: str, words: tuple[str, ...]
) -> None:
    """What is sent there is the user's text."""
    (folder / "d.md").write_text(DOCUMENT)
    strange(folder, text.replace("{away}", AWAY))
    ran = run_here(capsys, *words)
    assert (ran.code, asked_for) == (2, [])
    assert STOPPED in ran.err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("d.md", "---\nmodel:\n  {tier}: {model}\n---\n" + DOCUMENT, ("messages", "d.md")),
        ("d.md", "---\nmodel:\n  {tier}:\n    model: {model}\n---\n" + DOCUMENT, ("messages", "d.md")),
        (
            "d.md",
            "---\nmodel:\n  {tier}: {model}\n---\n# A\n\n" + "A leaf is green. " * 60,
            ("annotate", "--questions", "d.md"),
        ),
        ("d.chatmd", '<config model="{model}"/><user>q</user>', ("run", "d.chatmd")),
        ("d.chatmd", '<import src="below/agent.chatmd"/><user>q</user>', ("run", "d.chatmd")),
    ],
)
def test_a_document_names_no_model_outside_of_its_folder(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], name: str, text: str,
    words: tuple[str, ...],
) -> None:  # fmt: skip
    """A header has no power that its config.toml would have to be given; what the user names counts."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "replies.json").write_text('[{"prompt": "", "reply": "{\\"questions\\": [\\"Why?\\"]}"}]')
    model = f"Recorded/{outside}/replies.json"
    (folder / "below").mkdir()
    (folder / "below" / "agent.chatmd").write_text(f'<config model="{model}"/>')
    for tier in ("major", *(["minor"] if "annotate" in words else [])):
        said = text.replace("{model}", model).replace("{tier}", tier)
        (folder / name).write_text(said)
        ran = run_here(capsys, *words)
        assert (ran.code, (folder / name).read_text()) == (2, said), ran
        assert f"{model}, which this document names, is outside of the document's folder" in ran.err
        assert "(set it yourself, under [" in ran.err
    assert run_here(capsys, *words, "--model", model).code == 0


def test_recorded_replies_are_relative_to_the_current_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "r.json").write_text('[{"prompt": "", "reply": "Reply."}]')
    (folder / "below" / "d.chatmd").write_text('<config model="Recorded/r.json"/><user>q</user>')
    ran = run_here(capsys, "run", "below/d.chatmd")
    assert (ran.code, "is relative to the current folder: run this in the document's folder" in ran.err) == (2, True)


@pytest.mark.parametrize("tier", ["major", "embedding"])
@pytest.mark.parametrize(
    "url", ["http://me:secret@192.0.2.1/v1", "http://127.0.0.1\\@192.0.2.1/v1", "http://127.0.0.1\\x", "http://[::1/v1"]
)
def test_an_address_that_two_libraries_read_in_two_ways(
    document: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tier: str,
    url: str,
) -> None:
    """Neither a file's nor the environment's is taken, and no password is shown."""
    file = strange(folder, f"[{tier}]\nmodel = \"OpenAICompatible/x\"\nbase_url = '{url}'\n")
    words = ("messages", "d.md") if tier == "major" else ("search", "q")
    ran = run_here(capsys, *words)
    assert (ran.code, "secret" in ran.err) == (2, False)
    assert ran.err.startswith(f"lmm: {file}:3: 'base_url' in [{tier}] ")
    file.unlink()
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, "secret" in ran.err) == (2, False)
    assert ran.err.startswith("lmm: environment: OPENAI_BASE_URL ")


def test_another_users_config_does_not_count(
    document: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Git: neither the file nor its folder may be another user's; root's may."""
    file = strange(folder, "[messages]\ncontext_limit = 10\n")
    real, owner = Path.stat, [os.geteuid() + 1]

    def stat(path: Path, **options: bool) -> os.stat_result:
        found = real(path, **options)
        return os.stat_result((*found[:4], owner[0], *found[5:])) if path.name == file.name else found

    monkeypatch.setattr(Path, "stat", stat)
    for words in (("messages", "d.md"), ("status",), ("trust", "--yes"), ("search", "q")):
        ran, named = run_here(capsys, *words), file.name if words[0] == "trust" else file
        assert ran.code == 2
        assert ran.err == (
            f"lmm: {named}: this file, or its folder, belongs to another user, so it is not read "
            f"(if you trust that user, name it: --config {named}, or export LMM_CONFIG=…)\n"
        )
    assert run_here(capsys, "status", "--config", str(file)).code == 0
    owner[0] = 0
    assert not disk_folder.is_foreign(file)


# -- every key that asks, and every command ---------------------------------------------------------------


ASKING = {
    **{f"{tier}.base_url": f'base_url = "{AWAY}"' for tier in ("major", "minor", "aux", "embedding")},
    **{
        f"{tier}.api_key_env": 'api_key_env = "AWS_SECRET_ACCESS_KEY"'
        for tier in ("major", "minor", "aux", "embedding")
    },
    **{f"{tier}.model": 'model = "Recorded/{outside}/replies.json"' for tier in ("major", "minor", "aux")},
    "embedding.model": 'model = "Model2Vec/./m"',
    "prompts.folder": 'folder = "texts"',
    "storage.folder": 'folder = "{outside}/store"',
    "storage.url": f'url = ["http://127.0.0.1:1", "{AWAY}"]',
    "storage.api_key_env": 'api_key_env = "AWS_SECRET_ACCESS_KEY"',
    "search.reranker_url": f'reranker_url = "{AWAY}"',
    "search.reranker_key_env": 'reranker_key_env = "AWS_SECRET_ACCESS_KEY"',
    "serve.database": 'database = "postgresql+psycopg://127.0.0.1:9/x"',
    "serve.limits": 'limits = "redis://127.0.0.1:9"',
    **{f"serve.{key}": f'{key} = "{AWAY}"' for key in ("issuer", "platform_login", "platform_keys")},
    "serve.client_secret_env": 'client_secret_env = "AWS_SECRET_ACCESS_KEY"',
    "serve.log": 'log = "{outside}/log.sqlite"',
    "chatmd.roots": 'roots = ["{outside}"]',
    "chatmd.private_network": "private_network = true",
}
"""What each key may say that reaches beyond the folder of its file."""


def test_every_key_that_asks_is_tested() -> None:
    """A key that is declared to need trust has its row."""
    declared = ((table, key) for table in TABLES for key in keys_in(table).values())
    assert set(ASKING) == {f"{table}.{key.name}" for table, key in declared if key.asks}


@pytest.mark.parametrize("name", ASKING)
def test_stopped_until_approved_and_again_after_a_change(
    name: str, folder: Path, own_model: ScriptedServer, capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory, asked_for: list[str],
) -> None:  # fmt: skip
    """One line says what, where, and how to agree; then the file counts, as it is."""
    outside = tmp_path_factory.mktemp("outside")
    (folder / "d.md").write_text("# No question\n")
    (folder / "m").mkdir()
    table, _, key = name.partition(".")
    for why, more in ((STOPPED, ""), (CHANGED, "# changed\n")):
        file = strange(folder, f"[{table}]\n{ASKING[name]}\n{more}".replace("{outside}", outside.as_posix()))
        for words in (("messages", "d.md"), ("search", "q")):
            assert run_here(capsys, *words) == Ran(
                2, "",
                f"lmm: {file}:2: {why}, and it sets '{key}' in [{table}] "
                f"(to see what it asks for, and agree: lmm trust {folder})\n",
            )  # fmt: skip
        assert (own_model.requests, asked_for, list(outside.iterdir())) == ([], [], [])
        assert run_here(capsys, "trust", "--yes").code == 0
        assert run_here(capsys, "messages", "d.md").code == 0


FILES = {
    "d.md": DOCUMENT,
    "notes/a.md": "# A\n\nSome text.\n",
    "p.chatmd": "<user>Hello</user>",
    "q.jsonl": '{"question": "What?", "document": "a.md"}\n',
}
COMMANDS = [
    "messages d.md", "annotate --questions notes", "extract schema.json d.md", "ingest notes", "search q", "ask q",
    "toc d.md", "export d.md --output out", "cards notes", "plan notes", "exercises notes",
    "eval q.jsonl --documents notes", "serve --port 0", "serve users list", "log show", "store status",
    "store push --to elsewhere", "run p.chatmd", "check p.chatmd", "tools p.chatmd", "compact p.chatmd", "mcp",
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words.split()[0])
def test_a_command_for_which_the_file_would_count_stops(
    folder: Path, own_model: ScriptedServer, capsys: pytest.CaptureFixture[str], asked_for: list[str], words: str
) -> None:
    """Nothing of it counts: a course is not made in another way than the author of the file wanted."""
    _files(folder)
    strange(folder, away())
    ran = run_here(capsys, *words.split())
    assert (ran.code != 0, asked_for, own_model.requests) == (True, [], []), ran
    assert f"{STOPPED}, and it sets 'base_url' in [major]" in ran.err


@pytest.mark.parametrize("words", ["scan d.md", "status", "clear d.md", "accept d.md", "undo d.md"])
def test_what_reads_no_settings_works(folder: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    """Nobody has to agree to what is not used."""
    _files(folder)
    strange(folder, away())
    assert STOPPED not in run_here(capsys, *words.split()).err


@pytest.mark.parametrize("words", ["ingest notes", "search q", "toc d.md", "check p.chatmd"])
def test_what_concerns_the_folder_alone_counts_without_a_question(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    """A store below the folder, models by name, a server of this machine."""
    _files(folder)
    strange(folder, '[major]\nmodel = "vLLM/x"\nbase_url = "http://127.0.0.1:1/v1"\n[storage]\nfolder = "store"\n'
                    '[embedding]\nmodel = "Builtin/wordllama"\n[serve]\nlog = "log.sqlite"\n')  # fmt: skip
    run_here(capsys, "ingest", "notes")
    assert run_here(capsys, *words.split()).code == 0
    assert (folder / "store/course").is_dir()


def _files(folder: Path) -> None:
    (folder / "schema.json").write_text('{"type": "object", "properties": {"a": {"type": "string"}}}')
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


# -- lmm trust ---------------------------------------------------------------------------------------------


def test_it_lists_what_is_asked_for_and_asks_nobody_without_a_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line that needs it, without passwords; control characters do nothing."""
    more = '[storage]\nfolder = "../\\u001b[2J\\u202eerots"\n[chatmd]\nroots = ["/a"]\n'
    file = strange(folder, away(more=f'{more}[serve]\ndatabase = "redis://ada:secret@example.org"\n'))
    ran = run_here(capsys, "trust")
    assert ran.code == 2
    assert ran.out.splitlines() == [
        f"{file.name}: {BEYOND}",
        f'  line 3: [major] base_url = "{AWAY}"',
        '  line 6: [storage] folder = "../\\u001b[2J\\u{202e}erots"',
        '  line 8: [chatmd] roots = ["/a"]',
        '  line 10: [serve] database = "redis://ada:…@example.org"',
    ]
    assert ran.err == "nothing was approved; to agree: lmm trust . --yes\n"
    assert trust.approved_files() == ()


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 2)])
def test_on_a_terminal_it_asks(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: bool, code: int
) -> None:
    """And keeps a yes."""
    strange(folder, away())
    monkeypatch.setattr(terminal, "can_ask", lambda: True)
    monkeypatch.setattr(terminal, "confirm", lambda question: answer)
    assert run_here(capsys, "trust", str(folder)).code == code
    assert bool(trust.approved_files()) == answer
    assert run_here(capsys, "trust", "config.toml").code == code
    assert ("approved already" in run_here(capsys, "trust").out) == answer


def test_list_and_revoke(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was agreed to can be looked at, and taken back."""
    file = strange(folder, away())
    assert run_here(capsys, "trust", "--yes").code == 0
    assert run_here(capsys, "trust", "--list").out == f"{file}\n"
    file.write_text(away(more="# more\n"))
    assert run_here(capsys, "trust", "--list").out == f"{file} (it changed since)\n"
    assert "it has changed since you approved it, and reaches beyond its folder" in run_here(capsys, "trust").out
    assert run_here(capsys, "trust", "--revoke", str(folder)).out == f"{file}: approved no more\n"
    assert run_here(capsys, "trust", "--revoke").out == "config.toml: was not approved\n"
    ran = run_here(capsys, "trust", "--list")
    assert (ran.out, ran.err) == ("", "note: no config.toml has been approved\n")
    assert run_here(capsys, "trust", "--list", "--revoke").code == 2


def test_nothing_to_approve(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that only concerns its folder needs nothing; a folder without one is an error."""
    strange(folder, '[major]\nmodel = "Ollama/llama3.2"\n[storage]\nfolder = "store"\n')
    assert run_here(capsys, "trust").code == 0
    (folder / "empty").mkdir()
    assert run_here(capsys, "trust", "empty").err == (
        "lmm: empty/config.toml: there is no such file (name a folder with a config.toml)\n"
    )


def test_status_tells_what_waits(document: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`lmm status` names each line that waits, also for programs, never a key, and what counts without the file."""
    file = strange(folder, away())
    ran = run_here(capsys, "status")
    assert f'not approved   line 3: [major] base_url = "{AWAY}"\n' in ran.out
    assert "(not in effect)\nmajor          OpenAI/gpt-4o-mini" in ran.out
    assert f"lmm trust {folder}\n" in ran.out
    told = json.loads(run_here(capsys, "status", "--json").out)["waiting"]
    assert told == [
        {
            "key": "major.base_url", "value": f'"{AWAY}"', "file": str(file), "line": 3,
        }
    ]  # fmt: skip
    assert KEY not in ran.out + ran.err
    run_here(capsys, "trust", "--yes")
    assert json.loads(run_here(capsys, "status", "--json").out)["waiting"] == []
    strange(folder, away(more="\n"))
    assert "changed since  line 3" in run_here(capsys, "status").out


def test_a_link_that_leads_elsewhere_by_now_is_not_followed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is the same, and what it means is not: below the folder, no link is followed."""
    strange(folder, away(more='[storage]\nfolder = "store"\n'))
    (folder / "notes").mkdir()
    (folder / "notes/a.md").write_text("# A\n\nSome text.\n")
    assert run_here(capsys, "trust", "--yes").code == 0
    (folder / "store").symlink_to(tmp_path_factory.mktemp("home"))
    ran = run_here(capsys, "ingest", "notes")
    assert (ran.code, "link" in ran.err) == (1, True)


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"x": 1}', "null", '{"FILE": "{}"}', '{"FILE": "[1]"}'])
def test_damaged_approvals_count_as_none(
    document: Path, folder: Path, state_folder: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """A broken list of approvals approves nothing, and can be written anew."""
    file = strange(folder, away())
    (state_folder / "trust.json").write_text(damage.replace("FILE", str(file)))
    assert "lmm trust" in run_here(capsys, "messages", "d.md").err
    assert run_here(capsys, "trust", "--yes").code == 0
    assert "lmm trust" not in run_here(capsys, "messages", "d.md").err


# -- what is the user's own --------------------------------------------------------------------------------


def test_what_the_user_named_needs_no_approval(
    document: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--config, $LMM_CONFIG, and the user's configuration folder; in Python, too."""
    with ScriptedServer() as server:
        file = strange(folder, away(not_loopback(server)))
        with pytest.raises(Untrusted):
            scan_messages(document)
        assert lmm("messages", "d.md", "--config", file).code == 0
        document.write_text(DOCUMENT.replace("q", "r"))
        assert lmm("messages", "d.md", env={"LMM_CONFIG": str(file)}).code == 0
        document.write_text(DOCUMENT.replace("q", "s"))
        monkeypatch.setattr(config_files, "user_config_folder", lambda: folder)
        scan_messages(document)
        assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 3


def test_refused_in_a_process(document: Path, folder: Path) -> None:
    """The command itself, before the vendor's package is even imported."""
    strange(folder, away())
    ran = lmm("messages", "d.md")
    assert (ran.code, ran.out) == (2, "")
    assert "lmm trust" in ran.err


def test_python_obeys(folder: Path, own_model: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """ingest, querydb, query and Chat.run stop like the commands."""
    (folder / "notes").mkdir()
    (folder / "notes/a.md").write_text("# A\n\nSome text.\n")
    strange(folder, f'[storage]\nfolder = "{tmp_path_factory.mktemp("x").as_posix()}"\n')
    for call in (lambda: lmm_education.ingest("notes"), lambda: lmm_education.querydb("q")):
        with pytest.raises(Untrusted, match=r"'folder' in \[storage\]"):
            call()
    with pytest.raises(Untrusted, match=r"'folder' in \[storage\]"):
        lmm_education.query("q")
    strange(folder, '[chatmd]\nroots = ["/"]\n')
    (folder / "p.chatmd").write_text('<user><doc src="/etc/hostname" local/></user>')
    with pytest.raises(Untrusted, match=r"'roots' in \[chatmd\]"):
        chatmd.Chat.open(folder / "p.chatmd").run()
    assert own_model.requests == []


@pytest.mark.parametrize(
    "name",
    [
        "http://127.0.0.1.example.com/v1",
        "http://localhost.example.com/v1",
    ],
)
def test_names_that_only_look_like_this_machine(
    document: Path, folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Only an address of this machine, or localhost itself, needs no approval."""
    strange(folder, away(name))
    assert "lmm trust" in run_here(capsys, "messages", "d.md").err


def test_this_machine_needs_no_approval(server: ScriptedServer, document: Path, folder: Path) -> None:
    """A server on this machine gets the key of the models that it is to serve."""
    strange(folder, away(server.url))
    scan_messages(document)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_key_is_not_sent_to_servers_that_need_none(server: ScriptedServer, document: Path) -> None:
    """OPENAI_API_KEY is for OpenAI's models; another server, even on this machine, never sees it."""
    scan_messages(document)
    assert KEY not in str(server.requests[0].headers)


def test_the_environment_itself_is_trusted(own_model: ScriptedServer, document: Path) -> None:
    """OPENAI_BASE_URL is the user's own word."""
    scan_messages(document)
    assert own_model.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("model", ["OpenAICompatible/x", "vLLM/x", "Ollama/x", "OpenAI/x", "Anthropic/x"])
def test_a_documents_header_reaches_no_other_host(
    folder: Path, capsys: pytest.CaptureFixture[str], asked_for: list[str], model: str
) -> None:
    """Neither a header nor a <config> can say where a server is, or which variable holds its key."""
    more = f'  base_url: "{AWAY}"\n  api_key_env: AWS_SECRET_ACCESS_KEY\n'
    (folder / "d.md").write_text(f"---\nmodel:\n  major: {model}\n{more}---\n\n{DOCUMENT}")
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, asked_for) == (2, [])
    assert "unknown key 'base_url' under 'model:'" in ran.err
    (folder / "p.chatmd").write_text(
        f'<config model="{model}" base_url="{AWAY}" api_key_env="AWS_SECRET_ACCESS_KEY"/>\n<user>Hello</user>'
    )
    assert run_here(capsys, "run", "p.chatmd").code in (1, 2)
    assert asked_for == [] or model == "Anthropic/x"
