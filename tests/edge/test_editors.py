"""The extension for Quarto with Pandoc's Lua, and the package for RStudio with Debian's R: neither program is here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import talking
import yaml
from edge.knit_tools import need

from lmm.cli.main import main
from lmm.testing import ScriptedModel

pytestmark = pytest.mark.knit

EDITORS = Path(__file__).parent.parent.parent / "editors"
EXTENSION = EDITORS / "quarto" / "_extensions" / "lmm"
PACKAGE = EDITORS / "rstudio"
NOTES = """---
title: Leaves
---

# Colour

Leaves are green.

- one

- two

::: {.note}
A note.

Another.
:::

## Roots

Brown.
"""


def pandoc(text: str, *options: str) -> str:
    need("pandoc")
    done = subprocess.run(["pandoc", *options], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def edited() -> str:
    """The notes with an edit of a paragraph, a list, a part of a div and a section, and with nothing's new text."""
    text = NOTES
    for mark in ("Leaves are", "- one", "A note.", "## Roots"):
        text = text.replace(mark, f"---\n=: other\n---\n{mark}")
    text += "\n# New\n\n---\n=: write it\n---\n"
    replies = [
        "<new>\nLeaves are *red*.\n\nSome.\n</new>",
        "- three",
        "B note.",
        "White.\n\n### Sub\n\nMore.",
        "Written.",
    ]
    return talking.answered(text, model=ScriptedModel(replies)).text


def test_the_filter_takes_edits_that_wait_out() -> None:
    """The page is that of the notes without them; or with the new texts, as the header has it."""
    text = edited()
    filtered = ("--lua-filter", str(EXTENSION / "lmm.lua"))
    assert "old text" in pandoc(text, "-t", "html")
    assert pandoc(text, *filtered, "-t", "html") == pandoc(NOTES + "\n# New\n", "-t", "html")
    new = pandoc(text.replace("title: Leaves", "title: Leaves\nlmm-edits: new"), *filtered, "-t", "markdown")
    assert [word in new for word in ("*red*", "three", "B note", "White", "### Sub", "Written", "Another")] == [
        True
    ] * 7
    assert not any(word in new for word in ("green", "one", "A note", "Brown", "lmm:", "new text"))


def test_the_filter_takes_our_keys_out_and_leaves_the_rest() -> None:
    """Also marks that are not whole."""
    text = "---\ntitle: T\n~summary: S\nkey=: 1\nother: x\n---\n\n<!-- lmm:new abc -->\n\nText.\n\n###### old text\n"
    tree = json.loads(pandoc(text, "--lua-filter", str(EXTENSION / "lmm.lua"), "-t", "json"))
    assert set(tree["meta"]) == {"title", "other"}
    assert [block["t"] for block in tree["blocks"]] == ["RawBlock", "Para", "Header"]


_SHORTCODE = """
quarto = {{doc = {{is_format = function(name) return name == '{format}' end}}}}
local code = dofile('{file}')['course-chat']
function Pandoc(doc)
  local ok, made = pcall(code, {{ {args} }}, {{ {kwargs} }}, doc.meta)
  return pandoc.Pandoc({{ok and made or pandoc.Para {{pandoc.Str(made)}}}})
end
"""


def chat(folder: Path, args: str, kwargs: str = "", format: str = "html:js") -> str:
    """What the shortcode makes, as Quarto calls it."""
    file = folder / "call.lua"
    file.write_text(_SHORTCODE.format(format=format, file=EXTENSION / "course-chat.lua", args=args, kwargs=kwargs))
    return pandoc("", "--lua-filter", str(file), "-t", "html").strip()


def test_the_shortcode_puts_a_course_into_a_page(tmp_path: Path) -> None:
    """What is in a URL, a title or a height cannot leave its attribute; other formats get a link."""
    frame = chat(tmp_path, "'https://chat.example.org/?a=1&b=\"<'", "height = '80vh', title = 'Ask \"us\"'")
    assert frame == (
        '<iframe class="lmm-course-chat" src="https://chat.example.org/?a=1&amp;b=&quot;&lt;"'
        ' title="Ask &quot;us&quot;" loading="lazy" referrerpolicy="no-referrer"'
        ' style="width: 100%; height: 80vh; border: 1px solid #ccc"></iframe>'
    )
    assert chat(tmp_path, "'https://e.org/'", format="latex") == '<p><a href="https://e.org/">Ask the course</a></p>'
    assert "needs the URL of the chat" in chat(tmp_path, "'javascript:alert(1)'")
    assert "needs the URL of the chat" in chat(tmp_path, "")
    assert "a height is" in chat(tmp_path, "'https://e.org/'", "height = '1px; x'")


def test_the_extension_names_its_files() -> None:
    """All that Quarto loads is there."""
    contributes = yaml.safe_load((EXTENSION / "_extension.yml").read_text())["contributes"]
    assert all((EXTENSION / name).is_file() for names in contributes.values() for name in names)


def test_the_script_before_rendering_exports_the_notes(folder: Path) -> None:
    """As Quarto runs it: by Pandoc's Lua, in the project's folder."""
    (folder / "notes").mkdir()
    asked = NOTES + "\n---\n?: why\n---\nText.\n"
    (folder / "notes" / "a.md").write_text(talking.answered(asked, model=ScriptedModel(["So."])).text)
    run = folder / "run.lua"
    run.write_text(f"dofile('{EXTENSION / 'pre-render.lua'}')")
    lmm = str(Path(sys.executable).parent / "lmm")
    command = ["pandoc", "--lua-filter", str(run), os.devnull]
    need("pandoc")
    done = subprocess.run(command, env=os.environ | {"LMM": lmm}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "So." not in (folder / "pages" / "a.md").read_text()
    done = subprocess.run(
        command, env=os.environ | {"LMM": lmm, "LMM_NOTES": "none"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "there is no such file" in done.stderr + done.stdout


# -- RStudio ---------------------------------------------------------------------------------------------


def r(folder: Path, expressions: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Evaluate expressions in a fresh R that has the package, and an RStudio of a few lines, in its library."""
    lmm = Path(sys.executable).parent / "lmm"
    first = [f'.libPaths(c("{folder / "library"}", .libPaths()))', f'options(lmm = "{lmm}")']
    given = [part for expression in (*first, *expressions) for part in ("-e", expression)]
    return subprocess.run(["Rscript", "--vanilla", *given], capture_output=True, text=True, check=False)


_RSTUDIO = """
getSourceEditorContext <- function(id = NULL) list(id = "1", path = Sys.getenv("LMM_FILE"),
  contents = readLines(Sys.getenv("LMM_FILE")), selection = list())
documentSave <- function(id = NULL) invisible(TRUE)
primary_selection <- function(x, ...) list(range = list(start = c(row = as.numeric(Sys.getenv("LMM_ROW")), column = 1)))
"""


@pytest.fixture
def library(folder: Path) -> Path:
    """A folder with an R library in it: the package as R installs it, and who stands for RStudio."""
    need("Rscript")
    fake = folder / "fake"
    (fake / "R").mkdir(parents=True)
    (fake / "R" / "a.R").write_text(_RSTUDIO)
    (fake / "DESCRIPTION").write_text("Package: rstudioapi\nVersion: 0.1\nTitle: A\nDescription: A.\nLicense: MIT\n")
    (fake / "NAMESPACE").write_text("export(getSourceEditorContext, documentSave, primary_selection)\n")
    (folder / "library").mkdir()
    shutil.copytree(PACKAGE, folder / "lmmarkdown")
    command = ["R", "--vanilla", "CMD", "INSTALL", "--no-docs", f"--library={folder / 'library'}", "fake", "lmmarkdown"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_addins_are_functions_of_the_package(library: Path) -> None:
    """Each that RStudio would list."""
    bindings = [
        line.partition(": ")[2]
        for line in (library / "library/lmmarkdown/rstudio/addins.dcf").read_text().splitlines()
        if line.startswith("Binding: ")
    ]
    assert len(bindings) == 5
    done = r(library, [f"stopifnot(is.function(lmmarkdown::{name}))" for name in bindings])
    assert done.returncode == 0, done.stderr


def test_the_addins_work_on_the_line_of_the_selection(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The edit around it is accepted, another rejected; where there is none, it says so."""
    file = library / "my notes.Rmd"
    file.write_text(edited())
    lines = file.read_text().split("\n")
    monkeypatch.setenv("LMM_FILE", str(file))
    monkeypatch.setenv("LMM_ROW", str(1 + next(i for i, line in enumerate(lines) if "*red*" in line)))
    done = r(library, ["lmmarkdown::addin_accept_here()"])
    assert done.returncode == 0, done.stderr
    assert "Leaves are *red*.\n\nSome.\n\n" in file.read_text()
    assert "Leaves are green" not in file.read_text()
    monkeypatch.setenv("LMM_ROW", "1")
    done = r(library, ["lmmarkdown::addin_reject_here()"])
    assert done.returncode != 0
    assert "edit" in done.stderr
    expressions = ["b <- lmmarkdown:::block_at", 'l <- c("a", "", "---", "?: why", "---", "b", "", "---", "", "c")',
                   "cat(b(l, 1), b(l, 3), b(l, 4), b(l, 5), b(l, 6), b(l, 9))"]  # fmt: skip
    assert r(library, expressions).stdout == "0 3 3 3 0 0"


_SCRIPT = r"""
library(lmmarkdown)
recorded <- "Recorded/replies.json"
wrong <- tryCatch(lmm_search("x", where = "a"), error = identity)
stopifnot(inherits(wrong, "lmm_error"))
answer <- lmm_ask("Why are leaves green?")
stopifnot(answer$found, grepl("“chlorophyll”", answer$answer), answer$sources$first == 1)
print(answer)
found <- lmm_search("green leaves", limit = 1)
stopifnot(is.data.frame(found), nrow(found) == 1, found$file == "leaves.md", grepl("green", found$text))
stopifnot(nrow(lmm_search("", type = c("text", "text"), where = "colour=none")) == 0)
cat(lmm_edit("Leaves are green.\n\nReally: green.", "make it\ndarker", model = recorded))
rows <- lmm_extract("leaf.json", "leaves.md", model = recorded)
stopifnot(rows$colour == "green")
usage <- tryCatch(lmm_ask("x", model = "no"), lmm_usage_error = identity)
cat("\n", conditionMessage(usage))
"""


def test_functions_for_scripts(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers, passages, edits and records come back as lists and data frames, errors as conditions."""
    (library / "leaves.md").write_text("# Leaves\n\nLeaves are green; “chlorophyll” absorbs red light.\n")
    schema = {"title": "Leaf", "type": "object", "properties": {"colour": {"type": "string"}}}
    (library / "leaf.json").write_text(json.dumps(schema))
    edit = {"prompt": "darker", "reply": "<new>Leaves are\n\n*dark* — green.</new>"}
    (library / "replies.json").write_text(json.dumps([edit, {"prompt": "", "reply": '{"colour": "green"}'}]))
    (library / "script.R").write_text(_SCRIPT)
    monkeypatch.chdir(library)
    assert main(["ingest", "leaves.md"]) == 0
    done = r(library, ["source('script.R', encoding = 'UTF-8')"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[1] leaves.md:1-3 Leaves" in done.stdout
    assert "Leaves are\n\n*dark* — green." in done.stdout
    assert "'no' is not a model name" in done.stdout
