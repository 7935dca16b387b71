"""Whatever is done to the documents of a course: after an ingest, the store is what a first ingest would make."""

from __future__ import annotations

from contextlib import ExitStack

from fakes.courses import Course
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)
from memory import temporary_folder

_WORDS = ["cell", "leaf", "tax", "law", "residual", "model", "green", "divides", "estimated", "never"]
_PARAGRAPHS = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=12).map(" ".join) | st.sampled_from(
    ["The same in many places.", "$$x = 1$$", "```r\n1 + 1\n```", "- one\n- two", "word " * 500]
)
_METADATA = st.sampled_from(["", "---\ntopic: x\n---\n", "---\ntype: exercise\n---\n", "---\n~summary_: Short.\n---\n"])
_SECTIONS = st.builds(
    lambda metadata, level, title, paragraphs: f"{metadata}{'#' * level} {title}\n\n" + "\n\n".join(paragraphs) + "\n",
    _METADATA, st.integers(1, 3), st.sampled_from("ABC"), st.lists(_PARAGRAPHS, max_size=4),
)  # fmt: skip
_NAMES = st.sampled_from(["a.md", "b.Rmd", "notes/a.md", "notes/c.qmd"])
_DOCIDS = st.sampled_from(["", "one", "two", "three"])


class Courses(RuleBasedStateMachine):
    """Files are lists of sections under a docid, or none; no two have the same."""

    files = Bundle("files")

    @initialize()
    def begin(self) -> None:
        """An empty course."""
        self.stack = ExitStack()
        self.course = Course(self.stack.enter_context(temporary_folder()))
        self.scratches = 0
        self.sections: dict[str, list[str]] = {}
        self.docids: dict[str, str] = {}

    @rule(target=files, name=_NAMES, docid=_DOCIDS, sections=st.lists(_SECTIONS, max_size=4))
    def add(self, name: str, docid: str, sections: list[str]) -> str:
        """Write a file, perhaps over one that is there."""
        if docid in [other for file, other in self.docids.items() if file != name]:
            docid = ""
        self.sections[name], self.docids[name] = list(sections), docid
        self.write(name)
        return name

    @rule(name=files, at=st.integers(0, 4), section=_SECTIONS)
    def insert(self, name: str, at: int, section: str) -> None:
        """Insert a section."""
        if name in self.sections:
            self.sections[name].insert(at, section)
            self.write(name)

    @rule(name=files, at=st.integers(0, 4), paragraph=_PARAGRAPHS)
    def change(self, name: str, at: int, paragraph: str) -> None:
        """Add a paragraph to a section."""
        if len(self.sections.get(name, [])) > at:
            self.sections[name][at] += f"\n{paragraph}\n"
            self.write(name)

    @rule(name=files, at=st.integers(0, 4), to=st.integers(0, 4))
    def move(self, name: str, at: int, to: int) -> None:
        """Move a section within its file."""
        if len(self.sections.get(name, [])) > at:
            self.sections[name].insert(to, self.sections[name].pop(at))
            self.write(name)

    @rule(name=files, other=files, at=st.integers(0, 4))
    def move_to_other(self, name: str, other: str, at: int) -> None:
        """Move a section to another file."""
        if other in self.sections and len(self.sections.get(name, [])) > at:
            self.sections[other].append(self.sections[name].pop(at))
            self.write(name)
            self.write(other)

    @rule(name=files, at=st.integers(0, 4))
    def delete(self, name: str, at: int) -> None:
        """Delete a section."""
        if len(self.sections.get(name, [])) > at:
            del self.sections[name][at]
            self.write(name)

    @rule(name=consumes(files))
    def delete_file(self, name: str) -> None:
        """Delete a file."""
        if self.sections.pop(name, None) is not None:
            del self.docids[name]
            (self.course.folder / name).unlink()

    @rule(target=files, name=consumes(files), to=_NAMES)
    def rename(self, name: str, to: str) -> object:
        """Rename a file, perhaps over another."""
        if name not in self.sections:
            return multiple()
        self.sections[to], self.docids[to] = self.sections.pop(name), self.docids.pop(name)
        (self.course.folder / to).parent.mkdir(exist_ok=True)
        (self.course.folder / name).rename(self.course.folder / to)
        return to

    @rule()
    def ingest(self) -> None:
        """Ingest; compare with another store that has never seen anything else; then ingest once more."""
        report = self.course.ingest(prune=True)
        assert not report.failed
        self.scratches += 1
        scratch = Course(self.course.folder, self.course.embedder, f"scratch{self.scratches}")
        scratch.ingest()
        assert self.course.contents() == scratch.contents()
        self.course.ingest()
        assert self.course.embedder.seen == []

    def write(self, name: str) -> None:
        """Write a file as it is meant to be."""
        header = f"---\ndocid: {self.docids[name]}\n---\n" if self.docids[name] else ""
        self.course.write(name, header + "\n".join(self.sections[name]))

    def teardown(self) -> None:
        """Remove the course."""
        self.stack.close()


def test_the_store_is_what_a_first_ingest_makes() -> None:
    """Over any sequence of changes to sections and files."""
    examples = max(settings.default.max_examples // 5, 1) if settings.default else 20
    run_state_machine_as_test(Courses, settings=settings(max_examples=examples, stateful_step_count=12))
