"""What can be imported from here: for type checkers and editors, and for `lmm.lazy_names`."""

from .answer.answer import Answer as Answer
from .course import (
    Course as Course,
    ingest as ingest,
    query as query,
    querydb as querydb,
)
from .exports import to_langchain_documents as to_langchain_documents, to_llama_index_nodes as to_llama_index_nodes
from .ingestion.reports import IngestReport as IngestReport
from .options import AskOptions as AskOptions, IngestOptions as IngestOptions, SearchOptions as SearchOptions
from .search.query import SearchResult as SearchResult
