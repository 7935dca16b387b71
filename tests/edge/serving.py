"""A course on disk, and its web application under a real server on 127.0.0.1."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fakes.chromium import Browser

from lmm_education import Course
from lmm_education.cli.serve import server_options
from lmm_education.web.app import LOOPBACK, create_app

LEAVES = """---
title: Botany
docid: botany
---
# Leaves

A leaf is green because chlorophyll absorbs red and blue light.

$$
\\begin{aligned} y &= a + b \\\\ z &= c \\end{aligned}
$$

---
type: exercise
---
Put a leaf into alcohol and describe what happens to the chlorophyll.

# Roots

Roots take up water and minerals. Root hairs enlarge their surface.
"""
TRICKS = """---
title: Tricks <script>document.title='pwned'</script>
docid: tricks
---
# Heading <img src=x onerror="document.title='pwned'"> $\\text{<img src=x onerror="document.title='pwned'">}$

Trickery: <script>document.title = 'pwned'</script> <img src="http://outside.invalid/x.png">
![picture](http://outside.invalid/y.png) [link](javascript:document.title='pwned') <style>body{display:none}</style>
<svg onload="document.title='pwned'"> $\\text{<iframe src="javascript:top.document.title='pwned'">}$
</textarea></dialog>
"""


@contextmanager
def serving(config: Path, hosts: Sequence[str] = LOOPBACK, patience: float = 20.0) -> Iterator[str]:
    """Serve the course of a configuration file, under these names; yields the address, without a slash at its end."""
    with Course.open(config=config) as course, socket.create_server(("127.0.0.1", 0)) as listener:
        options = server_options(patience=patience) | {"log_config": None, "timeout_graceful_shutdown": 1}
        settings = uvicorn.Config(create_app(course, hosts=hosts), **options)
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
                assert thread.is_alive(), "the server did not start"
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


def type_question(page: Browser, question: str) -> None:
    """Type a question into the course's page, and press Enter."""
    page.click("#question")
    page.type(question)
    page.press("Enter", 13)
