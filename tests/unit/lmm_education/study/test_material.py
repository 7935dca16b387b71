"""Types of material, as texts get them."""

from __future__ import annotations

from lmm_education.ingestion.outline import TextItem
from lmm_education.study.study_documents import study_document

TEXT = """---
docid: leaves-1
title: Leaves
---
# A

One.

---
type: exercise
---
## B

Two.

---
type: topic
---
Three.

### C

Four.

---
skip: true
---
Five.
"""


def test_a_text_has_the_type_of_the_nearest_that_has_one() -> None:
    """Its own, its heading's, that of a heading above; what is skipped is not there."""
    document = study_document(TEXT, file="notes/leaves.md", id="other")
    texts = {item.text: item.type for item in document.outline.items if isinstance(item, TextItem)}
    assert texts == {"One.": "text", "Two.": "exercise", "Three.": "topic", "Four.": "exercise"}
    assert (document.id, document.title) == ("leaves-1", "Leaves")


def test_what_a_document_is_called() -> None:
    """Without a docid, what it is given; without a title, the first heading or the file's name."""
    document = study_document("TextItem.\n", file="notes/my leaves.md", id="notes/x.md")
    assert (document.id, document.title) == ("notes/x.md", "my leaves")
    assert study_document("# A\n", file="b.md").title == "A"
