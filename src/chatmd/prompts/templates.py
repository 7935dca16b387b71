"""The prompts of this package, and the slots each may use (see `lmm.prompts.templates`)."""

from __future__ import annotations

SLOTS: dict[str, tuple[str, ...]] = {
    "compact": ("words",),
    "judge": ("criteria",),
    "refine": ("count",),
}
