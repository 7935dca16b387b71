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
    from chatmd.language.agent import read_agent
    from chatmd.language.items import AgentSpec
    from chatmd.language.lint import check
    from chatmd.language.nodes import Attribute, Comment, Document, Element, Problem, Text
    from chatmd.language.parser import parse
    from chatmd.language.writer import serialize, write

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "AgentSpec": "chatmd.language.items",
    "Attribute": "chatmd.language.nodes",
    "Comment": "chatmd.language.nodes",
    "Document": "chatmd.language.nodes",
    "Element": "chatmd.language.nodes",
    "Problem": "chatmd.language.nodes",
    "Text": "chatmd.language.nodes",
    "check": "chatmd.language.lint",
    "parse": "chatmd.language.parser",
    "read_agent": "chatmd.language.agent",
    "serialize": "chatmd.language.writer",
    "write": "chatmd.language.writer",
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
