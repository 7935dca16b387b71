"""Clean notes as readers get them: Pandoc's page, RStudio's Knit button, Quarto's pre-render command.

The hook and the command are those that docs/cookbook/export.md shows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from edge.knit_tools import need, pandoc

from lmm_education.study import clean_notes

pytestmark = pytest.mark.knit

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "export"
PAGE = (ROOT / "docs" / "cookbook" / "export.md").read_text(encoding="utf-8")
YAML = re.findall(r"```yaml\n(.*?)```\n", PAGE, re.DOTALL)
HOOK, QUARTO = next(text for text in YAML if text.startswith("knit:")), yaml.safe_load(YAML[-1])
SECRET = "SECRET"
# As RStudio calls the function in the header.
PRESS_KNIT = 'eval(parse(text = rmarkdown::yaml_front_matter("{0}")$knit))("{0}", encoding = "UTF-8")'

DOCUMENT = (
    "---\ntitle: Leaves\ndocid: leaves-SECRET\nmodel:\n  system: SECRET\noutput:\n  html_document:\n"
    f"    self_contained: false\n    mathjax: null\n{HOOK}---\n"
    """
# Leaves

---
~chat_:
  - query: why SECRET?
    ~reply: Because of SECRET.
~summary_: SECRET
---
## Colour

Leaves are green. The value is `r 6 * 7`. ![local](leaf.svg)

---
type: exercise
solution: SECRET
---
Compute SECRET.

---
type: definition
---
```{r secret}
cat("SECRET")
```

```{r plot}
plot(1:3)
```

```{r careful}
x <- 1
if (file.exists("broken")) stop("no leaf")
```
"""
)


@pytest.fixture
def lecture(folder: Path) -> Path:
    """An R Markdown document with the hook, and `lmm` where R finds it."""
    need("pandoc")
    need("Rscript", "rmarkdown")
    (folder / "leaf.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><circle r="9"/></svg>')
    path = folder / "lecture.Rmd"
    path.write_text(DOCUMENT, encoding="utf-8")
    return path


def r(expression: str) -> subprocess.CompletedProcess[str]:
    """Run an expression in a fresh R, with this environment's `lmm` on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path}
    # R's script puts the system's libraries before those of this Python, which may be another 3.11's.
    alone = 'Sys.unsetenv("LD_LIBRARY_PATH")'
    return subprocess.run(
        ["Rscript", "--vanilla", "-e", alone, "-e", expression],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", ["lecture", "my lecture"])
def test_knit_shows_none_of_the_machinery(lecture: Path, name: str) -> None:
    """The page has the text, the results and the pictures; the source and its folder are as they were."""
    lecture = lecture.rename(lecture.with_stem(name))
    before = lecture.read_bytes()
    done = r(PRESS_KNIT.format(lecture.name))
    assert done.returncode == 0, done.stderr
    page = lecture.with_suffix(".html").read_text(encoding="utf-8")
    assert SECRET not in page
    assert "docid" not in page
    assert "Leaves are green. The value is 42." in page
    pictures = [unquote(source) for source in re.findall(r'<img src="([^"]+)"', page)]
    assert len(pictures) == 2
    assert all((lecture.parent / picture).is_file() for picture in pictures)
    assert lecture.read_bytes() == before
    assert {path.name for path in lecture.parent.iterdir()} == {
        "leaf.svg", f"{name}.Rmd", f"{name}.html", f"{name}_files"
    }  # fmt: skip


def test_without_the_hook_it_would_be_seen(lecture: Path) -> None:
    """The control."""
    done = r(f'rmarkdown::render("{lecture.name}", quiet = TRUE)')
    assert done.returncode == 0, done.stderr
    assert SECRET in lecture.with_suffix(".html").read_text(encoding="utf-8")


def test_errors_name_the_lines_of_the_source(lecture: Path) -> None:
    """The same lines as R names when it knits the source itself; nothing is left behind."""
    (lecture.parent / "broken").touch()
    place = re.compile(r"[Qq]uitting from lines? (\d+-\d+)|Quitting from \S+?:(\d+-\d+)")
    hooked, plain = r(PRESS_KNIT.format(lecture.name)), r(f'rmarkdown::render("{lecture.name}", quiet = TRUE)')
    found = [place.search(done.stderr) for done in (hooked, plain)]
    assert found[0] is not None, hooked.stderr
    assert found[1] is not None, plain.stderr
    assert found[0].groups() == found[1].groups()
    first, last = map(int, (found[0][1] or found[0][2]).split("-"))
    assert any('stop("no leaf")' in line for line in DOCUMENT.split("\n")[first - 1 : last])
    assert not list(lecture.parent.glob(".lmm-*"))


def test_knit_is_refused_while_an_edit_waits(lecture: Path) -> None:
    """With the line, and no page."""
    mark = "---\n~edit_:\n  edit: x\n  ~~id: 3f2a91\n---\n###### old text\n\nOld.\n\n<!-- lmm:new 3f2a91 -->\n"
    lecture.write_text(f"{DOCUMENT}\n{mark}###### new text\n\nNew.\n\n<!-- lmm:end 3f2a91 -->\n")
    done = r(PRESS_KNIT.format(lecture.name))
    assert done.returncode != 0
    assert re.search(r"lecture\.Rmd:\d+: an edit is pending here", done.stderr)
    assert not lecture.with_suffix(".html").exists()


def test_quarto_finds_clean_pages(folder: Path) -> None:
    """The pre-render command, run as Quarto runs it: in the project's folder, words apart at spaces."""
    with_files = files("lmm").joinpath("example/course")
    shutil.copytree(Path(str(with_files)), folder / "notes")
    words = QUARTO["project"]["pre-render"].split()
    environment = os.environ | {"QUARTO_PROJECT_DIR": str(folder), "QUARTO_PROJECT_RENDER_ALL": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pages = sorted(path for path in (folder / "pages").iterdir() if path.name != ".lmm-export")
    assert [path.name for path in pages] == ["01-linear-models.md", "02-inference.Rmd", "03-generalized.md"]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert "Exercise 1" not in text
        assert "docid" not in text
        source = (folder / "notes" / path.name).read_text(encoding="utf-8").split("\n")
        last = max(i for i, line in enumerate(source) if line.startswith("## ") and line != "## Exercises")
        assert text.split("\n")[last] == source[last]
    assert QUARTO["project"]["render"] == ["*.qmd", "pages/**"]


def test_pandoc_makes_the_golden_page() -> None:
    """What students see of a document with one of everything in it."""
    need("pandoc")
    source = (GOLDEN / "page.source").read_text(encoding="utf-8")
    notes = clean_notes(source)
    rendered = pandoc(notes.text, "html")
    assert rendered.status == 0, rendered.errors
    assert rendered.text == (GOLDEN / "page.html").read_text(encoding="utf-8")
    # Blank lines in place of what is gone change nothing in the page.
    assert pandoc(clean_notes(source, keep_lines=True).text, "html") == rendered


@pytest.mark.parametrize("name", ["01-linear-models.md", "03-generalized.md"])
def test_pandoc_shows_the_same_as_of_the_source_less_special_material(name: str) -> None:
    """Metadata is nothing to Pandoc in the source either: the text that stays is rendered the same."""
    need("pandoc")
    source = files("lmm").joinpath(f"example/course/{name}").read_text(encoding="utf-8")
    special = set(re.findall(r"^type: (\w+)$", source, re.MULTILINE))
    kept = pandoc(clean_notes(source, keep=special).text, "json")
    assert kept.blocks == pandoc(source, "json").blocks
    assert set(kept.meta) == {"title", "author", "date", "lang"}
