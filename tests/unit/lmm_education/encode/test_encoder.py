"""From chunks to vectors: which texts feed which vectors, what changes a hash, which store fits."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

from lmm.config import EmbeddingSettings, load_settings
from lmm.config_tables import Config
from lmm.errors import ModelNotInstalled
from lmm.testing import HashEmbedder
from lmm_education.config import course_settings
from lmm_education.encode.bm25 import Bm25Encoder
from lmm_education.encode.encoder import Encoder, open_encoder
from lmm_education.encodings import ENCODINGS, sentence_texts, source_text
from lmm_education.errors import StoreMismatch
from lmm_education.material import Chunk, Lines, Location, SparseVector
from lmm_education.store.port import Manifest

PLACE = Location("botany", "botany.md", Lines(1, 2), ("Leaves", "Colour"))
GREEN = Chunk("1", PLACE, "s", 0, "They are green.", title="Botany", annotations=("Why green?",))
EMBEDDER = HashEmbedder()
DEFAULT = load_settings(env={}).embedding


def encoder_for(encoding: str = "hybrid", *, extra: str = "") -> Encoder:
    """An encoder with the words' hashes for a model."""
    settings = course_settings(Config(text=f'[RAG]\nencoding_model = "{encoding}"\n{extra}'))
    return open_encoder(settings, DEFAULT, embedder=EMBEDDER)


@pytest.mark.parametrize("name", ENCODINGS)
def test_vectors_are_made_from_the_texts_that_the_table_names(name: str) -> None:
    """Each vector is that of its source text, and no other vector is made."""
    encoding, (vectors,) = ENCODINGS[name], encoder_for(name).encode([GREEN])
    has_sentences = encoding.multi == ("sentences",)  # of which GREEN has one only: that is the passage
    assert tuple(vectors) == tuple(
        each for each in encoding.vectors_with("model") if each != "multi" or not has_sentences
    )
    if encoding.dense:
        assert [vectors["dense"]] == EMBEDDER.embed([source_text(GREEN, encoding.dense)], kind="document")
    if encoding.multi and not has_sentences:
        assert vectors["multi"] == EMBEDDER.embed([source_text(GREEN, s) for s in encoding.multi], kind="document")
    if encoding.sparse:
        assert vectors["sparse"] == Bm25Encoder().documents([source_text(GREEN, encoding.sparse)], ["en"])[0]


def test_sentences_have_vectors_where_the_model_reads_them() -> None:
    """With `hybrid`; a model that adds up words has read no sentence."""
    text = "Chlorophyll makes leaves green, for it absorbs red light and blue light, and leaves the green light to us. "
    chunk = replace(GREEN, text=text + text.replace("Chlorophyll", "A pigment"))
    (vectors,) = encoder_for().encode([chunk])
    assert vectors["multi"] == EMBEDDER.embed(sentence_texts(chunk), kind="document")
    assert len(vectors["multi"]) == 2
    assert "multi" not in encoder_for("hybrid_passages").encode([chunk])[0]
    builtin = open_encoder(course_settings(Config()), DEFAULT)
    assert builtin.vectors == ("sparse", "dense")
    assert builtin.hash_of(chunk) != encoder_for().hash_of(chunk)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_question_has_the_vectors_that_chunks_have(name: str) -> None:
    """So that every leg can be asked."""
    encoder = encoder_for(name)
    assert set(encoder.encode_query("Why are leaves green?", languages=["en"])) == set(encoder.vectors)
    assert encoder.encode_query(" ", languages=["en"]) == {}


def test_what_is_not_there_makes_no_vector() -> None:
    """No annotations: nothing sparse, one vector of two; the other chunks keep theirs."""
    bare = replace(GREEN, annotations=())
    first, second = encoder_for("sparse_multivector").encode([bare, GREEN])
    assert "sparse" not in first
    assert [len(v["multi"]) for v in (first, second)] == [1, 2]  # type: ignore[arg-type]


def test_each_chunk_is_stemmed_in_its_own_language() -> None:
    """A German document in an English course."""
    houses = replace(GREEN, text="Häuser", annotations=(), title="", place=replace(PLACE, headings=()))
    encoder = encoder_for()
    english, german = encoder.encode([houses, houses], language=["", "de"])
    haus = encoder.encode_query("Haus", languages=["de"])["sparse"]
    assert isinstance(haus, SparseVector)
    assert german["sparse"].indices == haus.indices != english["sparse"].indices  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("encoding", "change", "counts"),
    [
        ("hybrid", {"text": "They are red."}, True),
        ("hybrid", {"title": "Trees"}, True),
        ("hybrid", {"overlap": "Before."}, True),
        ("hybrid", {"annotations": ()}, True),
        ("hybrid", {"place": replace(PLACE, headings=("Leaves",))}, True),
        ("hybrid", {"place": replace(PLACE, lines=Lines(9, 9))}, False),
        ("hybrid", {"order": 7, "section": "t", "type": "exercise", "metadata": {"a": 1}}, False),
        ("content", {"annotations": (), "title": "Trees"}, False),
        ("sparse", {"text": "They are red."}, False),
        ("sparse", {"annotations": ("Why red?",)}, True),
        ("none", {"text": "They are red."}, False),
    ],
)
def test_the_hash_changes_with_what_is_embedded(encoding: str, change: dict[str, object], counts: bool) -> None:
    """And with nothing else."""
    encoder = encoder_for(encoding)
    assert (encoder.hash_of(replace(GREEN, **change)) != encoder.hash_of(GREEN)) == counts  # type: ignore[arg-type]


def test_the_hash_changes_with_the_models_and_the_language() -> None:
    """The language where it changes stems."""
    encoder = encoder_for()
    assert encoder.hash_of(GREEN) == encoder.hash_of(GREEN, language="en-GB") != encoder.hash_of(GREEN, language="de")
    assert encoder.hash_of(GREEN) != replace(encoder, embedder=HashEmbedder(32)).hash_of(GREEN)
    assert encoder_for("content").hash_of(GREEN, language="de") == encoder_for("content").hash_of(GREEN)


def test_progress_is_told() -> None:
    """How many texts are embedded, of how many."""
    seen: list[tuple[int, int]] = []
    encoder = open_encoder(course_settings(Config()), DEFAULT, embedder=EMBEDDER)
    encoder.encode([GREEN, GREEN], on_progress=lambda *done: seen.append(done))
    assert seen[-1] == (2, 2)


# -- which models ----------------------------------------------------------------------------------


def test_the_default_is_bm25_and_wordllama() -> None:
    """And the manifest says so."""
    encoder = open_encoder(course_settings(Config()), DEFAULT)
    assert encoder.manifest_parts == {
        "encoding": "hybrid",
        "embedding": "Builtin/wordllama",
        "dimensions": 256,
        "sparse": "Builtin/bm25",
        "language": "en",
        "sentences": False,
    }
    assert not encoder.notices


def test_hybrid_does_without_wordllama_where_it_does_not_know_the_language() -> None:
    """Said once, with what to set."""
    encoder = open_encoder(course_settings(Config(text='[RAG]\nlanguage = "de"')), DEFAULT)
    assert encoder.vectors == ("sparse",)
    assert "multilingual" in encoder.notices[0]
    assert encoder.manifest_parts["embedding"] == ""


def test_a_model_that_was_chosen_is_taken() -> None:
    """With a notice, if it knows another language."""
    chosen = load_settings('[embedding]\nmodel = "Builtin/wordllama"', env={}).embedding
    encoder = open_encoder(course_settings(Config(text='[RAG]\nlanguage = "de"')), chosen)
    assert encoder.vectors == ("sparse", "dense")
    assert "English only" in encoder.notices[0]


def test_hybrid_does_without_wordllama_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other encoding does: what was asked for cannot be had."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    elsewhere = DEFAULT.replace(timeout=7.0)  # other settings, so that no model opened before is taken
    encoder = open_encoder(course_settings(Config()), elsewhere)
    assert encoder.vectors == ("sparse",)
    assert "not installed" in encoder.notices[0]
    with pytest.raises(ModelNotInstalled):
        open_encoder(course_settings(Config(text='[RAG]\nencoding_model = "content"')), elsewhere)


def test_no_model_is_opened_where_none_is_needed() -> None:
    """BM25 of annotations, or nothing at all."""
    missing = EmbeddingSettings(DEFAULT.model, layer="file", dimensions=7)  # would be refused
    for name in ("none", "sparse"):
        encoder = open_encoder(course_settings(Config(text=f'[RAG]\nencoding_model = "{name}"')), missing)
        assert encoder.space == ""


# -- which store -----------------------------------------------------------------------------------


def test_a_store_made_with_the_same_choices_fits() -> None:
    """Chunking may differ: it does not change what a question means."""
    encoder = encoder_for()
    assert encoder.fit(Manifest(**encoder.manifest_parts, chunking={"max_size": 7})) == encoder


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("encoding", "content", "encoding_model was content, is hybrid"),
        ("embedding", "OpenAI/text-embedding-3-small", "[embedding] model was OpenAI/text-embedding-3-small, is"),
        ("sparse", "FastEmbed/splade", "sparse_model was FastEmbed/splade, is Builtin/bm25"),
    ],
)
def test_a_store_made_otherwise_is_refused(field: str, value: str, said: str) -> None:
    """With both choices and what to do."""
    encoder = encoder_for()
    manifest = Manifest(**{**encoder.manifest_parts, field: value})
    with pytest.raises(StoreMismatch, match="ingest --again PATH") as caught:
        encoder.fit(manifest, location="/store")
    assert said in str(caught.value)


def test_a_store_from_before_sentences_had_vectors_is_refused() -> None:
    """With what to do, not with what the engine says of a vector that is not there."""
    encoder = open_encoder(course_settings(Config()), DEFAULT, embedder=EMBEDDER)
    assert encoder.reads_sentences
    before = {name: value for name, value in encoder.manifest_parts.items() if name != "sentences"}
    with pytest.raises(StoreMismatch, match=r"sentences have vectors was false, is true.*ingest --again"):
        encoder.fit(Manifest.from_json(before))


def test_a_store_without_dense_vectors_is_asked_without_them() -> None:
    """It was made where the built-in model would not do; a question needs no more than is there."""
    words_only = open_encoder(course_settings(Config(text='[RAG]\nlanguage = "de"')), DEFAULT)
    fitted = encoder_for().fit(Manifest(**words_only.manifest_parts))
    assert set(fitted.encode_query("Haus", languages=["de"])) == {"sparse"}
