"""ChatMD: agents and their conversations, tool calls included, as text files.

`parse` reads a document into a tree and never fails; `serialize` restores it byte for byte; `check` finds its
problems. Importing this package reads no file, writes no file and opens no connection.

>>> import chatmd
>>> chatmd.serialize(chatmd.parse("<user>Hello</user>"))
'<user>Hello</user>'
"""

from lmm.lazy_names import lazy_names

# Nothing is loaded before it is used; __init__.pyi lists the names and their modules.
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
