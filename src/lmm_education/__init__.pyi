"""What can be imported from here: for type checkers and editors, and for `lazy_loader`."""

from .answer.answer import Answer as Answer, AskOptions as AskOptions
from .course import (
    Course as Course,
    ingest as ingest,
    query as query,
    querydb as querydb,
)
from .exports import to_langchain_documents as to_langchain_documents, to_llama_index_nodes as to_llama_index_nodes
from .ingestion.plan import IngestOptions as IngestOptions, IngestReport as IngestReport
from .search.query import SearchOptions as SearchOptions, SearchResult as SearchResult
