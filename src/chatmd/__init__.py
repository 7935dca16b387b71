"""ChatMD: agents, and what was said and done with them, as text files.

`parse` reads a document into a tree and never fails; `serialize` gives it back byte for byte; `check` finds
what is wrong with it. Importing this package reads no file, writes no file and opens no connection.

>>> import chatmd
>>> chatmd.serialize(chatmd.parse("<user>Hello</user>"))
'<user>Hello</user>'
"""

from lmm.lazy import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors and type checkers, which take this name for true
    from chatmd.agent import read_agent
    from chatmd.items import AgentSpec
    from chatmd.lint import check
    from chatmd.nodes import Attribute, Comment, Document, Element, Problem, Text
    from chatmd.parser import parse
    from chatmd.writer import serialize, write

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "AgentSpec": "chatmd.items",
    "Attribute": "chatmd.nodes",
    "Comment": "chatmd.nodes",
    "Document": "chatmd.nodes",
    "Element": "chatmd.nodes",
    "Problem": "chatmd.nodes",
    "Text": "chatmd.nodes",
    "check": "chatmd.lint",
    "parse": "chatmd.parser",
    "read_agent": "chatmd.agent",
    "serialize": "chatmd.writer",
    "write": "chatmd.writer",
}

__all__ = [
    "AgentSpec",
    "Attribute",
    "Comment",
    "Document",
    "Element",
    "Problem",
    "Text",
    "check",
    "parse",
    "read_agent",
    "serialize",
    "write",
]

__getattr__, __dir__ = lazily(__name__, _PUBLIC)
