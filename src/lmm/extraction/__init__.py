"""Data out of documents: one record, or several, per section, by a Pydantic model or a JSON schema."""

from lmm.extraction.plan import ExtractOptions, plan_extraction
from lmm.extraction.run import (
    Extraction,
    ExtractionFailed,
    Failure,
    Record,
    aextract,
    extract,
    extract_files,
)
from lmm.extraction.schemas import Schema, load_schema

__all__ = [
    "ExtractOptions",
    "Extraction",
    "ExtractionFailed",
    "Failure",
    "Record",
    "Schema",
    "aextract",
    "extract",
    "extract_files",
    "load_schema",
    "plan_extraction",
]
