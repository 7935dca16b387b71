"""LM Markdown for courses: prepare documents, store them, search and ask them. `Course` has it all.

Importing this package reads no file, writes no file and opens no connection.

>>> import lmm_education
>>> "ingest" in dir(lmm_education)
True
"""

from lmm.lazy import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors and type checkers, which take this name for true
    from lmm_education.answer.answers import Answer
    from lmm_education.course import (
        Course,
        aingest,
        aquery,
        aquerydb,
        ingest,
        prepare,
        query,
        querydb,
        to_points,
    )
    from lmm_education.exports import to_langchain_documents, to_llama_index_nodes
    from lmm_education.ingestion.report import IngestReport
    from lmm_education.search.found import SearchResult

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "lmm_education.answer.answers": ("Answer",),
    "lmm_education.course": (
        "Course",
        "aingest",
        "aquery",
        "aquerydb",
        "ingest",
        "prepare",
        "query",
        "querydb",
        "to_points",
    ),
    "lmm_education.exports": ("to_langchain_documents", "to_llama_index_nodes"),
    "lmm_education.ingestion.report": ("IngestReport",),
    "lmm_education.search.found": ("SearchResult",),
}

__all__ = [
    "Answer",
    "Course",
    "IngestReport",
    "SearchResult",
    "aingest",
    "aquery",
    "aquerydb",
    "ingest",
    "prepare",
    "query",
    "querydb",
    "to_langchain_documents",
    "to_llama_index_nodes",
    "to_points",
]

__getattr__, __dir__ = lazily(__name__, _PUBLIC)
