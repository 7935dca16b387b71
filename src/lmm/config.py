"""Settings: five layers, merged key by key.

Weakest first: default, environment (``LMM_SOURCE_*``, ``LMM_MODEL_*``), ``config.toml``, the document's header
(``model:``), command line. A layer that names another provider drops the server, the key, the parameters and the
window of those below it; one that names another model of the same provider drops the window. Below the layers of
minor is major, as it came out; below those of aux is minor. `lmm.config_files` looks for the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from lmm.config_tables import (
    TIERS,
    Config,
    Count,
    CountOrZero,
    Key,
    Layer,
    Origin,
    Parameters,
    Positive,
    Setting,
    Table,
    Values,
    check_keys,
    convert,
    keys_in,
    keys_of,
    layer_of,
)
from lmm.errors import ConfigError, nearest
from lmm.hosts import check_server, is_loopback_url
from lmm.permissions import require_near
from lmm.providers import PROVIDERS, ModelName, default_embedding, find_provider, parse_name

DEFAULT_ROLE = "You help an author with a markdown document."
DEFAULT_SYSTEM = f"{DEFAULT_ROLE} Answer in markdown, in the language of the question, briefly and precisely."
SOURCE, MODEL = "LMM_SOURCE_{}", "LMM_MODEL_{}"
"""Environment variables that name a tier's provider and its model."""


OfProvider, OfModel = partial(Key, belongs_to="provider"), partial(Key, belongs_to="model")
"""Keys that are void where a stronger layer names another provider, or even just another model."""


@dataclass(frozen=True, slots=True)
class Secret:
    """An API key that is hidden when printed; `variable` is the environment variable it came from."""

    value: str = field(repr=False)
    variable: str

    def reveal(self) -> str:
        """Return the key itself."""
        return self.value


class ServerSettings(Table, frozen=True):
    """A model and its server. `layer` and `origin` say what named the model; `table` configures this tier."""

    model: Annotated[
        ModelName,
        Key(
            "Provider/model; in the environment: LMM_MODEL_MAJOR, LMM_SOURCE_MAJOR, and so on",
            "OpenAI/gpt-4.1-mini",
            asks="model",
        ),
    ] = ModelName("Builtin", "extractive")
    origin: str = "default"
    base_url: Annotated[
        str, OfProvider("any server with the Chat Completions protocol", "http://127.0.0.1:8080/v1", asks="host")
    ] = ""
    api_key: Secret | None = None
    api_key_env: Annotated[
        str, OfProvider("the variable with its key, if not the provider's own", "MY_KEY", asks="always")
    ] = ""
    timeout: Annotated[Positive, Key("seconds without a sign of the server")] = 120.0
    max_retries: Annotated[CountOrZero, Key("after 429, 5xx, a broken connection, silence")] = 3
    concurrency: Annotated[Count, Key("calls at once")] = 8
    layer: str = "default"
    table: str = ""

    @property
    def missing_key(self) -> str:
        """The variable that must hold the API key, if one is required but missing; local servers require none."""
        keys = (self.api_key_env,) if self.api_key_env else PROVIDERS[self.model.provider.lower()].keys
        return keys[0] if keys and not self.api_key and not is_loopback_url(self.base_url) else ""


class ModelSettings(ServerSettings, frozen=True):
    """A chat model, and how to call it."""

    ABOUT: ClassVar = {
        "major": (
            "The model that answers people.\n"
            "Names are Provider/model, for example\n"
            "  OpenAI/gpt-4.1-mini   Anthropic/claude-sonnet-5-5   Google/gemini-2.5-flash\n"
            "  Mistral/mistral-medium-latest   Ollama/llama3.2   LMStudio/qwen3   LlamaCpp/gemma\n"
            "  OpenAICompatible/my-model   Builtin/extractive\n"
            "API keys are read from the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, ...\n"
            "minor and aux may have all of these keys, too; embedding, those of its server."
        ),
        "minor": "Summaries and annotations. Unset: the same provider's small model; other keys as in [major].",
        "aux": "Classification. Unset: as minor.",
    }

    temperature: Annotated[float | None, Key("unset: the provider's", 0.4)] = None
    max_tokens: Annotated[Count | None, Key("of a reply; unset: the provider's", 2048)] = None
    context_window: Annotated[
        Count | None,
        OfModel(
            "tokens that it reads at once; unset: what its server reports, else what is published, else 100000", 32768
        ),
    ] = None
    reasoning_effort: Annotated[
        Literal["", "none", "minimal", "low", "medium", "high", "xhigh"],
        OfProvider("of models that reason: none to xhigh", "low"),
    ] = ""
    api: Annotated[
        Literal["chat", "responses"], OfProvider('"responses": OpenAI\'s newer protocol, instead of Chat Completions')
    ] = "chat"
    parameters: Annotated[
        Parameters,
        OfProvider(
            "sent to the provider unchanged; also as a table, such as [major.parameters]", {"top_p": 0.9, "seed": 1}
        ),
    ] = msgspec.field(default_factory=Parameters)


class EmbeddingSettings(ServerSettings, frozen=True):
    """An embedding model, and how to call it."""

    ABOUT = (
        "Vectors for search. Unset: those of the course's store; for a new one those of Builtin/minilm where "
        "the extra meaning is installed, else of Builtin/wordllama, also where a key is set. Both support "
        "English only.\n"
        "Recommended: Builtin/minilm for English; for other languages Ollama/bge-m3, or, without a server,\n"
        "FastEmbed/intfloat/multilingual-e5-large.\n"
        "  Builtin/wordllama   Ollama/nomic-embed-text   OpenAI/text-embedding-3-small   Cohere/embed-v4.0\n"
        "  Voyage/voyage-4   FastEmbed/BAAI/bge-small-en-v1.5   Model2Vec/./my-model\n"
        "  SentenceTransformers/intfloat/multilingual-e5-small"
    )

    model: Annotated[ModelName, Key("Provider/model", "Ollama/bge-m3", asks="model")] = ModelName(
        "Builtin", "wordllama"
    )
    dimensions: Annotated[Count | None, OfModel("shorter vectors, where the model supports them", 512)] = None
    batch_size: Annotated[Count | None, Key("texts in one request", 32)] = None
    query_prefix: Annotated[str | None, OfModel("put before questions; unset: as the model's card asks", "query: ")] = (
        None
    )
    document_prefix: Annotated[str | None, OfModel("put before the texts that are searched", "passage: ")] = None


class MessageSettings(Table, frozen=True):
    """Questions and edits in documents."""

    ABOUT = "Questions and edits in documents."

    system: Annotated[
        str,
        Key(
            "who the model is and how it answers; the rest of the system message is ours",
            "You teach an undergraduate course in statistics using R.",
        ),
    ] = DEFAULT_SYSTEM
    context_limit: Annotated[
        Count, Key("characters of the document sent around a text, at most a quarter of what the model reads at once")
    ] = 32_000


class NotebookSettings(Table, frozen=True):
    """Authorship of documents."""

    ABOUT = "Authorship of documents."

    authorship: Annotated[bool, Key("note the model in text that you accept, for lmm scan --authors")] = False


class PromptSettings(Table, frozen=True):
    """Prompts that are sent to models."""

    ABOUT = "Prompts that are sent to models."

    folder: Annotated[
        Path | None, Key("your own versions of edit.md, summary.md, questions.md, ...", "prompts", asks="always")
    ] = None


class Annotations(Table, frozen=True):
    """The annotations to generate."""

    ABOUT = "What `lmm annotate` adds to sections,"

    titles: Annotated[bool, Key("the path of headings")] = True
    summary: Annotated[bool, Key("of a section, and of the document", name="summaries")] = False
    questions: Annotated[bool, Key("that a section answers")] = False
    keywords: Annotated[bool, Key("of a section")] = False


ANNOTATIONS = Annotations.__struct_fields__


class Settings(Table, frozen=True):
    """The settings in effect; `merged` has every key that a layer above the defaults sets, with its origin."""

    major: ModelSettings
    minor: ModelSettings
    aux: ModelSettings
    embedding: EmbeddingSettings
    messages: MessageSettings = MessageSettings()
    notebook: NotebookSettings = NotebookSettings()
    prompts: PromptSettings = PromptSettings()
    annotations: Annotations = Annotations()
    merged: Layer = msgspec.field(default_factory=dict)
    hints: tuple[str, ...] = ()

    @property
    def entry_size(self) -> int:
        """The number of characters that a section has at most, with all below it, to be found as one: a chunk's.

        >>> load_settings("[text_splitter]\\nmax_size = 400\\nunit = 'tokens'").entry_size, load_settings("").entry_size
        (1600, 2000)
        """
        tables = (self.merged.get(table, {}) for table in ("text_splitter", "RAG"))  # the latter in a header
        said = {key: one.value for table in tables for key, one in table.items()}
        size = said.get("max_size", 2_000)
        return size * (4 if said.get("unit") == "tokens" else 1) if isinstance(size, int) else 2_000

    @property
    def language(self) -> str:
        """The language of documents without a ``lang:`` of their own, which a course sets under [RAG].

        >>> load_settings("[RAG]\\nlanguage = 'de'").language, load_settings("").language
        ('de', 'en')
        """
        said = self.merged.get("RAG", {}).get("language")
        return said.value if said is not None and isinstance(said.value, str) else "en"

    def is_set(self, table: str, key: str) -> bool:
        """Return whether a layer above the defaults sets a key."""
        return key in self.merged.get(table, {})

    def is_chosen(self, tier: str) -> bool:
        """Return whether a model was chosen for this tier, or for minor, which aux follows; not just for everything.

        >>> settings = load_settings('major = "Ollama/large"\\nminor = "Ollama/small"', {})
        >>> settings.is_chosen("aux"), load_settings('major = "Ollama/large"', {}).is_chosen("aux")
        (True, False)
        """
        layer = getattr(self, tier).layer
        return self.is_chosen("minor") if layer == "follows" and tier == "aux" else layer not in ("default", "follows")


def load_settings(
    config: Config | str = "",
    env: Mapping[str, str] | None = None,
    header: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
    document: str = "",
) -> Settings:
    """Merge configuration (or its text), environment, a document's header metadata, and command-line choices.

    `overrides` maps tiers to model names, or to other tiers. `document` is the path of the document with the header.

    Raises:
        ConfigError: unreadable TOML, an unknown table, key, provider, or a value of the wrong kind.
        Untrusted: the header names a model that is a folder, or a file outside of the document's folder.

    >>> settings = load_settings(env={}, header={"model": {"major": "ollama/llama3.2"}}, document="notes.md")
    >>> str(settings.major.model), settings.major.origin
    ('Ollama/llama3.2', 'header of notes.md')
    >>> str(load_settings('minor = "Ollama/small"', {}, overrides={"major": "minor"}).major.model)
    'Ollama/small'
    """
    env = env or {}
    config = Config(text=config) if isinstance(config, str) else config
    place = f"header of {document}" if document else "header"
    copies = {tier: name.lower() for tier, name in (overrides or {}).items() if name.lower() in TIERS}
    named = {tier: {"model": name} for tier, name in (overrides or {}).items() if tier not in copies}
    layers = [
        config.tables,
        *([header_layer(header, where=place)] if header else []),
        layer_of(named, "flags", lambda table, key: "model"),
    ]
    merged: dict[str, Values] = {}
    tiers: dict[str, Any] = {}
    for tier in TIERS:
        below = merge(*_defaults(tier, merged, env))
        stated = [layer.get(tier, {}) for layer in layers]
        for values in stated:
            check_keys(tier, values)
        merged[tier] = merge(below, _environment(tier, below["model"].value, env), *stated)
        tiers[tier] = _tier_settings(tier, merged[tier], env)
        if tiers[tier].layer == "header":
            require_near(tiers[tier].model, tier, document or place)
    tiers |= {tier: tiers[other].replace(origin=f"model: {other}", layer="flags") for tier, other in copies.items()}
    for layer in layers:
        merged |= {
            table: {**merged.get(table, {}), **values}
            for table, values in layer.items()
            if values and table not in TIERS
        }
    return Settings(
        **tiers,
        messages=convert(MessageSettings, "messages", merged.get("messages", {})),
        notebook=convert(NotebookSettings, "notebook", merged.get("notebook", {})),
        prompts=convert(PromptSettings, "prompts", merged.get("prompts", {}), folder=config.folder),
        annotations=convert(Annotations, "RAG", merged.get("RAG", {})),
        merged=merged,
        hints=config.hints,
    )


def merge(*layers: Values) -> dict[str, Setting]:
    """Merge the layers of one tier, weakest first.

    What belongs to a provider or a model is dropped where a stronger layer names another one.

    >>> file = layer_of({"major": {"model": "Ollama/a", "base_url": "http://a", "timeout": 9}}, "file", "{}:{}".format)
    >>> flags = layer_of({"major": {"model": "Mistral/b"}}, "flags", "{}:{}".format)
    >>> {key: str(one.value) for key, one in merge(file["major"], flags["major"]).items()}
    {'model': 'Mistral/b', 'timeout': '9'}
    """
    chosen: dict[str, Setting] = {}
    for layer in layers:
        stated = dict(layer)
        if "model" in stated and stated["model"].value == "default":
            del stated["model"]  # as configured below
        if "model" in stated:
            value, origin = stated["model"]
            name = parse_name(value, where=origin.place) if isinstance(value, str) else value
            stated["model"] = Setting(name, origin)
            before = chosen["model"].value if "model" in chosen else name
            is_same = getattr(before, "provider", "") == getattr(name, "provider", None)
            void = () if before == name else ("model",) if is_same else ("model", "provider")
            known = keys_in("embedding") | keys_in("major")
            chosen = {key: one for key, one in chosen.items() if key not in known or known[key].belongs_to not in void}
        if "parameters" in chosen and "parameters" in stated:
            below, (above, origin) = chosen["parameters"].value, stated["parameters"]
            if isinstance(below, Mapping) and isinstance(above, Mapping):
                stated["parameters"] = Setting({**below, **above}, origin)
        chosen |= stated
    return chosen


def _defaults(tier: str, merged: Layer, env: Mapping[str, str]) -> tuple[Values, ...]:
    """Return the layers below the environment: the default model, or those of the tier that this one follows."""
    if tier == "embedding":
        return ({"model": Setting(default_embedding(), Origin("default", "default"))},)
    if tier == "major":
        has_key = bool(env.get("OPENAI_API_KEY"))
        provider = PROVIDERS["openai" if has_key else "builtin"]
        why = "default: OPENAI_API_KEY is set" if has_key else "default: no OPENAI_API_KEY"
        return ({"model": Setting(ModelName(provider.name, provider.major), Origin("default", why))},)
    followed = "major" if tier == "minor" else "minor"
    origin = Origin("follows", f"follows {followed}")
    below = {key: Setting(one.value, origin) for key, one in merged[followed].items()}
    name: ModelName = below["model"].value
    provider = PROVIDERS[name.provider.lower()]
    # A server other than its provider's own may have no other model.
    elsewhere = "base_url" in below or env.get(provider.base_url_variable)
    if tier == "aux" or elsewhere or provider.minor in ("", name.model):
        return (below,)
    below.pop("reasoning_effort", None)  # a small model may have none
    return below, {"model": Setting(ModelName(name.provider, provider.minor), origin)}


def _environment(tier: str, below: ModelName, env: Mapping[str, str]) -> Values:
    """Return what the environment sets: the model. ``LMM_SOURCE`` names the default provider for everything."""
    variable, sources = MODEL.format(tier.upper()), [SOURCE.format(tier.upper())]
    found = next((name for name in (*sources, *(["LMM_SOURCE"] if tier == "major" else [])) if env.get(name)), "")
    model = env.get(variable, "")
    if not found and not model:
        return {}
    place = "environment " + ", ".join(filter(None, (found, variable if model else "")))
    if not found and "/" in model:
        name = parse_name(model, where=variable)
    else:
        # A bare model name is one of the seed's default provider, if there is no other.
        source = below.provider if below.provider != "Builtin" else "OpenAI"
        provider = find_provider(env[found], where=found) if found else find_provider(source)
        name = ModelName(provider.name, model or getattr(provider, "minor" if tier == "aux" else tier))
    return {"model": Setting(name, Origin("environment", place))}


def _tier_settings(tier: str, values: Values, env: Mapping[str, str]) -> ServerSettings:
    """Convert the merged settings of a tier, and add the server and the key that the environment has for it."""
    kind: type[ServerSettings] = EmbeddingSettings if tier == "embedding" else ModelSettings
    settings = convert(kind, tier, values)
    name, origin = settings.model, values["model"].origin
    provider = PROVIDERS[name.provider.lower()]
    if not name.model:
        what = f"no {tier} model is known for {provider.name}"
        raise ConfigError(what, where=origin.place, hint=f"export {MODEL.format(tier.upper())}=…")
    base_url = settings.base_url
    if not base_url and (base_url := env.get(provider.base_url_variable, "")):
        check_server(base_url, provider.base_url_variable, "environment")
    base_url = base_url or provider.base_url
    if provider.needs_base_url and not base_url:
        hint = f'set model = "{name}" and base_url = "http://127.0.0.1:8080/v1" under [{tier}] in config.toml'
        raise ConfigError(f"{name} needs the address of its server", where=origin.place, hint=hint)
    variables = (settings.api_key_env,) if settings.api_key_env else provider.keys
    key = next((Secret(env[variable], variable) for variable in variables if env.get(variable)), None)
    return settings.replace(base_url=base_url, api_key=key, origin=origin.place, layer=origin.layer, table=tier)


def check_annotations(names: Iterable[str], where: str = "") -> None:
    """Check that these are names of annotations.

    Raises:
        ConfigError: one is not.
    """
    if unknown := set(names) - set(ANNOTATIONS):
        hint = nearest(min(unknown), ANNOTATIONS)
        raise ConfigError(f"unknown annotation '{min(unknown)}'", where=where, hint=hint)


MINILM, WORDLLAMA = "Builtin/minilm", "Builtin/wordllama"


def embedding_line(env: Mapping[str, str], now: str = WORDLLAMA) -> str:
    """Return the line of configuration that chooses another embedding model than `now`.

    It is one of a provider whose key is set, else one that needs no key.

    >>> embedding_line({"OPENAI_API_KEY": "sk-…"})
    'model = "OpenAI/text-embedding-3-small" under [embedding] in config.toml'
    >>> embedding_line({}, "Builtin/minilm")
    'model = "Builtin/wordllama" under [embedding] in config.toml'
    """
    keyed = (p for p in PROVIDERS.values() if p.embedding and any(env.get(key) for key in p.keys))
    other = WORDLLAMA if now == MINILM else MINILM
    name = next((f"{provider.name}/{provider.embedding}" for provider in keyed), other)
    return f'model = "{name}" under [embedding] in config.toml'


def header_layer(header: Mapping[str, Any], *, where: str = "header") -> Layer:
    """Return what a header sets under ``model:``, in either spelling of the seed, and under ``RAG:``.

    Annotations may be a list, under ``model: RAG:``; it replaces what is configured, except titles, which cost nothing.

    >>> layer = header_layer({"model": [{"major": "openai/gpt-4o"}, {"-system": "Be kind."}]})
    >>> layer["major"]["model"].value, layer["messages"]["system"].value
    ('openai/gpt-4o', 'Be kind.')
    >>> [key for key, one in header_layer({"RAG": ["summary"]})["RAG"].items() if one.value]
    ['summaries']
    """
    models = _header_models(header, where)
    tables = {tier: value if isinstance(value, Mapping) else {"model": value} for tier, value in models.items()}
    for tier in tables.keys() & set(TIERS):
        refused = (key for key, one in keys_in(tier).items() if key in tables[tier] and one.asks not in ("", "model"))
        if key := next(refused, ""):
            hint = f"set it under [{tier}] in config.toml"
            raise ConfigError(f"a header cannot set '{key}' of [{tier}]", where=where, hint=hint)
    if "system" in models:
        tables["messages"] = {"system": models["system"]}
    tables.pop("system", None)
    wanted = models.get("RAG", header.get("RAG"))
    if isinstance(wanted, str):
        wanted = wanted.replace(",", " ").split()
    if isinstance(wanted, list):
        fields = {name: key.field for name, key in keys_of(Annotations).items()}
        names = {fields.get(str(name), str(name)) for name in wanted}
        check_annotations(names, where=f"{where}, model: RAG:")
        wanted = {name: field in names for name, field in fields.items() if field in {*names, *ANNOTATIONS[1:]}}
    tables.pop("RAG", None)
    if isinstance(wanted, Mapping):
        tables["RAG"] = {"summaries" if key == "summary" else key: value for key, value in wanted.items()}
    return layer_of(tables, "header", lambda table, key: where)


def _header_models(header: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the ``model:`` part of a header as one mapping."""
    found = header.get("model", {})
    parts = found if isinstance(found, list) else [found] if found else []
    parts = [*parts, {key: value for key, value in header.items() if key.startswith("-") and key[1:2] != "-"}]
    merged: dict[str, Any] = {}
    for part in parts:
        if not isinstance(part, Mapping):
            hint = "write for example 'model:' and under it '  major: OpenAI/gpt-4.1-mini'"
            raise ConfigError(f"'model:' must contain 'key: value' lines, not {part!r}", where=where, hint=hint)
        merged.update({str(key).lstrip("- "): value for key, value in part.items()})
    known = (*TIERS, "system", "RAG")
    for key, value in merged.items():
        if key not in known:
            raise ConfigError(f"unknown key '{key}' under 'model:'", where=where, hint=nearest(key, known))
        is_table = isinstance(value, Mapping) and key in TIERS
        if key != "RAG" and value is not None and not isinstance(value, str) and not is_table:
            raise ConfigError(f"'{key}' under 'model:' must be text, not {value!r}", where=where)
    return {key: value for key, value in merged.items() if value not in (None, "default", "")}
