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
    "chatmd.chat": ("Chat", "How"),
    "chatmd.language.agent": ("AgentSpec", "read_agent"),
    "chatmd.language.lint": ("check",),
    "chatmd.language.nodes": ("Attribute", "Comment", "Element", "Problem", "SyntaxTree", "Text"),
    "chatmd.language.syntax": ("parse", "serialize", "write"),
    "chatmd.rendering": ("arender", "render"),
    "chatmd.runtime.agents": ("Hooks", "RunOptions"),
    "chatmd.runtime.events": ("RunResult",),
    "chatmd.runtime.runner": ("Agent", "arun", "arun_agent", "open_run", "run", "run_agent", "stream"),
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
