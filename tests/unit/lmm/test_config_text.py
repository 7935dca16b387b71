"""What `lmm init` writes and what docs/configuration.md lists is what may be written, key by key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from chatmd.context import Rules
from lmm.config import load_settings
from lmm.config_tables import OLD, TABLES, Config, Declared, check_tables, keys_in, keys_of, old_variables
from lmm.config_text import reference, template, with_values
from lmm.errors import ConfigError
from lmm_education.config import CourseSettings, course_settings

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
EVERY_KEY = [one for table in TABLES for key in keys_in(table) for one in (keys_of(key.inner) if key.inner else (key,))]


def test_the_file_sets_nothing_as_it_is() -> None:
    """All of its settings are comments."""
    assert load_settings(template(), {}) == load_settings("", {})
    assert course_settings(Config(text=template())) == CourseSettings()
    assert Rules.of(Config(text=template())) == Rules()


def test_uncommented_every_line_is_understood() -> None:
    """An example is a value that may be written."""
    config = Config(text=re.sub(r"^# (?=\w+ = )", "", template(), flags=re.MULTILINE))
    check_tables(config.toml, TABLES, config.where)
    assert all(line_with(key) for key in EVERY_KEY)


def line_with(key: Declared) -> bool:
    """Whether the file explains a key."""
    return re.search(rf"^# {key.name} = .+# \S", template(), re.MULTILINE) is not None


def test_a_default_may_be_written() -> None:
    """What holds where nothing is written is what a user could write."""
    for key in EVERY_KEY:
        if key.key.written is None and key.default is not None:
            value = list(key.default) if isinstance(key.default, tuple) else key.default
            assert key.check(value, Config().where) == key.default


def test_the_page_lists_every_key() -> None:
    """Between two marks stands what `lmm.config_text.reference` makes."""
    text = PAGE.read_text(encoding="utf-8")
    listed = text.partition("reference() -->\n\n")[2].partition("\n<!-- end")[0]
    assert listed == reference(), "put what lmm.config_text.reference() makes between the two marks"


REFERENCE = """
[storage]
folder = "./storage"
[database]
collection_name = "chunks"
companion_collection = "documents"
[RAG]
titles = true
questions = false
summaries = false
encoding_model = "content"
retrieve_companion_docs = true
max_companion_docs = 2
[RAG.annotation_model]
inherited_properties = []
own_properties = []
filters = []
[textSplitter]
splitter = "none"
threshold = 125
[embeddings]
dense_model = "SentenceTransformers/distiluse-base-multilingual-cased-v2"
sparse_model = "Qdrant/bm25"
[major]
model = "OpenAI/gpt-4.1-mini"
temperature = 0.4
max_tokens = 2048
[major.provider_params]
frequency_penalty = 0.5
[aux]
model = "Mistral/mistral-small-latest"
"""


def test_a_file_of_the_reference_is_read() -> None:
    """lm-markdown's and lmm-education's, as they write it; one hint names every old key with the new one's name."""
    settings, course = load_settings(REFERENCE, {}), course_settings(Config(text=REFERENCE))
    assert str(settings.embedding.model) == "SentenceTransformers/distiluse-base-multilingual-cased-v2"
    assert settings.major.parameters == {"frequency_penalty": 0.5}
    assert (course.storage.course, course.search.companion, course.preparation.splitter) == ("chunks", True, "none")
    assert (course.sparse_model, course.encoding, course.storage.folder) == ("Builtin/bm25", "content", Path("storage"))
    (hint,) = settings.hints
    written = [old.rpartition(".") for old in OLD if f"\n{old.rpartition('.')[2]} = " in REFERENCE]
    assert all(f"[{table}] {key} is " in hint for table, _, key in written)
    assert "[major] provider_params is now [major] parameters" in hint


def test_an_old_name_stands_for_one_that_there_is() -> None:
    """And is none itself."""
    names = {f"{key.table}.{key.name}" for key in EVERY_KEY}
    assert {new for new in OLD.values() if new and not new.startswith("lmm ")} <= names
    assert not set(OLD) & names


def test_storage_as_the_reference_writes_it() -> None:
    """A text on top of the file, a folder, an address with a port."""
    written = ['storage = ":memory:"', 'storage = "./s"', '[storage]\nurl = "http://127.0.0.1/"\nport = 6333']
    settings = [course_settings(Config(text=text)).storage for text in written]
    assert [(one.folder.as_posix(), one.url) for one in settings] == [
        (".lmm/store", ""), ("s", ""), (".lmm/store", "http://127.0.0.1:6333"),
    ]  # fmt: skip


VARIABLES = {
    "LMM_MAJOR": '{"model": "OpenAI/gpt-4.1", "temperature": 0.2, "provider_params": {"seed": 3}}',
    "LMM_EMBEDDINGS": '{"dense_model": "OpenAI/text-embedding-3-small"}',
    "LMMEDU_STORAGE": '{"folder": "elsewhere"}',
    "LMMEDU_TEXTSPLITTER": '{"splitter": "none", "threshold": 125}',
}


def test_variables_of_the_reference_are_read() -> None:
    """Tables as JSON, which count less than the file; one hint names all of them, and what to write instead."""
    file = "[major]\ntemperature = 0.5\n"
    settings = load_settings(file, VARIABLES)
    course = course_settings(Config(text=file, variables=old_variables(VARIABLES)))
    major, told = settings.major, "environment LMM_MAJOR"
    assert (str(major.model), major.origin, major.temperature) == ("OpenAI/gpt-4.1", told, 0.5)
    assert (major.parameters, str(settings.embedding.model)) == ({"seed": 3}, "OpenAI/text-embedding-3-small")
    assert (course.storage.folder, course.preparation.splitter) == (Path("elsewhere"), "none")
    (hint,) = settings.hints
    assert all(f"{variable} is now [" in hint for variable in VARIABLES)
    assert "[embeddings] dense_model is now [embedding] model" in hint


def test_a_variable_that_holds_no_table() -> None:
    """Is refused where it stands, with an example; so is a wrong value in one."""
    for value, place in (("gpt-4.1", "LMM_MAJOR"), ('{"temperature": "hot"}', "environment LMM_MAJOR")):
        with pytest.raises(ConfigError) as caught:
            load_settings("", {"LMM_MAJOR": value})
        assert caught.value.where == place


# -- keys of a file that is there ------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        'title = "top"',
        "[serve]",
        "[serve] # ours\r\nlog = 'a # b'   # kept\r\n[study]\r\n",
        '[ serve ]\n  log = """\nlong\n"""\n# a note\nlanguage = "en"\n',
        '[serve]\nwithhold = [\n  "a", # one\n  "b",\n]\n[serve.texts]\nask = "Go"\n',
    ],
)
def test_other_values_of_some_keys(text: str) -> None:
    """Whatever else is in the file stays: values, comments, ends of lines."""
    wanted: dict[str, dict[str, object]] = {"serve": {"log": 'x"#', "withhold": ["c"]}, "major": {"model": "OpenAI/x"}}
    changed = with_values(text, wanted)
    before, after = tomllib.loads(text), tomllib.loads(changed)
    assert after == before | {"serve": before.get("serve", {}) | wanted["serve"], "major": wanted["major"]}
    kept = [line for line in text.splitlines() if line.startswith(("#", "[", "language", "ask"))]
    assert [line for line in changed.splitlines() if line in kept] == kept
    assert with_values(changed, wanted) == changed
    assert "# kept" in changed or "# kept" not in text


@pytest.mark.parametrize("text", ['serve = { title = "x" }\n', "serve.title = 'x'\n", "[serve"])
def test_what_cannot_be_changed_is_refused_with_the_line_to_write(text: str) -> None:
    """Nothing is guessed at."""
    with pytest.raises(ConfigError, match=r"under \[serve\]: log = \"a\""):
        with_values(text, {"serve": {"log": "a"}})


def test_the_template_takes_every_key() -> None:
    """Comments that explain a key are no value of it."""
    changed = with_values(template(), {"serve": {"title": "T"}})
    assert changed.replace('title = "T"\n', "", 1) == template()
