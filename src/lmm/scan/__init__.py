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
    ascan_messages,
    ascan_messages_text,
    clear_messages,
    clear_messages_text,
    scan,
    scan_messages,
    scan_messages_text,
    scan_text,
)

__all__ = [
    "Event",
    "MessageOptions",
    "Outcome",
    "Problem",
    "ScanReport",
    "ascan_messages",
    "ascan_messages_text",
    "clear_messages",
    "clear_messages_text",
    "scan",
    "scan_messages",
    "scan_messages_text",
    "scan_text",
]
