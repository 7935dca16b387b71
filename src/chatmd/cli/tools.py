"""`lmm tools`: the tools that a ChatMD file offers its model."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmm import terminal
from lmm.cli import options
from lmm.messages import ToolDefinition
from lmm.terminal import DONE, FAILED

if TYPE_CHECKING:
    from chatmd.chat import Chat
    from chatmd.tools.calling import Offer

_ENDLESS = 1_000_000


@options.command()
@options.argument("file", "FILE", "A ChatMD file.", type=options.PATH)
@options.flag("--servers", help="Start or call MCP servers, to list their tools.")
@options.flag("--yes", help="Agree to what its tools can do, without being asked.")
@options.flag("--json", "as_json", help="Print JSON lines, each tool exactly as models get it.")
@options.roots
@options.config
def tools(*, file: Path, servers: bool, yes: bool, as_json: bool, roots: tuple[Path, ...], config: Path | None) -> int:
    """Show the tools of a file: what each can do, its description, its arguments.

    The exit code is 1 if a tool cannot be used.
    """
    from chatmd.call_texts import confirm_on_terminal
    from chatmd.chat import Chat

    chat = Chat.open(file, config=config, roots=roots)
    offers = chat.offers(servers=servers, yes=yes, confirm=confirm_on_terminal())
    for offer in offers:
        if as_json:
            for values in _as_values(offer):
                terminal.say_json(values, line=True)
        else:
            terminal.say("".join(f"{line}\n" for line in _as_text(offer)), end="")
    if not as_json:
        terminal.say(_ending(offers, chat), end="")
    return FAILED if any(offer.problem for offer in offers) else DONE


# -- for programs ------------------------------------------------------------------------------------------


def _as_values(offer: Offer) -> Iterator[dict[str, object]]:
    about = {
        "kind": offer.declared.kind,
        "powers": offer.powers,
        "can": offer.declaration.words,
        "asks": offer.declaration.needs_consent,
        "where": offer.declared.span.where,
    }
    if offer.problem or not offer.opened:
        state = {"problem": offer.problem} if offer.problem else {"opened": False}
        yield {"name": offer.declared.name, **about, **state}
    for definition in offer.definitions:
        exact = dataclasses.asdict(definition) | {"parameters": definition.parameters}
        yield exact | about


# -- for people --------------------------------------------------------------------------------------------


def _as_text(offer: Offer) -> Iterator[str]:
    if offer.problem or not offer.opened:
        yield from _heading(offer.declaration.name, offer)
        yield from _wrapped(
            f"not usable: {offer.problem}" if offer.problem else "its tools are listed with --servers", 2
        )
        yield ""
    for definition in offer.definitions:
        yield from _heading(definition.name, offer)
        for line in definition.description.splitlines():
            yield from _wrapped(line, 2)
        yield from _arguments(definition)
        yield ""


def _heading(name: str, offer: Offer) -> Iterator[str]:
    """Yield the lines with a tool's name, kind and powers."""
    from chatmd.tools.calling import KINDS

    start = terminal.visible(name) + "  "
    first, *more = _wrapped(f"{KINDS[offer.declared.kind]}: {offer.declaration.words}", 4, start)
    yield terminal.styled(start, "bold") + first[len(start) :]
    yield from more


def _arguments(definition: ToolDefinition) -> Iterator[str]:
    from chatmd.tools.calling import type_in_words

    properties: Mapping[str, Any] = definition.parameters.get("properties", {})
    required = definition.parameters.get("required", ())
    rows = [
        (name, type_in_words(schema) + ("" if name in required else ", optional"), schema.get("description", ""))
        for name, schema in properties.items()
        if isinstance(schema, Mapping)
    ]
    name_width = max((len(name) for name, _, _ in rows), default=0)
    type_width = max((len(kind) for _, kind, _ in rows), default=0)
    for name, kind, description in rows:
        start = f"    {terminal.visible(name):<{name_width}}  {terminal.visible(kind):<{type_width}}  "
        yield from _wrapped(str(description), len(start), start) or [start.rstrip()]


def _wrapped(text: str, indent: int, first: str = "") -> list[str]:
    # Lines are wrapped for people; in a pipe they stay whole.
    width = max(terminal.width(), indent + 30) if terminal.is_terminal() else _ENDLESS
    words = terminal.visible(" ".join(text.split()))
    return textwrap.wrap(words, width, initial_indent=first or " " * indent, subsequent_indent=" " * indent)


def _ending(offers: tuple[Offer, ...], chat: Chat) -> str:
    broken = any(offer.problem for offer in offers)
    declarations = () if broken else chat.required_consent()
    sent = [f"{one.name}  {one.words}\n" for one in declarations if not one.is_tool]
    what = "this" if sent else "these tools"
    if not offers and not sent:
        return f"{chat.path}: no tools\n"
    if broken:
        return ""
    if not chat.is_agreed():
        return "".join(sent) + f"lmm run asks you to agree to {what}, before the first run.\n"
    return "".join(sent) + (f"You agreed to {what}.\n" if declarations else "These tools need no consent.\n")
