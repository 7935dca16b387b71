"""The README's three pictures, from real runs: `make pictures` writes docs/pictures/*.svg.

Nothing is downloaded and no key is needed: the first two use the built-in models, the agent a recorded reply.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

PICTURES = Path(__file__).parent.parent / "pictures"
NOTES = """\
# Least squares

---
?: what is a residual?
---
The residual of a case is the difference between its outcome and its
fitted value. Least squares minimises the sum of squared residuals.
"""
LEAVES = """\
# Colour

Leaves are green, because chlorophyll absorbs red and blue light and
leaves the green.

# Shape

Needles lose less water than broad leaves.
"""
AGENT = """\
<config model="Recorded/replies.json" show_tool_call/>
<tool name="read_file"/>

<user>
Read leaves.md. Which claim would a botanist object to?
</user>
"""
REPLIES = """[
 {"prompt": "botanist", "reply": "I will read it.",
  "calls": [{"name": "read_file", "arguments": {"path": "leaves.md"}}]},
 {"prompt": "chlorophyll", "reply": "Line 8: per leaf, or per area? Say which."}
]"""


def main() -> None:
    """Write the three pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "course").mkdir()
        for file, text in {"notes.md": NOTES, "course/leaves.md": LEAVES, "leaves.md": LEAVES}.items():
            (folder / file).write_text(text, encoding="utf-8")
        (folder / "review.chatmd").write_text(AGENT, encoding="utf-8")
        (folder / "replies.json").write_text(REPLIES, encoding="utf-8")
        draw(folder, "question", "A question, answered in the file", ["lmm messages notes.md", "cat notes.md"])
        commands = ["lmm ingest -q course", 'lmm ask "Why are leaves green?"']
        draw(folder, "course", "A student's question, answered from the course", commands)
        commands = ["lmm run review.chatmd", "cat review.chatmd"]
        draw(folder, "agent", "An agent, with its transcript in its file", commands)


def draw(folder: Path, name: str, title: str, commands: list[str]) -> None:
    """Run the commands and save what a terminal shows."""
    console = Console(record=True, width=84, file=open(os.devnull, "w"), force_terminal=True)  # noqa: PTH123, SIM115
    state = {"LMM_STATE_DIR": str(folder / ".state"), "LMM_CACHE_DIR": str(folder / ".cache"), "NO_COLOR": "1"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env={**os.environ, **state, "PATH": path},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
        )  # fmt: skip
        console.print(Text(f"$ {command}", "bold green"))
        language = (
            {"md": "yaml", "chatmd": "xml"}.get(command.rsplit(".", 1)[-1]) if command.startswith("cat") else None
        )
        shown = done.stdout.rstrip()
        console.print(Syntax(shown, language, word_wrap=True, background_color="default") if language else Text(shown))
    svg = console.export_svg(title=title, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)  # no request to another host
    (PICTURES / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")


if __name__ == "__main__":
    main()
