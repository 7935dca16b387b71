"""What `lmm init` writes names every setting, and no other, with its default."""

from __future__ import annotations

import re
from importlib import resources

from lmm.config import load_settings, read_toml
from lmm_education.settings import TABLES, CourseSettings, load_course_settings

TEMPLATE = resources.files("lmm").joinpath("config_template.toml").read_text(encoding="utf-8")
UNCOMMENTED = re.sub(r"^# (?=\w+ = )", "", TEMPLATE, flags=re.MULTILINE)
# What is unset by default: the template shows an example.
EXAMPLES = {
    *("url", "replication_factor", "shard_number", "sparse_weight", "dense_weight", "reranker_url", "reranker_model"),
    *("reranker_key_env", "threshold", "system", "nothing_found", "keep", "annotation_model"),
    *("title", "description", "welcome", "failure", "texts"),
    *("consent", "allowed_content", "trusted_proxy", "log"),
}


def test_the_template_as_it_is_changes_nothing() -> None:
    """All of its settings are comments."""
    assert load_course_settings(TEMPLATE) == CourseSettings()
    assert load_settings(TEMPLATE, {}) == load_settings("", {})


def test_every_key_is_in_the_template() -> None:
    """And uncommented, every line is understood."""
    values, _ = read_toml(UNCOMMENTED)
    for name, keys in TABLES.items():
        missing = set(keys) - set(values[name]) - {"summary"}  # spelled summaries
        assert not missing, f"[{name}] lacks {missing}"
    load_course_settings(UNCOMMENTED)


def test_a_commented_line_shows_the_default() -> None:
    """Where there is one."""
    values, _ = read_toml(UNCOMMENTED)
    for name in TABLES:
        for key, value in values[name].items():
            if key in EXAMPLES:
                continue
            alone = load_course_settings(f"[{name}]\n{key} = {_toml(value)}\n")
            assert alone == CourseSettings(), f"{key} in [{name}]: {value!r} is not the default"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
