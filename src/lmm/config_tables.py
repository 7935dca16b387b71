"""The schema of config.toml, and the file as it was read.

Each table is a `Table`, whose fields with a `Key` are the table's keys: from them come the checks and the suggestions
for misspelt names, the file that `lmm init` writes, the page on configuration, and the questions of `lmm trust`. A
value keeps its `Origin` (`Setting`) until all layers are merged (`lmm.config`); then `convert` makes a `Table` of them.
"""

from __future__ import annotations

import functools
import importlib
import json
import operator
import re
import tomllib
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Meta

from lmm.errors import ConfigError, nearest
from lmm.hosts import check_server
from lmm.providers import ModelName, parse_name

Count = Annotated[int, Meta(ge=1)]
CountOrZero = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Names = tuple[str, ...]
Where = Callable[[str, str], str]
"""Returns the place of a key of a table, for messages."""

TIERS = ("major", "minor", "aux", "embedding")
TABLES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("major", "minor", "aux"), ("lmm.config:ModelSettings",)),
    "embedding": ("lmm.config:EmbeddingSettings",),
    "messages": ("lmm.config:MessageSettings",),
    "notebook": ("lmm.config:NotebookSettings",),
    "prompts": ("lmm.config:PromptSettings",),
    "text_splitter": ("lmm_education.config:SplitterSettings",),
    "RAG": ("lmm.config:Annotations", "lmm_education.config:CourseSettings", "lmm_education.config:Preparation"),
    "RAG.annotation_model": ("lmm_education.config:AnnotationModel",),
    "storage": ("lmm_education.config:StorageSettings",),
    "search": ("lmm_education.config:SearchSettings",),
    "answer": ("lmm_education.config:AnswerSettings",),
    "study": ("lmm_education.config:StudySettings",),
    "serve": ("lmm_education.config:ServeSettings",),
    "chatmd": ("chatmd.config:ChatmdSettings",),
}
"""Every table of config.toml, in display order, with its type; [RAG] has one in each package that reads it."""
READERS = ("lmm.config:load_settings", "lmm_education.config:course_settings", "chatmd.config:ChatmdSettings.of")
"""The functions that read a configuration, one for each package."""


class Origin(NamedTuple):
    """The layer that a value comes from, and its place there, for display."""

    layer: Literal["default", "follows", "environment", "file", "header", "flags", "store"]
    place: str


class Setting(NamedTuple):
    """A value as it was written, and its origin."""

    value: Any
    origin: Origin


Values = Mapping[str, Setting]
"""The settings of one table, by key."""
Layer = Mapping[str, Values]
"""The settings of one layer, by table."""


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """The annotation that makes a field a key of config.toml.

    `about` describes it in the file and on the page; `example` is shown instead of an uninformative default. `name` is
    its name in the file (default: the field's, which is always accepted). `asks`: when its value requires the user's
    consent in a file that may be a stranger's (`lmm.permissions`). `belongs_to` says what makes it void: a stronger
    layer that names another provider, or even just another model.

    As returned by `keys_of`, it has its `name`, and the `field` that declares it with its `default` and `type`.
    """

    about: str
    example: Any = None
    name: str = ""
    asks: Literal["", "always", "host", "path", "model"] = ""
    belongs_to: Literal["", "provider", "model"] = ""
    # Added by `keys_of`:
    field: str = ""
    type: Any = None
    default: Any = None

    def __repr__(self) -> str:
        return repr(self.about)  # in signatures, as help() shows them

    def convert(self, setting: Setting, table: str, folder: Path = Path(), *, strict: bool = True) -> Any:
        """Return the value of the field for a value that was written; paths are relative to `folder`.

        Without `strict`, a text may stand for a number or a truth value.

        Raises:
            ConfigError: it has the wrong type.
        """
        name, (value, (_, place)) = f"'{self.name}' in [{table}]", setting
        if self.type is ModelName and isinstance(value, str):
            return parse_name(value, where=place)
        try:
            found = self.read(value, folder, strict=strict)
        except ValueError as error:
            raise ConfigError(f"{name} {error}", where=place, hint=self._hint(value)) from None
        if isinstance(found, Parameters) and (ours := _OURS & {*found}):
            what = f"'{min(ours)}' is not a parameter of [{table}]: every request sets it itself"
            raise ConfigError(what, where=place, hint="delete it here")
        if self.asks == "host":
            for url in filter(None, (found,) if isinstance(found, str) else found):
                check_server(url, name, place)
        return found

    def read(self, value: Any, folder: Path = Path(), *, strict: bool = True) -> Any:
        """Return a value as one of the field's type; see `convert`.

        Raises:
            ValueError: it is of another type; the message says what it must be.
        """
        try:
            return msgspec.convert(value, self.type, strict=strict, dec_hook=functools.partial(_decode, folder))
        except msgspec.ValidationError as error:
            raise ValueError(f"must be {_wanted(self.type, error)}, not {value!r}") from None

    def _hint(self, value: Any) -> str:
        """Return what to write in place of a value of the wrong type."""
        for one in (value, [value]):
            with suppress(msgspec.ValidationError, TypeError):  # TypeError: a type that msgspec does not know
                return f"write {self.name} = {as_toml(msgspec.convert(one, self.type, strict=False))}"
        shown = self.default if self.example is None and isinstance(self.default, int | float | str) else self.example
        return f"for example {self.name} = {as_toml(shown)}" if shown not in (None, "") else ""


@dataclass(frozen=True, slots=True, repr=False)
class Option(Key):
    """The annotation that makes a field of a `Table` an option of an operation: a keyword of its method, a field of a
    request, and with `flags`, such as ``--limit N``, an option of its command."""

    flags: str = ""


class Table(msgspec.Struct, frozen=True):
    """The settings of a table of config.toml; fields with a `Key` may be set there. `ABOUT` describes the table."""

    ABOUT: ClassVar[str | Mapping[str, str]] = ""

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


def as_toml(value: Any) -> str:
    """Format a value as TOML.

    >>> as_toml({"ask": "Go"}), as_toml((1.0, True))
    ('{ ask = "Go" }', '[1.0, true]')
    """
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {as_toml(inner)}" for key, inner in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, PurePath):
        value = value.as_posix()
    return json.dumps(value, ensure_ascii=False, default=str)


T = TypeVar("T", bound=Table)


@functools.cache
def keys_of(kind: type[Table]) -> Mapping[str, Key]:
    """Return the keys of a type by their names, in the order of its fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = {}
    for field in msgspec.structs.fields(kind):
        extras = getattr(hints[field.name], "__metadata__", ())
        if key := next((extra for extra in extras if isinstance(extra, Key)), None):
            rest = tuple(extra for extra in extras if isinstance(extra, Meta))
            plain = hints[field.name].__origin__
            of = Annotated[(plain, *rest)] if rest else plain
            name = key.name or field.name
            found[name] = replace(key, name=name, field=field.name, type=of, default=field.default)
    return found


@functools.cache
def keys_in(table: str) -> dict[str, Key]:
    """Return the keys of a table by their names, of all packages."""
    return {name: key for kind in map(_load, TABLES[table]) for name, key in keys_of(kind).items()}


@functools.cache
def about(table: str) -> str:
    """Return the description of a table."""
    texts = (kind.ABOUT for kind in map(_load, TABLES[table]))
    return " ".join(filter(None, (text if isinstance(text, str) else text.get(table, "") for text in texts)))


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return operator.attrgetter(attribute)(importlib.import_module(module))


def convert(kind: type[T], table: str, settings: Values, *, base: T | None = None, folder: Path = Path()) -> T:
    """Return the settings of a table as its type; keys that are not set have their values in `base`, or defaults.

    Keys of other types of the table are left out; see `keys_in`. Paths are relative to `folder`.

    Raises:
        ConfigError: a key is unknown, or a value has the wrong type.

    >>> from lmm_education.config import SearchSettings
    >>> convert(SearchSettings, "search", Config(text="[search]\\nlimit = 3").tables["search"]).limit
    3
    """
    check_keys(table, settings)
    values = {}
    for key in keys_of(kind).values():
        if setting := settings.get(key.name) or settings.get(key.field):
            values[key.field] = key.convert(setting, table, folder)
    return kind(**values) if base is None else base.replace(**values)


def check_keys(table: str, settings: Values) -> None:
    """Raise `ConfigError` if a table has an unknown key, and suggest the nearest or the present one."""
    if not settings:
        return
    known = keys_in(table)
    fields = {key.field for key in known.values()}
    for name, setting in settings.items():
        if name not in known and name not in fields:
            hint = _renamed(f"{table}.{name}") or nearest(str(name), known)
            raise ConfigError(f"unknown key '{name}' in [{table}]", where=setting.origin.place, hint=hint)


def check_config(config: Config) -> None:
    """Check that all packages can read the configuration, also those that read it later.

    Raises:
        ConfigError: one cannot.
    """
    for name in READERS:
        _load(name)(config)


@functools.cache
def renamed_keys() -> Mapping[str, Mapping[str, str]]:
    """Return the tables and keys of lm-markdown and lmm-education: their present names, or why there are none."""
    found: Mapping[str, Mapping[str, str]] = json.loads(
        Path(__file__).with_name("renamed_keys.json").read_text("utf-8")
    )
    return found


def _renamed(name: str) -> str:
    """Return a hint that gives the present name of a key or a table; empty if it is not one of the older packages.

    >>> _renamed("embeddings")
    "here 'dense_model' is [embedding] model; 'sparse_model' is [RAG] sparse_model"
    """
    table, _, key = name.rpartition(".")
    there = renamed_keys().get(table, {})
    keys = {key: there[key]} if key in there else renamed_keys().get(name, {})
    names = "; ".join(f"'{old}' is {new}" for old, new in keys.items())
    return f"here {names}" if names else ""


_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "array": "a list"}


def _wanted(kind: Any, error: Exception) -> str:
    """Describe in words what msgspec expected.

    >>> _wanted(Count, ValueError("Expected `int` >= 1")), _wanted(str | Names, ValueError("Expected `str | array`"))
    ('a whole number of at least 1', 'text or a list')
    """
    if typing.get_origin(kind) is Literal or str(error).startswith("Invalid enum"):
        literals = (one for one in (kind, *typing.get_args(kind)) if typing.get_origin(one) is Literal)
        return "one of " + ", ".join(text for one in literals for text in typing.get_args(one) if text)
    if kind is ModelName:
        return "text"
    found = re.match(r"Expected `(.+?)`(?: ([<>]=?) (\S+))?", str(error))
    if found is None:  # raised by `_decode`
        return str(error)
    words = " or ".join(_WORDS.get(word, "a table") for word in found[1].split(" | ") if word != "null")
    bound = {">": "above", ">=": "of at least", "<": "below", "<=": "of at most"}.get(found[2], "")
    return f"{words} {bound} {float(found[3]):g}" if bound else words


_OURS = frozenset(("model", "messages", "input", "instructions", "system", "stream", "stream_options", "tools"))
"""Parameters that every request sets itself."""


class Parameters(dict[str, Any]):
    """Additional parameters of a request, sent to the provider unchanged."""

    def __hash__(self) -> int:  # type: ignore[override]  # settings are keys of caches, and never changed
        return hash(json.dumps(self, sort_keys=True, default=str))


def _decode(folder: Path, kind: type, value: Any) -> Any:
    """Convert a value to a type that msgspec does not know; the text of the error is what is wanted."""
    if kind is Path and isinstance(value, str):
        return folder / value
    if kind is Parameters and isinstance(value, dict):
        return Parameters(value)
    raise TypeError("a table" if kind is Parameters else "text")


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
    def folder(self) -> Path:
        """The folder that paths in the file are relative to."""
        return self.path.parent if self.path else Path()

    @property
    def tables(self) -> Layer:
        """The settings of the file, by table.

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

_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TOML_HINTS = (  # by the line, or by the message
    (r"[ \t]*([\w.-]+)[ \t]*=[ \t]*([A-Za-z/.~][^\"'#=\[\]{}]*)", 'write text in quotes: {0} = "{1}"'),
    (r".*[“”„‟«»‘’]", "write straight quotation marks"),
    (r"[ \t]*([\w.-]+)[ \t]*=[ \t]*(\d+),(\d+)[ \t]*$", "write a point: {0} = {1}.{2}"),
    (r"[ \t]*([\w.-]+)(?:[ \t]*:[ \t]*|[ \t]+)([^=\s][^=]*)$", "write {0} = {1}"),
    (r"[ \t]*\[+[^\]]*$", "close it: [table]"),
    (r".*\\", "write / in paths, or put the text in single quotes"),
)
BOM = "\ufeff"
"""The byte order mark with which some editors begin a file."""


def read_toml(text: str, name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read TOML; return it with hints. The seed's `questions = True` is accepted, although it is not TOML.

    Raises:
        ConfigError: it is not TOML.
    """
    text = text.removeprefix(BOM)
    try:
        return tomllib.loads(text), ()
    except tomllib.TOMLDecodeError as error:
        lower = _CAPITAL_BOOLEAN.sub(lambda match: match[1] + match[2].lower(), text)
        try:
            hint = "TOML requires true and false in lower case; True and False are accepted here"
            return tomllib.loads(lower), (f"{name}: {hint}",)
        except tomllib.TOMLDecodeError:
            found = _TOML_PLACE.search(str(error))
            where = f"{name}:{found[1]}:{found[2]}" if found and found[1] else f"{name}:{text.count(chr(10)) + 1}"
            line = text.split("\n")[int(found[1] or 0) - 1 if found else -1].rstrip()
            matches = ((re.match(rule, line), hint) for rule, hint in _TOML_HINTS)
            hint = next(
                (hint.format(*(part.strip() for part in match.groups())) for match, hint in matches if match), ""
            )
            if "twice" in str(error) or "overwrite" in str(error):
                hint = "a key or a table occurs twice: keep one"
            hint = hint or "write 'key = value' lines below [table]; lmm init --all shows all of them"
            raise ConfigError(f"this is not TOML: {_TOML_PLACE.sub('', str(error))}", where=where, hint=hint) from error


@functools.lru_cache(maxsize=16)
def _parsed(text: str, name: str) -> tuple[Layer, tuple[str, ...]]:
    """Return the tables of a text, and hints."""
    config, (toml, hints) = Config(Path(name), text), read_toml(text, name)
    for table, written in toml.items():
        if table not in TABLES:
            homes = [f"[{home}]" for home in TABLES if table in keys_in(home)]
            if homes and not isinstance(written, Mapping):
                hint = f"write it under {homes[0] if table == 'model' else ' or '.join(homes)}"
                raise ConfigError(f"'{table}' is in no table", where=config.where(table), hint=hint)
            hint = _renamed(table) or nearest(table, TABLES)
            raise ConfigError(f"unknown table [{table}]", where=config.where(table), hint=hint)
        if isinstance(written, str) and table in TIERS:
            toml[table] = {"model": written}
    return layer_of(toml, "file", config.where), hints


def layer_of(tables: Mapping[str, Any], layer: Any, where: Where) -> dict[str, Values]:
    """Return a layer with these tables; a table in a table is one by itself if it is in `TABLES`.

    Raises:
        ConfigError: one is not a table.
    """
    found: dict[str, Values] = {}
    for table, written in tables.items():
        if not isinstance(written, Mapping):
            hint = f"write [{table}] and 'key = value' lines under it"
            raise ConfigError(f"[{table}] must be a table", where=where(table, ""), hint=hint)
        inner = {f"{table}.{key}": value for key, value in written.items() if f"{table}.{key}" in TABLES}
        keys = {key: value for key, value in written.items() if f"{table}.{key}" not in inner}
        found[table] = {key: Setting(value, Origin(layer, where(table, key))) for key, value in keys.items()}
        found |= layer_of(inner, layer, where)
    return found


def line_of(text: str, table: str, key: str = "") -> int:
    r"""Return the line number of a key in configuration text, else of its table; 0 if neither is found.

    >>> line_of('minor = "x"\n[major]\nmodel = "y"\nbase_url = "z"', "major", "base_url")
    4
    """
    name = rf"""["']?{re.escape(key)}["']?\s*="""
    here, of_table = "", 0
    for number, line in enumerate(text.removeprefix(BOM).split("\n"), 1):
        if head := re.match(r"""\s*\[+\s*["']?([^\]"'\s]+)""", line):
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
