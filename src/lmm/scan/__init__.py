"""Work on whole documents: complete and check them, answer what they ask.

>>> report = scan_text("# Cells\\n\\nCells divide.\\n", name="cells")
>>> report.text.splitlines()[1]
'title: Cells'
"""

from lmm.scan.events import Event
from lmm.scan.problems import Problem
from lmm.scan.run import (
    MessageOptions,
    Outcome,
    ScanReport,
    accept_edits,
    accept_edits_text,
    ascan_messages,
    ascan_messages_text,
    clear_messages,
    clear_messages_text,
    reject_edits,
    reject_edits_text,
    scan,
    scan_messages,
    scan_messages_text,
    scan_text,
)
from lmm.scan.run_batch import (
    BatchOptions,
    BatchReport,
    ascan_batch,
    ascan_rag,
    scan_batch,
    scan_rag,
    scan_rag_text,
)

__all__ = [
    "BatchOptions",
    "BatchReport",
    "Event",
    "MessageOptions",
    "Outcome",
    "Problem",
    "ScanReport",
    "accept_edits",
    "accept_edits_text",
    "ascan_batch",
    "ascan_messages",
    "ascan_messages_text",
    "ascan_rag",
    "clear_messages",
    "clear_messages_text",
    "reject_edits",
    "reject_edits_text",
    "scan",
    "scan_batch",
    "scan_messages",
    "scan_messages_text",
    "scan_rag",
    "scan_rag_text",
    "scan_text",
]
