"""`lmm init`, `lmm status` and `lmm trust`."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError, EmptyReply, LmmError, ModelError
from lmm.terminal import DONE, USAGE

if TYPE_CHECKING:
    from lmm.config import ModelSettings, ServerSettings
    from lmm.config_tables import Config
    from lmm.permissions import Permission

_EXAMPLES = ("OpenAI/gpt-4.1-mini", "Ollama/llama3.2")
_BEGINNING = "# lmm init --all writes every setting, explained.\n[major]\n"
_LOOK = 5  # seconds to wait for a server's list of models


@options.command()
@options.argument("folder", "[FOLDER]", "Where to write config.toml.  [default: .]", type=options.PATH, default=Path())
@options.flag("--all", "with_all", help="Write every setting, explained and commented out.")
@options.flag("--yes", help="Ask nothing: write every setting.")
@click.option("--from", "source", metavar="FILE", type=options.PATH, help="Take over a config.toml of lm-markdown.")
def init(*, folder: Path, with_all: bool, yes: bool, source: Path | None) -> int:
    """Ask which model is to answer, and write a config.toml; an existing one is left alone. FOLDER is made.

    Without a terminal, nothing is asked, and every setting is written, explained and commented out.
    """
    from lmm import config_files
    from lmm.config import load_settings
    from lmm.config_tables import Config
    from lmm.disk import files, trust as trust_store
    from lmm.disk.folder import Folder

    target = folder / config_files.CONFIG
    Folder(folder).make()
    if target.exists():
        hint = "edit it, or move it away first"
        raise ConfigError("there is a configuration file already", where=str(target), hint=hint)
    if source is not None:
        text, next_steps = config_files.converted(files.read_document(source), str(source)), ["lmm status"]
    elif with_all or yes or not terminal.can_ask():
        files.replace(target, config_files.template())
        terminal.say(f"wrote {target}; lmm status shows what it does")
        return DONE
    else:
        values, before = choose_model(Config(target))
        model = str(load_settings(env=os.environ).major.model)
        text = config_files.with_values(_BEGINNING, {"major": {"model": model, **values}})
        next_steps = [*before, "lmm messages notes.md"]
    files.replace(target, text)
    if source is None:  # the user has just said all of it
        trust_store.approve(target, text)
    terminal.say(f"wrote {target}:\n\n{text}\nnext: {'; '.join(next_steps)}")
    return DONE


def choose_model(found: Config) -> tuple[dict[str, str], list[str]]:
    """Ask for a model until one can be used; return what changes under [major], and what to do before using it."""
    from lmm.config import load_settings
    from lmm.config_files import with_values
    from lmm.models.agent_programs import AGENT_PROGRAMS, find_agent

    model, values = load_settings(found, os.environ).major, dict[str, str]()
    agents = (f"ACP/{agent}" for agent in AGENT_PROGRAMS if find_agent(agent)[1])
    terminal.say("Which model answers? A name, or the address of a server. For example:", err=True)
    terminal.say("".join(f"  {name}\n" for name in (*_EXAMPLES, *agents)), err=True, end="")
    while True:
        try:
            answer = terminal.ask("Model", str(model.model))
            values = values if answer == str(model.model) else _values(answer, found)
            known = replace(found, text=with_values(found.text, {"major": values}, found.name))
            model = load_settings(known, os.environ).major
            if model.missing_key:
                terminal.say(f"  its key is missing: {model.missing_key} is not set", err=True)
                return values, [f"export {model.missing_key}=…"]
            if model.model.provider == "Builtin":
                terminal.note("without a model, answers are quotations")
            elif terminal.ask("Ask it for one token, as a test? (yes, no)", "no").startswith("y"):
                _check_answer(model)
            return values, []
        except (ConfigError, ModelError) as error:
            terminal.tell_error(error)


def _values(answer: str, found: Config) -> dict[str, str]:
    """Return the settings of a model that was named, or of the server at an address."""
    from lmm.providers import PROVIDERS, parse_name

    if answer.startswith(("http://", "https://")):
        return {"model": f"OpenAICompatible/{terminal.ask('Its model', _first_model(answer))}", "base_url": answer}
    name = parse_name(answer)
    if PROVIDERS[name.provider.lower()].needs_base_url:
        return {"model": str(name), "base_url": terminal.ask("The address of its server", "http://127.0.0.1:8080/v1")}
    return {"model": str(name)} | ({"base_url": ""} if "base_url" in found.tables.get("major", {}) else {})


def _first_model(address: str) -> str:
    """Return the first model that a server lists; empty if it lists none."""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/models", timeout=_LOOK) as answer:
            return str(json.load(answer)["data"][0]["id"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _check_answer(settings: ModelSettings) -> None:
    """Ask a model for one token, and say that it answers.

    Raises:
        ModelError: it does not.
    """
    from lmm import loop
    from lmm.models.chat import open_chat
    from lmm.models.port import Ask

    async def ask() -> None:
        model = open_chat(settings.replace(max_tokens=1, max_retries=0))
        async with aclosing(model.stream(Ask.of("Hello").request)) as events:
            async for _ in events:
                return

    terminal.say(f"  asking {settings.model}, up to {settings.timeout:g} seconds …", err=True)
    with suppress(EmptyReply):  # of a model that reasons first
        loop.run(ask())
    terminal.say(f"  {settings.model} answers", err=True)


@options.command()
@options.argument(
    "file", "[FILE]", "Also show the settings in this document's header.", type=options.PATH, required=False
)
@options.config
@options.as_json
def status(*, file: Path | None, config: Path | None, as_json: bool) -> int:
    """Show the model of each tier, where its name comes from, and whether it can be called."""
    from lmm import config_files
    from lmm.config import load_settings
    from lmm.config_tables import TIERS, Config, as_toml, check_config
    from lmm.disk.files import cache_folder, read_document, state_folder
    from lmm.extras import is_installed
    from lmm.markdown.parse_markdown import header_of, parse_markdown_text
    from lmm.notebook.header import check_readable
    from lmm.notebook.problems import stale_problems
    from lmm.permissions import missing_permissions
    from lmm.providers import PROVIDERS, minilm_weights

    blocks = parse_markdown_text(read_document(file)) if file is not None else []
    check_readable(blocks, ("model",), str(file or ""))
    top = header_of(blocks)
    found = config_files.locate_config(config, file)
    check_config(found)
    waiting = missing_permissions(found)
    in_effect = Config() if waiting else found
    settings = load_settings(in_effect, os.environ, top.values() if top else None, document=str(file or ""))
    tiers = {name: _describe(name, getattr(settings, name)) for name in TIERS}
    if top is not None and "model" in top.values() and not waiting:
        course = import_module("lmm_education.study.scan_findings")
        other = course.other_embedding(file, top, None if config is None else found)
        tiers["embedding"] |= {"note": other} if other else {}
    system = settings.merged.get("messages", {}).get("system")
    about = {
        "config": str(found.path) if found.path else None,
        "tiers": tiers,
        "settings": {
            f"[{table}] {key}": {"value": as_toml(one.value), "where": one.origin.place}
            for table, values in settings.merged.items()
            for key, one in values.items()
            if one.origin.layer not in ("default", "follows")
        },
        "system": {"text": settings.messages.system, "origin": system.origin.place if system else "default"},
        "extras": {"meaning": minilm_weights() is not None}
        | {one.extra: is_installed(*one.modules) for one in PROVIDERS.values() if one.extra},
        "state": str(state_folder()),
        "cache": str(cache_folder()),
        "waiting": [
            {"key": f"{one.table}.{one.key}", "value": one.value, "file": found.name, "line": one.line}
            for one in waiting
        ],
        "stale": [f"{file}:{problem.line} {problem.message}" for problem in stale_problems(blocks)],
    }
    if as_json:
        terminal.say_json(about)
        return DONE
    for hint in settings.hints:
        terminal.say(hint, err=True)
    _say_status(about, found, waiting)
    return DONE


def _say_status(about: Mapping[str, Any], found: Config, waiting: Sequence[Permission]) -> None:
    from lmm.disk import trust
    from lmm.extras import install_command
    from lmm.permissions import how_to_agree

    state = " (not in effect)" if waiting else ""
    _say_rows("configuration", f"{found.path}{state}" if found.path else "none (lmm init writes one)")
    for name, tier in about["tiers"].items():
        window = tier.get("window", {"tokens": 0, "origin": ""})
        reads = f"reads {window['tokens']:,} tokens at once"
        other = tier["other"] and f"to choose another one: {tier['other']} (a course keeps the model of its store)"
        rows = (
            f"{tier['model']:<32} {tier['origin']}",
            ", ".join(filter(None, (tier["server"], tier["key"]))),
            f"{reads:<32} {window['origin']}" if window["tokens"] else "",
            tier.get("note", other),
        )
        _say_rows(name, *filter(None, rows))
    _say_rows("system", f"{terminal.clipped(about['system']['text'], 61)} ({about['system']['origin']})")
    others = {name: one for name, one in about["settings"].items() if not name.endswith((" model", " system"))}
    _say_rows("settings", *(f"{name} = {one['value']}".ljust(32) + f" {one['where']}" for name, one in others.items()))
    extras = about["extras"]
    missing = ", ".join(name for name, is_here in extras.items() if not is_here)
    installed = ", ".join(name for name, is_here in extras.items() if is_here)
    _say_rows(
        "extras",
        installed or "none",
        *filter(None, [missing and f"not installed: {missing} ({install_command('NAME')})"]),
    )
    _say_rows("state", about["state"])
    _say_rows("cache", about["cache"])
    _say_rows("stale", *about["stale"])
    if waiting and found.path is not None:
        label = "changed since" if trust.digest_for(found.path) else "not approved"
        _say_rows(label, *waiting)
        _say_rows("", how_to_agree(found.path))


def _say_rows(label: str, *rows: object) -> None:
    for row in rows:
        terminal.say(f"{label:<13}  {row}")
        label = ""


def _describe(name: str, tier: ServerSettings) -> dict[str, Any]:
    from lmm import loop
    from lmm.config import ModelSettings, embedding_line
    from lmm.extras import install_command, is_installed
    from lmm.models.agent_programs import installed_agent
    from lmm.models.tokens import window_of
    from lmm.providers import PROVIDERS

    key = f"key from {tier.api_key.variable}" if tier.api_key else ""
    if tier.missing_key:
        key = f"no key: export {tier.missing_key}=…"
    provider = PROVIDERS[tier.model.provider.lower()]
    if not is_installed(*provider.modules):
        key = ", ".join(filter(None, (key, f"not installed: {install_command(provider.extra)}")))
    is_default = name == "embedding" and tier.layer == "default"
    other, server = embedding_line(os.environ, str(tier.model)) if is_default else "", tier.base_url
    if tier.model.provider == "ACP":
        try:
            server = installed_agent(tier.model.model)[1]
        except LmmError as error:
            server = error.at_prompt
    about = {"model": str(tier.model), "origin": tier.origin, "server": server, "key": key, "other": other}
    if isinstance(tier, ModelSettings) and tier.model.provider != "Builtin":  # which has no window
        window = loop.run(window_of(tier))
        return about | {"window": {"tokens": window.tokens, "origin": window.origin}}
    return about


# -- permissions of a folder -------------------------------------------------------------------------------


@options.command()
@options.argument(
    "folder", "[FOLDER]", "The folder of a config.toml, or the file.  [default: .]", type=options.PATH, default=Path()
)
@options.flag("--yes", help="Agree without being asked, for scripts.")
@options.flag("--list", "show", help="List the agreements.")
@options.flag("--revoke", help="Withdraw the agreement.")
def trust(*, folder: Path, yes: bool, show: bool, revoke: bool) -> int:
    """Show which settings of a config.toml reach beyond its folder, and agree to them.

    A config.toml may come with somebody's repository. If it names other servers, variables that contain keys,
    files elsewhere and the like, it is used only after you agree to it. What you name with --config needs no agreement.
    """
    from lmm import config_files
    from lmm.disk import trust as trust_store
    from lmm.disk.files import read_document
    from lmm.permissions import how_to_agree, permissions_of

    if yes + show + revoke > 1:
        raise ConfigError("these cannot be used together", where="--yes, --list, --revoke")
    if show:
        approved = sorted(trust_store.approved_files())
        if not approved:
            terminal.note("no config.toml has been approved")
        for file in approved:
            try:
                state = "" if trust_store.is_approved(file, read_document(file)) else " (it changed since)"
            except LmmError:
                state = " (it is gone)"
            terminal.say(f"{file}{state}")
        return DONE
    file = folder / config_files.CONFIG if folder.is_dir() else folder
    if revoke:
        gone = trust_store.revoke(file)
        terminal.say(f"{file}: {'approved no more' if gone else 'was not approved'}")
        return DONE
    if not file.is_file():
        raise ConfigError("there is no such file", where=str(file), hint="name a folder with a config.toml")
    found = config_files.load_config(file)
    asked = permissions_of(found)
    if not asked:
        terminal.say(f"{file}: nothing in it needs your approval")
        return DONE
    listed = "".join(f"\n  {one}" for one in asked)
    if trust_store.is_approved(file, found.text):
        terminal.say(f"{file}: approved already:{listed}")
        return DONE
    before = "it has changed since you approved it, and " if trust_store.digest_for(file) else "it "
    terminal.say(
        f"{file}: {before}reaches beyond its folder (servers, keys, files elsewhere, programs, code of models):{listed}"
    )
    if not yes and not terminal.can_ask():
        terminal.say(f"nothing was approved; to agree: {how_to_agree(file)} --yes", err=True)
        return USAGE
    if not yes and not terminal.confirm("Agree? You are asked again if the file changes."):
        terminal.say("nothing was approved", err=True)
        return USAGE
    trust_store.approve(file, found.text)
    terminal.say(f"approved {file.resolve()}; if it changes, you have to approve it again")
    return DONE
