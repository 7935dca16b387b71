"""Powers: what a config.toml asks for that reaches beyond its folder, such as another host or a path outside.

A config.toml may have come with somebody's repository. What concerns only its folder it may set; a power has to be
approved with ``lmm trust`` before a command uses it. Which keys are powers their fields say (`Key.power`);
what the kinds mean stands here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmm.config_tables import TABLES, Config, Declared, keys_in, line_of
from lmm.disk import trust
from lmm.errors import Untrusted
from lmm.hosts import is_loopback_url
from lmm.providers import ALIASES, PROVIDERS, ModelName
from lmm.terminal import visible


@dataclass(frozen=True, slots=True)
class Power:
    """Something that a config.toml asks for which reaches beyond its folder.

    `kind` is a row of `KINDS`; `name` is ``table.key``; `value` is what stands there, `words` what it does. `digest`
    is that of the text that was read: this was approved, and not what may be in the file by now.
    """

    kind: str
    name: str
    value: str
    file: Path
    line: int
    words: str
    digest: str

    @property
    def asks(self) -> str:
        """What has to be agreed to: the key, as it is written, and what it does."""
        table, _, key = self.name.rpartition(".")
        return f"[{table}] {key} {self.words}"

    @property
    def where(self) -> str:
        """The file and the line."""
        return f"{self.file}:{self.line}" if self.line else str(self.file)

    @property
    def is_approved(self) -> bool:
        """Whether the user agreed to it, for the file with this text."""
        return trust.is_approved(self.file, self.digest, self.asks)


class HeaderPower(Power):
    """A power that a document asks for, with the name of a model: nobody can agree to that; `name` is the tier."""

    __slots__ = ()

    @property
    def asks(self) -> str:
        """See `Power.asks`."""
        return f"{self.value}, which this document names, {self.words}"

    @property
    def is_approved(self) -> bool:
        """Never."""
        return False


def powers_of_header(model: ModelName, tier: str, document: Path) -> tuple[Power, ...]:
    """The powers of a document that names a model: those that a config.toml beside it would have."""
    words = _model(str(model), document.parent.resolve(), {})
    return (HeaderPower("model", tier, str(model), document, 0, words, ""),) if words else ()


def require(powers: Iterable[Power], *names: str) -> None:
    """See to it that the user agreed to these powers, or to those of them that stand at `names` (``table.key``).

    Raises:
        Untrusted: nobody agreed to one of them; the message says which, where it stands, and how to agree.
    """
    for power in powers:
        if (not names or power.name in names) and not power.is_approved:
            if isinstance(power, HeaderPower):
                hint = f"name it yourself, under [{power.name}] in config.toml, or with --model"
                raise Untrusted(power.asks, where=power.where, hint=hint)
            before = trust.approval_of(power.file)
            why = "and nobody approved that" if before is None else "and the file is not what was approved"
            raise Untrusted(
                f"{power.asks}, {why}",
                where=power.where,
                hint=f"to see what it asks for, and agree: {how_to_agree(power.file)}",
            )


def how_to_agree(file: Path) -> str:
    """The command that shows what a file asks for, and asks.

    >>> how_to_agree(Path("/home/ada/my course/config.toml"))
    "lmm trust '/home/ada/my course'"
    """
    return f"lmm trust {shlex.quote(str(file.parent if file.name == 'config.toml' else file))}"


def find_powers(config: Config, keys: Iterable[Declared]) -> tuple[Power, ...]:
    """The powers that a file has: of these keys, those whose values reach beyond its folder."""
    if config.own or config.path is None:
        return ()
    found = []
    for one in keys:
        table = config.written.get(one.table)
        value = table.get(one.name) if one.key.power and isinstance(table, Mapping) else None
        words = KINDS[one.key.power](value, config.path.parent.resolve(), table or {}) if value else ""
        if words:
            found.append(
                Power(
                    kind=one.key.power,
                    name=f"{one.table}.{one.name}",
                    value=_plain(value),
                    file=config.path,
                    line=line_of(config.text, one.table, one.name),
                    words=words,
                    digest=trust.digest_of(config.text),
                )
            )
    return tuple(found)


def all_powers(config: Config) -> tuple[Power, ...]:
    """Everything that a config.toml asks for which reaches beyond its folder, in the order of its lines.

    Raises:
        ConfigError: it cannot be read.
    """
    found = find_powers(config, (one for table in TABLES for one in keys_in(table)))
    return tuple(sorted(found, key=lambda power: power.line))


# -- the kinds ---------------------------------------------------------------------------------------------


def _host(value: Any, folder: Path, table: Mapping[str, Any]) -> str:
    hosts = [str(each) for each in (value if isinstance(value, list) else [value])]
    away = [_plain(each) for each in hosts if not is_loopback_url(each)]
    return f"sends texts, and its key if there is one, to {', '.join(away)}" if away else ""


def _variable(value: Any, folder: Path, table: Mapping[str, Any]) -> str:
    """A provider's own variable, for its own server, is no power."""
    provider = PROVIDERS.get(str(table.get("model", "")).partition("/")[0].strip().lower())
    if provider is not None and value in provider.keys and not table.get("base_url"):
        return ""
    return f"sends your environment variable {_plain(value)} to a server"


def _roots(value: Any, folder: Path, table: Mapping[str, Any]) -> str:
    named = value if isinstance(value, list) else [value]
    return f"lets prompts read all files below {', '.join(_plain(_real(folder / str(one))) for one in named)}"


def _path(value: Any, folder: Path, table: Mapping[str, Any]) -> str:
    return _outside(folder / str(value), folder)


def _prompts(value: Any, folder: Path, table: Mapping[str, Any]) -> str:
    return f"replaces our prompts by the texts in {_plain(_real(folder / str(value)))}"


def _outside(path: Path, folder: Path) -> str:
    real = _real(path)
    return "" if real.is_relative_to(folder) else f"uses {_plain(real)}, which is not below its folder"


def _real(path: Path) -> Path:
    """Where a path leads; as it is written, if that is nowhere: who opens it will say why."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no path at all
        return path


def _model(value: Any, folder: Path, table: Mapping[str, Any]) -> str:
    """A model that is a file or a folder, as its adapter looks for it: from the current folder."""
    provider, _, name = str(value).strip().partition("/")
    provider = ALIASES.get(provider.lower(), provider.lower())
    if provider == "recorded":
        return _outside(Path(name), folder)
    if provider not in ("sentencetransformers", "model2vec"):
        return ""
    try:
        is_folder = name.startswith((".", "/", "~")) or Path(name).is_absolute() or Path(name).is_dir()
    except (OSError, ValueError):
        is_folder = True
    return f"loads the model in the folder {_plain(name)}, which can run code" if is_folder else ""


def _database(value: Any, folder: Path, table: Mapping[str, Any]) -> str:
    """Where a server keeps who has logged in, and what was asked.

    >>> _database("redis://ada:secret@example.org", Path(), {}), _database("memory://", Path(), {})
    ('keeps what the server knows of its users at redis://ada:…@example.org', '')
    """
    shown = re.sub(r"(//[^/@:]*):[^@]*@", r"\1:…@", str(value))
    return "" if shown == "memory://" else f"keeps what the server knows of its users at {_plain(shown)}"


def _plain(value: object) -> str:
    return visible(str(value), line=True)


Reaches = Callable[[Any, Path, Mapping[str, Any]], str]
"""What a value of a file in a folder does that reaches beyond the folder, in words, empty if nothing; the last
argument is the whole table."""
KINDS: dict[str, Reaches] = {
    "host": _host,
    "variable": _variable,
    "roots": _roots,
    "path": _path,
    "model": _model,
    "network": lambda value, folder, table: "lets prompts and tools reach this machine and its network",
    "prompts": _prompts,
    "database": _database,
}
"""Where is a kind of power added? One row here."""
