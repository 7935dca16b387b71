"""What all adapters share: batches, shorter vectors, and what is a vector."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from lmm_education.encode.text_encoder import is_usable, shortened, to_vector
from lmm_education.material import batches

FLOATS = st.floats(-1e3, 1e3, width=32)


@given(st.lists(st.text(max_size=9), max_size=30), st.integers(1, 8), st.integers(1, 30))
def test_batches_cover_all_texts_in_order(texts: list[str], most: int, characters: int) -> None:
    """Each text once; no batch has too many, or is too long if it has more than one; none could take the next."""
    found = list(batches(range(len(texts)), most, characters, lambda i: len(texts[i])))
    assert [i for part in found for i in part] == list(range(len(texts)))
    for part in found:
        size = sum(len(texts[i]) for i in part)
        assert 0 < len(part) <= most
        assert len(part) == 1 or size <= characters
        if part[-1] + 1 < len(texts):
            assert len(part) == most or size + len(texts[part[-1] + 1]) > characters


@given(st.lists(FLOATS, min_size=1, max_size=20), st.integers(1, 25))
def test_shortened(numbers: list[float], dimensions: int) -> None:
    """Of length one and the same direction; what is short enough stays as it is."""
    vector = to_vector(numbers)
    short = shortened(vector, dimensions)
    assert len(short) == min(len(vector), dimensions)
    if len(vector) <= dimensions:
        assert short is vector
    elif math.hypot(*vector[:dimensions]) > 1e-3:
        assert math.hypot(*short) == pytest.approx(1, abs=1e-5)
        assert all(a * b >= 0 for a, b in zip(short, vector, strict=False))


@given(st.lists(FLOATS, min_size=1), st.sampled_from([math.nan, math.inf, -math.inf]), st.data())
def test_one_number_that_is_none_spoils_a_vector(numbers: list[float], bad: float, data: st.DataObject) -> None:
    """Wherever it stands; infinities of both signs too."""
    assert is_usable(to_vector(numbers)) == any(numbers)
    place = data.draw(st.integers(0, len(numbers) - 1))
    assert not is_usable(to_vector([*numbers[:place], bad, *numbers[place:]]))
    assert not is_usable(to_vector([*numbers, math.inf, -math.inf]))
