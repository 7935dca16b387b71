"""Settings to compare."""

from __future__ import annotations

import pytest

from lmm.errors import ConfigError
from lmm_education.config import CourseSettings
from lmm_education.evaluation.experiments import compared_keys, is_axis, make_variants


def test_every_combination_with_values_of_the_right_kind() -> None:
    made = make_variants(
        ["encoding=content,hybrid", "max_size=800", "pool=false", "sparse_weight=0.5"], CourseSettings()
    )
    assert [variant.label.split()[0] for variant in made] == ["encoding=content", "encoding=hybrid"]
    preparation = made[0].settings.preparation
    assert (preparation.max_size, preparation.min_size, preparation.pool) == (800, 800, False)
    assert made[1].settings.search.sparse_weight == 0.5


def test_variants_that_differ_in_the_search_share_a_store() -> None:
    made = make_variants(
        ["prefetch=30,60", "embedding=Builtin/wordllama,Ollama/bge-m3", "rerank=none"], CourseSettings()
    )
    assert len(made) == 4
    assert len({variant.store_key for variant in made}) == 2


def test_every_key_can_be_told_from_a_file() -> None:
    assert all(is_axis(f"{key}=x") for key in compared_keys())
    assert not is_axis("a=b.csv")
    assert "titles" not in compared_keys(), "it decides what is written into documents"


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("encodng=content", "did you mean 'encoding'"),
        ("encoding=", "has no value"),
        ("encoding=contents", "did you mean 'content'"),
        ("prefetch=many", "must be a whole number"),
        ("companion=maybe", "must be true or false"),
        ("unit=max", "must be one of"),
        ("prefetch=0", "of at least 1"),
    ],
)
def test_mistakes_are_explained(axis: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_variants([axis], CourseSettings())


def test_nothing_to_compare_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        make_variants([], CourseSettings())
