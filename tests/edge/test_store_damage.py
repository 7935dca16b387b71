"""Damaged stores: noticed, or without effect; repaired from the documents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from edge.damage_store import campaign

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes are forked")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_damage_is_noticed_or_without_effect_and_repaired(folder: Path) -> None:
    """20 stores, each with one thing wrong; ``python tests/edge/damage_store.py 100`` takes more."""
    trials = campaign(folder, 20, seed=3)
    assert [trial for trial in trials if not trial.held] == []
    assert sum(trial.outcome == "noticed" for trial in trials) > 10
