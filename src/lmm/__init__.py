"""LM Markdown: markdown in which people and language models work together.

`lmm.markdown` reads and changes documents, `lmm.scan` works on whole files, `lmm.models` talks to
language models. Importing this package reads no file, writes no file and opens no connection.

>>> import lmm
>>> "ask" in dir(lmm)
True
"""

from lmm.lazy import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors and type checkers, which take this name for true
    from lmm.conversation import aask, aedit, ask, edit
    from lmm.extraction import ExtractionFailed, Record, aextract, extract
    from lmm.scan.batch import Batch, batch_model

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "Batch": "lmm.scan.batch",
    "ExtractionFailed": "lmm.extraction",
    "Record": "lmm.extraction",
    "aask": "lmm.conversation",
    "aedit": "lmm.conversation",
    "aextract": "lmm.extraction",
    "ask": "lmm.conversation",
    "batch_model": "lmm.scan.batch",
    "edit": "lmm.conversation",
    "extract": "lmm.extraction",
}

__all__ = [
    "Batch",
    "ExtractionFailed",
    "Record",
    "aask",
    "aedit",
    "aextract",
    "ask",
    "batch_model",
    "edit",
    "extract",
]

__getattr__, __dir__ = lazily(__name__, _PUBLIC)
