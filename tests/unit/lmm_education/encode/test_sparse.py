"""Which sparse models there are."""

from __future__ import annotations

import importlib.util

import pytest

from lmm.errors import ConfigError, ModelNotFound, ModelNotInstalled
from lmm_education.encode.sparse import open_sparse


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
