"""Extraction from Python: what is asked, what comes back, what is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from talking import PaidScript

from lmm.cli.main import main
from lmm.document import Document, record_source
from lmm.errors import ConfigError, ModelRejected, ModelUnavailable, PartlyFailed, Place, Untrusted
from lmm.extraction import Record, plan_records, read_records
from lmm.loop import run
from lmm.messages import ChatEvent, ChatRequest, Event, Listener, Progress, Reply, ignore, render
from lmm.models.port import ChatModel
from lmm.models.structured import make_schema
from lmm.pipeline import Report
from lmm.testing import ScriptedModel


class Plant(BaseModel):
    """A plant."""

    name: str
    height: float


TEXT = "# Trees\n\n## Oak\n\nAn oak grows to 30 m.\n\n## Box\n\nFive metres.\n"
OAK, BOX = '{"name": "Oak", "height": 30}', '{"name": "Box", "height": 5}'
RECORDS = [
    Record("", 3, ("Trees", "Oak"), Plant(name="Oak", height=30)),
    Record("", 7, ("Trees", "Box"), Plant(name="Box", height=5)),
]


def extract(text: str, schema: Any, select: str | None = None, **options: Any) -> list[Record[Any]]:
    """The records of a text; fails where there is a failure."""
    return list(Document.from_text(text, title="text").extract(schema, select=select, **options).check().results)


class ByText:
    """Replies by what is in the request, later for some: order of arrival is not that of the document."""

    name = "Test/by-text"

    def __init__(self, replies: Mapping[str, str | Exception], delays: Mapping[str, float] | None = None) -> None:
        self.replies, self.delays = replies, delays or {}
        self.seen: list[ChatRequest] = []
        self.running = self.most = 0

    async def stream(self, request: ChatRequest) -> Any:
        """The reply whose key is in the request."""
        self.seen.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        text = render(request.messages[-1])
        key = next(key for key in self.replies if key in text)
        await asyncio.sleep(self.delays.get(key, 0))
        self.running -= 1
        reply = self.replies[key]
        if isinstance(reply, Exception):
            raise reply
        event: ChatEvent = Reply(reply, self.name)
        yield event


def test_a_record_per_section() -> None:
    """With the line of the heading and the titles down to it, in the order of the document."""
    model = ByText({"30 m": OAK, "Five": BOX}, {"30 m": 0.05})
    assert extract(TEXT, Plant, model=model) == RECORDS
    assert model.most == 2


def test_what_is_sent() -> None:
    """The prompt with the schema after the section's text; no system message unless somebody wrote one."""
    model = ScriptedModel([OAK, BOX])
    extract(TEXT, Plant, "oak", model=model)
    (request,) = model.seen
    (message,) = request.messages
    assert request.task == "extract"
    assert render(message).startswith(
        '<text from="Trees > Oak">\n## Oak\n\nAn oak grows to 30 m.\n</text>\n\nExtract data from the text'
    )
    assert make_schema(Plant).optional.text in message.text
    assert "{schema}" not in message.text


def test_the_header_sets_system_message_and_prompts_come_from_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As everywhere: `model: system:` in the header, `[prompts] folder` in the configuration."""
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text('[prompts]\nfolder = "own"\n')
    Path("own").mkdir()
    Path("own/extract.md").write_text("Fill in: {schema}")
    Path("own/extract_again.md").write_text("Wrong: {error}")
    model = ScriptedModel(["?", OAK])
    text = "---\nmodel:\n  system: You know plants.\n---\n# Oak\n\nTall.\n"
    with pytest.raises(Untrusted, match=r"'folder' in \[prompts\]"):
        extract(text, Plant, model=model)
    assert main(["trust", "--yes"]) == 0
    extract(text, Plant, model=model)
    system, prompt = model.seen[0].messages
    assert (system.role, system.text) == ("system", "You know plants.")
    assert prompt.text.startswith("Fill in: {\n")
    assert model.seen[1].messages[-1].text == "Wrong: there is no JSON in it"


def test_a_section_may_contain_no_record() -> None:
    """The model can say so, and nothing is made up."""
    assert extract(TEXT, Plant, model=ScriptedModel(['{"records": null}', f'{{"records": {BOX}}}'])) == RECORDS[1:]


def test_an_invalid_reply_is_sent_back_with_the_error() -> None:
    """After what was said so far; the third reply may still be right."""
    model = ScriptedModel(['{"name": "Oak"}', "Oh. The height is 30.", f"```json\n{OAK}\n```"])
    assert extract(TEXT, Plant, "oak", model=model) == RECORDS[:1]
    first, second, third = (request.messages for request in model.seen)
    assert second[: len(first)] == first
    assert [(m.role, m.text) for m in second[len(first) :]] == [
        ("assistant", '{"name": "Oak"}'),
        ("user", "This reply is not valid:\n\n- $.height: Field required\n\nReply with the corrected JSON only."),
    ]
    assert third[-1].text.splitlines()[2] == "there is no JSON in it"


def test_a_model_that_does_not_answer_is_a_failure_too() -> None:
    """And is not asked to correct anything."""
    model = ByText({"30 m": ModelUnavailable("down"), "Five": BOX})
    with pytest.raises(PartlyFailed, match="text:3: Trees > Oak: down") as caught:
        extract(TEXT, Plant, model=model)
    assert [failure.place.line for failure in caught.value.report.failures] == [3]
    assert len(model.seen) == 2


def test_the_built_in_model_refuses() -> None:
    """It has no understanding to extract with."""
    with pytest.raises(PartlyFailed, match="Builtin/extractive cannot extract data") as caught:
        extract(TEXT, Plant)
    assert {type(failure.error) for failure in caught.value.report.failures} == {ModelRejected}


def test_a_repeated_run_asks_nothing() -> None:
    """What arrived is remembered, corrections included; `again` asks anew."""
    assert extract(TEXT, Plant, "oak", model=PaidScript(["{}", OAK])) == RECORDS[:1]
    assert extract(TEXT, Plant, "oak", model=PaidScript([])) == RECORDS[:1]
    other = PaidScript(['{"name": "Oak", "height": 31}'])
    assert extract(TEXT, Plant, "oak", model=other, again=True)[0].value.height == 31


def test_an_interrupted_run_goes_on_where_it_was() -> None:
    """The replies that arrived are not asked for again, the first invalid ones included."""
    model = PaidScript(["{}", KeyError("crash")])
    with pytest.raises(KeyError):
        extract(TEXT, Plant, "oak", model=model)
    rest = PaidScript([OAK])
    assert extract(TEXT, Plant, "oak", model=rest) == RECORDS[:1]
    assert len(rest.seen[0].messages) == 3


def test_a_reply_that_was_cut_off_is_not_asked_to_be_corrected() -> None:
    """It would be cut again; the error says what to change. Cut behind the JSON, it is valid."""

    class Cut(ByText):
        async def stream(self, request: ChatRequest) -> Any:
            async for event in super().stream(request):
                yield Reply(event.text, self.name, cut=True)

    with pytest.raises(PartlyFailed, match=r"cut off at the model's output limit.*max_tokens"):
        extract(TEXT, Plant, "oak", model=Cut({"30 m": OAK[:-3]}))
    assert extract(TEXT, Plant, "oak", model=Cut({"30 m": OAK})) == RECORDS[:1]


def test_the_first_valid_value_of_a_reply_counts() -> None:
    """An example before the answer does not."""
    reply = f'Such as {{"name": "Elm"}}, so: {OAK} and {BOX}'
    assert extract(TEXT, Plant, "oak", model=ScriptedModel([reply])) == RECORDS[:1]


def test_a_list_gives_several_records_per_section() -> None:
    """Each with the place of its section."""
    records = extract(TEXT, list[Plant], "trees", model=ScriptedModel([f"[{OAK}, {BOX}]"]))
    assert [(record.line, record.value.name) for record in records] == [(1, "Oak"), (1, "Box")]
    assert extract(TEXT, list[Plant], "oak", model=ScriptedModel(["[]"])) == []


def test_records_of_a_file_name_it(tmp_path: Path) -> None:
    """With the path as it was given."""
    path = tmp_path / "plants.md"
    path.write_text(TEXT)
    found = Document.open(path).extract(Plant, model=ByText({"30 m": OAK, "Five": BOX}))
    assert [record.file for record in found.results] == [str(path)] * 2


def test_a_waiting_edit_is_not_read() -> None:
    """Until it is accepted, the old text counts."""
    import talking

    edited = talking.answered("# Oak\n\n---\n=: shorten\n---\nOld text.\n", model=ScriptedModel(["New text."])).text
    model = ScriptedModel([OAK])
    extract(edited, Plant, model=model)
    assert "Old text." in render(model.seen[0].messages[0])
    assert "ew text" not in render(model.seen[0].messages[0])


def extracted(paths: list[Path], model: ChatModel | None = None, listener: Listener = ignore) -> Report[Record[Any]]:
    """The records of several files, as `lmm extract` reads them."""
    documents = [Document.open(path, listener=listener) for path in paths]
    schema = make_schema(Plant)
    jobs = plan_records([record_source(document, model=model) for document in documents], schema)
    return run(read_records(jobs, schema))


def test_files_are_read_side_by_side_and_reported_in_order(tmp_path: Path) -> None:
    """The sections of all files run at once; progress counts them."""
    paths = [tmp_path / f"{name}.md" for name in "abc"]
    for path in paths:
        path.write_text(f"Of {path.stem}.\n")
    model = ByText({"Of a": OAK, "Of b": "never", "not valid": "never", "Of c": BOX}, {"Of a": 0.05})
    steps: list[tuple[int, int]] = []

    def listen(event: Event, place: Place) -> None:
        if isinstance(event, Progress):
            steps.append((event.done, event.total))

    result = extracted(paths, model, listen)
    assert [(record.file, record.line, record.headings) for record in result.results] == [
        (str(paths[0]), 1, ()),
        (str(paths[2]), 1, ()),
    ]
    assert [str(failure).partition(": ")[0] for failure in result.failures] == [f"{paths[1]}:1"]
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert model.most == 3


def test_the_tier_bounds_how_many_run(tmp_path: Path) -> None:
    """A configured model of the minor tier, `concurrency` calls at once, over all files and calls."""
    from fakes.openai_server import Action, ScriptedServer

    with ScriptedServer(lambda request: Action(OAK, delay=0.02)) as server:
        (tmp_path / "config.toml").write_text(
            f'[minor]\nmodel = "OpenAICompatible/m"\nbase_url = "{server.url}"\nconcurrency = 2\n'
        )
        paths = [tmp_path / f"{n}.md" for n in range(3)]
        for path in paths:
            path.write_text(TEXT)
        result = extracted(paths)
    assert len(result.results) == 6
    assert (len(server.requests), server.most_in_flight) == (6, 2)


def test_the_async_twin() -> None:
    """On a loop of the caller's own, several documents at once."""

    async def both() -> list[Report[Record[Any]]]:
        model = ByText({"30 m": OAK, "Five": BOX})
        document = Document.from_text(TEXT, title="text")
        return await asyncio.gather(*(document.aextract(Plant, select=name, model=model) for name in ("oak", "box")))

    assert [list(report.results) for report in asyncio.run(both())] == [RECORDS[:1], RECORDS[1:]]


@pytest.mark.parametrize("schema", [{"type": "objekt"}, print])
def test_what_is_no_schema(schema: Any) -> None:
    """Refused before anything is asked."""
    with pytest.raises(ConfigError):
        extract(TEXT, schema, model=ScriptedModel([]))


def test_a_validator_that_crashes_is_the_callers_error() -> None:
    """A bug in the model's own code is raised as it is."""
    from pydantic import field_validator

    class Buggy(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, value: str) -> str:
            raise KeyError(value)

    with pytest.raises(KeyError):
        extract(TEXT, Buggy, "oak", model=ScriptedModel([OAK]))
