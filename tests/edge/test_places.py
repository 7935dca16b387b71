"""The place in the original: pages, slides and minutes of what was imported, from the import to the sources."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import httpx2
import pytest
from edge.import_documents import need_importer, pandoc
from edge.knit_tools import need
from edge.serving import serving
from edge.support import lmm, run_here
from edge.test_mcp_server import connected, text_of
from fakes.openai_server import ScriptedServer
from fakes.pdf_writer import PdfPage, pdf_of

from lmm import Document
from lmm.importing import import_file
from lmm.markdown.page_marks import PAGE_MARK, Pages
from lmm.testing import ScriptedModel
from lmm_education.config import Preparation
from lmm_education.exports import to_langchain_documents
from lmm_education.ingestion.prepare import prepare_document

FILL = "The garden behind the old house keeps what nobody has planted, and it grows as it likes."
PAGES = (
    ["Oak leaves are lobed.", "Beech leaves are entire."],
    ["Larches drop needles in October.", "Spruces keep needles for seven years."],
    ["Maples bleed sugar in March.", "Birches feed mites."],
)
SLIDES = ("Roots drink water.", "Bark stops beetles.", "Cork floats.", "Sap rises by suction.", "Pith is soft.",
          "Cambium makes wood.")  # fmt: skip
SAID = {
    "57:00": "Chlorophyll absorbs red light.",
    "58:30": "Carotene absorbs blue light.",
    "1:00:00": "Anthocyanin makes October red.",
    "1:01:30": "Tannin makes leaves brown.",
    "1:03:00": "Stomata breathe at night.",
    "1:04:30": "Wax keeps rain off.",
}
PLACES = {
    **{said: f"p. {n}" for n, page in enumerate(PAGES, 1) for said in page},
    "Poplars make paper, and they are felled when they are thirty years old.": "p. 3–4",
    "Willows stand at the water.": "p. 4",
    **{said: f"slide {n}" for n, said in enumerate(SLIDES, 1)},
    **{said: start for start, said in SAID.items()},
}
"""Twenty sentences, and where each is."""


def originals(folder: Path) -> list[Path]:
    """A PDF with a heading on each page and a paragraph over two, a deck, and subtitles."""
    pages = [PdfPage() for _ in range(4)]
    for number, (page, said) in enumerate(zip(pages, PAGES, strict=False), 1):
        page.text(72, 80, f"Chapter {number}", size=18, font="bold")
        y = 110.0
        for sentence in said:
            y = page.lines(72, y, [sentence, FILL, FILL]) + 12
    pages[2].lines(72, 780, ["Poplars make paper, and they are felled when"])
    y = pages[3].lines(72, 80, ["they are thirty years old.", "", "Willows stand at the water."])
    (folder / "trees.pdf").write_bytes(pdf_of(pages))
    pptx = pytest.importorskip("pptx")
    deck = pptx.Presentation()
    for number, sentence in enumerate(SLIDES, 1):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = f"Topic {number}", sentence
    deck.save(folder / "deck.pptx")
    cues = list[str]()
    for start, sentence in SAID.items():
        begin = Pages.read(start).first
        said = [f"<v Ada>{sentence}</v>", *[f"<v Ada>{FILL}</v>"] * 9]
        for second, each in zip(range(begin, begin + 90, 9), said, strict=True):
            cues.append(f"{Pages('', second, second)}.000 --> {Pages('', second + 8, second + 8)}.500\n{each}")
    (folder / "talk.vtt").write_text("WEBVTT\n\nNOTE made by hand\n\n" + "\n\n".join(cues) + "\n")
    return [folder / name for name in ("trees.pdf", "deck.pptx", "talk.vtt")]


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the three originals and their imports: importing takes a second."""
    need_importer()
    folder = tmp_path_factory.mktemp("material")
    for path in originals(folder):
        import_file(path)
    return folder


def texts_of(material: Path) -> dict[str, str]:
    """What was imported, by the name of its original without the end."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in material.glob("*.md")}
    assert len(texts) == 3
    return texts


def without_marks(text: str) -> str:
    """The document as it was imported before there were marks."""
    return re.sub(rf"(?m)^{PAGE_MARK.pattern}\n+", "", text)


# -- the marks -----------------------------------------------------------------------------------------------


def test_a_mark_is_before_a_text_or_below_a_heading_and_cuts_nothing(material: Path, tmp_path: Path) -> None:
    """What runs over two pages has one mark, and the next text another."""
    table = [PdfPage(), PdfPage()]
    for page, rows in zip(table, (["Tree Leaf", "oak lobed"], ["elm oblique", "ash pinnate"]), strict=True):
        top = 760 if page is table[0] else 60
        for n in range(3):
            page.rule(72, top + 20 * n, 300, top + 20 * n)
        for x in (72, 180, 300):
            page.rule(x, top, x, top + 40)
        for n, row in enumerate(rows):
            for column, word in enumerate(row.split()):
                page.text(80 + 108 * column, top + 15 + 20 * n, word)
    table[1].lines(72, 200, [FILL])
    (tmp_path / "table.pdf").write_bytes(pdf_of(table))
    body = import_file(tmp_path / "table.pdf").text.partition("---\n\n")[2]
    first, table_rows, second, rest = body.split("\n\n")
    assert (first, second, rest) == ("<!-- p. 1–2 -->", "<!-- p. 2 -->", f"{FILL}\n")
    assert all(word in table_rows for word in ("Tree", "lobed", "elm", "pinnate"))
    text = texts_of(material)["trees"]
    assert "# Chapter 2\n\n<!-- p. 2 -->\n\nLarches" in text
    assert f"{FILL}\n\n<!-- p. 3–4 -->\n\nPoplars make paper, and they are felled when they are thirty" in text
    assert "years old.\n\n<!-- p. 4 -->\n\nWillows" in text


@pytest.mark.parametrize("size", [120, 2000])
def test_texts_and_chunks_are_those_of_a_document_without_marks(material: Path, size: int) -> None:
    """Marks are neither embedded nor searched; nothing is pooled or cut in another way."""
    for text in texts_of(material).values():
        settings = Preparation(max_size=size, min_size=size // 4)
        marked, bare = (
            prepare_document(each, docid="d", file="d.md", settings=settings) for each in (text, without_marks(text))
        )
        assert "<!--" in text
        assert "<!--" not in str(marked)
        assert [(c.id, c.text, c.above, c.place.headings) for c in marked.chunks] == [
            (c.id, c.text, c.above, c.place.headings) for c in bare.chunks
        ]
        assert [section.text for section in marked.sections] == [section.text for section in bare.sections]


@pytest.mark.parametrize("form", ["latex", "plain", "html", "docx"])
def test_what_pandoc_renders_is_the_same_with_and_without_marks(material: Path, form: str) -> None:
    """Byte for byte; the source of a web page has the comment where nobody sees it."""
    options = ["-f", "markdown", "-t", "html", "--strip-comments"] if form == "html" else ["-f", "markdown", "-t", form]
    options += ["-o", "-"] if form == "docx" else []
    shown = (lambda data: pandoc(data, "-f", "docx", "-t", "native")) if form == "docx" else bytes
    for text in texts_of(material).values():
        assert shown(pandoc(text.encode(), *options)) == shown(pandoc(without_marks(text).encode(), *options))


def test_what_knitr_makes_is_the_same_but_for_the_marks(material: Path, tmp_path: Path) -> None:
    """knitr leaves comments where they are."""
    need("Rscript", "knitr")
    for name, text in texts_of(material).items():
        (tmp_path / f"{name}.Rmd").write_text(text)
    code = 'for (f in list.files(pattern = "Rmd$")) knitr::knit(f, paste0(f, ".out"), quiet = TRUE)'
    subprocess.run(["Rscript", "-e", code], cwd=tmp_path, check=True, capture_output=True)
    for path in tmp_path.glob("*.Rmd"):
        assert (tmp_path / f"{path.name}.out").read_text() == path.read_text()


def test_an_edit_that_loses_a_mark_says_so() -> None:
    """Also if the request is to shorten the text."""
    text = "---\n=: put it into one sentence\n---\n# Trees\n\n<!-- p. 7 -->\n\nOaks grow. They fall.\n"
    document = Document.from_text(text)
    document.answer(model=ScriptedModel(["<new>Oaks grow and fall.</new>"]))
    assert "it drops the mark of a page '<!-- p. 7 -->'" in document.edits[0].warnings
    kept = Document.from_text(text)
    kept.answer(model=ScriptedModel(["<new><!-- p. 7 -->\n\nOaks grow and fall.</new>"]))
    assert kept.edits[0].warnings == ()


# -- subtitles -----------------------------------------------------------------------------------------------


def subtitles(tmp_path: Path, name: str, data: bytes) -> str:
    """The markdown of subtitles, a line each block."""
    (tmp_path / name).write_bytes(data)
    report = import_file(tmp_path / name, force=True)
    assert not any("not read" in note for note in report.notes), report.notes
    return report.text.partition("---\n\n")[2].replace("\n\n", "\n").strip()


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        (
            "tags.vtt",
            "WEBVTT - a talk\nLanguage: en\n\nSTYLE\n::cue { color: red }\n\nNOTE\nnot said\n\nintro\n"
            "00:00.500 --> 00:04.000 align:start position:0%\n<v Roger B>We are &amp; <i>were</i> here: vector<int>.\n"
            "\n00:04.000 --> 00:09.000\n<v.loud Neil>In two\nlines</v>\n",
            "<!-- 0:00–0:04 -->\n**Roger B:** We are \\& were here: vector\\<int\\>.\n"
            "<!-- 0:04–0:09 -->\n**Neil:** In two lines",
        ),
        (
            "windows.srt",
            '\ufeff1\n00:00:01,000 --> 00:00:02,000\n{\\an8}<font color="red">Hallo</font> Welt.\n\n'
            "2\n00:00:02,500 --> 00:00:40,000\nYes.\n3\n00:00:40,500 --> 00:00:44,000\nYes.\n\n4\n"
            "00:00:45,000 --> 00:00:50,000\n42\n".replace("\n", "\r\n"),
            "<!-- 0:01–0:02 -->\nHallo Welt.\n<!-- 0:02–0:40 -->\nYes.\n<!-- 0:40–0:50 -->\nYes. 42",
        ),
        (
            "rolling.vtt",
            "WEBVTT\nKind: captions\n\n00:00:00.160 --> 00:00:02.389\n \nso<00:00:00.480><c> welcome</c>\n\n"
            "00:00:02.389 --> 00:00:02.399\nso welcome\n \n\n00:00:02.399 --> 00:00:05.000\nso welcome\n"
            "to<00:00:03><c> leaves</c>\n",
            "<!-- 0:00–0:05 -->\nso welcome to leaves",
        ),
        (
            "long.srt",
            "".join(f"{n}\n00:{n // 6:02}:{n % 6}0,0 --> 00:{n // 6:02}:{n % 6}9,0\nword{n}\n\n" for n in range(13)),
            "<!-- 0:00–0:59 -->\nword0 word1 word2 word3 word4 word5\n"
            "<!-- 1:00–1:59 -->\nword6 word7 word8 word9 word10 word11\n<!-- 2:00–2:09 -->\nword12",
        ),
        (
            "marks.srt",
            "1\n00:00:01,0 --> 00:00:02,0\n- ?: why\n\n2\n00:00:09,0 --> 00:00:10,0\n---\n# no heading\n",
            "<!-- 0:01–0:02 -->\n\\- ?: why\n<!-- 0:09–0:10 -->\n--- \\# no heading",
        ),
    ],
    ids=lambda value: value if str(value).endswith((".vtt", ".srt")) else "",
)
def test_subtitles_become_paragraphs_with_their_times(tmp_path: Path, name: str, data: str, shown: str) -> None:
    """Tags, notes, ids, settings, Windows' files, captions that roll, speech without an end."""
    assert subtitles(tmp_path, name, data.encode()) == shown


def test_a_file_without_subtitles_is_refused(tmp_path: Path) -> None:
    """With what one looks like."""
    (tmp_path / "a.srt").write_text("nothing\n")
    with pytest.raises(Exception, match="there are no subtitles in this file"):
        import_file(tmp_path / "a.srt")


# -- the sources ---------------------------------------------------------------------------------------------


def course_of(folder: Path, material: Path) -> Path:
    """A course of the three imports and their originals in a folder of it; its configuration file."""
    shutil.copytree(material, folder / "material")
    (folder / ".lmm").mkdir()
    config = folder / "config.toml"
    with config.open("a") as written:
        written.write('[embedding]\nmodel = "Builtin/wordllama"\n[serve]\nquestions_per_minute = 0\n')
    assert lmm("ingest", "material").code == 0
    return config


def is_right(page: str, place: str) -> bool:
    """Whether a source names the place of a sentence, within two pages or ten minutes, or the very slide."""
    named, wanted = Pages.read(page), Pages.read(place)
    wide = {"p.": 2, "slide": 1, "": 600}[wanted.unit]
    return named.unit == wanted.unit and named.first <= wanted.first <= wanted.last <= named.last < named.first + wide


def post(address: str, body: dict[str, Any]) -> str:
    """What the server sends."""
    request = Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as response:
        text: str = response.read().decode()
    return text


def number_of(said: str, prompt: str) -> str:
    """The number of the source that has a sentence."""
    sources = re.findall(r'<source number="(\d+)"[^>]*>(.*?)</source>', prompt, re.DOTALL)
    return next(str(number) for number, text in sources if said in " ".join(text.split()))


def test_twenty_sentences_have_their_place_at_five_exits(
    folder: Path, material: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Terminal, JSON, the page, the API and the tools of agents; with a link to the page of the file."""
    config, found = course_of(folder, material), list[tuple[str, str, dict[str, Any]]]()
    server.answer = lambda request: "It is so [1]."
    assert len(PLACES) == 20
    for start, said in SAID.items():
        server.answer = lambda request, said=said: f"{said} [{number_of(said, request.last)}]"  # type: ignore[misc]
        (source,) = json.loads(run_here(capsys, "ask", said, "--json").out)["sources"]
        minutes, second = Pages.read(source["page"]), Pages.read(start).first
        assert minutes.first <= second <= minutes.last < minutes.first + 120, (said, source["page"])
    server.answer = lambda request: "It is so [1]."
    for said, place in PLACES.items():
        (hit,) = json.loads(run_here(capsys, "search", said, "--limit", "1", "--json").out)["hits"]
        assert said in hit["text"]
        assert is_right(hit["page"], place), (said, hit["page"])
        file = hit["file"].replace(".md", {"p": ".pdf", "s": ".pptx"}.get(place[0], ".vtt"))
        page = f"#page={Pages.read(hit['page']).first}" if place.startswith("p.") else ""
        assert hit["link"] == f"{file}{page}"
        lines = "-".join(map(str, dict.fromkeys(hit["lines"])))
        shown_place = f"{hit['file']}:{lines}, {hit['page']}"
        found.append((said, shown_place, hit))
        shown = run_here(capsys, "search", said, "--limit", "1").out.partition("\n")[0]
        assert shown_place in shown
        assert hit["link"] in shown

    async def tools() -> None:
        async with connected() as client:
            for said, place, _ in found:
                assert f'from="{place}"' in await text_of(client, "search", query=said, limit=1)
                opened = await text_of(client, "open_section", place=place)
                assert said in opened, place

    asyncio.run(tools())
    with serving(config) as address:
        for said, _, hit in found:
            server.answer = lambda request, said=said: f"It is so [{number_of(said, request.last)}]."  # type: ignore[misc]
            events = [json.loads(line[6:]) for line in post(f"{address}/chat", {"question": said}).split("\n")
                      if line.startswith('data: {"html"') and '"sources"' in line]  # fmt: skip
            sources = [source for event in events for source in (*event["sources"], *event["read"])]
            named = [source["page"] for source in sources if source["section"] == hit["section"]]
            assert named, said
            assert all(is_right(page, PLACES[said]) for page in named), (said, named)
            body = {"model": "course", "messages": [{"role": "user", "content": said}]}
            answer = json.loads(post(f"{address}/v1/chat/completions", body))
            pages = [each["page"] for each in answer["sources"] if each["headings"] == hit["headings"]]
            assert any(is_right(page, PLACES[said]) for page in pages), (said, pages)
            assert any(f", {page})" in answer["choices"][0]["message"]["content"] for page in pages)


def test_students_open_the_page_of_a_pdf_where_nothing_of_it_is_withheld(
    folder: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only if the teacher says so; an address is worth nothing once something is withheld or skipped."""
    text, document = (
        "---\nsource: trees.pdf\n---\n# Trees\n\n<!-- p. 7 -->\n\nBirches feed mites.\n",
        folder / "trees.md",
    )
    (folder / "trees.pdf").write_bytes(b"%PDF-1.7\nbirches and solutions")
    (folder / ".lmm").mkdir()
    config = folder / "config.toml"
    settings = f'{config.read_text()}[embedding]\nmodel = "Builtin/wordllama"\n[serve]\nquestions_per_minute = 0\n'
    server.answer = lambda request: "Birches feed mites [1]."

    def original(address: str) -> str:
        events = [line[6:] for line in post(f"{address}/chat", {"question": "Birches?"}).split("\n") if "{" in line]
        (source,) = next(
            event["sources"] for event in map(json.loads, events) if "html" in event and "sources" in event
        )
        assert source["page"] == "p. 7"
        return str(source["original"])

    for allowed in ("", "originals = true\n"):
        config.write_text(settings + allowed)
        document.write_text(text)
        assert run_here(capsys, "ingest", "trees.md").code == 0
        with serving(config) as address:
            link, _, page = original(address).partition("#")
            if not allowed:
                assert not link
                continue
            assert page == "page=7"
            with urlopen(f"{address}/{link}") as response:
                assert response.read() == (folder / "trees.pdf").read_bytes()
                assert response.headers["Content-Type"] == "application/pdf"
            for added in ("---\nskip: true\n---\n# Later\n\nText.\n", "---\ntype: solution\n---\nMites.\n"):
                document.write_text(f"{text}\n{added}")
                assert run_here(capsys, "ingest", "trees.md").code == 0
                assert not original(address)
                assert httpx2.get(f"{address}/{link}").status_code == 404
            document.write_text(text)
            assert run_here(capsys, "ingest", "trees.md").code == 0
            assert httpx2.get(f"{address}/{link}").status_code == 200
            assert httpx2.get(f"{address}/{link}x").status_code == 404


def test_a_prepared_document_keeps_the_places(folder: Path, material: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is reviewed and ingested instead of the import."""
    course_of(folder, material)
    best = ("--limit", "1", "--json")
    before = {said: json.loads(run_here(capsys, "search", said, *best).out)["hits"] for said in PLACES}
    assert run_here(capsys, "ingest", "material", "--save-files", "--again").code == 0
    assert run_here(capsys, "ingest", *map(str, Path("material").glob("*.pooled.md"))).code == 0
    for said, (hit,) in before.items():
        (now,) = json.loads(run_here(capsys, "search", said, *best).out)["hits"]
        assert now["file"].endswith(".pooled.md")
        assert (now["text"], now["page"], now["link"]) == (hit["text"], hit["page"], hit["link"])


def test_without_the_original_only_the_words_are_there(
    folder: Path, material: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A document without marks has neither; an original that comes later is linked at the next ingestion."""
    course_of(folder, material)
    name, said = folder / "material/trees.pdf", "Birches feed mites."
    pdf = name.read_bytes()
    name.unlink()

    def hit() -> dict[str, object]:
        assert run_here(capsys, "ingest", "material").code == 0
        (found,) = json.loads(run_here(capsys, "search", said, "--limit", "1", "--json").out)["hits"]
        return dict(found)

    assert hit()["page"] == "p. 3–4"
    assert "link" not in hit()
    name.write_bytes(pdf)
    assert hit()["link"] == "material/trees.pdf#page=3"
    text = name.with_suffix(".md").read_text()
    name.with_suffix(".md").write_text(without_marks(text))
    assert "page" not in hit()
    assert "link" not in hit()


def test_documents_of_frameworks_have_the_page(material: Path) -> None:
    """In their metadata."""
    pytest.importorskip("langchain_core")
    text = texts_of(material)["deck"]
    document = prepare_document(text, docid="d", file="d.md", settings=Preparation(), original="deck.pptx")
    pages = {each.page_content: each.metadata["page"] for each in to_langchain_documents([document])}
    assert all(page == PLACES[said] for said, page in pages.items())
    assert len(pages) == len(SLIDES)
