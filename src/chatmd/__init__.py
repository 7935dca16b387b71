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
    from chatmd.chat import Chat, How
    from chatmd.language.agent import read_agent
    from chatmd.language.items import AgentSpec
    from chatmd.language.lint import check
    from chatmd.language.nodes import Attribute, Comment, Element, Problem, SyntaxTree, Text
    from chatmd.language.parser import parse
    from chatmd.language.writer import serialize, write
    from chatmd.rendering.render_file import arender, render
    from chatmd.runtime.api import arun, open_run, run, stream
    from chatmd.runtime.events import RunResult
    from chatmd.runtime.options import Hooks, RunOptions
    from chatmd.runtime.reduce import Agent, arun_agent, run_agent

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "Agent": "chatmd.runtime.reduce",
    "AgentSpec": "chatmd.language.items",
    "Chat": "chatmd.chat",
    "How": "chatmd.chat",
    "Attribute": "chatmd.language.nodes",
    "Comment": "chatmd.language.nodes",
    "SyntaxTree": "chatmd.language.nodes",
    "Element": "chatmd.language.nodes",
    "Hooks": "chatmd.runtime.options",
    "Problem": "chatmd.language.nodes",
    "RunOptions": "chatmd.runtime.options",
    "RunResult": "chatmd.runtime.events",
    "Text": "chatmd.language.nodes",
    "arender": "chatmd.rendering.render_file",
    "arun": "chatmd.runtime.api",
    "arun_agent": "chatmd.runtime.reduce",
    "check": "chatmd.language.lint",
    "open_run": "chatmd.runtime.api",
    "parse": "chatmd.language.parser",
    "read_agent": "chatmd.language.agent",
    "render": "chatmd.rendering.render_file",
    "run": "chatmd.runtime.api",
    "run_agent": "chatmd.runtime.reduce",
    "serialize": "chatmd.language.writer",
    "stream": "chatmd.runtime.api",
    "write": "chatmd.language.writer",
}

__all__ = [
    "Agent",
    "AgentSpec",
    "Attribute",
    "Chat",
    "Comment",
    "Element",
    "Hooks",
    "How",
    "Problem",
    "RunOptions",
    "RunResult",
    "SyntaxTree",
    "Text",
    "arender",
    "arun",
    "arun_agent",
    "check",
    "open_run",
    "parse",
    "read_agent",
    "render",
    "run",
    "run_agent",
    "serialize",
    "stream",
    "write",
]

__getattr__, __dir__ = lazily(__name__, _PUBLIC)
