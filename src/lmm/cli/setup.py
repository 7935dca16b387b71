"""`lmm init`, `lmm status` and `lmm trust`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from lmm import config_files, terminal
from lmm import trust as approvals
from lmm.cli import console
from lmm.config import TIERS, ModelSettings
from lmm.disk.files import read_document, replace, state_folder
from lmm.errors import ConfigError
from lmm.markdown.blocks import HeaderBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.models.names import PROVIDERS
from lmm.scan.header import check_header

app = console.make_app()
Config = Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")]


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="Where to write config.toml.")] = Path()) -> int:
    """Write a config.toml in which every setting is explained; an existing one is left alone."""
    target = folder / config_files.CONFIG
    if target.exists():
        raise ConfigError(
            "there is a configuration file already", where=str(target), hint="edit it, or move it away first"
        )
    text = resources.files("lmm").joinpath("config_template.toml").read_text(encoding="utf-8")
    replace(target, text)
    terminal.say(f"wrote {target}; lmm status shows what it does")
    return console.DONE


@app.command()
def status(
    file: Annotated[Optional[Path], typer.Argument(help="A document whose header counts too.", readable=False)] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Show the model of each tier, where its name comes from, and whether it could be called."""
    header = None
    if file is not None:
        blocks = parse_markdown_text(read_document(file))
        check_header(blocks, document=str(file))
        header = blocks[0].values() if blocks and isinstance(blocks[0], HeaderBlock) else None
    settings = config_files.settings_for(file, header, config=config)
    found = config_files.find_config(config, file)
    tiers = {name: _describe(getattr(settings, name)) for name in TIERS}
    if as_json:
        values = {
            "config": str(found) if found else None,
            "tiers": tiers,
            "system": {"text": settings.system, "origin": settings.origins["system"]},
            "state": str(state_folder()),
        }
        terminal.say_json(values, indent=2)
        return console.DONE
    terminal.say(f"configuration  {found or 'none (lmm init writes one)'}")
    for name, tier in tiers.items():
        terminal.say(f"{name:<13}  {tier['model']:<32} {tier['origin']}")
        details = ", ".join(str(v) for v in (tier["server"], tier["key"]) if v)
        if details:
            terminal.say(f"{'':<13}  {details}")
    terminal.say(
        f"{'system':<13}  {settings.system[:60]}{'…' if len(settings.system) > 60 else ''} "
        f"({settings.origins['system']})"
    )
    terminal.say(f"{'state':<13}  {state_folder()}")
    return console.DONE


def _describe(tier: ModelSettings) -> dict[str, Any]:
    provider = PROVIDERS[tier.model.provider.lower()]
    key = f"key from {tier.api_key.variable}" if tier.api_key else ""
    if provider.keys and not tier.api_key:
        key = f"no key: export {provider.keys[0]}=…"
    server = tier.base_url
    if (
        tier.base_url_file
        and tier.api_key
        and not approvals.is_loopback(server)
        and not approvals.is_trusted(tier.base_url_file)
    ):
        server += f" (not approved: lmm trust {tier.base_url_file})"
    return {"model": str(tier.model), "origin": tier.origin, "server": server, "key": key}


@app.command()
def trust(
    file: Annotated[Path, typer.Argument(help="The config.toml to approve.", readable=False)] = Path(
        config_files.CONFIG
    ),
) -> int:
    """Approve a config.toml, as it is now, to send keys from the environment to the servers it names."""
    approvals.approve(file)
    terminal.say(f"approved {file.resolve()}; a change to it will have to be approved again")
    return console.DONE
