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
    "Answer": "lmm_education.answer.answers",
    "Course": "lmm_education.course",
    "IngestReport": "lmm_education.ingestion.report",
    "SearchResult": "lmm_education.search.found",
    "aquery": "lmm_education.course",
    "query": "lmm_education.course",
    "aingest": "lmm_education.course",
    "aquerydb": "lmm_education.course",
    "ingest": "lmm_education.course",
    "prepare": "lmm_education.course",
    "querydb": "lmm_education.course",
    "to_langchain_documents": "lmm_education.exports",
    "to_llama_index_nodes": "lmm_education.exports",
    "to_points": "lmm_education.course",
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
