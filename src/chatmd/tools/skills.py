"""`read_skill`: folders with a `SKILL.md`, of which the model knows name and description, and reads what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools.files import PATH, read_file
from chatmd.tools.registry import OpenTools, offer
from chatmd.tools.roots import ToolRoots, roots_of
from lmm.disk.files import read_document
from lmm.markdown.parse_markdown import header_values

SKILL = "SKILL.md"
_LONGEST = 1024  # characters of a description


def open_read_skill(declared: Tool, run: Run) -> OpenTools:
    """`read_skill`, for the skills in the roots of its declaration."""
    roots, limit = roots_of(declared, run), declared.max_output or run.rules.max_output
    skills = {path.parent.name: path for path in _skills(roots)}
    if not skills:
        hint = f"a skill is a folder with a {SKILL} below one of roots; looked in {roots.names}"
        raise ChatmdError("there are no skills", where=declared.span.where, hint=hint)
    listed = "".join(f"\n- {name}: {_description(path)}" for name, path in skills.items())

    def read_skill(skill: str, path: str = SKILL, offset: int = 0) -> str:
        return read_file(roots, str(skills[skill].parent / path), int(offset), None, limit)

    return offer(
        "read_skill",
        read_skill,
        f"Read how a kind of task is done, before you begin with one of that kind. There are:{listed}",
        ("skill",),
        skill={"type": "string", "enum": list(skills)},
        path=PATH | {"description": f"another file of that skill, as its text names it; {SKILL} if left out"},
        offset={"type": "integer", "minimum": 0, "description": "how many lines to skip; 0 if left out"},
    )


def _skills(roots: ToolRoots) -> Iterator[Path]:
    """The `SKILL.md` of each skill in the roots, and in folders in them."""
    for root in roots.roots:
        for path in (root.real / SKILL, *sorted(root.real.glob(f"*/{SKILL}"))):
            if path.is_file():
                yield roots.readable(str(path)).real


def _description(path: Path) -> str:
    """What a skill is for, as it says itself.

    Raises:
        ChatmdError: it does not.
    """
    description = " ".join(str(header_values(read_document(path)).get("description") or "").split())
    if not description:
        hint = "begin it with the lines '---', 'name: …', 'description: …', '---'"
        raise ChatmdError("this skill does not say what it is for", where=str(path), hint=hint)
    return description[:_LONGEST]
