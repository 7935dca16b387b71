"""LM Markdown for courses: prepare documents, store them, search and ask them.

Importing this package reads no file, writes no file and opens no connection.

>>> import lmm_education
>>> "ingest" in dir(lmm_education)
True
"""

from lmm.lazy import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors and type checkers, which take this name for true
    from lmm_education.answer.answers import Answer
    from lmm_education.answer.asking import aquery, query
    from lmm_education.exports import prepare, to_langchain_documents, to_llama_index_nodes, to_points
    from lmm_education.ingestion.report import IngestReport
    from lmm_education.ingestion.run import aingest, ingest
    from lmm_education.search.found import SearchResult
    from lmm_education.search.run import aquerydb, querydb

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "Answer": "lmm_education.answer.answers",
    "IngestReport": "lmm_education.ingestion.report",
    "SearchResult": "lmm_education.search.found",
    "aquery": "lmm_education.answer.asking",
    "query": "lmm_education.answer.asking",
    "aingest": "lmm_education.ingestion.run",
    "aquerydb": "lmm_education.search.run",
    "ingest": "lmm_education.ingestion.run",
    "prepare": "lmm_education.exports",
    "querydb": "lmm_education.search.run",
    "to_langchain_documents": "lmm_education.exports",
    "to_llama_index_nodes": "lmm_education.exports",
    "to_points": "lmm_education.exports",
}

__all__ = [
    "Answer",
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
