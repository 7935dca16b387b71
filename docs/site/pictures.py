"""The README's three pictures, from real runs: `make pictures` writes them to docs/pictures.

No model is needed: the replies of a language model to exactly these texts were recorded, in recorded.json beside the
pictures. The picture of the students' page needs Chromium, and carries the words that it shows as its description.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from io import BytesIO, StringIO
from pathlib import Path
from shutil import copy
from unittest.mock import patch

from PIL import Image, PngImagePlugin
from rich.console import Console, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

PICTURES = Path(__file__).parent.parent / "pictures"
sys.path.append(str(PICTURES.parent.parent / "tests"))
MODEL = "Recorded/recorded.json"
NOTES = """\
# Least squares

---
?: Why squares? Would the plain sum not do? In two sentences.
---
The residual of a case is the difference
between its outcome and its fitted value.
Least squares chooses the line that makes the
sum of the squared residuals as small as
possible.

---
=: for first-year students, in plain words
---
The coefficient of determination quantifies
the proportion of variance of the dependent
variable that is accounted for by the
regressors.
"""
LEAVES = """\
# Colour

Leaves are green, because chlorophyll absorbs red and blue light and
leaves the green. Plants make new chlorophyll all summer long, for it
breaks down in the light. Beside it, leaves contain carotenoids, which
are yellow and orange and last much longer.

# Autumn

When the days get shorter and colder, plants stop making chlorophyll,
and draw its nitrogen back into the stem.

# Shape

Needles lose less water than broad leaves. Their surface is small, and
a thick layer of wax covers it.
"""
AGENT = """\
<config show_tool_call/>
<tool name="read_file"/>

<user>
Read course/leaves.md. Which claim would a botanist object to? One claim, one sentence.
</user>
"""
QUESTION = "Why do leaves turn yellow in autumn? Quote the notes, please."
CONFIG = f'[major]\nmodel = "{MODEL}"\n[serve]\ntitle = "Botany"\ncached_answers = 0\n'


def draw_documents(folder: Path, target: Path) -> None:
    """Write question.svg and agent.svg."""
    commands = ["lmm messages notes.md | tail -n 2", "lmm accept notes.md"]
    shown: list[RenderableType] = [run(folder, command) for command in commands]
    after = (folder / "notes.md").read_text(encoding="utf-8")
    columns = Table("notes.md", "notes.md, answered", expand=True, show_lines=True)
    for part in (0, 2):  # the edit's text is the last part of either
        columns.add_row(*(Syntax(text.rstrip().rpartition("\n\n")[part], "yaml", word_wrap=True,
                                 background_color="default") for text in (NOTES, after)))  # fmt: skip
    draw(target, "question", "A question and an edit, before and after (recorded replies)", [*shown, columns])
    shown = [run(folder, "lmm run review.chatmd")]
    transcript = (folder / "review.chatmd").read_text(encoding="utf-8")
    shown += [Text("$ cat review.chatmd", "bold green")]
    shown += [Syntax(transcript.rstrip(), "xml", word_wrap=True, background_color="default")]
    draw(target, "agent", "An agent, with its transcript in its file (recorded replies)", shown)


def environment(folder: Path) -> Mapping[str, str]:
    """Return the variables by which a run touches nothing outside of its folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"LMM_STATE_DIR": f"{folder}/.state", "LMM_CACHE_DIR": f"{folder}/.cache", "NO_COLOR": "1", "PATH": path}


def run(folder: Path, command: str) -> Text:
    """Run a command and return what a terminal shows."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, **environment(folder), "COLUMNS": "100"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )  # fmt: skip
    shown = re.sub(r" \(\d+\.\d s\)", "", done.stdout.rstrip())  # how long a tool took
    return Text.assemble((f"$ {command}", "bold green"), "\n", shown)


def draw(target: Path, name: str, title: str, shown: list[RenderableType]) -> None:
    """Save what is shown as the picture of a terminal."""
    console = Console(record=True, width=100, file=StringIO(), force_terminal=True)
    console.print(*shown, sep="\n")
    svg = console.export_svg(title=title, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)  # no request to another host
    (target / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")


def draw_page(folder: Path, target: Path) -> None:
    """Write course.png: the students' page on a screen, and on a phone with a source open."""
    from edge.serving import serving, type_question
    from fakes.chromium import Browser

    run(folder, "lmm ingest -q course")
    pictures, words = [], []
    with (
        patch.dict(os.environ, environment(folder)), chdir(folder),
        serving(folder / "config.toml") as address, Browser(folder / "profile") as page,
    ):  # fmt: skip
        for width in (1280, 390):
            page.screen(width, 600)
            page.open(f"{address}/")
            page.run("sessionStorage.clear()")
            page.open(f"{address}/")
            type_question(page, QUESTION)
            page.wait_for("document.body.innerText.includes('Suggest questions')")
            if width == 390:
                page.click("aside button")
                page.wait_for("document.querySelector('#section .text')?.innerText")
            page.picture(folder / "page.png")
            pictures.append(Image.open(BytesIO((folder / "page.png").read_bytes())))
            words.append(page.text("body"))
    whole = Image.new("RGB", (sum(each.width for each in pictures) + 24, pictures[0].height + 16), "silver")
    whole.paste(pictures[0], (8, 8))
    whole.paste(pictures[1], (whole.width - pictures[1].width - 8, 8))
    description = PngImagePlugin.PngInfo()
    description.add_itxt("Description", "\n".join(words))
    whole.quantize(64).save(target / "course.png", optimize=True, pnginfo=description)


def main(draws: Sequence[Callable[[Path, Path], None]] = (draw_documents, draw_page), target: Path = PICTURES) -> None:
    """Write pictures into a folder, each from a folder of its own with the example's files."""
    for draw in draws:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "course").mkdir()
            files = {"notes.md": NOTES, "course/leaves.md": LEAVES, "review.chatmd": AGENT, "config.toml": CONFIG}
            for file, text in files.items():
                (folder / file).write_text(text, encoding="utf-8")
            copy(PICTURES / "recorded.json", folder)
            draw(folder, target)


if __name__ == "__main__":
    main()
