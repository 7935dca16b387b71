"""Exercises as questions for learning platforms. Judges: Moodle's GIFT grammar (npm's gift-pegjs, in the folder that
$LMM_TEST_GIFT names) and the schema of QTI 2.1 ($LMM_TEST_QTI names imsqti_v2p1.xsd); skipped without them."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from lmm.cli.main import main
from lmm.errors import LmmError
from lmm_education import Course
from lmm_education.study.exercises import Exercise
from lmm_education.study.quiz import question_of, save_quiz

TEXT = r"""---
title: "Leaves & <roots>"
docid: leaves
---

# Colour {#c}

---
type: exercise
choices: [Chlorophyll, 'Carotene, $\lambda = \{450\}$ ~ 5', "*Water*: H~2~O"]
solution: chlorophyll
---
Which pigment makes leaves **green**? {a = b ~ c # d : e \ f}

---
type: solution
---
It absorbs red and blue light: $E < h\nu$ & more.

---
type: exercise
choices: [red, green, blue]
solution: [red, blue]
id: light
---
Which light is absorbed?

---
type: exercise
solution: -3.93
tolerance: 0.05
---
Compute $\frac{a}{b}$. ![A leaf](leaf.png "Leaf")

::: {.exercise}
| a | b |
|--:|:--|
| ~~1~~ | `2 < 3` |

3. Why?
4. How?

```r
x <- c("a", "b")  # code
```

> See <https://example.org/?a=1&b=2>. <b>raw</b>

$$\sum_{i=1}^n x_i$$
:::

::: {.solution}
Because of the SECRET pigment.
:::

# Exercises

1. Why is one leaf red?
2. Why is one leaf red?
"""
PICTURE = b"\x89PNG\r\n\x1a\nleaf"
SECRETS = ("absorbs red and blue", "SECRET", "3.93", "0.05")


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Exercise]:
    """Six exercises of all kinds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaves.md").write_text(TEXT)
    (tmp_path / "leaf.png").write_bytes(PICTURE)
    with Course.open(tmp_path) as course:
        return course.exercises("leaves.md")


def test_moodle_xml(found: list[Exercise]) -> None:
    """The right kinds, fractions, formulas, pictures and feedback."""
    assert save_quiz(Path("q.xml"), found, solutions=True) == 3
    questions = ET.parse("q.xml").getroot().findall("question")
    assert [each.get("type") for each in questions] == ["multichoice"] * 2 + ["numerical"] + ["essay"] * 3
    one, several, number, essay, *_ = questions
    assert [each.get("fraction") for each in one.findall("answer")] == ["100", "0", "0"]
    assert [each.get("fraction") for each in several.findall("answer")] == ["50", "-50", "50"]
    assert number.findtext("answer/text") == "-3.93"
    assert number.findtext("answer/tolerance") == "0.05"
    text = number.findtext("questiontext/text") or ""
    assert r"\(\frac{a}{b}\)" in text
    file = number.find("questiontext/file")
    assert file is not None
    assert f"@@PLUGINFILE@@/{file.get('name')}" in text
    assert base64.b64decode(file.text or "") == PICTURE
    assert r"\(E &lt; h\nu\) &amp; more" in (one.findtext("generalfeedback/text") or "")
    assert "SECRET" in (essay.findtext("generalfeedback/text") or "")


@pytest.mark.parametrize("suffix", [".xml", ".gift", ".zip"])
def test_without_solutions_there_are_none(found: list[Exercise], suffix: str) -> None:
    """Every question is answered by a free text, choices are listed; and the same file comes out each time."""
    file = Path(f"q{suffix}")
    save_quiz(file, found, solutions=False)
    first = file.read_bytes()
    text = everything_in(first, suffix)
    assert not [secret for secret in SECRETS if secret in text]
    assert "Carotene" in text
    assert not re.search(r"multichoice|numerical|correctResponse|^=|\{[=~#]", text, re.MULTILINE)
    save_quiz(file, found, solutions=False)
    assert file.read_bytes() == first


def everything_in(data: bytes, suffix: str) -> str:
    """The text of a file, or of those in an archive."""
    if suffix != ".zip":
        return data.decode()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return "".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())


def test_ids_stay(found: list[Exercise]) -> None:
    """One id for each exercise, on every export, in every format; equal texts have different ones."""
    ids = [each.id for each in found]
    assert len(set(ids)) == 6
    for name in ("q.xml", "q.gift", "q.zip"):
        for solutions in (False, True):
            save_quiz(Path(name), found, solutions=solutions)
            text = everything_in(Path(name).read_bytes(), name[1:])
            assert all(each in text for each in ids)
    with Course.open() as course:
        Path("leaves.md").write_text(TEXT.replace("Which light is absorbed", "Which light is it").replace("-3.93", "7"))
        assert [each.id for each in course.exercises("leaves.md")] == ids


def test_gift_is_that_of_moodle(found: list[Exercise]) -> None:
    """The grammar reads every question, with the text that was meant."""
    if not (modules := os.environ.get("LMM_TEST_GIFT")):
        pytest.skip("LMM_TEST_GIFT names no folder with gift-pegjs")
    save_quiz(Path("q.gift"), found, solutions=True)
    script = "console.log(JSON.stringify(require('gift-pegjs').parse(require('fs').readFileSync('q.gift', 'utf8'))))"
    ran = subprocess.run(
        ["node", "-e", script], env={**os.environ, "NODE_PATH": modules}, capture_output=True, check=True
    )
    questions = json.loads(ran.stdout)
    assert [each["type"] for each in questions] == ["MC", "MC", "Numerical", "Essay", "Essay", "Essay"]
    assert [each["id"] for each in questions] == [each.id for each in found]
    assert "{a = b ~ c # d : e \\ f}" in questions[0]["stem"]["text"]
    assert [each["isCorrect"] for each in questions[0]["choices"]] == [True, False, False]
    assert questions[0]["choices"][1]["text"]["text"] == r"Carotene, \(\lambda = \{450\}\) ~ 5"
    assert [each["weight"] for each in questions[1]["choices"]] == [50, -50, 50]
    assert questions[2]["choices"] == {"type": "range", "number": -3.93, "range": 0.05}
    assert f'"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"' in questions[2]["stem"]["text"]


def test_qti_fits_the_schema(found: list[Exercise]) -> None:
    """Every item, with and without solutions; the manifest lists every file."""
    etree = pytest.importorskip("lxml.etree")
    if not (path := os.environ.get("LMM_TEST_QTI")):
        pytest.skip("LMM_TEST_QTI names no schema")
    schema = etree.XMLSchema(etree.parse(path, etree.XMLParser(no_network=True)))
    for solutions in (True, False):
        save_quiz(Path("q.zip"), found, solutions=solutions)
        with zipfile.ZipFile("q.zip") as archive:
            *files, manifest = archive.namelist()
            for name in files:
                if name.endswith(".xml"):
                    schema.assertValid(etree.fromstring(archive.read(name)))
            assert sorted(re.findall(r'<file href="([^"]+)"/>', archive.read(manifest).decode())) == sorted(files)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tolerance: 0.05", "tolerance: some", "'some' is not a number"),
        ("3.93", "3.93 kg", "'.3.93 kg' is not a number"),
    ],
)
def test_a_tolerance_is_a_number_for_a_number(found: list[Exercise], old: str, new: str, said: str) -> None:
    """The error names the exercise, which would not be graded."""
    Path("leaves.md").write_text(TEXT.replace(old, new))
    with Course.open() as course, pytest.raises(LmmError, match=rf"leaves\.md:\d+: tolerance: .*{said}"):
        save_quiz(Path("q.xml"), course.exercises("leaves.md"), solutions=True)


def test_choices_are_shown_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, dates and `true` keep their form; a mapping may say which is right, and students do not see that."""
    monkeypatch.chdir(tmp_path)
    text = """# Regression

---
type: exercise
choices:
  - text: 3.930
    correct: true
  - {correct: false, text: 2020-01-05}
  - text: true
  - other
---
What is it?

---
type: exercise
choices: [3.930, 1_000, true, 2020-01-05, null]
solution: 3.930
---
Which?
"""
    Path("regression.md").write_text(text)
    with Course.open() as course:
        one, other = (question_of(each, solutions=True) for each in course.exercises("regression.md"))
        assert one.choices == (("3.930", True), ("2020-01-05", False), ("true", False), ("other", False))
        assert other.choices[:2] == (("3.930", True), ("1_000", False))
        assert [choice for choice, _ in other.choices[2:]] == ["true", "2020-01-05", "null"]
        assert one.name == "Regression › 1"
        course.ingest("regression.md")
        shown, _ = course.for_students().exercises()
        assert (shown.choices, shown.solution) == (("3.930", "2020-01-05", "true", "other"), "")
        Path("regression.md").write_text(text.replace("text: true", "right: true"))
        with pytest.raises(LmmError, match=r"regression\.md:\d+: a choice has no text"):
            question_of(course.exercises("regression.md")[0], solutions=True)


def test_no_exercises_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code says that nothing was written."""
    monkeypatch.chdir(tmp_path)
    Path("none.md").write_text("# Leaves\n\nThey are green.\n")
    assert main(["exercises", "none.md", "-o", "q.xml"]) == 1
    assert not Path("q.xml").exists()
