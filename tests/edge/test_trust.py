"""A config.toml that may be a stranger's gets nothing that reaches beyond its folder before somebody agreed to it."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from edge.support import copy_course, lmm, run_here
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
STOPPED = "nobody approved that"
CHANGED = "the file is not what was approved"


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
        assert ran.err.startswith(f"lmm: {file}:2: [chatmd] roots lets prompts read all files below ")
        assert f"{STOPPED} (to see what it asks for, and agree: lmm trust {folder})" in ran.err
        assert ran.err.count("\n") == 1


def test_a_clone_does_not_allow_itself_this_machine(
    own_model: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[chatmd] private_network of a clone: nothing is fetched from services of this machine."""
    strange(folder, "[chatmd]\nprivate_network = true\n")
    with WebServer({"/secret": page("of this machine")}) as web:
        (folder / "help.chatmd").write_text(f'<user><doc src="{web.url}/secret"/></user>')
        ran = run_here(capsys, "run", "help.chatmd")
        assert (ran.code, own_model.requests, web.requests) == (2, [], [])
    assert "[chatmd] private_network lets prompts and tools reach this machine and its network" in ran.err


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
    assert f"to {AWAY}, and {STOPPED}" in ran.err


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
    (outside / "replies.json").write_text('[{"prompt": "", "reply": "Reply."}]')
    model = f"Recorded/{outside}/replies.json"
    (folder / "below").mkdir()
    (folder / "below" / "agent.chatmd").write_text(f'<config model="{model}"/>')
    for tier in ("major", *(["minor"] if "annotate" in words else [])):
        said = text.replace("{model}", model).replace("{tier}", tier)
        (folder / name).write_text(said)
        ran = run_here(capsys, *words)
        assert (ran.code, (folder / name).read_text()) == (2, said), ran
        assert (
            f"{model}, which this document names, uses {outside}/replies.json, which is not below its folder" in ran.err
        )
        assert "(name it yourself, under [" in ran.err
    assert run_here(capsys, *words, "--model", model).code == 0


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
            f"lmm: {named}: this file, or its folder, belongs to another user, and so it is not read "
            f"(if you trust that user, name it: --config {named}, or export LMM_CONFIG=…)\n"
        )
    assert run_here(capsys, "status", "--config", str(file)).code == 0
    owner[0] = 0
    assert not disk_folder.is_foreign(file)


# -- every power, a command that needs it ------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A key, the rest of the configuration, a command that needs it, and what else there has to be."""

    name: str
    text: str
    words: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    model: bool = True
    """Whether the user has a model of his own."""

    @property
    def id(self) -> str:
        return self.name


TEXTS = {"d.md": DOCUMENT, "notes/more.md": "# Leaves\n\n" + "Leaves are green, and they fall in autumn. " * 20 + "\n"}
OF_TIER = {
    "major": ("", ("messages", "d.md")),
    "minor": ("", ("annotate", "--again", "--questions", "notes/more.md")),
    "aux": ("[search]\nexpand = 1\n", ("search", "chlorophyll")),
    "embedding": ("", ("ingest", "notes")),
}
AWS = '{} = "AWS_SECRET_ACCESS_KEY"\n'
NEAR = '{} = "http://127.0.0.1:1"\n'
FOLDER_OF_MODEL = {"m/config.json": "{}"}
ROWS = [
    *(
        Row(f"{tier}.base_url", f'{more}[{tier}]\nmodel = "OpenAI/x"\nmax_retries = 0\nbase_url = "{AWAY}"\n', words)
        for tier, (more, words) in OF_TIER.items()
    ),
    *(
        Row(
            f"{tier}.api_key_env",
            f'{more}[{tier}]\nmodel = "OpenAICompatible/x"\nbase_url = "{{here}}"\n{AWS.format("api_key_env")}',
            words,
        )
        for tier, (more, words) in OF_TIER.items()
    ),
    *(
        Row(f"{tier}.model", f'{more}[{tier}]\nmodel = "Recorded/{{outside}}/replies.json"\n', words)
        for tier, (more, words) in OF_TIER.items()
        if tier != "embedding"
    ),
    Row("embedding.model", '[embedding]\nmodel = "Model2Vec/./m"\n', ("ingest", "notes"), FOLDER_OF_MODEL),
    Row(
        "prompts.folder",
        '[prompts]\nfolder = "texts"\n',
        ("messages", "d.md"),
        {"texts/edit.md": "Change it: {prompt}"},
    ),
    Row("storage.folder", '[storage]\nfolder = "{outside}/store"\n', ("ingest", "notes")),
    Row("storage.url", f'[storage]\nurl = "{AWAY.replace("http", "https")}"\ntimeout = 1\n', ("search", "q")),
    Row("storage.url", f'[storage]\nurl = ["http://127.0.0.1:1", "{AWAY}"]\ntimeout = 1\n', ("search", "q")),
    Row(
        "storage.api_key_env",
        f'[storage]\nurl = "http://127.0.0.1:1"\n{AWS.format("api_key_env")}timeout = 1\n',
        ("search", "q"),
    ),
    Row("search.reranker_url", f'[search]\nreranker = "http"\nreranker_url = "{AWAY}"\n', ("search", "chlorophyll")),
    Row(
        "search.reranker_key_env",
        f'[search]\nreranker = "http"\nreranker_url = "http://127.0.0.1:1/"\n{AWS.format("reranker_key_env")}',
        ("search", "chlorophyll"),
    ),
    Row("serve.database", '[serve]\ndatabase = "postgresql+psycopg://127.0.0.1:9/x"\n', ("serve", "users", "list")),
    Row("serve.limits", '[serve]\nlimits = "rediss+x://127.0.0.1:9"\n', ("serve", "--port", "0")),
    *(
        Row(f"serve.{key}", f'[serve]\nclient_id = "x"\n{key} = "{value}"\n{rest}', ("serve", "--host", "192.0.2.1"))
        for key, value, rest in (
            ("issuer", AWAY, 'login = "oidc"\nclient_secret_env = "UNSET"\n'),
            ("client_secret_env", "AWS_SECRET_ACCESS_KEY", f'login = "oidc"\n{NEAR.format("issuer")}'),
            ("platform_login", AWAY, f'login = "lti"\n{NEAR.format("issuer")}{NEAR.format("platform_keys")}'),
            ("platform_keys", AWAY, f'login = "lti"\n{NEAR.format("issuer")}{NEAR.format("platform_login")}'),
        )
    ),
    Row("serve.log", '[serve]\nlog = "{outside}/log.sqlite"\n', ("log", "show")),
    Row(
        "chatmd.roots",
        '[chatmd]\nroots = ["{outside}"]\n',
        ("run", "p.chatmd"),
        {"p.chatmd": '<user><doc src="{outside}/replies.json" local/></user>'},
    ),
    Row(
        "chatmd.private_network",
        "[chatmd]\nprivate_network = true\n",
        ("run", "p.chatmd"),
        {"p.chatmd": '<user><doc src="{web}/page"/></user>'},
    ),
]
WORK = ("prompts.folder", "storage.folder", "chatmd.roots", "chatmd.private_network")
"""Once they are approved, the command ends well: there is no other host that nobody answers for."""
PAGES = {"/page": page("a page")}


def test_every_power_has_its_row() -> None:
    """A key that is declared to be a power is tested below."""
    declared = (key for table in TABLES for key in keys_in(table))
    assert {row.name for row in ROWS} == {f"{key.table}.{key.name}" for key in declared if key.key.power}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom nobody answers is asked again at once."""
    monkeypatch.setattr("lmm_education.store.server_requests.pause", lambda seconds: None)
    for module in ("lmm_education.encode.server", "lmm.models.resilience"):
        monkeypatch.setattr(f"{module}.backoff", lambda *_: 0.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_stopped_until_approved_and_again_after_a_change(
    row: Row, folder: Path, ingested: Path, own_model: ScriptedServer, capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, asked_for: list[str],
) -> None:  # fmt: skip
    """Nothing is sent, and one line says what, where, and how to agree; then the command goes on."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "replies.json").write_text('[{"prompt": "", "reply": "Recorded."}]')
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-them")
    copy_course(ingested, folder)
    with WebServer(PAGES) as web:
        places = {"{here}": own_model.url, "{outside}": outside.as_posix(), "{web}": web.url}
        file, before = folder / "config.toml", _listing(outside)
        for why, more in ((STOPPED, ""), (CHANGED, "# changed\n")):
            for name, text in {**TEXTS, **row.files, "config.toml": row.text + more}.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(_filled(text, places))
            stopped = run_here(capsys, *row.words)
            assert stopped.code == 2, stopped
            table, _, key = row.name.partition(".")
            assert f"lmm: {file}:" in stopped.err
            assert f"[{table}] {key} " in stopped.err
            assert f", and {why} (to see what it asks for, and agree: lmm trust {folder})\n" in stopped.err
            assert (own_model.requests, asked_for, _listing(outside)) == ([], [], before)
            assert run_here(capsys, "trust", "--yes").code == 0
            allowed = run_here(capsys, *row.words)
            assert "lmm trust" not in allowed.err
            assert allowed.code == 0 or row.name not in WORK, allowed
            del own_model.requests[:], asked_for[:]
            shutil.rmtree(outside / "store", ignore_errors=True)


def _filled(text: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(name, value)
    return text


def _listing(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "words",
    [
        ("scan", "d.md"),
        ("status",),
        ("toc", "d.md"),
        ("export", "d.md", "--output", "out"),
        ("ingest", "notes"),
        ("search", "leaves"),
        ("store", "status"),
        ("check", "p.chatmd"),
        ("tools", "p.chatmd"),
        ("clear", "d.md"),
        ("messages", "notes/more.md"),
    ],
    ids=lambda words: words[0],
)
def test_what_needs_no_power_works(
    folder: Path, capsys: pytest.CaptureFixture[str], asked_for: list[str], words: tuple[str, ...]
) -> None:
    """A power that a command does not use stops nobody."""
    for name, text in {**TEXTS, "p.chatmd": "<user>Hello</user>"}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    if words[0] in ("search", "store"):
        assert run_here(capsys, "ingest", "notes").code == 0
    strange(
        folder,
        away(more='[search]\nreranker_url = "https://a.invalid"\n[chatmd]\nroots = ["/"]\nprivate_network = true\n')
        + '[serve]\nlog = "/elsewhere.sqlite"\n[prompts]\nfolder = "/"\n[embedding]\nmodel = "Builtin/wordllama"\n',
    )
    ran = run_here(capsys, *words)
    assert (ran.code, asked_for) == (0, []), ran
    assert "lmm trust" not in ran.err


# -- lmm trust ---------------------------------------------------------------------------------------------


def test_it_lists_what_is_asked_for_and_asks_nobody_without_a_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every power in words, with its line; control characters do nothing."""
    file = strange(folder, away(more='[storage]\nfolder = "../\\u001b[2J\\u202eerots"\n[chatmd]\nroots = ["/a"]\n'))
    ran = run_here(capsys, "trust")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"{file.name}: it asks for more than its folder:",
        f"  line 3: [major] base_url sends texts, and its key if there is one, to {AWAY}",
        f"  line 6: [storage] folder uses {folder.parent}/\\x1b[2J\\u{{202e}}erots, which is not below its folder",
        "  line 8: [chatmd] roots lets prompts read all files below /a",
    ]
    assert ran.err == "nothing was approved; to agree: lmm trust . --yes\n"
    assert trust.approvals() == {}


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 1)])
def test_on_a_terminal_it_asks(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: bool, code: int
) -> None:
    """And keeps a yes."""
    strange(folder, away())
    monkeypatch.setattr(terminal, "can_ask", lambda: True)
    monkeypatch.setattr(terminal, "confirm", lambda question: answer)
    assert run_here(capsys, "trust", str(folder)).code == code
    assert bool(trust.approvals()) == answer
    assert run_here(capsys, "trust", "config.toml").code == code
    assert ("approved already" in run_here(capsys, "trust").out) == answer


def test_list_and_revoke(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was agreed to can be looked at, and taken back."""
    file = strange(folder, away())
    assert run_here(capsys, "trust", "--yes").code == 0
    line = f"  [major] base_url sends texts, and its key if there is one, to {AWAY}\n"
    assert run_here(capsys, "trust", "--list").out == f"{file}\n{line}"
    file.write_text(away(more="# more\n"))
    assert run_here(capsys, "trust", "--list").out == f"{file} (it changed since)\n{line}"
    assert "it changed since you approved it, and now asks for" in run_here(capsys, "trust").out
    assert run_here(capsys, "trust", "--revoke", str(folder)).out == f"{file}: approved no more\n"
    assert run_here(capsys, "trust", "--revoke").out == "config.toml: was not approved\n"
    assert run_here(capsys, "trust", "--list").out == ""
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
    """`lmm status` names each power that waits, also for programs, and never a key."""
    file = strange(folder, away())
    ran = run_here(capsys, "status")
    assert f"not approved   line 3: [major] base_url sends texts, and its key if there is one, to {AWAY}\n" in ran.out
    assert f"lmm trust {folder}\n" in ran.out
    told = json.loads(run_here(capsys, "status", "--json").out)["waiting"]
    assert told == [
        {
            "kind": "host", "key": "major.base_url", "value": AWAY, "file": str(file), "line": 3,
            "words": f"sends texts, and its key if there is one, to {AWAY}",
        }
    ]  # fmt: skip
    assert KEY not in ran.out + ran.err
    run_here(capsys, "trust", "--yes")
    assert json.loads(run_here(capsys, "status", "--json").out)["waiting"] == []
    strange(folder, away(more="\n"))
    assert "changed since  line 3" in run_here(capsys, "status").out


def test_a_link_that_leads_elsewhere_by_now_is_asked_about_again(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is the same, and what it means is not: what was approved is what was shown."""
    strange(folder, away(more='[storage]\nfolder = "store"\n'))
    (folder / "notes").mkdir()
    (folder / "notes/a.md").write_text("# A\n\nSome text.\n")
    assert run_here(capsys, "trust", "--yes").code == 0
    (folder / "store").symlink_to(tmp_path_factory.mktemp("home"))
    ran = run_here(capsys, "ingest", "notes")
    assert (ran.code, "[storage] folder uses" in ran.err) == (2, True)


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
        with pytest.raises(Untrusted, match=r"\[storage\] folder"):
            call()
    with pytest.raises(Untrusted, match=r"\[storage\] folder"):
        lmm_education.query("q")
    strange(folder, '[chatmd]\nroots = ["/"]\n')
    (folder / "p.chatmd").write_text('<user><doc src="/etc/hostname" local/></user>')
    with pytest.raises(Untrusted, match=r"\[chatmd\] roots"):
        chatmd.Chat.open(folder / "p.chatmd").run()
    assert own_model.requests == []


@pytest.mark.parametrize(
    "name",
    [
        "http://127.0.0.1.example.com/v1",
        "http://localhost.example.com/v1",
        "//192.0.2.1",
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


@pytest.mark.usefixtures("impatient")
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
