"""The house rules that a machine can check: who may import whom, and which files stay pure."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

# Files that may touch the outside world: disk, clock, network, environment, terminal.
EDGE = {
    "chatmd.checking.check_file",
    "chatmd.checking.surroundings",
    "chatmd.content.agent_inputs",
    "chatmd.content.convert",
    "chatmd.content.expand",
    "chatmd.content.fetch",
    "chatmd.content.local_files",
    "chatmd.content.recorded",
    "chatmd.rendering.render_file",
    "chatmd.tools.images",
    "chatmd.tools.web",
    "chatmd.compaction.compact",
    "chatmd.compaction.compact_file",
    "chatmd.language.imports",
    "chatmd.refine.api",
    "chatmd.refine.asking",
    "chatmd.refine.oracle",
    "chatmd.refine.purse",
    "chatmd.refine.record",
    "chatmd.refine.run",
    "chatmd.runtime.agents",
    "chatmd.runtime.api",
    "chatmd.runtime.compacting",
    "chatmd.runtime.conversation",
    "chatmd.runtime.models",
    "chatmd.runtime.opening",
    "chatmd.runtime.options",
    "chatmd.runtime.payloads",
    "chatmd.runtime.reduce",
    "chatmd.runtime.runner",
    "chatmd.runtime.transcript_file",
    "chatmd.runtime.tree",
    "chatmd.mcp_server.library",
    "chatmd.mcp_server.prompt_files",
    "chatmd.mcp_server.protocol",
    "chatmd.mcp_server.running",
    "chatmd.mcp_server.serving",
    "chatmd.tools.mcp",
    "chatmd.tools.mcp_connection",
    "chatmd.tools.mcp_http",
    "chatmd.tools.mcp_network",
    "chatmd.tools.mcp_stdio",
    "chatmd.tools.agent",
    "chatmd.tools.calling",
    "chatmd.tools.apply_patch",
    "chatmd.tools.changes",
    "chatmd.tools.confined",
    "chatmd.tools.directory",
    "chatmd.tools.files",
    "chatmd.tools.roots",
    "chatmd.tools.walking",
    "chatmd.tools.consent",
    "chatmd.tools.declared",
    "chatmd.tools.environment",
    "chatmd.tools.offered",
    "chatmd.tools.process",
    "chatmd.tools.registry",
    "chatmd.tools.shell",
    "chatmd.terminal.attaching",
    "chatmd.terminal.completing",
    "chatmd.terminal.converse",
    "chatmd.terminal.keys",
    "chatmd.terminal.questions",
    "chatmd.terminal.rewind_file",
    "chatmd.terminal.screen",
    "chatmd.terminal.session",
    "chatmd.terminal.typed_history",
    "lmm.__main__",
    "lmm.config_files",
    "lmm.conversation",
    "lmm.extraction.plan",
    "lmm.extraction.run",
    "lmm.extraction.schemas",
    "lmm.extraction.table",
    "lmm.files",
    "lmm.importing.archive",
    "lmm.importing.child",
    "lmm.importing.pdf_chars",
    "lmm.importing.read_docx",
    "lmm.importing.read_epub",
    "lmm.importing.read_pdf",
    "lmm.importing.run",
    "lmm.journal",
    "lmm.listening",
    "lmm.loop",
    "lmm.trust",
    "lmm.markdown.ioutils",
    "lmm.models.chat",
    "lmm.models.embed",
    "lmm.models.embedders.fastembed",
    "lmm.models.embedders.local",
    "lmm.models.embedders.model2vec",
    "lmm.models.embedders.remote",
    "lmm.models.embedders.sentence_transformers",
    "lmm.models.embedders.wordllama",
    "lmm.models.vector_cache",
    "lmm.models.joined_stream",
    "lmm.models.pydantic_ai_adapter",
    "lmm.models.pydantic_ai_messages",
    "lmm.models.recorded",
    "lmm.models.remembered",
    "lmm.models.resilience",
    "lmm.models.tokens",
    "lmm.prompts.load",
    "lmm.scan.annotations",
    "lmm.scan.batch",
    "lmm.scan.making",
    "lmm.scan.changes",
    "lmm.scan.answering",
    "lmm.scan.condense",
    "lmm.scan.run_messages",
    "lmm.scan.run_scan",
    "lmm.scan.run_batch",
    "lmm.scan.save",
    "lmm.scan.watch",
    "lmm_education.agent_tools.course",
    "lmm_education.agent_tools.index",
    "lmm_education.agent_tools.lookup",
    "lmm_education.agent_tools.published",
    "lmm_education.agent_tools.tools",
    "lmm_education.answer.asking",
    "lmm_education.answer.history_file",
    "lmm_education.answer.run",
    "lmm_education.encode.bm25",
    "lmm_education.encode.encoder",
    "lmm_education.encode.sparse",
    "lmm_education.evaluation.plot",
    "lmm_education.evaluation.read_questions",
    "lmm_education.evaluation.run",
    "lmm_education.evaluation.scratch",
    "lmm_education.exports",
    "lmm_education.ingestion.reading",
    "lmm_education.ingestion.run",
    "lmm_education.ingestion.running",
    "lmm_education.ingestion.settling",
    "lmm_education.ingestion.sources",
    "lmm_education.ingestion.step_files",
    "lmm_education.ingestion.storing",
    "lmm_education.ingestion.watching",
    "lmm_education.ingestion.writing",
    "lmm_education.search.highlight",
    "lmm_education.search.names",
    "lmm_education.search.rerank",
    "lmm_education.search.run",
    "lmm_education.search.searcher",
    "lmm_education.store.edge",
    "lmm_education.store.edge_values",
    "lmm_education.store.folders",
    "lmm_education.store.generations",
    "lmm_education.store.open",
    "lmm_education.store.server",
    "lmm_education.store.server_requests",
    "lmm_education.store.server_values",
    "lmm_education.store.shard",
    "lmm_education.store.transfer",
    "lmm_education.store.view",
    "lmm_education.open_course",
    "lmm_education.study.ask_cards",
    "lmm_education.study.reading",
    "lmm_education.study.run_export",
    "lmm_education.study.card_files",
    "lmm_education.web.api",
    "lmm_education.web.app",
    "lmm_education.web.contents",
    "lmm_education.exchange_log.log_file",
    "lmm_education.exchange_log.writer",
    "lmm_education.web.access",
    "lmm_education.web.logged",
    "lmm_education.web.material",
    "lmm_education.web.measuring",
    "lmm_education.web.reactions",
    "lmm_education.web.teacher",
    "lmm_education.web.teacher_access",
    "lmm_education.web.attempts",
    "lmm_education.web.budget",
    "lmm_education.web.database",
    "lmm_education.web.guard",
    "lmm_education.web.login",
    "lmm_education.web.logins",
    "lmm_education.web.sessions",
    "lmm_education.web.static_files",
    "lmm_education.web.topic",
    "lmm_education.web.identify",
    "lmm_education.web.pictures",
    "lmm_education.web.site",
    "lmm_education.web.page",
    "lmm_education.web.service",
    "lmm_education.web.state",
}
IMPURE = {
    *("os", "io", "socket", "subprocess", "tempfile", "time", "random", "secrets", "shutil", "threading", "asyncio"),
    *(
        "httpx",
        "httpx2",
        "typer",
        "pydantic_ai",
        "openai",
        "filelock",
        "platformdirs",
        "watchfiles",
        "qdrant_edge",
        "qdrant_client",
        "mcp",
        "mcp_types",
        "prompt_toolkit",
    ),
    *("open", "print", "input"),
}
# The command line is the outermost edge; package __init__ files only re-export.
ORDER = [
    "lmm.errors",
    "lmm.markdown",
    "lmm.models",
    "lmm.scan",
    "lmm.extraction",
    "lmm.importing",
    "lmm.conversation",
    "lmm.cli",
]
# The same for lmm_education, several to a floor; the longest name that fits counts.
FLOORS: list[tuple[str, ...]] = [
    ("errors",),
    ("setting_checks", "serve_settings"),
    ("course", "settings", "encode.encodings", "store.manifest", "store.port"),
    ("payloads", "prompts"),
    ("encode", "store"),
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


def is_edge(name: str) -> bool:
    """Whether a module may touch the outside world."""
    return name in EDGE or name.startswith(("lmm.cli", "lmm_education.cli", "chatmd.cli")) or name in PACKAGES


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


@pytest.mark.parametrize("name", [n for n in MODULES if not is_edge(n)])
def test_pure_files_stay_pure(name: str) -> None:
    """A pure file imports pure files only, and no name of it reaches outside."""
    assert not {other for other in imports(name) if is_edge(other) and other not in PACKAGES}
    tree = MODULES[name]
    used = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    used |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    used |= {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not used & IMPURE


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
        "import sys, lmm, lmm.markdown, lmm.scan, lmm.models.names, lmm.extraction.table, lmm.conversation;"
        "import chatmd.language.lint, chatmd.language.imports, chatmd.language.transcript;"
        "bad = {'pydantic_ai', 'openai', 'pydantic', 'numpy', 'wordllama', 'qdrant_edge', 'typer', 'rich', "
        "'jsonschema', 'pyarrow', 'mcp'} & set(sys.modules);"
        "sys.exit(f'imported: {bad}' if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_architecture_page_names_every_file() -> None:
    """A newcomer finds each file in docs/architecture.md, and no file that is not there."""
    page = (SOURCE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("## Where is")[0]
    files = {path.name for path in SOURCE.rglob("*.py") if path.name != "__init__.py" and "cli" not in path.parts}
    named = set(re.findall(r"\b(\w+\.py)\b", table))
    assert files - {"__main__.py"} <= named
    assert named <= {path.name for path in SOURCE.rglob("*.py")} | {"test_layers.py"}
