"""`deploy/`: Caddy in front of a real server, and a compose file that says what the documentation says."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from edge.serving import serving
from edge.support import copy_course

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
CADDY = shutil.which("caddy")


def test_the_compose_file_fits_the_page() -> None:
    """The page names every file; the course believes the proxy's address alone, and has no port of its own."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    course, proxy = (compose["services"][name] for name in ("course", "proxy"))
    page = (ROOT / "docs/serve.md").read_text()
    assert [path.name for path in DEPLOY.iterdir() if f"| `{path.name}` |" not in page] == []
    assert f'trusted_proxy = ["{proxy["networks"]["course"]["ipv4_address"]}"]' in (DEPLOY / "compose.yaml").read_text()
    assert "ports" not in course
    assert proxy["environment"]["COURSE_SERVER"] == "course:8000"
    assert "./Caddyfile:/etc/caddy/Caddyfile:ro" in proxy["volumes"]


@pytest.mark.skipif(CADDY is None, reason="Caddy is not installed")
def test_caddy_passes_questions_on(ingested: Path, folder: Path) -> None:
    """What a caller says of who he is does not come through; the server is told where he comes from."""
    copy_course(ingested, folder)
    (folder / "config.toml").write_text('[serve]\nlogin = "proxy"\ntrusted_proxy = ["127.0.0.1"]\n')
    with socket.create_server(("127.0.0.1", 0)) as free:
        site = f"http://127.0.0.1:{free.getsockname()[1]}"
    with serving(folder / "config.toml", ("*",)) as address:
        environment = os.environ | {"COURSE_SITE": site, "COURSE_SERVER": address.removeprefix("http://")}
        environment |= {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        words = [str(CADDY), "run", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"]
        with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as caddy:
            try:
                assert status(f"{site}/healthz") == 200
                assert status(f"{site}/contents", {"X-Forwarded-User": "ada"}) == 401
                assert (
                    status(f"{address}/contents", {"X-Forwarded-User": "ada"}) == 200
                )  # as a proxy that knows says it
            finally:
                caddy.terminate()


def status(address: str, headers: dict[str, str] | None = None) -> int:
    """With what a request is answered, as soon as somebody answers."""
    for _ in range(200):
        try:
            with urllib.request.urlopen(urllib.request.Request(address, headers=headers or {}), timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except urllib.error.URLError:
            time.sleep(0.05)
    raise AssertionError(f"nobody answers at {address}")
