"""A config.toml that came with somebody's repository sends no key anywhere before it was approved."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge.support import lmm, run_here
from fakes.openai_server import ScriptedServer

from lmm.scan import scan_messages

DOCUMENT = "---\n?: q\n---\nText.\n"
# Reserved for documentation: nothing answers there, and nothing in these tests asks.
AWAY = "http://192.0.2.1/v1"
KEY = "sk-from-the-environment"


def foreign_config(folder: Path, base_url: str = AWAY, more: str = "") -> Path:
    """A config.toml that names a server for OpenAI models."""
    file = folder / "config.toml"
    file.write_text(f'[major]\nmodel = "OpenAI/gpt-4o"\nbase_url = "{base_url}"\nmax_retries = 0\n{more}')
    return file


def not_loopback(server: ScriptedServer) -> str:
    """An address of the server that does not count as this machine, though the system connects to it there."""
    return server.url.replace("127.0.0.1", "0.0.0.0")


@pytest.fixture
def document(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A document with a question, and a key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    return path


def test_refused_until_approved_and_again_after_a_change(
    server: ScriptedServer, document: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused with the server, the variable and the command that approves; the approval is for this content."""
    url = not_loopback(server)
    config = foreign_config(folder, url)
    refused = run_here(capsys, "messages", "d.md")
    assert refused.code == 2
    assert refused.err == (
        f"lmm: {config}: it would send your OPENAI_API_KEY to {url} (if you trust that server: lmm trust {config})\n"
    )
    assert (server.requests, document.read_text()) == ([], DOCUMENT)
    assert run_here(capsys, "trust").code == 0
    approved = run_here(capsys, "messages", "d.md")
    assert (approved.code, server.requests[0].headers["authorization"]) == (0, f"Bearer {KEY}")
    document.write_text(DOCUMENT.replace("q", "another"))
    foreign_config(folder, url, more="temperature = 0.5\n")
    assert "lmm trust" in run_here(capsys, "messages", "d.md").err
    assert len(server.requests) == 1
    assert KEY not in refused.err + approved.err + approved.out


def test_refused_in_a_process(document: Path, folder: Path) -> None:
    """The command itself, before the vendor's package is even imported."""
    foreign_config(folder)
    ran = lmm("messages", "d.md")
    assert (ran.code, ran.out) == (2, "")
    assert "lmm trust" in ran.err


@pytest.mark.parametrize(
    "name",
    [
        "http://127.0.0.1.example.com/v1",
        "http://localhost.example.com/v1",
        "http://127.0.0.1@192.0.2.1/v1",
        "//192.0.2.1",
    ],
)
def test_names_that_only_look_like_this_machine(
    document: Path, folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Only an address of this machine, or localhost itself, needs no approval."""
    foreign_config(folder, name)
    assert "lmm trust" in run_here(capsys, "messages", "d.md").err


def test_a_variable_chosen_by_the_configuration_is_guarded_too(
    document: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`api_key_env` cannot send another secret of the environment away."""
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-secret")
    file = folder / "config.toml"
    file.write_text(
        f'[major]\nmodel = "OpenAICompatible/x"\nbase_url = "{AWAY}"\napi_key_env = "GITHUB_TOKEN"\nmax_retries = 0\n'
    )
    refused = run_here(capsys, "messages", "d.md")
    assert refused.code == 2
    assert f"it would send your GITHUB_TOKEN to {AWAY}" in refused.err


def test_this_machine_needs_no_approval(server: ScriptedServer, document: Path, folder: Path) -> None:
    """A server on this machine gets the key."""
    foreign_config(folder, server.url)
    scan_messages(document)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_key_is_not_sent_to_servers_that_need_none(server: ScriptedServer, document: Path) -> None:
    """OPENAI_API_KEY is for OpenAI's models; another server, even on this machine, never sees it."""
    scan_messages(document)
    assert KEY not in str(server.requests[0].headers)


def test_the_environment_itself_is_trusted(
    server: ScriptedServer, document: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPENAI_BASE_URL is the user's own word."""
    (folder / "config.toml").unlink()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    scan_messages(document)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_status_tells_of_a_missing_approval(document: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`lmm status` shows where the key would go, and never the key."""
    config = foreign_config(folder)
    ran = run_here(capsys, "status")
    assert f"{AWAY} (not approved: lmm trust {config})" in ran.out
    assert KEY not in ran.out + ran.err


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"x": 1}', "null"])
def test_damaged_approvals_count_as_none(
    server: ScriptedServer,
    document: Path,
    folder: Path,
    state_folder: Path,
    capsys: pytest.CaptureFixture[str],
    damage: str,
) -> None:
    """A broken list of approvals approves nothing, and can be written anew."""
    foreign_config(folder, not_loopback(server))
    (state_folder / "trusted.json").write_text(damage)
    assert "lmm trust" in run_here(capsys, "messages", "d.md").err
    assert run_here(capsys, "trust").code == 0
    assert run_here(capsys, "messages", "d.md").code == 0
