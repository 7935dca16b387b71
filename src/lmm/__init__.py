"""LM Markdown: markdown in which people and language models work together.

`Document` is a markdown file that talks. `lmm.markdown` reads and changes documents block by block, `lmm.scan` works on
whole files, `lmm.models` talks to language models. Importing this package reads no file, writes no file and opens no
connection.

>>> import lmm
>>> "Document" in dir(lmm)
True
"""

from lmm.lazy import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors and type checkers, which take this name for true
    from lmm.document import BatchFailed, Document
    from lmm.errors import (
        Changed,
        ConfigError,
        DocumentBusy,
        DocumentError,
        EmptyReply,
        FileReadError,
        FileWriteError,
        Interrupted,
        LinkOutside,
        LmmError,
        MetadataError,
        ModelBusy,
        ModelError,
        ModelKeyMissing,
        ModelNotFound,
        ModelNotInstalled,
        ModelRejected,
        ModelTimeout,
        ModelUnavailable,
        NoValidReply,
        PartlyFailed,
        Place,
        UntrustedConfig,
    )
    from lmm.extraction.records import Record
    from lmm.messages import Attachment
    from lmm.notebook.batch import Batch, batch_model
    from lmm.pipeline import Report
    from lmm.shortcuts import aask, aedit, aextract, ask, edit, extract

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "lmm.document": ("BatchFailed", "Document"),
    "lmm.errors": (
        "Changed",
        "ConfigError",
        "DocumentBusy",
        "DocumentError",
        "EmptyReply",
        "FileReadError",
        "FileWriteError",
        "Interrupted",
        "LinkOutside",
        "LmmError",
        "MetadataError",
        "ModelBusy",
        "ModelError",
        "ModelKeyMissing",
        "ModelNotFound",
        "ModelNotInstalled",
        "ModelRejected",
        "ModelTimeout",
        "ModelUnavailable",
        "NoValidReply",
        "PartlyFailed",
        "Place",
        "UntrustedConfig",
    ),
    "lmm.extraction.records": ("Record",),
    "lmm.messages": ("Attachment",),
    "lmm.notebook.batch": ("Batch", "batch_model"),
    "lmm.pipeline": ("Report",),
    "lmm.shortcuts": ("aask", "aedit", "aextract", "ask", "edit", "extract"),
}

__all__ = [
    "Attachment",
    "Batch",
    "BatchFailed",
    "Changed",
    "ConfigError",
    "Document",
    "DocumentBusy",
    "DocumentError",
    "EmptyReply",
    "FileReadError",
    "FileWriteError",
    "Interrupted",
    "LinkOutside",
    "LmmError",
    "MetadataError",
    "ModelBusy",
    "ModelError",
    "ModelKeyMissing",
    "ModelNotFound",
    "ModelNotInstalled",
    "ModelRejected",
    "ModelTimeout",
    "ModelUnavailable",
    "NoValidReply",
    "PartlyFailed",
    "Place",
    "Record",
    "Report",
    "UntrustedConfig",
    "aask",
    "aedit",
    "aextract",
    "ask",
    "batch_model",
    "edit",
    "extract",
]

__getattr__, __dir__ = lazily(__name__, _PUBLIC)
