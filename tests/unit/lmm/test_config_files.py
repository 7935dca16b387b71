"""What `lmm init` writes and what docs/configuration.md lists is what may be written, key by key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from chatmd.config import ChatmdSettings
from lmm.config import load_settings
from lmm.config_files import reference, template, with_values
from lmm.config_tables import TABLES, Config, Key, Origin, Setting, check_config, keys_in, renamed_keys
from lmm.errors import ConfigError
from lmm_education.config import CourseSettings, course_settings

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
EVERY_KEY = [(table, key) for table in TABLES for key in keys_in(table).values()]


def test_the_file_sets_nothing_as_it_is() -> None:
    """All of its settings are comments."""
    assert load_settings(template(), {}) == load_settings("", {})
    assert course_settings(Config(text=template())) == CourseSettings()
    assert ChatmdSettings.of(Config(text=template())) == ChatmdSettings()


def test_uncommented_every_line_is_understood() -> None:
    """An example is a value that may be written."""
    config = Config(text=re.sub(r"^#(?=\w+ = )", "", template(), flags=re.MULTILINE))
    check_config(config)
    assert all(line_with(key) for _, key in EVERY_KEY)


def line_with(key: Key) -> bool:
    """Whether the file explains a key."""
    return re.search(rf"^# \S.+\n#{key.name} = ", template(), re.MULTILINE) is not None


def test_a_default_may_be_written() -> None:
    """What holds where nothing is written is what a user could write."""
    for table, key in EVERY_KEY:
        if isinstance(key.default, (str, int, float, tuple)):
            value = list(key.default) if isinstance(key.default, tuple) else key.default
            assert key.convert(Setting(value, Origin("file", "")), table) == key.default


def test_the_page_lists_every_key() -> None:
    """Between two marks stands what `lmm.config_files.reference` makes."""
    text = PAGE.read_text(encoding="utf-8")
    listed = text.partition("reference() -->\n\n")[2].partition("\n<!-- end")[0]
    assert listed == reference(), "put what lmm.config_files.reference() makes between the two marks"


def test_an_older_name_is_answered_with_the_newer_one() -> None:
    """lm-markdown's and lmm-education's tables and keys: a key that there is, a command, or why it is not needed."""
    names = {f"[{table}] {key.name}" for table, key in EVERY_KEY}
    old = [(table, key, new) for table, keys in renamed_keys().items() for key, new in keys.items()]
    assert len(old) >= 44
    for table, key, new in old:
        written = f"[{table}]\n{key} = 1\n" if table else f"{key} = 1\n"
        with pytest.raises(ConfigError, match=re.escape(f"'{key}' is {new}")):
            check_config(Config(text=written))
        assert new.startswith(("not needed: ", "lmm ")) or new.partition(",")[0] in names


@pytest.mark.parametrize(
    "table", ["embeddings", "database", "textSplitter", "check_response", "server", "chat_database"]
)
def test_an_older_table_is_answered_with_all_of_its_keys(table: str) -> None:
    """It is read as a whole, so its first key alone would not help."""
    with pytest.raises(ConfigError) as error:
        check_config(Config(text=f"[{table}]\n"))
    assert str(error.value).startswith(f"config.toml:1: unknown table [{table}] (here ")
    assert all(f"'{key}' is {new}" for key, new in renamed_keys()[table].items())


# -- keys of a file that is there ------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        'title = "top"',
        "[serve]",
        "[serve] # ours\r\nlog = 'a # b'   # kept\r\n[study]\r\n",
        '[ serve ]\n  log = """\nlong\n"""\n# a note\nlanguage = "en"\n',
        'serve = { title = "x" }\n',
        "serve.title = 'x'\n",
        "[serve.texts]\na = 'b'\n[study]\n[serve]\nlog = 'c'\n",
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


@pytest.mark.parametrize("text", ["serve = 1\n", "[serve", "[serve]\na = 1\na = 2\n"])
def test_what_is_no_table_is_refused(text: str) -> None:
    """Nothing is guessed at."""
    with pytest.raises(ConfigError, match="cannot be changed here"):
        with_values(text, {"serve": {"log": "a"}})


def test_the_template_takes_every_key() -> None:
    """Comments that explain a key are no value of it."""
    changed = with_values(template(), {"serve": {"title": "T"}})
    assert changed.replace('title = "T"\n', "", 1) == template()
