"""Work on whole documents: complete and check them, answer what they ask.

>>> report = scan_text("# Cells\\n\\nCells divide.\\n", name="cells")
>>> report.text.splitlines()[1]
'title: Cells'
"""

from lmm.scan.answering import Outcome
from lmm.scan.events import Event
from lmm.scan.problems import Problem
from lmm.scan.run_batch import (
    BatchFailed,
    BatchOptions,
    BatchReport,
    ascan_batch,
    ascan_batch_text,
    ascan_rag,
    ascan_rag_text,
    scan_batch,
    scan_batch_text,
    scan_rag,
    scan_rag_text,
)
from lmm.scan.run_messages import (
    MessageOptions,
    ascan_messages,
    ascan_messages_text,
    scan_messages,
    scan_messages_text,
)
from lmm.scan.run_scan import (
    ScanReport,
    accept_edits,
    accept_edits_text,
    clear_messages,
    clear_messages_text,
    reject_edits,
    reject_edits_text,
    scan,
    scan_text,
)
from lmm.scan.watch import WatchOptions, WatchReport, awatch_documents, watch_documents

__all__ = [
    "BatchFailed",
    "BatchOptions",
    "BatchReport",
    "Event",
    "MessageOptions",
    "Outcome",
    "Problem",
    "ScanReport",
    "WatchOptions",
    "WatchReport",
    "accept_edits",
    "accept_edits_text",
    "ascan_batch",
    "ascan_batch_text",
    "ascan_messages",
    "ascan_messages_text",
    "ascan_rag",
    "ascan_rag_text",
    "awatch_documents",
    "clear_messages",
    "clear_messages_text",
    "reject_edits",
    "reject_edits_text",
    "scan",
    "scan_batch",
    "scan_batch_text",
    "scan_messages",
    "scan_messages_text",
    "scan_rag",
    "scan_rag_text",
    "scan_text",
    "watch_documents",
]
