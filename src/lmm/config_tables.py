"""The schema of config.toml: each table is a `Table`, and each of its keys a field annotated with a `Key`.

The allowed keys, their checks, suggestions for misspelt names, the output of `lmm status`, the file that `lmm init`
writes, the page on configuration, and the questions of `lmm trust` all come from these fields.
"""

from __future__ import annotations

import functools
import importlib
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, Union

import msgspec
from msgspec import Meta

from lmm.errors import ConfigError, nearest
from lmm.hosts import check_server

Count = Annotated[int, Meta(ge=1)]
CountOrZero = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Names = tuple[str, ...]
Where = Callable[[str, str], str]
"""Returns the place of a key of a table, for messages."""

TABLES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("major", "minor", "aux", "embedding"), ("lmm.config:ModelSettings",)),
    **dict.fromkeys(("messages", "notebook", "prompts"), ("lmm.config:Settings",)),
    "RAG": ("lmm.config:Annotations", "lmm_education.config:CourseSettings", "lmm_education.config:Preparation"),
    "text_splitter": ("lmm_education.config:Preparation",),
    "storage": ("lmm_education.config:StorageSettings",),
    "search": ("lmm_education.config:SearchSettings",),
    "answer": ("lmm_education.config:AnswerSettings",),
    "study": ("lmm_education.config:StudySettings",),
    "serve": ("lmm_education.config:ServeSettings",),
    "chatmd": ("chatmd.config:ChatmdSettings",),
}
"""Every table of config.toml, in display order, with the types that declare its keys."""

COMBINED = ("lmm_education.config:course_settings",)
"""Functions that read a configuration and reject combinations of values that are valid on their own."""

RENAMED: Mapping[str, str] = {
    "embeddings.dense_model": "[embedding] model",
    "embeddings.sparse_model": "[RAG] sparse_model",
    **{f"{tier}.provider_params": f"[{tier}] parameters" for tier in ("major", "minor", "aux")},
    **{f"model.{tier}": f"[{tier}] model" for tier in ("major", "minor", "aux")},
    "RAG.retrieve_companion_docs": "[search] companion",
    "RAG.max_companion_docs": "",
    "RAG.annotation_model.filters": "",
    "textSplitter.splitter": "[text_splitter] splitter",
    "textSplitter.threshold": "",
    "answer.budget": "[answer] context_tokens",
    "storage.port": "[storage] url",
    "database.collection_name": "[storage] course",
    "database.companion_collection": "",
    "server.mode": "",
    "server.host": "lmm serve --host",
    "server.port": "lmm serve --port",
}
"""Names of keys in lm-markdown, lmm-education or headers, with their names here; empty: there is no such key."""


@dataclass(frozen=True, slots=True)
class Key:
    """The annotation that makes a field a key of config.toml.

    `about` describes it in the file and on the page; `example` is shown instead of an uninformative default, and may
    map tables to examples. `name` is its name in the file (default: the field's; `also` is accepted, too), `tables` are
    the tables it belongs to (default: those of its class), `written` is the type of the value in the file, if not that
    of the field. `asks`: when its value requires the user's consent in a file that may be a stranger's
    (`lmm.permissions`). `variables` are equivalent environment variables; ``{}`` is the table's name in capitals.

    As returned by `keys_of`, it is the key of one `table`, with its `name` there, the `field` that declares it and the
    field's `default`; `type` is the type of the value in the file.
    """

    about: str
    example: Any = None
    name: str = ""
    also: str = ""
    tables: tuple[str, ...] = ()
    written: Any = None
    asks: Literal["", "always", "host", "path", "model"] = ""
    variables: tuple[str, ...] = ()
    # Added by `keys_of`:
    table: str = ""
    field: str = ""
    type: Any = None
    default: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """All accepted names of the key."""
        return (self.name, self.also) if self.also else (self.name,)

    @property
    def example_of_its_own(self) -> bool:
        """Whether the example is specific to this table."""
        return isinstance(self.example, Mapping) and self.table in self.example

    @property
    def inner(self) -> type[Table] | None:
        """The type of the nested table that this key holds, as ``[RAG.annotation_model]``, else None."""
        return self.type if isinstance(self.type, type) and issubclass(self.type, Table) else None

    def check(self, value: Any, where: Where) -> Any:
        """Return the value of the field for a value in the file.

        Raises:
            ConfigError: it has the wrong type, or an unknown key.
        """
        place = where(self.table, self.name)
        if self.inner is not None:
            if not isinstance(value, Mapping):
                raise ConfigError(f"[{self.table}.{self.name}] must be a table", where=place)
            inside = f"{self.table}.{self.name}"
            known = keys_of(self.inner)
            refuse_unknown(inside, value, known, where)
            return read_keys(known, {inside: value}, where)
        try:
            found = msgspec.convert(value, self.type, strict=True)
        except msgspec.ValidationError:
            wrong = f"'{self.name}' in [{self.table}] must be {in_words(self.type)}, not {value!r}"
            raise ConfigError(wrong, where=place) from None
        if self.asks == "host":
            for url in filter(None, (found,) if isinstance(found, str) else found):
                check_server(url, f"'{self.name}' in [{self.table}]", place)
        return found


class Table(msgspec.Struct, frozen=True):
    """Settings, some of whose fields are keys of config.toml: those with a `Key`.

    `ABOUT` maps the tables of these keys to their descriptions. A text instead of a table is the value of the
    key `IN_A_LINE`.
    """

    ABOUT: ClassVar[Mapping[str, str]] = {}
    IN_A_LINE: ClassVar[str] = ""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values; for a nested table, a mapping changes the fields that it names.

        >>> from lmm_education.config import Preparation
        >>> Preparation().replace(level=3, annotation_model={"generated": ()}).annotation_model
        AnnotationModel(own_properties=(), inherited_properties=(), generated=())
        """
        for name, value in changes.items():
            if isinstance(value, Mapping) and isinstance(inner := getattr(self, name), Table):
                changes[name] = inner.replace(**value)
        return msgspec.structs.replace(self, **changes)


@functools.cache
def keys_of(kind: type[Table]) -> tuple[Key, ...]:
    """Return the keys that a type declares, in the order of its fields, one for each table that may contain it."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for field in msgspec.structs.fields(kind):
        extras = getattr(hints[field.name], "__metadata__", ())
        key = next((extra for extra in extras if isinstance(extra, Key)), None)
        if key is not None:
            declared = {"name": key.name or field.name, "type": key.written or _plain(hints[field.name])}
            declared |= {"field": field.name, "default": field.default}
            found += [replace(key, table=table, **declared) for table in key.tables or kind.ABOUT]
    return tuple(found)


def _plain(annotated: Any) -> Any:
    """Return a type without its `Key`, but with its bounds, if any."""
    kept = tuple(extra for extra in annotated.__metadata__ if isinstance(extra, Meta))
    return Annotated[(annotated.__origin__, *kept)] if kept else annotated.__origin__


@functools.cache
def keys_in(table: str) -> tuple[Key, ...]:
    """Return all keys that a table of config.toml may have, of all packages."""
    return tuple(one for kind in kinds_of(table) for one in keys_of(kind) if one.table == table)


@functools.cache
def kinds_of(table: str) -> tuple[type[Table], ...]:
    """Return the types that declare the keys of a table."""
    return tuple(map(_load, TABLES[table]))


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def tables_of(package: str) -> tuple[str, ...]:
    """Return the tables whose last declaring type is in this package, which checks them.

    >>> tables_of("chatmd")
    ('chatmd',)
    """
    return tuple(table for table, kinds in TABLES.items() if kinds[-1].startswith(f"{package}."))


def check_config(config: Config) -> None:
    """Check that all packages can use the configuration, also those that read it later.

    Raises:
        ConfigError: one cannot.
    """
    check_tables(config.toml, TABLES, config.where)
    for name in COMBINED:
        _load(name)(config)


def check_tables(toml: Mapping[str, Any], tables: Iterable[str], where: Where) -> None:
    """Check that these tables of a file contain only known keys, with values of the right type.

    Raises:
        ConfigError: they do not; it names the place, and what was probably meant.
    """
    for table in tables:
        if table in toml:
            refuse_unknown(table, toml[table], keys_in(table), where)
            read_keys(keys_in(table), toml, where)


def read_keys(known: Iterable[Key], toml: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """Return the values of these keys in the file, by the names of their fields.

    Raises:
        ConfigError: a value has the wrong type.

    >>> from lmm_education.config import SearchSettings
    >>> read_keys(keys_of(SearchSettings), {"search": {"limit": 3}}, lambda table, key: "config.toml")
    {'limit': 3}
    """
    found = {}
    for one in known:
        table = toml.get(one.table, {})
        if not isinstance(table, Mapping):
            hint = f"write [{one.table}] and 'key = value' lines under it"
            raise ConfigError(f"[{one.table}] must be a table", where=where(one.table, ""), hint=hint)
        for name in one.names:
            if name in table:
                found[one.field] = one.check(table[name], where)
    return found


def refuse_unknown(table: str, written: Any, known: Iterable[Key], where: Where) -> None:
    """Raise `ConfigError` if a table has a key that is not `known`, and suggest the nearest one."""
    names = [name for one in known for name in one.names]
    for key in written if isinstance(written, Mapping) else ():
        if key not in names:
            hint = _renamed(f"{table}.{key}") or nearest(str(key), names)
            raise ConfigError(f"unknown key '{key}' in [{table}]", where=where(table, str(key)), hint=hint)


def _renamed(name: str) -> str:
    """Return a hint that gives the present name of a key or table of lm-markdown; empty if it is not one.

    >>> _renamed("textSplitter")
    "here 'splitter' is [text_splitter] splitter; 'threshold' is not needed"
    """
    told = ((*old.rpartition("."), new or "not needed") for old, new in RENAMED.items())
    found = [f"'{key}' is {new}" for table, dot, key, new in told if name in (table, f"{table}{dot}{key}")]
    return f"here {'; '.join(found)}" if found else ""


def in_words(kind: Any) -> str:
    """Describe a type in words, for messages.

    >>> in_words(Count), in_words(Share | None), in_words(str | Names), in_words(Literal["old", "new"])
    ('a whole number above 0', 'a number from 0 to 1', 'text or a list of names', 'one of old, new')
    """
    bounds = [extra for extra in getattr(kind, "__metadata__", ()) if isinstance(extra, Meta)]
    kind = getattr(kind, "__origin__", kind) if bounds else kind
    if typing.get_origin(kind) in (Union, types.UnionType):
        return " or ".join(in_words(one) for one in typing.get_args(kind) if one is not types.NoneType)
    if typing.get_origin(kind) is Annotated:
        return in_words(Annotated[(typing.get_args(kind)[0], *kind.__metadata__)])
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return "a list of names"
    if typing.get_origin(kind) is Mapping and typing.get_origin(one := typing.get_args(kind)[1]) is Literal:
        return f"a table whose values are {in_words(one)}"
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(kind, "a table")
    return words + "".join(map(_bounds, bounds))


def _bounds(of: Meta) -> str:
    if of.le is not None:
        return f" from {of.ge:g} to {of.le:g}"
    return " above 0" if of.gt == 0 or of.ge == 1 else ", 0 or more"


# -- the file ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Config:
    """A config.toml as it was read; `path` is None if there is none, or if the text did not come from a file.

    The user's `own` file (named on the command line or by ``$LMM_CONFIG``, or in the user's configuration
    folder) may request anything (`lmm.permissions`). `unused` is one in a folder above, which is not used by itself.
    """

    path: Path | None = None
    text: str = ""
    own: bool = True
    unused: Path | None = None

    @property
    def name(self) -> str:
        """The path, for messages."""
        return str(self.path) if self.path else "config.toml"

    @property
    def toml(self) -> Mapping[str, Any]:
        """The parsed configuration, by table.

        Raises:
            ConfigError: it is not TOML, or has an unknown table.
        """
        return _parsed(self.text, self.name)[0]

    @property
    def hints(self) -> tuple[str, ...]:
        """Messages about values that were not read exactly as written, and about a file that is not used."""
        if self.unused is not None:
            return (f"{self.unused} is not used here; to use it, name it with --config",)
        return _parsed(self.text, self.name)[1]

    def where(self, table: str, key: str = "") -> str:
        """Return the place of a key or a table, for messages: the file, and the line if it can be determined."""
        line = line_of(self.text, table, key)
        return f"{self.name}:{line}" if line else self.name


_CAPITAL_BOOLEAN = re.compile(r"^([ \t]*[\w.\"-]+[ \t]*=[ \t]*)(True|False)(?=[ \t]*(?:#|$))", re.MULTILINE)

_TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")
BOM = "\ufeff"
"""The byte order mark with which some editors begin a file."""


@functools.lru_cache(maxsize=16)
def _parsed(text: str, name: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the tables of a text, and hints; the seed's `questions = True` is accepted, although it is not TOML."""
    hints: tuple[str, ...] = ()
    text = text.removeprefix(BOM)
    try:
        toml = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        lower = _CAPITAL_BOOLEAN.sub(lambda match: match[1] + match[2].lower(), text)
        try:
            toml = tomllib.loads(lower)
        except tomllib.TOMLDecodeError:
            found = _TOML_PLACE.search(str(error))
            where = f"{name}:{found[1]}:{found[2]}" if found else name
            raise ConfigError(f"this is not TOML: {_TOML_PLACE.sub('', str(error))}", where=where) from error
        hints = (f"{name}: TOML requires true and false in lower case; True and False are accepted here",)
    for table, written in toml.items():
        if table not in TABLES:
            where = Config(Path(name), text).where(table)
            raise ConfigError(f"unknown table [{table}]", where=where, hint=_renamed(table) or nearest(table, TABLES))
        if isinstance(written, str) and (key := kinds_of(table)[0].IN_A_LINE):
            toml[table] = {key: written}
    return toml, hints


def line_of(text: str, table: str, key: str = "") -> int:
    r"""Return the line number of a key in configuration text, else of its table; 0 if neither is found.

    >>> line_of('minor = "x"\n[major]\nmodel = "y"\nbase_url = "z"', "major", "base_url")
    4
    """
    name = rf"""["']?{re.escape(key)}["']?\s*="""
    here, of_table = "", 0
    for number, line in enumerate(text.removeprefix(BOM).split("\n"), 1):
        if head := re.match(r"""\s*\[\s*["']?([^\]"'\s]+)""", line):
            here = head[1]
            if here == f"{table}.{key}":
                return number
        begins = head and here == table
        if begins or (not here and re.match(rf"\s*{re.escape(table)}\s*[.=]", line)):
            of_table = of_table or number
            if key and re.search(rf"[.{{,]\s*{name}", line):  # storage.url = "…", storage = {url = "…"}
                return number
        elif key and here == table and re.match(rf"\s*{name}", line):
            return number
    return of_table
