"""Which model is chosen, by whom, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.config import ANNOTATIONS, Settings, load_settings
from lmm.config_files import with_values
from lmm.config_tables import Config, check_config
from lmm.errors import ConfigError

KEY = {"OPENAI_API_KEY": "sk-secret"}


def names(settings: Settings) -> tuple[str, str, str, str]:
    """The four model names."""
    return tuple(str(getattr(settings, tier).model) for tier in ("major", "minor", "aux", "embedding"))  # type: ignore[return-value]  # four tiers


def test_without_a_key_the_built_in_models() -> None:
    """No key: built-in models, and the origin says so."""
    settings = load_settings(env={})
    assert names(settings) == ("Builtin/extractive", "Builtin/extractive", "Builtin/extractive", "Builtin/wordllama")
    assert settings.major.origin == "default: no OPENAI_API_KEY"


def test_with_a_key_openai() -> None:
    """OPENAI_API_KEY: the seed's OpenAI models; vectors are chosen apart, whatever keys there are."""
    assert names(load_settings(env=KEY)) == (
        "OpenAI/gpt-4o-mini",
        "OpenAI/gpt-4.1-nano",
        "OpenAI/gpt-4.1-nano",
        "Builtin/wordllama",
    )


def test_later_voices_win() -> None:
    """default < environment < config.toml < header < command line."""
    env = {"LMM_SOURCE_MAJOR": "Mistral", "LMM_MODEL_MAJOR": "m1"}
    toml = '[major]\nmodel = "Anthropic/c1"\n'
    header = {"model": {"major": "google/g1"}}
    command = {"major": "ollama/o1"}
    chosen = [
        load_settings(env={}),
        load_settings(env=env),
        load_settings(toml, env),
        load_settings(toml, env, header, document="n.md"),
        load_settings(toml, env, header, overrides=command),
    ]
    assert [(str(s.major.model), s.major.origin) for s in chosen] == [
        ("Builtin/extractive", "default: no OPENAI_API_KEY"),
        ("Mistral/m1", "environment LMM_SOURCE_MAJOR, LMM_MODEL_MAJOR"),
        ("Anthropic/c1", "config.toml:2"),
        ("Google/g1", "header of n.md"),
        ("Ollama/o1", "model"),
    ]


@pytest.mark.parametrize("written", ['model = "OpenAI/gemma"\nbase_url = "http://127.0.0.1:9/v1"\n', ""])
def test_another_server_than_the_providers_has_the_model_that_was_named(written: str) -> None:
    """A server that speaks OpenAI's protocol has no gpt-4.1-nano; OpenAI's own has, and so has another provider."""
    env = {} if written else {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "LMM_MODEL_MAJOR": "OpenAI/gemma"}
    toml = f"[major]\n{written}"
    settings = load_settings(toml, env)
    assert names(settings)[:3] == ("OpenAI/gemma",) * 3
    assert not settings.major.missing_key  # a server on this machine needs none
    elsewhere = load_settings(toml, env, overrides={"major": "Anthropic/c1"})
    assert elsewhere.major.missing_key == "ANTHROPIC_API_KEY"
    assert names(elsewhere)[1] == "Anthropic/claude-haiku-4-5"


def test_default_in_a_header_means_as_configured() -> None:
    """`default` is no choice."""
    settings = load_settings('[major]\nmodel = "Ollama/o1"\n', {}, {"model": {"major": "default", "minor": "default"}})
    assert names(settings)[:2] == ("Ollama/o1", "Ollama/o1")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"LMM_SOURCE_MAJOR": "OpenAI"}, ("OpenAI/gpt-4o-mini", "OpenAI/gpt-4.1-nano")),
        ({"LMM_SOURCE": "anthropic"}, ("Anthropic/claude-sonnet-5-5", "Anthropic/claude-haiku-4-5")),
        ({"LMM_MODEL_MAJOR": "gpt-5"}, ("OpenAI/gpt-5", "OpenAI/gpt-4.1-nano")),
        ({"LMM_MODEL_MAJOR": "Ollama/qwen3"}, ("Ollama/qwen3", "Ollama/qwen3")),
        ({"LMM_SOURCE_MAJOR": "Ollama", "LMM_MODEL_MAJOR": "hf.co/a/b"}, ("Ollama/hf.co/a/b", "Ollama/hf.co/a/b")),
        ({"LMM_SOURCE_MINOR": "Mistral"}, ("Builtin/extractive", "Mistral/mistral-small-latest")),
    ],
)
def test_environment(env: dict[str, str], expected: tuple[str, str]) -> None:
    """LMM_SOURCE_* and LMM_MODEL_* work together or alone; minor follows major's provider."""
    assert names(load_settings(env=env))[:2] == expected


def test_tiers_that_follow_share_server_and_key() -> None:
    """minor and aux use major's server when they use its provider."""
    toml = '[major]\nmodel = "OpenAICompatible/m"\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "MINE"\n'
    settings = load_settings(toml, {"MINE": "k"})
    assert {t.base_url for t in (settings.major, settings.minor, settings.aux)} == {"http://127.0.0.1:9/v1"}
    assert settings.aux.api_key is not None
    assert settings.aux.api_key.variable == "MINE"


def test_a_base_url_belongs_to_the_provider_it_was_written_for() -> None:
    """A header that chooses another provider does not send it to the configured server."""
    toml = '[major]\nmodel = "OpenAI/m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    assert load_settings(toml, KEY).major.base_url == "http://127.0.0.1:9/v1"
    assert load_settings(toml, KEY, {"model": {"major": "Anthropic/c"}}).major.base_url == ""


def test_provider_variables_name_servers() -> None:
    """OPENAI_BASE_URL and OLLAMA_BASE_URL are honoured; local servers have a default address."""
    assert (
        load_settings(env=KEY | {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}).major.base_url == "http://127.0.0.1:1/v1"
    )
    assert load_settings(env={"LMM_MODEL_MAJOR": "Ollama/x"}).major.base_url == "http://127.0.0.1:11434/v1"
    env = {"LMM_MODEL_MAJOR": "Ollama/x", "OLLAMA_BASE_URL": "http://127.0.0.1:2/v1"}
    assert load_settings(env=env).major.base_url == "http://127.0.0.1:2/v1"


def test_a_key_does_not_follow_to_another_provider() -> None:
    """`api_key_env` belongs to the server that the table names: a header's model of somebody else gets its own key."""
    toml = '[major]\nmodel = "OpenAI/gpt-4.1-mini"\napi_key_env = "OPENAI_API_KEY"\n'
    env = {"OPENAI_API_KEY": "openai", "MISTRAL_API_KEY": "mistral"}
    settings = load_settings(toml, env, overrides={"major": "Mistral/mistral-small"})
    assert settings.major.api_key is not None
    assert settings.major.api_key.value == "mistral"
    assert load_settings(toml, {"OPENAI_API_KEY": "x"}, overrides={"major": "Mistral/m"}).major.api_key is None


def test_a_key_does_not_show_itself() -> None:
    """Printing settings never prints a key."""
    settings = load_settings(env=KEY)
    assert "sk-secret" not in repr(settings)
    assert settings.major.api_key is not None
    assert settings.major.api_key.reveal() == "sk-secret"


@pytest.mark.parametrize(
    "header",
    [
        {"model": {"major": "OpenAI/m", "system": "S"}},
        {"model": [{"major": "OpenAI/m"}, {"system": "S"}]},
        {"model": [{"major": "OpenAI/m"}], "-system": "S"},
        {"model": {"major": "OpenAI/m", "-system": "S", "minor": None, "aux": "default"}},
    ],
)
def test_spellings_of_the_header(header: dict[str, object]) -> None:
    """Mapping, list of one-key mappings, and `-system:` without a space are the same."""
    settings = load_settings(env={}, header=header)
    assert (str(settings.major.model), settings.messages.system) == ("OpenAI/m", "S")


SCHEME = "'base_url' in [major] must begin with http:// or https:// and a host"


@pytest.mark.parametrize(
    ("toml", "header", "message"),
    [
        ("[majr]\n", {}, "unknown table [majr] (did you mean 'major'?)"),
        ('[model]\nmajor = "Ollama/m"\n', {}, "unknown table [model] (here 'major' is [major] model;"),
        ("[major]\ntimeot = 3\n", {}, "unknown key 'timeot' in [major] (did you mean 'timeout'?)"),
        ('[major]\ntimeout = "3"\n', {}, "config.toml:2: 'timeout' in [major] must be a number, not '3'"),
        ("[major]\ntimeout = true\n", {}, "'timeout' in [major] must be a number, not True"),
        ("[major]\ntimeout = 0\n", {}, "'timeout' in [major] must be a number above 0, not 0"),
        ('[major]\nmodel = "gpt-4"\n', {}, "'gpt-4' is not a model name"),
        ('[major]\nmodel = "OpenIA/gpt-4"\n', {}, "unknown provider 'OpenIA' (did you mean OpenAI?)"),
        ('[major]\nmodel = "OpenAICompatible/m"\n', {}, "needs the address of its server"),
        ("major = 3\n", {}, "[major] must be a table"),
        ("[RAG]\nquestions = Yes\n", {}, "config.toml:2:13: this is not TOML: Invalid value"),
        ("\ufeff[RAG]\r\nquestions = Yes\r\n", {}, "config.toml:2:13: this is not TOML: Invalid value"),
        ("[major]\nmodel = Ollama/x # m\n", {}, 'Invalid value (write text in quotes: model = "Ollama/x")'),
        ('model = "Ollama/x"\n[major]\n', {}, "config.toml:1: 'model' is in no table (write it under [major])"),
        ("authorship = true\n", {}, "config.toml:1: 'authorship' is in no table (write it under [notebook])"),
        ("[major", {}, "config.toml:1: this is not TOML: Expected ']' at the end of a table declaration (close it"),
        ("\ufeff[majr]\r\n", {}, "config.toml:1: unknown table [majr] (did you mean 'major'?)"),
        ("[RAG]\nquestions = 1\n", {}, "'questions' in [RAG] must be true or false, not 1"),
        ("", {"model": {"RAG": ["question"]}}, "unknown annotation 'question' (did you mean 'questions'?)"),
        ("", {"model": "gpt-4"}, "'model:' must contain 'key: value' lines, not 'gpt-4'"),
        ("", {"model": {"majr": "x/y"}}, "unknown key 'majr' under 'model:' (did you mean 'major'?)"),
        ("", {"model": {"major": {"modle": "x"}}}, "unknown key 'modle' in [major] (did you mean 'model'?)"),
        ("", {"model": {"major": {"base_url": "http://x"}}}, "header: a header cannot set 'base_url' of [major]"),
        ("", {"model": {"major": {"parameters": {"tools": []}}}}, "'tools' is not a parameter of [major]"),
        ("[major.parameters]\nmessages = []\n", {}, "config.toml:1: 'messages' is not a parameter of [major]"),
        (
            "[minor]\nparameters = { model = 1 }\n",
            {"title": "T"},
            "toml:2: 'model' is not a parameter of [minor]",
        ),
        ('[major]\nbase_url = "127.0.0.1:8797/v1"\n', {}, f"config.toml:2: {SCHEME}"),
        ('[major]\nbase_url = "localhost:8797/v1"\n', {}, f"config.toml:2: {SCHEME}"),
        ('[major]\nbase_url = "https:/x"\n', {}, f"config.toml:2: {SCHEME}"),
        ('[major]\nbase_url = "ftp://x/v1"\n', {}, f"config.toml:2: {SCHEME}"),
        ("[major]\nparameters = 3\n", {}, "'parameters' in [major] must be a table, not 3"),
        ("", {"model": {"major": ["x"]}}, "'major' under 'model:' must be text"),
        ("", {"model": {"major": "something like mistral tiniest"}}, "is not a model name"),
    ],
)
def test_what_is_refused(toml: str, header: dict[str, object], message: str) -> None:
    """A mistake is named, with what was probably meant."""
    with pytest.raises(ConfigError) as error:
        load_settings(toml, {}, header)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["", " ", "nonsense"])
def test_a_named_model_is_not_replaced_by_the_configured_one(name: str) -> None:
    """A script's variable that is not set names no model."""
    with pytest.raises(ConfigError, match=f"^model: '{name}' is not a model name"):
        load_settings('major = "Ollama/m"', {}, overrides={"major": name})


def test_a_file_as_windows_writes_it() -> None:
    """With a byte order mark, and its line ends."""
    config = Config(text='\ufeffminor = "Ollama/m"\r\n[messages]\r\nsystem = """\r\nBe\r\nkind."""\r\n')
    settings = load_settings(config, {})
    assert (str(settings.minor.model), settings.minor.origin) == ("Ollama/m", "config.toml:1")
    assert settings.messages.system == "Be\nkind."
    assert settings.merged["messages"]["system"].origin.place == "config.toml:3"
    changed = with_values(config.text, {"messages": {"context_limit": 3}})
    assert changed.startswith('\ufeffminor = "Ollama/m"\r\n[messages]')
    assert load_settings(changed, {}).messages.context_limit == 3


def test_a_tier_may_be_one_line() -> None:
    """`major = "Ollama/x"` is short for the table."""
    assert str(load_settings('major = "Ollama/x"\n', {}).major.model) == "Ollama/x"


def test_annotations_are_chosen_in_the_table_or_the_header() -> None:
    """[RAG] in config.toml, spelled as in the seed; a list under `model: RAG:` replaces it, except for titles."""

    def on(toml: str, header: dict[str, object]) -> list[str]:
        annotations = load_settings(toml, {}, header).annotations
        return [name for name in ANNOTATIONS if getattr(annotations, name)]

    assert on("", {}) == ["titles"]
    assert on("[RAG]\nquestions = True # seed\nsummaries = true\n", {}) == ["titles", "summary", "questions"]
    listed: dict[str, object] = {"model": {"RAG": ["summary", "keywords"]}}
    assert on("[RAG]\nquestions = true\n", listed) == ["titles", "summary", "keywords"]
    assert on("[RAG]\ntitles = false\n", listed) == ["summary", "keywords"]
    assert "lower case" in load_settings("[RAG]\nquestions = True\n", {}).hints[0]


def test_parameters_belong_to_the_provider_that_they_were_written_for() -> None:
    """Another one gets none of them; a tier that follows with the same model gets them."""
    toml = '[major]\nmodel = "Ollama/o"\nparameters = { num_ctx = 9 }\n'
    settings = load_settings(toml, {})
    assert (settings.major.parameters, settings.aux.parameters) == ({"num_ctx": 9}, {"num_ctx": 9})
    assert hash(settings.major) != hash(load_settings(toml.replace("9", "8"), {}).major)
    other = load_settings(toml, {}, {"model": {"major": {"model": "Mistral/m", "parameters": {"seed": 1}}}}).major
    assert (str(other.model), other.parameters) == ("Mistral/m", {"seed": 1})


def test_options_of_embedding_models() -> None:
    """They stand under [embedding] and nowhere else; an empty prefix is one."""
    text = 'dimensions = 256\nbatch_size = 8\nquery_prefix = ""\ndocument_prefix = "d: "\n'
    found = load_settings(f'[embedding]\nmodel = "Ollama/x"\n{text}', {}).embedding
    assert (found.dimensions, found.batch_size, found.query_prefix, found.document_prefix) == (256, 8, "", "d: ")
    unset = load_settings("", {}).embedding
    assert (unset.dimensions, unset.batch_size, unset.query_prefix, unset.document_prefix) == (None, None, None, None)
    for key in ("temperature", "max_tokens", "context_window", "reasoning_effort", "api", "parameters"):
        with pytest.raises(ConfigError, match=rf"unknown key '{key}' in \[embedding\]"):
            load_settings(f"[embedding]\n{key} = 1\n", {})
    with pytest.raises(ConfigError, match=r"unknown key 'dimensions' in \[major\]"):
        load_settings("[major]\ndimensions = 256\n", {})
    with pytest.raises(ConfigError, match=r"'batch_size' in \[embedding\] must be a whole number of at least 1"):
        load_settings("[embedding]\nbatch_size = 0\n", {})


# -- layers ----------------------------------------------------------------------------------------

LAYERS = ("follows", "environment", "file", "header", "flags")
"""Those that can name a model for minor, weakest first; below all of them is its provider's small model."""


def layered(*said: tuple[str, str], more: str = "") -> Settings:
    """Settings of which some layers name the model of minor; `more` is added to that of the first, if it may say it."""
    env, toml, header, flags = dict[str, str](), "", dict[str, object](), dict[str, str]()
    for number, (layer, model) in enumerate(said):
        options = more if number == 0 else ""
        if layer == "environment":
            env["LMM_MODEL_MINOR"] = model
        elif layer == "header":
            header = {"model": {"minor": model}}
        elif layer == "flags":
            flags["minor"] = model
        else:
            toml += f'[{"major" if layer == "follows" else "minor"}]\nmodel = "{model}"\n{options}'
    return load_settings(toml, env | {"MINE": "k"}, header, overrides=flags, document="n.md")


PAIRS = [(below, above) for i, below in enumerate(LAYERS) for above in LAYERS[i + 1 :]]
SERVER = 'base_url = "http://127.0.0.1:9/v1"\napi_key_env = "MINE"\n'
OPTIONS = f"{SERVER}parameters = {{ top_p = 0.5 }}\ncontext_window = 77\ntemperature = 0.25\n"


@pytest.mark.parametrize(("below", "above"), PAIRS)
def test_the_stronger_layer_names_the_model(below: str, above: str) -> None:
    """Of two layers that name one, whichever they are."""
    settings = layered((below, "Ollama/weak"), (above, "Mistral/strong"))
    assert (str(settings.minor.model), settings.minor.layer) == ("Mistral/strong", above)
    assert layered((below, "Ollama/weak")).minor.layer == below


@pytest.mark.parametrize(("below", "above"), [pair for pair in PAIRS if pair[0] in ("follows", "file")])
def test_what_a_layer_keeps_of_those_below(below: str, above: str) -> None:
    """Of another provider no server, key, parameter or window; of another model no window; of the same all."""
    found = {}
    for name in ("OpenAICompatible/weak", "OpenAICompatible/strong", "Ollama/strong"):
        minor = layered((below, "OpenAICompatible/weak"), (above, name), more=OPTIONS).minor
        key = minor.api_key.variable if minor.api_key else ""
        found[name] = (minor.base_url, key, dict(minor.parameters), minor.context_window, minor.temperature)
    server = ("http://127.0.0.1:9/v1", "MINE", {"top_p": 0.5})
    assert found == {
        "OpenAICompatible/weak": (*server, 77, 0.25),
        "OpenAICompatible/strong": (*server, None, 0.25),
        "Ollama/strong": ("http://127.0.0.1:11434/v1", "", {}, None, 0.25),
    }


def test_a_server_between_two_others() -> None:
    """What the environment names has dropped the server that minor would have had from major, for good."""
    toml = '[major]\nmodel = "OpenAI/m"\nbase_url = "http://127.0.0.1:9/v1"\n[minor]\nmodel = "OpenAI/n"\n'
    assert load_settings(toml, {}).minor.base_url == "http://127.0.0.1:9/v1"
    assert load_settings(toml, {"LMM_SOURCE_MINOR": "Mistral"}).minor.base_url == ""


def test_a_small_model_that_follows_takes_the_options_of_the_large_one() -> None:
    """But neither its window nor its effort; aux takes everything of minor."""
    toml = '[major]\nmodel = "OpenAI/gpt-5"\ntimeout = 9\ncontext_window = 77\nreasoning_effort = "low"\n'
    settings = load_settings(toml + "[minor]\ntemperature = 0.5\n", KEY)
    for tier in (settings.minor, settings.aux):
        assert (str(tier.model), tier.layer) == ("OpenAI/gpt-4.1-nano", "follows")
        assert (tier.timeout, tier.temperature, tier.context_window, tier.reasoning_effort) == (9, 0.5, None, "")


def test_a_tier_that_stands_for_another_one() -> None:
    """`--model minor` takes that tier as it is, and is configured in its table."""
    settings = load_settings('[minor]\nmodel = "Ollama/small"\ntemperature = 0.5\n', {}, overrides={"major": "minor"})
    assert (str(settings.major.model), settings.major.temperature, settings.major.table) == (
        "Ollama/small",
        0.5,
        "minor",
    )
    assert (settings.major.layer, settings.is_chosen("major"), settings.is_chosen("aux")) == ("flags", True, True)


def test_a_named_key_that_is_not_set_is_missing() -> None:
    """The provider's own does not take its place, and the hint names the right one."""
    settings = load_settings('[major]\nmodel = "OpenAI/m"\napi_key_env = "MINE"\n', KEY)
    assert (settings.major.api_key, settings.major.missing_key) == (None, "MINE")
    toml = '[major]\nmodel = "OpenAICompatible/m"\nbase_url = "https://models.example/v1"\n'
    assert load_settings(toml, {}).major.missing_key == ""
    assert load_settings(toml + 'api_key_env = "MINE"\n', {}).major.missing_key == "MINE"


def test_every_key_has_its_origin() -> None:
    """Also those of the other packages, and of tables in tables."""
    toml = "[search]\nlimit = 3\n[RAG]\nlevel = 1\n[RAG.annotation_model]\nown_properties = ['a']\n"
    settings = load_settings(toml, {}, {"RAG": {"level": 2}, "model": {"system": "S"}}, document="n.md")
    told = {(table, key): tuple(one) for table, of in settings.merged.items() for key, one in of.items()}
    assert told["search", "limit"] == (3, ("file", "config.toml:2"))
    assert told["RAG", "level"] == (2, ("header", "header of n.md"))
    assert told["RAG.annotation_model", "own_properties"] == (["a"], ("file", "config.toml:6"))
    assert told["messages", "system"] == ("S", ("header", "header of n.md"))
    assert settings.is_set("messages", "system")
    assert not settings.is_set("messages", "context_limit")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('[major]\ntemperature = "0.4"', "write temperature = 0.4"),
        ("[major]\ntemperature = 0,4", "write a point: temperature = 0.4"),
        ('[major]\nmodel: "Ollama/x"', 'write model = "Ollama/x"'),
        ("[major]\nmodel = “Ollama/x”", "write straight quotation marks"),
        ('[major\nmodel = "Ollama/x"', "close it: [table]"),
        ('[major]\nmodel = "Ollama/x"\nmodel = "Ollama/y"', "a key or a table occurs twice: keep one"),
        ('[prompts]\nfolder = "C:\\models"', "write / in paths, or put the text in single quotes"),
        ('[serve]\nwithhold = "solution"', 'write withhold = ["solution"]'),
        ('[major]\nmodel = {name = "x"}', 'for example model = "OpenAI/gpt-4.1-mini"'),
        ("[rag]\nquestions = true", "did you mean 'RAG'?"),
        ('[[major]]\nmodel = "Ollama/x"', "write [major] and 'key = value' lines under it"),
        ("{}", "write 'key = value' lines below [table]; lmm init --all shows all of them"),
    ],
)
def test_an_error_says_what_to_write(text: str, hint: str) -> None:
    """And where."""
    with pytest.raises(ConfigError) as error:
        check_config(Config(Path("config.toml"), text))
    assert error.value.hint == hint
    assert error.value.where.startswith("config.toml:")
