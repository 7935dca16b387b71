"""The tools of an MCP server as a model is offered them: which of them, under which names, with which schemas."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from chatmd.errors import ChatmdError
from chatmd.language.items import Tool
from chatmd.language.transcript import storable
from chatmd.tools.mcp_schemas import accepted, strict
from lmm.messages import ToolDefinition

_LONGEST = 64  # characters of a name: OpenAI's limit, the lowest
_SHOWN = 12  # names that an error lists


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its server describes it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model sees it. The server knows it as `name`; `schema` is that of the arguments it gets."""

    name: str
    definition: ToolDefinition
    schema: Mapping[str, Any]


def offered_tools(tools: Sequence[ServerTool], declared: Tool) -> tuple[OfferedTool, ...]:
    """What a declaration offers of a server's catalogue.

    Raises:
        ChatmdError: it names a tool that the server does not have, or one that cannot be strict.
    """
    chosen = _chosen(tools, declared.include)
    names = model_names([tool.name for tool in chosen], declared.prefix)
    return tuple(_offered(tool, names[tool.name], declared) for tool in chosen)


def _chosen(tools: Sequence[ServerTool], wanted: Sequence[str]) -> list[ServerTool]:
    by_name = {tool.name: tool for tool in tools}
    for name in wanted:
        if name not in by_name:
            near = get_close_matches(name, list(by_name), n=1)
            offers = f"it has {_listed(sorted(by_name))}" if by_name else "it has none"
            raise ChatmdError(f"the server has no tool '{name}'", hint=f"did you mean '{near[0]}'?" if near else offers)
    return [by_name[name] for name in wanted] if wanted else list(by_name.values())


def _listed(names: Sequence[str]) -> str:
    rest = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _offered(tool: ServerTool, name: str, declared: Tool) -> OfferedTool:
    schema = accepted(tool.schema)
    try:
        shown = strict(schema) if declared.strict else schema
    except ChatmdError as error:
        raise ChatmdError(f"'{tool.name}' cannot be strict: {error.message}", hint=error.hint) from None
    # An author who takes one tool may know better than the server what it is for.
    described = declared.description if declared.description and len(declared.include) == 1 else tool.description
    return OfferedTool(tool.name, ToolDefinition(name, storable(described), shown, declared.strict), schema)


def model_names(names: Sequence[str], prefix: str = "") -> dict[str, str]:
    """The names under which models are offered tools: letters, digits, ``_`` and ``-``, at most 64 of them.

    A name that had to be changed never takes that of another tool.

    >>> model_names(["search", "docs.search", "docs/search"])
    {'search': 'search', 'docs.search': 'docs_search_a7e5', 'docs/search': 'docs_search_8a3c'}
    >>> model_names(["search"], "wiki_")
    {'search': 'wiki_search'}
    """
    plain = {name: re.sub(r"[^A-Za-z0-9_-]", "_", prefix + name)[:_LONGEST] or "_" for name in names}
    count = Counter(plain.values())
    return {
        name: plain[name] if count[plain[name]] == 1 or plain[name] == prefix + name else _told_apart(name, plain[name])
        for name in names
    }


def _told_apart(name: str, plain: str) -> str:
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:4]
    return f"{plain[: _LONGEST - 5]}_{mark}"
