"""What `lmm init` writes and what docs/configuration.md lists is what may be written, key by key."""

from __future__ import annotations

import re
from pathlib import Path

from chatmd.context import Rules
from lmm.config import load_settings
from lmm.config_text import reference, template
from lmm.tables import TABLES, Config, Declared, check_tables, keys_in, keys_of
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
