"""Searching a small course with known answers, on both stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from unit.lmm_education.search.conftest import Open, Writing, course, encoder_for, fill, id_of, search_of

from lmm.models.port import Progress, Side
from lmm.testing import HashEmbedder
from lmm_education.config import SearchSettings
from lmm_education.encodings import ENCODINGS
from lmm_education.errors import SearchError, StoreMismatch, StoreMissing
from lmm_education.material import Lines, Location
from lmm_education.options import SearchOptions
from lmm_education.store.edge import EdgeStore
from lmm_education.store.server_requests import Requests

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")  # of qdrant-client's memory mode
ASKED = [name for name in ENCODINGS if name != "none"]
GREEN = "What makes leaves green?"


def names(ids: object) -> list[str]:
    """The names that the tests give to points, for ids or hits."""
    known = {id_of(chunk.place.document + "/" + chunk.place.headings[0]): chunk.place.headings[0] for d in course()
             for chunk in d.chunks}  # fmt: skip
    for name in ("green", "autumn", "alcohol", "hairs", "dig", "xylem", "joint", "brief"):
        known[id_of(name)] = name
    return [known[getattr(each, "id", each)] for each in ids]  # type: ignore[attr-defined]


# -- encodings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ASKED)
def test_every_encoding_finds_what_was_asked_for(open_search: Open, encoding: str) -> None:
    """The passage that answers comes first, with its place, and its section before all others."""
    result = open_search(encoding).search(GREEN)
    assert names(result.hits)[0] == "green"
    assert str(result.hits[0].place) == "notes/botany.md:1-4"
    assert result.hits[0].place.headings == ("Leaves",)
    assert set(result.hits[0].legs) == set(ENCODINGS[encoding].vectors_with("model"))
    assert names(result.sections)[0] == "Leaves"


def test_annotations_alone_do_not_find_the_content(open_search: Open) -> None:
    """``sparse`` encodes no content."""
    searcher = open_search("sparse")
    assert names(searcher.search("trees in autumn").hits) == ["autumn"]
    assert not searcher.search("carotenoids").hits


def test_content_alone_does_not_find_annotations(tmp_path: Path, open_search: Open) -> None:
    """``content`` encodes no annotations: their words bring no passage up."""
    yellow, carotenoids = (open_search("content").search(q).hits for q in ("yellow trees", "carotenoids show"))
    assert names(carotenoids)[0] == "autumn"
    assert names(yellow)[0] != "autumn" or yellow[0].legs["dense"] < carotenoids[0].legs["dense"]


def test_without_encoding_passages_are_fetched_or_listed(open_search: Open) -> None:
    """A question is refused with what can be done."""
    searcher = open_search("none")
    with pytest.raises(SearchError, match="--id"):
        searcher.search(GREEN)
    assert names(searcher.fetch([id_of("dig"), id_of("green")]).hits) == ["dig", "green"]
    assert names(searcher.search("", SearchOptions(types=("exercise",))).hits) == ["alcohol", "dig"]
    assert names(searcher.search("*exercise*").hits) == ["alcohol", "dig"]


def test_a_rare_word_decides(open_search: Open) -> None:
    """IDF: one rare word counts for more than two that are everywhere."""
    filler = {f"f{i}": "The solution of the problem is a number." for i in range(9)}
    document = Writing("maths").section("A", **filler, rare="A quaternion.").made()
    searcher = open_search("hybrid", [document], language="de", embedder=None)  # BM25 alone
    assert searcher.search("problem solution quaternion").hits[0].id == id_of("rare")


# -- languages -------------------------------------------------------------------------------------


def test_german_words_are_stemmed_and_stop_words_do_not_count(open_search: Open) -> None:
    """In a course whose documents say ``lang: de``, next to an English one."""
    german = Writing("kunde", "de").section("Bau", dach="Die Dächer der Häuser sind rot.", tor="Das Tor ist zu.").made()
    searcher = open_search("hybrid", [german, *course()])
    assert set(searcher.search("rot").languages) == {"de", "en"}
    assert searcher.search("Haus mit Dach").hits[0].id == id_of("dach")
    words_only = search_of(
        searcher.course.store, replace(encoder_for("hybrid")), searcher.course.settings.search.replace(dense_weight=0.0)
    )
    assert [hit.id for hit in words_only.search("Haus").hits] == [id_of("dach")]
    assert not words_only.search("weder noch aber").hits


# -- words and meaning -----------------------------------------------------------------------------


def test_what_was_said_already_comes_after_all_else(open_search: Open) -> None:
    """No sentence is offered three times; code that has the letters of a word does not hold it."""
    said = "NA means that a value is missing, because nobody has measured it, or because somebody has lost it since."
    code = f"Here is how the mean is taken of all that there are of them.\n\n```r\n{'mean(x, na.rm = TRUE) ' * 3}\n```"
    document = Writing("data").section("A", one=said, code=code).section("B", two=said).section("Summary", three=said)
    found = [hit.id for hit in open_search("hybrid", [document.made()], embedder=None).search("What is NA?").hits]
    assert found[0] == id_of("one")
    assert found.index(id_of("code")) < found.index(id_of("three"))


class Thesaurus(HashEmbedder):
    """Knows what a learner calls things."""

    def embed(self, texts: Sequence[str], *, kind: Side, on_progress: Progress | None = None) -> list[list[float]]:
        """As the words of the course."""
        said = [
            text.replace("hue", "green").replace("foliage", "leaves").replace("dye", "chlorophyll") for text in texts
        ]
        return super().embed(said, kind=kind)


def test_a_question_in_other_words_is_found_by_its_meaning(open_search: Open) -> None:
    """A single word of it, in the wrong passage, does not decide; unless the weights are set."""
    aside = Writing("aside").section("Notes", note="Do give, and give again.").made()
    searcher = open_search("hybrid", [*course(), aside], embedder=Thesaurus(256))
    fixed = search_of(
        searcher.course.store, encoder_for("hybrid", embedder=Thesaurus(256)), SearchSettings(sparse_weight=0.75)
    )
    question = "Which dyes give foliage its hue?"
    assert searcher.search(question).hits[0].id == id_of("green")
    assert fixed.search(question).hits[0].id == id_of("note")


# -- how many --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 8, 50])
@pytest.mark.parametrize("encoding", ["hybrid", "content"])
def test_the_limit_is_exact(open_search: Open, encoding: str, limit: int) -> None:
    """So many, if there are so many; even with fewer candidates a leg than that."""
    result = open_search(encoding, prefetch=2).search("water and light", SearchOptions(limit=limit))
    assert len(result.hits) == min(limit, 8)
    assert len({hit.id for hit in result.hits}) == len(result.hits)
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)


def test_the_configured_limit_holds_if_none_is_given(open_search: Open) -> None:
    """And the threshold of candidates does not change what comes first."""
    assert names(open_search(limit=2).search(GREEN).hits)[0] == "green"


# -- types of material -----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ASKED)
def test_a_type_in_the_question_is_boosted(open_search: Open, encoding: str) -> None:
    """It is no part of what is looked up; that type comes first, the best of it at the top, the rest follows."""
    result = open_search(encoding, prefetch=2).search("How is chlorophyll extracted? *Exercise*")
    assert result.text == "How is chlorophyll extracted?"
    assert result.types == ("exercise",)
    assert names(result.hits)[0] == "alcohol"
    assert {hit.type for hit in result.hits[:1]} == {"exercise"}
    if encoding == "hybrid":
        assert {hit.type for hit in result.hits} >= {"exercise", "text"}


def test_a_type_in_the_question_counts_in_companion_mode(open_search: Open) -> None:
    """The section of the exercise comes first."""
    result = open_search().search("count hairs *exercise*", SearchOptions(companion=True))
    assert names(result.hits)[0] == "Roots"
    assert result.types == ("exercise",)


def test_an_unknown_keyword_is_left_alone(open_search: Open) -> None:
    """It may be emphasis."""
    result = open_search().search("What makes leaves *really* green?")
    assert result.text == "What makes leaves *really* green?"
    assert result.types == ()


def test_a_hit_on_a_summary_votes_for_its_section(open_search: Open) -> None:
    """As any passage does."""
    result = open_search().search("tax law in brief", SearchOptions(limit=1))
    assert names(result.hits) == ["brief"]
    assert names(result.sections) == ["Tax"]


# -- filters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (SearchOptions(types=("Exercise",)), {"alcohol", "dig"}),
        (SearchOptions(types=("exercise", "summary")), {"alcohol", "dig", "brief"}),
        (SearchOptions(documents=("law",)), {"joint", "brief"}),
        (SearchOptions(documents=("notes/law.md",), types=("text",)), {"joint"}),
        (SearchOptions(where={"topic": ("colour",)}), {"green"}),
        (SearchOptions(where={"topic": ("colour", "seasons")}), {"green", "autumn"}),
        (SearchOptions(where={"week": ("3",)}), {"green"}),
        (SearchOptions(where={"exam": ("true",)}), {"green"}),
        (SearchOptions(where={"tags": ("pigment",)}), {"green"}),
        (SearchOptions(where={"topic": ("colour",), "week": (4,)}), set()),
        (SearchOptions(where={"type": ("summary",)}), {"brief"}),
        (SearchOptions(where={"first_line": (1,)}), {"green", "joint"}),
    ],
)
def test_filters_are_kept_exactly(open_search: Open, options: SearchOptions, found: set[str]) -> None:
    """Everything that fits, and nothing else, in question and list."""
    searcher = open_search()
    assert set(names(searcher.search("water tax leaves", options).hits)) == found
    assert set(names(searcher.search("", options).hits)) == found


@pytest.mark.parametrize("mark", ["@law", "@LAW.md", "@notes/law.md", '@"law"', "@law,"])
def test_a_document_in_the_question_is_the_only_one_searched(open_search: Open, mark: str) -> None:
    """By docid, file, or the file's name."""
    result = open_search().search(f"{mark} green leaves")
    assert set(names(result.hits)) == {"joint", "brief"}
    assert "law" not in result.text
    assert result.documents == ("law",)


def test_an_unknown_document_in_the_question_is_told(open_search: Open) -> None:
    """The question is looked up as it is."""
    result = open_search().search("green leaves @nobody")
    assert result.text == "green leaves @nobody"
    assert result.notices == ("no document is named 'nobody'; it was searched as a word",)
    assert names(result.hits)[0] == "green"


def test_unknown_names_in_options_are_refused(open_search: Open) -> None:
    """With what there is."""
    searcher = open_search()
    with pytest.raises(SearchError, match=r"law\.md"):
        searcher.search(GREEN, SearchOptions(documents=("lav",)))
    with pytest.raises(SearchError, match="did you mean 'exercise'"):
        searcher.search(GREEN, SearchOptions(types=("exercize",)))


def test_nothing_to_look_up_and_nothing_to_list_is_refused(open_search: Open) -> None:
    """An empty question."""
    with pytest.raises(SearchError, match="no question"):
        open_search().search("  ")


# -- what is returned ------------------------------------------------------------------------------


def test_fields_are_those_asked_for(open_search: Open) -> None:
    """Metadata by its key, our own fields by their names; lists stay lists; what is not there is left out."""
    searcher = open_search()
    fields = ("topic", "tags", "file", "metadata.week", "nothing")
    (hit,) = searcher.search(GREEN, SearchOptions(limit=1, fields=fields)).hits
    assert hit.payload == {
        "topic": "colour",
        "tags": ["light", "pigment"],
        "file": "notes/botany.md",
        "metadata.week": 3,
    }
    assert searcher.search(GREEN, SearchOptions(limit=1, fields=True)).hits[0].payload["metadata"]["exam"] is True
    assert searcher.search(GREEN, SearchOptions(limit=1)).hits[0].payload == {}


def test_passages_and_sections_are_fetched_by_id(open_search: Open) -> None:
    """In the order of the ids; an id that is not there is refused."""
    searcher = open_search()
    leaves = id_of("botany/Leaves")
    result = searcher.fetch([leaves, id_of("green")], fields=("topic",))
    assert [hit.what for hit in result.hits] == ["section", "chunk"]
    assert result.hits[1].payload == {"topic": "colour"}
    with pytest.raises(SearchError, match="no passage with the id"):
        searcher.fetch([id_of("nothing")])
    with pytest.raises(SearchError, match="no passage with the id"):
        searcher.fetch(["no id at all"])


@pytest.mark.parametrize("limit", [1, 2, 4, 9])
def test_companions_are_whole_sections(open_search: Open, limit: int) -> None:
    """Each once, with all its text and its own place; the limit counts sections."""
    result = open_search().search(GREEN, SearchOptions(companion=True, limit=limit))
    assert len(result.hits) == min(limit, 4)
    first = result.hits[0]
    assert first.what == "section"
    assert first.place == Location("botany", "notes/botany.md", Lines(1, 99), ("Leaves",))
    assert "Chlorophyll makes" in first.text
    assert "Put a leaf" in first.text


def test_companions_that_are_not_stored_are_refused(open_search: Open) -> None:
    """With ``documents = "none"``."""
    without = [replace(document, sections=()) for document in course()]
    searcher = open_search("hybrid", without)
    with pytest.raises(SearchError, match="--chunks"):
        searcher.search(GREEN, SearchOptions(companion=True))
    found = searcher.search(GREEN).sections[0]
    assert (found.text, found.title, len(found.hits) > 0) == ("", "Botany", True)


def test_sections_know_their_neighbours(open_search: Open) -> None:
    """The headings before and after; none at the ends."""
    sections = {names([s])[0]: s for s in open_search().search("water root leaf tax").sections}
    around = {name: (s.before, s.after) for name, s in sections.items()}
    assert around == {"Leaves": ("", "Roots"), "Roots": ("Leaves", "Stems"), "Stems": ("Roots", ""), "Tax": ("", "")}
    assert sections["Roots"].depth == 1


def test_a_section_hit_often_comes_before_one_hit_once(open_search: Open) -> None:
    """Where the passages are about as good."""
    often = {f"o{i}": f"The heat pump number {i} warms." for i in range(3)}
    document = Writing("heat").section("Once", once="The heat pump warms.").section("Often", **often).made()
    result = open_search("hybrid", [document]).search("heat pump")
    assert [section.place.headings for section in result.sections] == [("Often",), ("Once",)]
    assert [len(section.hits) for section in result.sections] == [3, 1]


def test_sections_can_be_left_out(open_search: Open) -> None:
    """Then less is read."""
    assert open_search().search(GREEN, SearchOptions(sections=False)).sections == ()


def test_relevance_tells_a_fit_from_a_miss(open_search: Open) -> None:
    """On one scale for all questions; the scores do not."""
    searcher = open_search()
    good, bad = searcher.search(GREEN).relevance, searcher.search("brake lights of lorries").relevance
    assert good is not None
    assert bad is not None
    assert good > bad


# -- the store -------------------------------------------------------------------------------------


def test_a_store_made_with_another_model_is_refused(open_search: Open) -> None:
    """The manifest decides; the message says what to do."""
    searcher = open_search()
    other = search_of(searcher.course.store, encoder_for("hybrid", embedder=HashEmbedder(32)))
    with pytest.raises(StoreMismatch, match="--again"):
        other.search(GREEN)
    with pytest.raises(StoreMismatch, match="encoding_model"):
        search_of(searcher.course.store, encoder_for("content")).search(GREEN)


def test_a_store_without_dense_vectors_is_asked_in_words(open_search: Open) -> None:
    """Made where the built-in model would not do, asked where it would."""
    searcher = open_search(language="de", embedder=None)
    hits = search_of(searcher.course.store, encoder_for("hybrid")).search("leaves green").hits
    assert {name for hit in hits for name in hit.legs} == {"sparse"}


def test_without_a_store_it_is_said_how_to_make_one(tmp_path: Path) -> None:
    """Rather than found nothing."""
    with pytest.raises(StoreMissing, match="lmm ingest"):
        search_of(EdgeStore(tmp_path / "store"), encoder_for("hybrid")).search(GREEN)


def test_what_is_ingested_meanwhile_is_noticed(tmp_path: Path) -> None:
    """New types and documents can be named at once."""
    store, encoder = EdgeStore(tmp_path / "store"), encoder_for("hybrid")
    fill(store, encoder, course())
    searcher = search_of(store, encoder)
    assert searcher.search("leaves *riddle* @trees").types == ()
    riddle = {"text": "What has leaves and no branches?", "type": "riddle"}
    fill(store, encoder, [Writing("trees").section("Play", book=riddle).made()])
    result = searcher.search("leaves *riddle* @trees")
    assert (result.types, result.documents, result.hits[0].id) == (("riddle",), ("trees",), id_of("book"))
    store.close()


# -- what cannot be found --------------------------------------------------------------------------


def test_passages_without_a_word_of_the_question_are_told(open_search: Open) -> None:
    """The nearest in meaning always exist; where words found something, nothing is said."""
    searcher = open_search()
    assert "no passage contains a word" in "".join(searcher.search("zzzzqqqq xyzzy").notices)
    assert not searcher.search(GREEN).notices
    assert not searcher.search("zzzzqqqq", SearchOptions(where={"topic": ["none"]})).notices


@pytest.mark.parametrize("question", ["???!!!", "😀", "…"])
def test_without_letters_there_is_nothing_to_look_up(open_search: Open, question: str) -> None:
    """Rather than whatever is nearest to it; after marks it means nothing."""
    searcher = open_search()
    with pytest.raises(SearchError, match="nothing to search for"):
        searcher.search(question)
    assert {hit.type for hit in searcher.search(f"*exercise* {question}").hits} == {"exercise"}


def test_what_all_texts_are_about_does_not_tell_them_apart(open_search: Open) -> None:
    """Of sentences on leaves, the one on what was asked of them fits best, though the word is a common one."""
    texts = ["Leaves of the oak, leaves again.", "Leaves fall.", "They have a colour."]
    with open_search("sparse").view() as view:
        plain = view.fits("Which colour have leaves?", texts, ["en"])
        apart = view.fits("Which colour have leaves?", texts, ["en"], apart=True)
    assert apart[2] > plain[2] > 0
    assert apart[0] < plain[0]


@pytest.mark.parametrize(
    "question", ["What is a p-value?", "p-value", "What's the difference between p-values and odds?"]
)
def test_the_passage_that_says_what_it_is_comes_first(open_search: Open, question: str) -> None:
    """And its section: others have the word as often, or more often."""
    used = "The p-value of the slope is small; the p-value of the difference is large, and so are the odds of it."
    told = "With it one tells luck from what is there.\n\n> A *$p$-value* is how likely more than was seen would be."
    document = Writing("tests").section("Slopes", used=used).section("Terms", told=told)
    searcher = open_search("hybrid", [document.made()], embedder=None)
    result = searcher.search(question)
    assert [hit.id for hit in result.hits] == [id_of("told"), id_of("used")]
    assert result.sections[0].place.headings == ("Terms",)
    alone = searcher.search(question, SearchOptions(limit=1, sections=False))
    assert [hit.id for hit in alone.hits] == [id_of("told")]


def test_a_question_to_a_server_is_three_requests(open_search: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is it new, the passages by all legs, the sections; what the course contains is read once."""
    searching, calls, call = open_search(), list[str](), Requests.call
    searching.search(GREEN)

    def counted(self: Requests, name: str, **how: object) -> object:
        calls.append(name)
        return call(self, name, **how)

    monkeypatch.setattr(Requests, "call", counted)
    for question in (GREEN, "water or light"):
        calls.clear()
        searching.search(question, SearchOptions(companion=True))
        assert sorted(calls) in ([], ["query_batch_points", "retrieve", "retrieve"])
