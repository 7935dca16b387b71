"""`lmm eval` as it is typed, on the German course that we wrote for it: the built-in models, real stores."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.support import lmm, run_here
from fakes.openai_server import Recorded, ScriptedServer

GERMAN = Path(__file__).parents[2] / "benchmarks" / "questions" / "german"
QUESTIONS = str(GERMAN / "questions.jsonl")
DOCUMENTS = ("--documents", str(GERMAN))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_figures_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "eval", QUESTIONS, *DOCUMENTS)
    assert (ran.code, ran.err) == (0, "")
    heading, passage, *_, last = ran.out.splitlines()
    assert heading.split() == ["%", "questions", "recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10"]
    assert passage.split()[:2] == ["passage", "84"]
    assert re.match(r"\d+ chunks of \d+ characters on average", last)
    found = json.loads(run_here(capsys, "eval", QUESTIONS, *DOCUMENTS, "--json", "--failures").out)
    assert found["passage"]["ndcg@10"] > 0.7
    assert found["section"]["recall@5"] > found["section"]["recall@1"] > 0.5
    assert len(found["failures"]) == round(84 * (1 - found["passage"]["recall@10"]))


def test_a_store_that_was_ingested_is_measured_as_it_is(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "config.toml").write_text('[RAG]\nlanguage = "de"\n', encoding="utf-8")
    assert run_here(capsys, "ingest", str(GERMAN)).code == 0
    ran = run_here(capsys, "eval", QUESTIONS, "--failures")
    assert ran.code == 0
    assert "by words alone" in ran.err
    assert "failed (passage)" in ran.out
    assert "instead:\n  1. " in ran.out


def test_a_comparison_as_the_manual_writes_it(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    words = ("encoding=content,hybrid", "max_size=800")
    ran = run_here(capsys, "eval", "compare", QUESTIONS, *words, *DOCUMENTS)
    first, second = ran.out.splitlines()[1:]
    assert first.startswith("encoding=content max_size=800 ")
    assert second.startswith("encoding=hybrid max_size=800 ")
    assert "+" in second
    assert "chance" not in second


def test_comparison_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "eval", "compare", QUESTIONS, "encoding=hybrid,content", *DOCUMENTS, "--json")
    found = json.loads(ran.out)
    assert [variant["label"] for variant in found["variants"]] == ["encoding=hybrid", "encoding=content"]
    (difference,) = found["differences"]
    assert difference["passage"]["ndcg@10"]["real"]
    assert difference["passage"]["ndcg@10"]["difference"] < -0.1


def test_rows_that_cannot_be_used_are_named_and_nothing_is_measured(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "mine.csv").write_text("question,document\nWhy?\nHow?,a.md\n", encoding="utf-8")
    ran = run_here(capsys, "eval", "mine.csv", *DOCUMENTS)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("mine.csv:2: 1 cell under 2 columns\n")
    (folder / "mine.csv").write_text("question,document\n", encoding="utf-8")
    ran = run_here(capsys, "eval", "mine.csv", *DOCUMENTS)
    assert ran.err == "mine.csv:1: this file has no questions\nlmm: 1 problem; nothing was measured\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", QUESTIONS, "encodng=content"), "did you mean 'encoding'"),
        (("compare", QUESTIONS), "there is nothing to compare"),
        (("compare", "encoding=content"), "there is no question file"),
        (("answers", QUESTIONS, "model=a,b", "--check", "right=9"), "--check and --failures are for one setting"),
        ((QUESTIONS, "notes.md"), "this is not a question file"),
        (("./answers",), "this is not a question file"),
        (("none.csv",), "none.csv: there is no such file"),
    ],
)
def test_mistakes_are_explained(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "eval", *words, *DOCUMENTS)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_nothing_ingested_yet() -> None:
    """In a process of its own: one line on standard error, no traceback."""
    ran = lmm("eval", QUESTIONS)
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    assert "ingest" in ran.err


def test_sub_questions_and_rerankers_are_settings_like_others(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """A reranker that puts the second passage first ruins what was right, and the comparison says so."""
    rows = Path(QUESTIONS).read_text(encoding="utf-8").splitlines()[:12]
    (folder / "few.jsonl").write_text("\n".join(rows), encoding="utf-8")

    def answer(request: Recorded) -> str:
        ranks = "You rank passages" in request.last
        return '{"best_first": [2, 1]}' if ranks else '{"texts": ["Was ist eine Stichprobe?"]}'

    with ScriptedServer(answer) as server:
        (folder / "config.toml").write_text(f'[aux]\nmodel = "OpenAICompatible/m"\nbase_url = "{server.url}"\n')
        words = ("rerank=none,model", "expand=0,2")
        ran = run_here(capsys, "eval", "compare", "few.jsonl", *words, *DOCUMENTS, "--json")
    assert ran.code == 0, ran.err
    plain, expanded, reranked, both = (v["passage"] for v in json.loads(ran.out)["variants"])
    assert plain["recall@1"] > reranked["recall@1"]
    assert plain["recall@5"] == pytest.approx(reranked["recall@5"], abs=0.2)
    assert expanded["questions"] == both["questions"] == 12
    asked = [request for request in server.requests if "You rank passages" not in request.last]
    assert len(asked) == 2 * 12, "each question once in two variants"


# -- answers ---------------------------------------------------------------------------------------


ANSWERS = """question,document,section,answers,facts
Was sagt der Median?,02-lage-und-streuung,Median und Quantile,Mitte|mittlere,
Wann ist ein Merkmal diskret?,01-daten-und-merkmale,Diskrete und stetige Merkmale,,einzelne Werte|zählen
Wer war der erste König von Dänemark?,,,,
"""


@pytest.fixture
def teacher(folder: Path) -> Iterator[ScriptedServer]:
    """A model that knows the median alone and cites the source on it; questions in ``answers.csv``."""
    (folder / "answers.csv").write_text(ANSWERS, encoding="utf-8")

    def answer(request: Recorded) -> str:
        if "Median" not in request.last.rpartition("<question>")[2]:
            return "Das weiß ich nicht."
        number = re.findall(r'<source number="(\d+)"[^>]* section="[^"]*Median und Quantile"', request.last)[0]
        return f"Er liegt in der MITTE. [{number}] Das sind 77 %. [{number}]"

    with ScriptedServer(answer) as server:
        model = f'model = "OpenAICompatible/m"\nbase_url = "{server.url}"\n'
        (folder / "config.toml").write_text(f'[major]\n{model}[aux]\n{model}[RAG]\nlanguage = "de"\n')
        yield server


def test_answers_are_right_cited_and_refused(capsys: pytest.CaptureFixture[str], teacher: ScriptedServer) -> None:
    ran = run_here(capsys, "eval", "answers", "answers.csv", *DOCUMENTS, "--json")
    found = json.loads(ran.out)
    means = {name: (value["value"], value["questions"]) for name, value in found.items() if "questions" in str(value)}
    assert means == {
        "answered": (0.5, 2),
        "right": (0.5, 2),
        "grounded": (0.5, 1),
        "precision": (1.0, 1),
        "recall": (0.5, 2),
        "refused": (1.0, 1),
    }
    assert found["tokens"]["input"] >= 3 * 11
    ran = run_here(capsys, "eval", "answers", "answers.csv", "model=OpenAICompatible/m", *DOCUMENTS, "--failures")
    assert "1 of 3 failed" in ran.out
    assert "expected einzelne Werte | zählen\n  said Das weiß ich nicht." in ran.out


def test_a_check_fails_where_a_measure_is_lower(capsys: pytest.CaptureFixture[str], teacher: ScriptedServer) -> None:
    words = ("eval", "answers", "answers.csv", *DOCUMENTS)
    ran = run_here(capsys, *words, "--check", "right=50", "--check", "refused=100")
    assert ran.code == 0
    ran = run_here(capsys, *words, "--check", "right=51")
    assert (ran.code, ran.err.splitlines()[-1]) == (1, "lmm: right is 50.0 %, less than 51 %")
    search = ("eval", "answers.csv", *DOCUMENTS)
    ran = run_here(capsys, *search, "--check", "recall@5=50")
    assert ran.code == 0
    assert "1 question without an answer not counted: lmm eval answers asks them" in ran.out
    ran = run_here(capsys, *search, "--check", "right=51")
    assert (ran.code, "'right' was not measured" in ran.err) == (2, True)


def test_answers_of_two_models_are_compared(capsys: pytest.CaptureFixture[str], teacher: ScriptedServer) -> None:
    words = ("eval", "answers", "answers.csv", "model=OpenAICompatible/m,Builtin/extractive", *DOCUMENTS)
    ran = run_here(capsys, *words, "--json")
    written, quoted = json.loads(ran.out)["variants"]
    assert (written["model"], quoted["model"]) == ("OpenAICompatible/m", "Builtin/extractive")
    assert "may be chance" in run_here(capsys, *words).out
    ran = run_here(capsys, "eval", "compare", *words[2:])
    assert (ran.code, "lmm eval answers" in ran.err) == (2, True)
