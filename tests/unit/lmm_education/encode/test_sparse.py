"""Which sparse models there are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from lmm.errors import ConfigError, ModelNotFound, ModelNotInstalled
from lmm_education.encode.encoder import open_sparse


def test_unknown_models_are_refused() -> None:
    """With what exists."""
    with pytest.raises(ConfigError, match="Builtin/bm25"):
        open_sparse("Builtin/bm52")
    if importlib.util.find_spec("fastembed") is None:
        with pytest.raises(ModelNotInstalled, match=r"lmmarkdown\[fastembed\]"):
            open_sparse("FastEmbed/prithivida/Splade_PP_en_v1")
    else:
        with pytest.raises(ModelNotFound, match="no sparse model 'no-such'"):
            open_sparse("FastEmbed/no-such").query("x", ["en"])


def test_a_model_of_fastembed_makes_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself, on the one model of its list that has no weights, laid where a download would be."""
    listed = pytest.importorskip("fastembed.sparse.bm25").supported_bm25_models[0]
    snapshot = tmp_path / "models--Qdrant--bm25" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for name in (listed.model_file, *listed.additional_files):
        (snapshot / name).write_text("the\nof\n")
    (tmp_path / "models--Qdrant--bm25" / "refs").mkdir()
    (tmp_path / "models--Qdrant--bm25" / "refs" / "main").write_text("a" * 40)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    encoder = open_sparse("FastEmbed/Qdrant/bm25")
    (models, leaf) = encoder.documents(["the models of a model", "leaf"], ["en", "en"])
    assert encoder.query("a model", ["en"]).indices[0] in models.indices
    assert not set(models.indices) & set(leaf.indices)
