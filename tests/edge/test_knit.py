"""Questions and answers in a document change nothing in what is rendered from it, and run nothing.

Shown with the real Pandoc, knitr and R Markdown. Each claim has a control: the replies would run, or
would reach the output, if they were written in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import pytest
import talking
from edge.knit_replies import REPLIES, TOKEN, Reply
from edge.knit_tools import Batch, Job, has_line, need, pandoc, pandoc_all, r_strings
from hypothesis import given, settings, strategies as st
from strategies import texts

from lmm import Document
from lmm.markdown import metadata, yaml_core
from lmm.markdown.blocks import MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.notebook.chat_log import LOG, ChatExchange, log_exchange, read_log
from lmm.testing import ScriptedModel

pytestmark = pytest.mark.knit

GOLDEN = Path(__file__).parent.parent / "golden" / "knit"
DOCUMENTS = {path.name: path.read_bytes().decode() for path in sorted(GOLDEN.iterdir())}
DOCUMENTS["crlf.md"] = DOCUMENTS["paper.md"].replace("\n", "\r\n")
DOCUMENTS["bom.md"] = "\ufeff" + DOCUMENTS["blocks.md"]
MARKDOWN = [name for name in DOCUMENTS if name.endswith(".md")]
KNITTED = [name for name in DOCUMENTS if not name.endswith(".md")]


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A journal of our own, and no configuration but the default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("empty"))
        patch.setenv("LMM_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


def answered(text: str, replies: list[str]) -> str:
    """The document with every pending prompt answered, none failing."""
    outcome = talking.answered(text, again=True, model=ScriptedModel(replies))
    assert not outcome.failures, outcome.failures
    assert outcome.answers
    return outcome.text


def logged(text: str) -> list[str]:
    """All replies in a document's logs."""
    blocks = [block for block in parse_markdown_text(text) if isinstance(block, MetadataBlock)]
    return [exchange.reply for block in blocks for exchange in read_log(block.values())]


@lru_cache
def rotations(name: str) -> list[str]:
    """A golden document, answered as often as it takes for every reply to have stood in it."""
    text = DOCUMENTS[name]
    count = sum(len(block.prompts) for block in parse_markdown_text(text) if isinstance(block, MetadataBlock))
    replies = [reply.text for reply in REPLIES]
    starts = range(0, len(replies), count)
    return [answered(text, (replies + replies)[start : start + count]) for start in starts]


# -- Pandoc --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_reply_comes_back_from_a_document(name: str) -> None:
    """Clearing removes all of it: the documents that are compared below are the right ones."""
    texts_ = rotations(name)
    assert {reply.text for reply in REPLIES} <= {reply for text in texts_ for reply in logged(text)}
    assert len({talking.cleared(text) for text in texts_}) == 1
    assert TOKEN not in talking.cleared(texts_[0])


@pytest.mark.parametrize("name", MARKDOWN)
def test_pandoc_renders_an_answered_document_as_without_its_chats(name: str) -> None:
    """The same blocks and the same metadata: JSON holds all that a page is made of."""
    need("pandoc")
    answers = rotations(name)
    expected, *found = pandoc_all([talking.cleared(answers[0]), *answers], "json")
    assert expected.status == 0, expected.errors
    assert all(rendered == expected for rendered in found)
    assert TOKEN not in expected.text


def test_without_the_underscore_a_chat_would_reach_pandoc() -> None:
    """The control: ``~chat`` is metadata to Pandoc, and a macro defined in it changes the text."""
    need("pandoc")
    text = answered("# A\n\n---\n?: |\n  why\n---\n$\\vect{x}$\n", ["\\newcommand{\\vect}[1]{SECRET}"])
    assert TOKEN not in pandoc(text, "json").text
    leaking = pandoc(text.replace(LOG, "~chat"), "json")
    assert "~chat" in leaking.meta
    assert TOKEN in str(leaking.blocks)


PROMPT = "?: |\n  why\n"
PLACES = {
    "start": f"---\n{PROMPT}---\nText.\n",
    "start, dots": f"---\n{PROMPT}...\nText.\n",
    "after blank lines": f"\n\n---\n{PROMPT}---\nText.\n",
    "after text": f"P\n\n---\n{PROMPT}---\nText.\n",
    "dots": f"P\n\n---\n{PROMPT}...\nText.\n",
    "spaces after the markers": f"P\n\n---  \n{PROMPT}---\t\nText.\n",
    "after heading": f"# H\n\n---\n{PROMPT}---\nText.\n",
    "directly after heading": f"# H\n---\n{PROMPT}---\nText.\n",
    "directly after heading, dots": f"# H\n---\n{PROMPT}...\nText.\n",
    "directly after heading, CRLF": f"# H\n---\n{PROMPT}---\nText.\n".replace("\n", "\r\n"),
    "directly after heading, with a key": f"# H\n---\ntype: x\n{PROMPT}---\nText.\n",
    "two directly after heading": f"# H\n---\n{PROMPT}---\n---\n{PROMPT}---\nText.\n",
    "before heading": f"P\n\n---\n{PROMPT}---\n# H\n",
    "directly after metadata": f"P\n\n---\ntype: x\n---\n---\n{PROMPT}---\nText.\n",
    "directly after fence": f"```\nx\n```\n---\n{PROMPT}---\nText.\n",
    "directly after indented fence": f"  ~~~ x\n  y\n  ~~~ \n---\n{PROMPT}---\nText.\n",
    "directly after fence in text": f"P\n```\nx\n```\n---\n{PROMPT}---\nText.\n",
    "directly after comment": f"<!-- x -->\n---\n{PROMPT}---\nText.\n",
    "directly after long comment": f"<!-- x\n\ny -->\n---\n{PROMPT}---\nText.\n",
    "directly after indented comment": f"   <!-- x\ny -->\n---\n{PROMPT}---\nText.\n",
    "directly after comment in text": f"P\n<!-- x\ny -->\n---\n{PROMPT}---\nText.\n",
    "directly after equation": f"$$\nx\n$$\n---\n{PROMPT}---\nText.\n",
    "directly after equation on a line": f"$$x$$\n---\n{PROMPT}---\nText.\n",
    "comment on opening": f"P\n\n--- # c\n{PROMPT}---\nText.\n",
    "comment on closing": f"P\n\n---\n{PROMPT}--- # c\nText.\n",
    "comment on dots": f"P\n\n---\n{PROMPT}... # c\nText.\n",
    "comment inside": f"P\n\n---\n# c\n{PROMPT}---\nText.\n",
    "list": "P\n\n---\n- type: x\n- lang: y\n?: why\n---\nText.\n",
    "in div": f"::: note\n\n---\n{PROMPT}---\nText.\n\n:::\n",
    "before list": f"P\n\n---\n{PROMPT}---\n- item\n",
    "before code": f"P\n\n---\n{PROMPT}---\n    code\n",
    "after quotation": f"> q\n\n---\n{PROMPT}---\n> r\n",
    "after definition": f"T\n\n:   D.\n\n---\n{PROMPT}---\nText.\n",
    "after definition, dots": f"T\n\n:   D.\n\n---\n{PROMPT}...\nText.\n",
    "after definition, before div": f"T\n\n:   D.\n\n\n---\n{PROMPT}---\n::: a\n\nx\n\n:::\n",
    "after tight definition": f"T\n:   D.\n\n---\n{PROMPT}---\nText.\n",
    "after long definition": f"T\n\n:   D.\n\n    More.\n\n---\n{PROMPT}---\nText.\n",
    "after caption": f"| a |\n|---|\n| 1 |\n\n: C\n\n---\n{PROMPT}---\nText.\n",
    "after word caption": f"| a |\n|---|\n| 1 |\n\nTable: C\n\n---\n{PROMPT}---\nText.\n",
    "after caption without table": f"P\n\nTable: C\n\n---\n{PROMPT}---\nText.\n",
    "end": f"P\n\n---\n{PROMPT}---",
    "title block": f"% T\n\n---\n{PROMPT}---\nText.\n",
}


def test_metadata_that_pandoc_takes_for_text_is_reported() -> None:
    """We read a few more blocks as metadata than Pandoc; there, and only there, `scan` warns of leaks.

    To Pandoc, ``# H`` and ``---`` on the next line are a setext heading, an equation begins a paragraph,
    markers bear no comment, and a list is not metadata.
    """
    need("pandoc")
    asked = [answered(text, [f"{TOKEN}\n\n# H\n\n@doe99", TOKEN]) for text in PLACES.values()]
    rendered = pandoc_all([*asked, *map(talking.cleared, asked)], "json")
    for place, text, found, expected in zip(PLACES, asked, rendered, rendered[len(asked) :], strict=False):
        warned = any("as text" in problem.message for problem in Document.from_text(text).problems(gaps=True))
        assert warned == (found != expected) == (TOKEN in str(found.blocks)), place


def test_annotations_after_a_definition_end_with_dots() -> None:
    """With three hyphens, Pandoc would take the definition for a table's caption, and the annotation for its row."""
    need("pandoc")
    text = "---\ntitle: T\n---\n\n# A\n\nLeaf\n\n:   What is green.\n\n## B\n\nWater moves upwards in stems.\n"
    document = Document.from_text(text)
    document.annotate("titles")
    assert "...\n## B" in document.text
    assert pandoc(document.text, "json").blocks == pandoc(text, "json").blocks
    assert not document.problems()


@settings(max_examples=15)
@given(st.lists(st.tuples(texts(), texts()), min_size=1, max_size=15))
def test_no_text_reaches_pandoc_from_a_log(exchanges: list[tuple[str, str]]) -> None:
    """Whatever was asked and answered, Pandoc accepts the block and sees nothing of it."""
    need("pandoc")
    pieces = [f"---\n{_log(prompt, reply)}---\nText {i}.\n\n" for i, (prompt, reply) in enumerate(exchanges)]
    expected = "".join(f"Text {i}.\n\n" for i in range(len(exchanges)))
    rendered = pandoc("".join(pieces), "json")
    assert rendered.status == 0, rendered.errors
    assert rendered == pandoc(expected, "json")


def _log(prompt: str, reply: str) -> str:
    return yaml_core.entry(LOG, [ChatExchange("query", prompt, reply, "Scripted/replies").as_metadata()])


# -- pending prompts -----------------------------------------------------------------------------

PENDING = r"""
?: why?
?: is this right: yes or no?
?: is this right: yes or no? # honestly
?: what # is
?:x
?:
?:\n  why
+: more
+: a\n+: b
?: a\n+: b: c
?: a\n?: b
=: shorter
title_: x\n?: a: b
- type_: x\nquery: what
note_: &x a\nquery: *x
note_: &x a\nquery: *y
query: see @doe99
query: @doe99 says
query: `x` what
query: % of what
query: 50% of what
query: [a, b
query: [a] why
query: [a, b]
query: [a: b]
query: ["why]
query: [a]]
query: [a\nb]
query: {a} why
query: {a}
query: {a: b}
query: {a, b: }
query: {{a}}
query: {{< meta x >}}
query: {a: b, [c]: d}
query: *why* this
query: **why** this
query: &why this
query: !why this
query: ! why
query: !!int x
query: "why" this
query: "why this
query: "why"\n  more
query: "why\n  more"
query: "why\nmore"
query: "\\q"
query: "a\\x"
query: 'why' this
query: 'it''s'
query: 'it's'
query: it's
query: why "this"
query: | why
query: > why
query: |\n  why: # not
query: |\n  `x
query: |x\n  why
query: |2\n  why
query: |9\n  why
query: |+\n  why
query: | # c\n  why
query: |#c\n  why
query: |\n    why\n  not
query: |\n  why\n not
query: |\n\twhy
query: >\n  why: not
query: - why
query: -why
query: ? why
query: ?why
query: : why
query: :why
query: why:
query: a:b
query: a :b
query: \twhy
query: why\t# not
query: a\n\tb
query: why\n  more
query: why\n  more: text
query: a\n\n  b
query:\n  why: a
query:\n  - a\n  b
query: ---
query: ...
query: , what
query: ] what
query: #what
query: # Heading
query: <b>what</b>
query: ~
query: ~~~
query: =why
<<: why
query: 2025-01-01
query: a\u2028b
query: \ufeffa
query: \\newcommand{\\x}{y}
query: $$x$$
query: ^[note: x]
query: @
query: `
query: "
query: %
query: \U0001f600: what
""".strip().split("\n")
PENDING = [re.sub(r"\\(\\|n|t|u\w{4}|U\w{8})", lambda m: m[0].encode().decode("unicode_escape"), p) for p in PENDING]


@pytest.mark.parametrize("before", ["", "# Title\n\nText.\n\n"], ids=["header", "block"])
def test_what_pandoc_refuses_is_reported(before: str) -> None:
    """A pending prompt is warned about exactly where Pandoc cannot read the document."""
    need("pandoc")
    documents = [f"{before}---\n{prompt}\n---\n\nText.\n" for prompt in PENDING]
    found = [_is_refused_by_scan(document) for document in documents]
    real = [rendered.status == 64 for rendered in pandoc_all(documents, "json")]
    assert [p for p, a, b in zip(PENDING, found, real, strict=True) if a != b] == []
    assert 20 < sum(real) < len(real) - 20


@pytest.mark.parametrize("before", ["# T\n", "Text.\n\n# T\n\n", "```\nx\n```\n"])
def test_a_prompt_is_refused_only_where_pandoc_sees_metadata(before: str) -> None:
    """Directly after a heading Pandoc sees none, so it refuses nothing."""
    need("pandoc")
    document = f"{before}---\n?: a: b: c\n---\n\nText.\n"
    assert _is_refused_by_scan(document) == (pandoc(document, "json").status == 64)


def test_the_suggested_spelling_is_safe() -> None:
    """Every prompt passes Pandoc as a block scalar, and asks the same (YAML gives it a final line end)."""
    need("pandoc")
    prompts = [prompt for source in PENDING for prompt in _prompts(source) if prompt.strip() and prompt.isprintable()]
    documents = [f"# T\n\n---\n?: |\n  {prompt}\n---\n\nText.\n" for prompt in prompts]
    assert [_prompts(f"?: |\n  {prompt}\n") for prompt in prompts] == [[prompt] for prompt in prompts]
    assert {rendered.status for rendered in pandoc_all(documents, "json")} == {0}
    assert not any(_is_refused_by_scan(document) for document in documents)


def test_the_hint_names_the_prompt_that_is_refused() -> None:
    """Of several prompts, the one to rewrite."""
    (problem,) = Document.from_text("---\ntitle: x\ndocid: y\n?: fine\n+: a: b\n---\n").problems()
    assert problem.line == 5
    assert "'+: |'" in problem.hint


def _is_refused_by_scan(document: str) -> bool:
    return any("Pandoc cannot read" in problem.message for problem in Document.from_text(document).problems(gaps=True))


def _prompts(body: str) -> list[str]:
    return [prompt.text for prompt in MetadataBlock(f"---\n{body}\n---\n", 1).prompts]


# -- knitr and R Markdown ------------------------------------------------------------------------

CODE = 'cat("x", file = "ran-prompt")'
PENDING_CODE = [
    f"?: what is `r {CODE}`?",
    f'query: "what is `r {CODE}`?"',
    f"?: what is ``r {CODE}``?",
    f"+: |\n  what is `r#\n  {CODE}`?",
    f"query: |\n  ```{{r}}\n  {CODE}\n  ```",
    f"query: >\n  > ```{{r, echo=FALSE}}\n  > {CODE}\n  > ```",
    f"?: ```{{r}} {CODE}",
    f"?: the letter `r`, and {CODE}",
    f"?: |\n  ```r\n  {CODE}\n  ```",
    f"?: |\n  ~~~{{r}}\n  {CODE}\n  ~~~",
]
HEADERS = ["?: a\n+: b\n", "+: a\n+: b\n", "?: a\nquery: b\n"]


@dataclass
class Knits:
    """Everything that R was given, by what it shows."""

    clean: dict[str, Job]
    answers: dict[str, list[Job]]
    rendered: dict[str, list[Job]]
    lecture: tuple[Job, Job]
    naive: dict[tuple[str, str], Job]
    quiet: dict[str, Job]
    fixed: dict[str, Job]
    guessed: list[Job]
    pending: list[Job]
    headers: list[Job]


@pytest.fixture(scope="module")
def knits(state: None, tmp_path_factory: pytest.TempPathFactory) -> Knits:
    """All documents, knitted at once."""
    need("pandoc")
    need("Rscript", "knitr", "rmarkdown")
    batch = Batch(tmp_path_factory.mktemp("knit"))
    lecture = files("lmm").joinpath("example/course/02-inference.Rmd").read_text(encoding="utf-8")
    built = answered_by_builtin_model(lecture)
    answers = {name: rotations(name) for name in KNITTED}
    clean = {name: talking.cleared(texts_[0]) for name, texts_ in answers.items()}
    guessed = answered(GUESSED, [reply.text for reply in REPLIES if reply.runs])
    done = Knits(
        lecture=(batch.add("knit", "lecture.Rmd", lecture), batch.add("knit", "lecture.Rmd", built)),
        clean={name: batch.add("knit", name, text) for name, text in clean.items()},
        answers={name: [batch.add("knit", name, text) for text in texts_] for name, texts_ in answers.items()},
        rendered={
            name: [batch.add("render", name, text) for text in (clean[name], answers[name][0], tagged(name))]
            for name in KNITTED
            if name.endswith(".Rmd")
        },
        naive={
            (kind, reply.name): batch.add(kind, "naive.Rmd", naive(reply))
            for kind, ways in ACTS.items()
            for reply in REPLIES
            if reply.runs in ways
        },
        quiet={
            kind: batch.add(kind, "naive.Rmd", naive(*[reply for reply in REPLIES if reply.runs not in ways]))
            for kind, ways in ACTS.items()
        },
        fixed={
            kind: batch.add(kind, "fixed.Rmd", talking.fixed(naive(*[reply for reply in REPLIES if reply.runs])))
            for kind in ACTS
        },
        guessed=[batch.add("text", "text.Rmd", text) for text in (talking.cleared(guessed), guessed)],
        pending=[batch.add("knit", "p.Rmd", f"Text.\n\n---\n{p}\n---\nText.\n") for p in PENDING_CODE],
        headers=[batch.add("render", "h.Rmd", f"---\ntitle: T\n{header}---\n\nText.\n") for header in HEADERS],
    )
    batch.run()
    return done


def tagged(name: str) -> str:
    """A golden document with every prompt answered by a YAML tag that R Markdown evaluates in headers."""
    return answered(DOCUMENTS[name], [reply.text for reply in REPLIES if reply.name == "yaml-tag"] * 20)


ACTS = {"knit": {"file"}, "text": {"file", "text"}}
"""The replies that knitr acts on, by how it gets the document."""
GUESSED = "# T\n\n---\n" + "?: |\n  why\n" * sum(bool(reply.runs) for reply in REPLIES)
GUESSED += "---\nText.\n\n```{r}\n1 + 1\n```\n"


def naive(*replies: Reply) -> str:
    """A document with replies in YAML as they are (R reads no NUL): what a writer does who knows no knitr."""
    log = "---\n~chat_:\n"
    for reply in replies:
        lines = "".join(f"      {line}\n" for line in reply.text.replace("\0", "").split("\n"))
        log += f"  - query: why\n    ~reply: |-\n{lines}"
    return f"Text.\n\n{log}---\nText.\n\n```{{r setup}}\n1 + 1\n```\n"


def answered_by_builtin_model(lecture: str) -> str:
    """The lecture with a question before every heading and in the header, answered offline."""
    asked = re.sub(r"\n\n(?=#+ )", "\n\n---\n?: |\n  What does this say about the p-value and `lm`?\n---\n", lecture)
    asked = asked.replace("lang: en\n", "lang: en\n?: |\n  What is the lecture about?\n+: |\n  And in R?\n", 1)
    outcome = talking.answered(asked, model="Builtin/extractive", again=True)
    assert len(outcome.answers) > 8
    assert not outcome.failures
    assert talking.cleared(outcome.text) == lecture
    return outcome.text


@pytest.mark.parametrize("name", KNITTED)
def test_knitr_makes_the_same_of_an_answered_document(name: str, knits: Knits) -> None:
    """Through knitr and Pandoc: the same page and metadata, with nothing of a reply run, shown or changed."""
    expected = knits.clean[name].output
    outputs = [job.output for job in knits.answers[name]]
    assert not any(job.ran for job in knits.answers[name])
    # knitr adds a blank line between text and a chunk's output, but not after metadata.
    assert {squeezed(talking.cleared(output)) for output in outputs} == {squeezed(expected)}
    assert {reply.text for reply in REPLIES} <= {reply for output in outputs for reply in logged(output)}
    clean, *found = pandoc_all([expected, *outputs], "json")  # which holds all that a page is made of
    assert clean.status == 0, clean.errors
    assert all(rendered == clean for rendered in found)
    assert TOKEN not in clean.text


def test_r_markdown_renders_an_answered_document_the_same(knits: Knits) -> None:
    """`rmarkdown::render`, which also evaluates tags and parameters of the header."""
    assert len(knits.rendered) == 2
    for clean, *with_chat in knits.rendered.values():
        assert {job.output for job in with_chat} == {clean.output}
        assert TOKEN not in clean.output
        assert not any(job.ran for job in with_chat)


def test_the_example_lecture_knits_the_same_with_answers(knits: Knits) -> None:
    """The bundled lecture, asked and answered by the built-in model."""
    clean, with_chat = knits.lecture
    assert squeezed(talking.cleared(with_chat.output)) == squeezed(clean.output)
    assert pandoc(with_chat.output, "json") == pandoc(clean.output, "json")


def test_knitting_a_text_without_a_file_name_is_safe_too(knits: Knits) -> None:
    """knitr guesses the format of a bare text from its content; a reply must not decide that."""
    clean, *with_chat = knits.guessed
    assert "## [1] 2" in clean.output
    assert {squeezed(talking.cleared(job.output)) for job in with_chat} == {squeezed(clean.output)}
    assert not any(job.ran for job in with_chat)


@pytest.mark.parametrize("kind", ACTS)
def test_the_replies_would_run_if_they_were_written_as_they_are(kind: str, knits: Knits) -> None:
    """The control: knitr acts on exactly the replies that say so when they stand in a plain block scalar."""
    assert [name for (way, name), job in knits.naive.items() if way == kind and not acted_on(job)] == []
    assert not acted_on(knits.quiet[kind])


def test_scan_makes_replies_safe_that_others_wrote(knits: Knits) -> None:
    """Every reply that knitr acts on is an error with its line; with `fix` it is the same reply, and only read."""
    for reply in REPLIES:
        text = naive(reply)
        found = [
            problem.line for problem in Document.from_text(text).problems(gaps=True) if "would run" in problem.message
        ]
        if reply.runs:
            assert found == [6], reply.name
            document = Document.from_text(text)
            assert document.fix() == 1
            assert logged(document.text) == logged(text)
            assert not [problem for problem in document.problems() if "would run" in problem.message]
    assert [kind for kind, job in knits.fixed.items() if acted_on(job)] == []


def acted_on(job: Job) -> bool:
    """Whether knitr ran something, stumbled, or put something else in the place of the metadata."""
    source = (job.folder / job.file).read_bytes().decode()
    metadata = squeezed(source[source.index("---\n") : source.index("---\nText.")])
    return bool(job.ran or job.failure) or metadata not in squeezed(job.output)


def squeezed(text: str) -> str:
    """`text` with every blank line and every other way to end a line made a plain one."""
    return re.sub(r"[\r\n]+", "\n", text)


QUARTO = {"include", "inline-quarto", "inline-python"}


def test_only_what_would_run_is_escaped() -> None:
    """A reply that no program acts on stays readable; the ones only Quarto acts on are known by name."""
    escaped = {reply.name for reply in REPLIES if yaml_core.runs_in_knitr(reply.text)}
    assert escaped == {reply.name for reply in REPLIES if reply.runs} | QUARTO


def test_pending_prompts_with_code_are_reported(knits: Knits) -> None:
    """A prompt whose code knitr would run before it is answered, and no other."""
    warned = [_mentions("knitr", job) for job in knits.pending]
    assert warned == [acted_on(job) for job in knits.pending]
    assert set(warned) == {True, False}


def test_headers_that_r_markdown_refuses_are_reported(knits: Knits) -> None:
    """R's YAML reader refuses a key that stands twice, which several prompts of one kind are."""
    assert [_mentions("R Markdown cannot read", job) for job in knits.headers] == [
        bool(j.failure) for j in knits.headers
    ]
    assert [bool(job.failure) for job in knits.headers] == [False, True, False]


def _mentions(words: str, job: Job) -> bool:
    text = (job.folder / job.file).read_text(encoding="utf-8")
    return any(words in problem.message for problem in Document.from_text(text).problems(gaps=True))


# -- the rule behind it, for any reply -----------------------------------------------------------

# knitr::all_patterns$md, as Python's expressions, and Quarto's (src/core/lib/break-quarto-md.ts,
# parse-shortcode.ts; its inline code as in execute-inline.ts).
CHUNK_SOURCE = "^[\t >]*```+\\s*\\{([a-zA-Z0-9_]+( *[ ,].*)?)\\}\\s*$"
INLINE_SOURCE = "(?<!(^``))(?<!(\n``))`r[ #]([^`]+)\\s*`"
CHUNK = re.compile(CHUNK_SOURCE)
INLINE = re.compile(r"(?<!\A``)(?<!\n``)`r[ #]([^`]+)\s*`")
QUARTO_LINES = [re.compile(r"^\s*```+\s*\{([A-Za-z]+)( *[ ,].*)?\}\s*$"), re.compile(r"^\s*\{\{< (.+?) >\}\}\s*$")]
QUARTO_INLINE = re.compile(r"(?:^|[^`])`\{(\w+)\}[ \t]([^`]+)`")

_PIECES = [
    *("`", "``", "```", "````", "r", "r ", "r#", "{r}", "{r, a=1}", "{python}", "{", "}", "{{< include a >}}", "{{<"),
    *(" ", "  ", "\n", "\n\n", "\t", ">", "> ", "1", "x ", "---\n", "\r\n", "\r", "\u2003", "'", '"', "#"),
]


def _code_like() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(_PIECES), max_size=14).map("".join) | texts()


def test_the_patterns_are_knitrs_own() -> None:
    """If this fails, knitr has a new syntax: see whether `yaml_core.runs_in_knitr` still covers it."""
    need("Rscript", "knitr", "jsonlite")
    found = r_strings("unlist(knitr::all_patterns$md[c('chunk.begin', 'inline.code')], use.names = FALSE)")
    assert found == [CHUNK_SOURCE, INLINE_SOURCE]


@pytest.mark.parametrize("body", ["", "type: x\n", "~chat_:\n- query: a\n  ~reply: b\n", "  type: x\n"])
@given(prompt=_code_like(), reply=_code_like(), newline=st.sampled_from(["\n", "\r\n"]))
def test_no_line_of_a_log_is_code_to_knitr(body: str, prompt: str, reply: str, newline: str) -> None:
    """For any prompt and reply, in every form of block, nothing in it matches knitr's patterns or Quarto's."""
    pending = "?: |\n" + "".join(f"  {line}\n" for line in re.split(r"\r\n|\r|\n", prompt))
    block = MetadataBlock(f"---\n{body}{pending}---\n".replace("\n", newline), 1)
    if not _asks_once(block):
        return
    exchange = ChatExchange("query", block.prompts[0].text, reply, "Scripted/replies")
    placed = log_exchange(block, exchange, block.prompts[0])
    assert read_log(placed.values())[-1].reply == reply
    assert_no_code(placed.source)


@given(_code_like(), _code_like())
def test_no_line_of_an_entry_is_code_to_knitr(prompt: str, reply: str) -> None:
    """The same for prompts that cannot be spelt as pending ones."""
    assert_no_code(f"---\n{_log(prompt, reply)}---\n")


def _asks_once(block: MetadataBlock) -> bool:
    """Whether the block is metadata with one prompt, whatever its text has done to it."""
    return metadata.check(block.body) is None and len(block.prompts) == 1


def assert_no_code(source: str) -> None:
    """That neither knitr nor Quarto would act on anything in `source`, with inline code before and after it."""
    around = f"Text `x`.\n\n{source}`x`, `y`\n"
    assert not has_line(CHUNK, around)
    assert not INLINE.search(around)
    assert not any(has_line(pattern, around) for pattern in QUARTO_LINES)
    assert not QUARTO_INLINE.search(around)
