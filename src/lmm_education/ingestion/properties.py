"""What metadata says about a text, apart from what the program and its conversations keep there.

A property is read by its name whoever wrote it: ``key=`` or ``~key=``, else ``key``, else ``~key``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmm.markdown import metadata
from lmm.notebook.chat_log import LOG_KEYS
from lmm.notebook.edits import EDIT
from lmm_education.payloads import plain

# Chats and edits: what was said about the text is not the text.
_CONVERSATION = frozenset({*LOG_KEYS, EDIT})
# Switches and configuration tell the program what to do; ids of blocks, which other programs write, tell nothing.
_NOT_PROPERTIES = frozenset(
    {
        *("skip", "frozen", "txthash", "chat_", "edit_"),
        *("model", "RAG"),
        *("docid", "textid", "headingid", "UUID", "group_UUID"),
    }
)


def properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """The properties in a metadata block's values: names without ``~`` and ``=``, values that JSON can hold.

    >>> properties({"~questions_": ["Why?"], "topic=": "review", "~~id": 3, "skip": False, "~chat_": []})
    {'questions': ['Why?'], 'topic': 'review'}
    """
    found: dict[str, Any] = {}
    for key in values:
        name = _name(key)
        if name is not None and name not in found:
            found[name] = plain(metadata.lookup(values, name))
    return found


def _name(key: str) -> str | None:
    if key.startswith("~~") or key in _CONVERSATION:
        return None
    name = metadata.base_name(key) or key
    return None if name in _NOT_PROPERTIES else name


def without_conversation(values: Mapping[str, Any]) -> dict[str, Any]:
    """A block's values as they are kept in a prepared file: all but chats, edits and bookkeeping.

    >>> without_conversation({"~titles_": "A", "~txthash_": "x y z", "~~id": 3, "~chat": ["q", "a"]})
    {'~titles_': 'A', '~txthash_': 'x y z'}
    """
    return {key: value for key, value in values.items() if not key.startswith("~~") and key not in _CONVERSATION}
