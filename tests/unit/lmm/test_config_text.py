"""What `lmm init` writes and what docs/configuration.md lists is what may be written, key by key."""

from __future__ import annotations

import re
from pathlib import Path

from chatmd.context import Rules
from lmm.config import load_settings
from lmm.config_text import reference, template
from lmm.tables import OLD, TABLES, Config, Declared, check_tables, keys_in, keys_of
from lmm_education.config import CourseSettings, load_course_settings

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
EVERY_KEY = [one for table in TABLES for key in keys_in(table) for one in (keys_of(key.inner) if key.inner else (key,))]


def test_the_file_sets_nothing_as_it_is() -> None:
    """All of its settings are comments."""
    assert load_settings(template(), {}) == load_settings("", {})
    assert load_course_settings(template()) == CourseSettings()
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
    settings, course = load_settings(REFERENCE, {}), load_course_settings(REFERENCE)
    assert str(settings.embedding.model) == "SentenceTransformers/distiluse-base-multilingual-cased-v2"
    assert settings.major.parameters == {"frequency_penalty": 0.5}
    assert (course.storage.course, course.search.companion, course.preparation.splitter) == ("chunks", True, "none")
    assert (course.sparse_model, course.encoding, course.storage.folder) == ("Builtin/bm25", "content", Path("storage"))
    (hint,) = settings.hints
    written = [old.split(".") for old in OLD if f"\n{old.partition('.')[2]} = " in REFERENCE]
    assert all(f"[{table}] {key} is " in hint for table, key in written)
    assert "[major] provider_params is now [major] parameters" in hint


def test_an_old_name_stands_for_one_that_there_is() -> None:
    """And is none itself."""
    names = {f"{key.table}.{key.name}" for key in EVERY_KEY}
    assert {new for new in OLD.values() if new} <= names
    assert not set(OLD) & names
