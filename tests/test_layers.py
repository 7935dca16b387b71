"""The house rules that a machine can check: who may import whom."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

ORDER = [
    "lmm.errors",
    "lmm.csv_table",
    "lmm.messages",
    "lmm.terminal",
    "lmm.disk",
    "lmm.markdown",
    "lmm.models",
    "lmm.pipeline",
    "lmm.notebook",
    "lmm.extraction",
    "lmm.document",
    "lmm.shortcuts",
    "lmm.watcher",
    "lmm.scan",
    "lmm.importing",
    "lmm.cli",
]
# The same for lmm_education, several to a floor; the longest name that fits counts.
FLOORS: list[tuple[str, ...]] = [
    ("errors",),
    ("setting_checks", "serve_settings"),
    ("material", "settings", "encode.encodings", "store.manifest", "store.port"),
    ("payloads", "prompts"),
    ("encode", "store"),
    ("withheld",),
    ("open_course",),
    ("ingestion",),
    ("search", "exports", "exchange_log"),
    ("answer", "evaluation", "study"),
    ("web", "agent_tools"),
    ("cli",),
]
# And for chatmd.
CHATMD_FLOORS: list[tuple[str, ...]] = [
    ("language.nodes", "language.tags"),
    ("errors", "prompts", "examples", "language.attributes", "language.items"),
    ("language.lexer",),
    ("language.strict_lexer",),
    ("language.parser",),
    ("language.writer", "language.agent", "language.mend"),
    ("language",),
    ("workplace",),
    ("content", "tools", "compaction"),
    ("runtime",),
    ("refine", "mcp_server", "rendering", "checking", "terminal"),
    ("cli",),
]


def module_name(path: Path) -> str:
    """`src/lmm/scan/run.py` is `lmm.scan.run`; an `__init__.py` is its package."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def imports(name: str, *, top_level: bool = False) -> set[str]:
    """Full names of the modules of ours that a module imports; with `top_level`, those outside functions."""
    tree = MODULES[name]
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if top_level and id(node) in inside:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in MODULES else node.module)
    return {name for name in found if name in MODULES}


PACKAGES = {module_name(path) for path in SOURCE.rglob("__init__.py")}


def test_no_import_cycle() -> None:
    """Modules import each other in one direction only."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"import cycle: {' -> '.join((*path[path.index(name) :], name))}"
        if name not in done:
            for other in sorted(imports(name)):
                if other not in PACKAGES or other in path:
                    visit(other, (*path, name))
            done.add(name)

    for name in MODULES:
        visit(name, ())


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("lmm.")])
def test_layers_import_downwards_only(name: str) -> None:
    """errors < markdown | models < scan < extraction, conversation < cli; markdown and models are strangers."""
    layer = next((i for i, prefix in enumerate(ORDER) if name.startswith(prefix)), None)
    if layer is None:
        return
    above = ORDER[layer + 1 :] + (["lmm.markdown"] if ORDER[layer] == "lmm.models" else [])
    wrong = {other for other in imports(name) if other.startswith(tuple(above))}
    assert not wrong, f"{name} imports {', '.join(sorted(wrong))} from a layer above it"


def floor_of(name: str) -> int:
    """The floor of a module of lmm_education or chatmd; the package's __init__ is the roof."""
    package = name.split(".")[0]
    floors = CHATMD_FLOORS if package == "chatmd" else FLOORS
    fits = {part: i for i, parts in enumerate(floors) for part in parts if f"{name}.".startswith(f"{package}.{part}.")}
    return fits[max(fits, key=len)] if fits else len(floors)


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("lmm_education.")])
def test_floors_of_lmm_education(name: str) -> None:
    """A module imports from its own floor and those below, and nothing of chatmd."""
    wrong = {other for other in imports(name) if other.startswith("lmm_education") and floor_of(other) > floor_of(name)}
    wrong |= {other for other in imports(name) if other.startswith("chatmd")}
    assert not wrong, f"{name} imports {', '.join(sorted(wrong))}"
    assert floor_of(name) < len(FLOORS), f"{name} has no floor"


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("chatmd.")])
def test_floors_of_chatmd(name: str) -> None:
    """A module imports from its own floor and those below, and nothing of lmm_education."""
    wrong = {other for other in imports(name) if other.startswith("chatmd") and floor_of(other) > floor_of(name)}
    wrong |= {other for other in imports(name) if other.startswith("lmm_education")}
    assert not wrong, f"{name} imports {', '.join(sorted(wrong))}"
    assert floor_of(name) < len(CHATMD_FLOORS), f"{name} has no floor"


@pytest.mark.parametrize("name", [n for n in MODULES if n != "lmm.models.chat" and ".cli" not in n])
def test_no_import_of_ours_hides_in_a_function(name: str) -> None:
    """Only the command table and the opening of a vendor's adapter import lazily."""
    assert imports(name) == imports(name, top_level=True)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_never_has_the_name_of_a_public_function(name: str) -> None:
    """`lmm.scan.scan` is a function, so there is no file scan/scan.py."""
    package, _, last = name.rpartition(".")
    if package in MODULES and not package.startswith("lmm.cli"):
        functions = {alias.name for node in ast.walk(MODULES[package]) if isinstance(node, ast.ImportFrom)
                     for alias in node.names}  # fmt: skip
        assert last not in functions or last in sys.builtin_module_names


def test_importing_lmm_imports_no_vendor() -> None:
    """`import lmm` and the public packages load neither pydantic-ai nor an embedding library."""
    import subprocess

    code = (
        "import sys, lmm, lmm.markdown, lmm.scan, lmm.models.names, lmm.extraction.table, lmm.shortcuts;"
        "import chatmd.language.lint, chatmd.language.imports, chatmd.language.transcript;"
        "bad = {'pydantic_ai', 'openai', 'pydantic', 'numpy', 'wordllama', 'qdrant_edge', 'typer', 'rich', "
        "'jsonschema', 'pyarrow', 'mcp'} & set(sys.modules);"
        "sys.exit(f'imported: {bad}' if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_exit_to_the_terminal() -> None:
    """What is printed goes through `lmm.terminal`, which makes it visible; `lmm run -i` cleans its screen."""
    printing = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTING
    }
    assert printing == {"lmm.terminal"}


PRINTING = {
    "print",
    *(
        f"sys.{stream}.{method}"
        for stream in ("stdout", "stderr")
        for method in ("write", "writelines", "buffer.write")
    ),
    *(f"{package}.{function}" for package in ("click", "typer") for function in ("echo", "secho", "prompt", "confirm")),
}
