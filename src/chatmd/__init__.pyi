"""What can be imported from here: for type checkers and editors, and for `lmm.lazy_names`."""

from .chat import Chat as Chat, RunResult as RunResult
from .context import RunOptions as RunOptions
from .language.agent import AgentSpec as AgentSpec, read_agent as read_agent
from .language.lint import check as check
from .language.nodes import (
    Attribute as Attribute,
    Comment as Comment,
    Element as Element,
    Problem as Problem,
    SyntaxTree as SyntaxTree,
    Text as Text,
)
from .language.syntax import parse as parse, serialize as serialize, write as write
