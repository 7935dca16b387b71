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
    from chatmd.language.agent import AgentSpec, read_agent
    from chatmd.language.lint import check
    from chatmd.language.nodes import Attribute, Comment, Element, Problem, SyntaxTree, Text
    from chatmd.language.syntax import parse, serialize, write
    from chatmd.rendering import arender, render
    from chatmd.runtime.agents import Hooks, RunOptions
    from chatmd.runtime.events import RunResult
    from chatmd.runtime.runner import Agent, arun, arun_agent, open_run, run, run_agent, stream

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "Agent": "chatmd.runtime.runner",
    "AgentSpec": "chatmd.language.agent",
    "Chat": "chatmd.chat",
    "How": "chatmd.chat",
    "Attribute": "chatmd.language.nodes",
    "Comment": "chatmd.language.nodes",
    "SyntaxTree": "chatmd.language.nodes",
    "Element": "chatmd.language.nodes",
    "Hooks": "chatmd.runtime.agents",
    "Problem": "chatmd.language.nodes",
    "RunOptions": "chatmd.runtime.agents",
    "RunResult": "chatmd.runtime.events",
    "Text": "chatmd.language.nodes",
    "arender": "chatmd.rendering",
    "arun": "chatmd.runtime.runner",
    "arun_agent": "chatmd.runtime.runner",
    "check": "chatmd.language.lint",
    "open_run": "chatmd.runtime.runner",
    "parse": "chatmd.language.syntax",
    "read_agent": "chatmd.language.agent",
    "render": "chatmd.rendering",
    "run": "chatmd.runtime.runner",
    "run_agent": "chatmd.runtime.runner",
    "serialize": "chatmd.language.syntax",
    "stream": "chatmd.runtime.runner",
    "write": "chatmd.language.syntax",
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
