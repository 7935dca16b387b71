"""Schemas: found by name, shown to the model, strict about values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict  # Pydantic asks for this one before Python 3.12

from lmm.errors import ConfigError, FileReadError
from lmm.models.structured import Mismatch, load_schema, make_schema


class Leaf(BaseModel):
    """A leaf."""

    colour: str
    length: float | None = None


class Plant(BaseModel):
    """A plant."""

    name: str = Field(alias="plant name")
    leaves: list[Leaf] = []


class Plants(RootModel[list[Plant]]):
    """Several."""


class Rock(TypedDict):
    """No model of Pydantic's."""

    weight: int


@dataclass
class Stone:
    """Nor this."""

    weight: int


TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"rings": {"type": "integer", "minimum": 1}, "felled": {"type": "string", "format": "date"}},
    "required": ["rings"],
    "additionalProperties": False,
}


def fault(schema: Any, value: Any) -> str:
    """What is wrong with a value."""
    with pytest.raises(Mismatch) as caught:
        make_schema(schema).records(value)
    return str(caught.value)


def test_a_pydantic_model_reads_one_record() -> None:
    """The model is shown aliases; the fields are called as in the class."""
    schema = make_schema(Plant)
    (plant,) = schema.records({"plant name": "Oak", "leaves": [{"colour": "green"}]})
    assert plant.name == "Oak"
    assert plant.leaves == [Leaf(colour="green")]
    assert schema.fields == ("name", "leaves")
    assert "plant name" in json.loads(schema.text)["properties"]
    assert not schema.many


@pytest.mark.parametrize("kind", [list[Plant], tuple[Plant, ...], Plants])
def test_a_list_reads_several(kind: Any) -> None:
    """A list of models, whatever it is called, gives its elements; none is as valid as two."""
    schema = make_schema(kind)
    assert [plant.name for plant in schema.records([{"plant name": "a"}, {"plant name": "b"}])] == ["a", "b"]
    assert schema.records([]) == []
    assert (schema.many, schema.fields) == (True, ("name", "leaves"))


@pytest.mark.parametrize("kind", [Rock, Stone])
def test_other_types_that_pydantic_knows(kind: Any) -> None:
    """Dataclasses and typed dictionaries are as good."""
    schema = make_schema(kind)
    assert schema.records({"weight": 3}) == [kind(weight=3)]
    assert schema.fields == ("weight",)


def test_alternatives_have_the_fields_of_all() -> None:
    """A union's columns are those of its members."""
    assert make_schema(Leaf | Rock).fields == ("colour", "length", "weight")


def test_pydantic_says_where_and_what_it_found() -> None:
    """A line per fault, with the path, and the value where it is short."""
    assert fault(Plant, {"plant name": "Oak", "leaves": [{"colour": "green", "length": "long"}, {}]}) == (
        "- $.leaves[0].length: Input should be a valid number, unable to parse string as a number, not 'long'\n"
        "- $.leaves[1].colour: Field required"
    )


def test_a_json_schema_says_where() -> None:
    """The same form of message; formats are checked; several faults are all named."""
    assert fault(TREE, {"rings": 0, "felled": "yesterday"}) == (
        "- $.felled: 'yesterday' is not a 'date'\n- $.rings: 0 is less than the minimum of 1"
    )
    assert make_schema(TREE).records({"rings": 3, "felled": "2026-11-21"}) == [{"rings": 3, "felled": "2026-11-21"}]


def test_many_faults_are_cut_short() -> None:
    """A model that got all wrong is told ten faults."""
    lines = fault(list[int], ["x"] * 12).splitlines()
    assert (len(lines), lines[-1]) == (11, "- and 2 more")


def test_a_json_schema_of_an_array_reads_several() -> None:
    """References within the schema are followed."""
    schema = make_schema({"type": "array", "items": {"$ref": "#/$defs/tree"}, "$defs": {"tree": TREE}})
    assert schema.records([{"rings": 1}, {"rings": 2}]) == [{"rings": 1}, {"rings": 2}]
    assert (schema.many, schema.fields) == (True, ("rings", "felled"))


def test_a_json_schema_fetches_nothing() -> None:
    """A reference to another place is an error, not a request."""
    schema = make_schema({"$ref": "http://127.0.0.1:9/x.json"})
    with pytest.raises(ConfigError, match="refers to something that is not in it"):
        schema.records({})


@pytest.mark.parametrize("source", [{"type": "objekt"}, {"properties": []}, lambda: 0, 3, "text"])
def test_what_is_no_schema_is_refused(source: Any) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigError, match="not a"):
        make_schema(source)


# -- by name ---------------------------------------------------------------------------------------

MODELS = """\
from __future__ import annotations
from pydantic import BaseModel
from helper_of_models import Colour

class Inner(BaseModel):
    colour: Colour

class Outer(BaseModel):
    inner: Inner

class Family:
    class Member(BaseModel):
        name: str

Many = list[Outer]
as_json = {"type": "object"}
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Python file of models, and the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    (tmp_path / "helper_of_models.py").write_text("Colour = str\n")
    (tmp_path / "some_models.py").write_text(MODELS)
    (tmp_path / "broken_models.py").write_text("import no_such_module_at_all\n")
    (tmp_path / "tree.json").write_text(json.dumps(TREE))
    (tmp_path / "list.json").write_text('{"type": "array"}')
    (tmp_path / "broken.json").write_text('{\n  "type" "array"}')
    (tmp_path / "word.json").write_text('"text"')
    return tmp_path


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("some_models.py:Outer", False),
        ("./some_models.py:Many", True),
        ("some_models:Outer", False),
        ("some_models:Family.Member", False),
        ("some_models.py:as_json", False),
        ("some_models.py:list[Outer]", True),
        ("tree.json", False),
        ("list.json", True),
    ],
)
def test_schemas_are_found_by_name(models: Path, name: str, many: bool) -> None:
    """A file, a module of the current folder, a name within a class, a JSON file."""
    assert load_schema(name).many is many


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("some_models.py:Outr", "some_models.py:Outr: there is no 'Outr' in some_models.py (did you mean 'Outer'?)"),
        ("some_models.py:Xyz", "there is no 'Xyz' in some_models.py (known: Family, Inner, Outer)"),
        ("some_models.py", "'some_models.py' is not the name of a schema (give a Pydantic model"),
        ("some_models.py:", "is not the name of a schema"),
        ("none.py:Outer", "none.py: there is no such Python file"),
        ("no_such_models:Outer", "there is no module 'no_such_models'"),
        ("broken_models.py:A", "broken_models.py:1: ModuleNotFoundError"),
        ("broken_models:A", "there is no module 'no_such_module_at_all'"),
        ("broken.json", "broken.json:2:10: this is not JSON"),
        ("word.json", "word.json: this is not a data type"),
    ],
)
def test_what_is_not_found_is_told(models: Path, name: str, message: str) -> None:
    """Where, what, and what would be right."""
    with pytest.raises(ConfigError) as caught:
        load_schema(name)
    assert message in str(caught.value)


def test_a_missing_schema_file(models: Path) -> None:
    """A JSON file that is not there is an unreadable file."""
    with pytest.raises(FileReadError, match="there is no such file"):
        load_schema("none.json")
