"""ChatMD: agents, and what was said and done with them, as text files.

`parse` reads a document into a tree and never fails; `serialize` gives it back byte for byte; `check` finds
what is wrong with it. Importing this package reads no file, writes no file and opens no connection.

>>> import chatmd
>>> chatmd.serialize(chatmd.parse("<user>Hello</user>"))
'<user>Hello</user>'
"""

import lazy_loader

# Nothing is loaded before it is used; the file beside this one says what there is, and where.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
