"""`lmm tools`: the tools that a ChatMD file offers its model."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmm import terminal
from lmm.cli import options
from lmm.messages import ToolDefinition
from lmm.terminal import DONE, FAILED

if TYPE_CHECKING:
    from chatmd.context import AgentRequest, Workplace
    from chatmd.language.agent import AgentSpec
    from chatmd.tools.calling import Offer

_ENDLESS = 1_000_000


@options.command()
@options.argument("file", "FILE", "A ChatMD file.", type=options.PATH)
@options.flag("--servers", help="Start or call its MCP servers, to list their tools.")
@options.yes("Agree to what its tools can do, this time.", short=False)
@options.flag("--json", "as_json", help="JSON lines: each tool exactly as models get it.")
@options.roots("Another folder that files may be imported from.")
@options.config
def tools(*, file: Path, servers: bool, yes: bool, as_json: bool, roots: tuple[Path, ...], config: Path | None) -> int:
    """Show the tools that a file offers its model: what each can do, its description, its arguments.

    The exit code is 1 if one of them could not be used.
    """
    from chatmd.cli.asking import confirm_on_terminal
    from chatmd.tools.calling import offered_by
    from chatmd.tools.consent import consent
    from lmm.loop import run

    spec, place = _read(file, roots, config)
    if servers and any(tool.kind == "mcp" for tool in spec.tools):
        consent(spec, place, yes=yes, confirm=confirm_on_terminal())
    offers = run(offered_by(spec, place, servers=servers))
    for offer in offers:
        if as_json:
            for values in _as_values(offer):
                terminal.say_json(values)
        else:
            terminal.say("".join(f"{line}\n" for line in _as_text(offer)), end="")
    if not as_json:
        terminal.say(_ending(offers, spec, place, file), end="")
    return FAILED if any(offer.problem for offer in offers) else DONE


def _read(file: Path, roots: tuple[Path, ...], config: Path | None) -> tuple[AgentSpec, Workplace]:
    """The file as an agent, and the place it would work in."""
    from chatmd.context import Rules, Workplace
    from chatmd.language.agent import read_agent
    from chatmd.language.syntax import parse
    from lmm.config_files import find_config, settings_for
    from lmm.disk.files import read_document

    found = find_config(config, file)
    rules = Rules.of(found)
    rules = rules.replace(roots=(*rules.roots, *roots))
    spec = read_agent(rules.imported(parse(read_document(file), file=str(file))))
    settings = settings_for(file, config=found)
    return spec, Workplace(file.resolve().parent, settings, _ask_nobody, rules, os.environ)


async def _ask_nobody(request: AgentRequest) -> str:
    from chatmd.errors import ChatmdError

    raise ChatmdError(f"{request.src} is not asked while tools are listed")


# -- for programs ------------------------------------------------------------------------------------------


def _as_values(offer: Offer) -> Iterator[dict[str, object]]:
    about = {
        "kind": offer.declared.kind,
        "powers": offer.powers,
        "can": offer.declaration.words,
        "asks": offer.declaration.asks,
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
            f"not usable: {offer.problem}" if offer.problem else "asked with --servers, it tells what tools it has", 2
        )
        yield ""
    for definition in offer.definitions:
        yield from _heading(definition.name, offer)
        for line in definition.description.splitlines():
            yield from _wrapped(line, 2)
        yield from _arguments(definition)
        yield ""


def _heading(name: str, offer: Offer) -> Iterator[str]:
    """The name, then what kind of tool it is, and what it can do."""
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
    # Lines are for people's eyes; who reads through a pipe gets them whole.
    width = max(terminal.width(), indent + 30) if terminal.is_terminal() else _ENDLESS
    words = terminal.visible(" ".join(text.split()))
    return textwrap.wrap(words, width, initial_indent=first or " " * indent, subsequent_indent=" " * indent)


def _ending(offers: tuple[Offer, ...], spec: AgentSpec, place: Workplace, file: Path) -> str:
    from chatmd.tools.consent import declared_by, is_agreed

    files = declared_by(spec, place) if not any(offer.problem for offer in offers) else ()
    sent = [f"{one.name}  {one.words}\n" for file_ in files for one in file_.asking if not one.is_tool]
    what = "this" if sent else "these tools"
    if not offers and not sent:
        return f"{file}: no tools\n"
    if not files:
        return ""
    if not is_agreed(spec, place):
        return "".join(sent) + f"lmm run asks you to agree to {what}, before the first run.\n"
    asks = any(file_.asking for file_ in files)
    return "".join(sent) + (f"You agreed to {what}.\n" if asks else "These tools need no consent.\n")
