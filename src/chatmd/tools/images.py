"""The tool that shows images to the model: `import_image`."""

from __future__ import annotations

import asyncio
import contextlib

from chatmd.content.image_data import described, image_from
from chatmd.errors import ChatmdError
from chatmd.language.items import Tool
from chatmd.tools.function_tool import FunctionTool, object_schema
from chatmd.tools.registry import OpenTools
from chatmd.tools.roots import LOOK, Roots, roots_of
from chatmd.workplace import Workplace
from lmm.disk.opened import open_folder, read_errors
from lmm.messages import ToolDefinition, ToolOutput


def open_import_image(declared: Tool, place: Workplace) -> OpenTools:
    """`import_image`, for the roots of its declaration."""
    roots, limit = roots_of(declared, place), place.rules.fetch_limit
    definition = ToolDefinition(
        "import_image",
        f"Look at an image file: PNG, JPEG, GIF or WebP. {roots.described()}",
        object_schema(("path",), path={"type": "string", "minLength": 1, "description": "the image's path"}),
    )

    async def import_image(path: str) -> ToolOutput:
        return await asyncio.to_thread(_shown, roots, path, limit)

    return contextlib.nullcontext([FunctionTool(definition, import_image)])


def _shown(roots: Roots, path: str, limit: int) -> ToolOutput:
    target = roots.readable(path)
    there = target.real
    with read_errors(target.name, look=LOOK), open_folder(there.parent) as folder, folder.open(there.name) as file:
        data = file.read(limit + 1)
    try:
        image = image_from(data, limit=limit)
    except ChatmdError as error:
        raise ChatmdError(error.message, where=target.name, hint=error.hint) from error
    return ToolOutput(f"{target.name}: {described(image)}", (image,))
