"""Structured data from documents: one record per section, by a schema (see `lmm.extract`, `lmm.Document.extract`)."""

from lmm.extraction.records import Record
from lmm.models.structured import Schema, load_schema, make_schema

__all__ = ["Record", "Schema", "load_schema", "make_schema"]
