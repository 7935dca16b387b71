"""The house rules that a machine can check: who may import whom, what `import lmm` loads, who prints."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "src").rglob("*.py"))
}


def test_contracts_are_kept() -> None:
    """Those of `[tool.importlinter]` in pyproject.toml; in a process of its own, as it silences this one's loggers."""
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_import_cycle() -> None:
    """Modules import each other in one direction only, also where a contract looks away."""
    graph = grimp.build_graph(
        "lmm", "lmm_education", "chatmd", "lmm_editor", cache_dir=None, exclude_type_checking_imports=True
    )
    imported = {name: graph.find_modules_directly_imported_by(name) - PACKAGES for name in graph.modules}
    graphlib.TopologicalSorter(imported).prepare()


def test_importing_lmm_imports_no_vendor() -> None:
    """`import lmm` and the public packages load neither pydantic-ai nor an embedding library."""
    code = (
        "import sys, lmm, lmm.markdown, lmm.scan, lmm.providers, lmm.extraction;"
        "import chatmd.language.lint, chatmd.language.imports, chatmd.language.transcript;"
        "bad = {'pydantic_ai', 'openai', 'pydantic', 'numpy', 'wordllama', 'qdrant_edge', 'rich', "
        "'jsonschema', 'mcp'} & set(sys.modules);"
        "sys.exit(f'imported: {bad}' if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_exit_to_the_terminal() -> None:
    """What is printed goes through `lmm.terminal`, which makes it visible; `lmm run -i` cleans its screen."""
    printing = {
        name
        for name, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTING
    }
    assert printing == {"lmm.terminal"}


PRINTING = {
    "print",
    *(
        f"{stream}.{method}"
        for stream in ("stream", "sys.stdout", "sys.stderr")
        for method in ("write", "writelines", "buffer.write")
    ),
    *(f"click.{function}" for function in ("echo", "secho", "prompt", "confirm")),
}

PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}
