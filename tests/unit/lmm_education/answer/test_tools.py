"""What a model is told about its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from lmm.messages import ToolCall
from lmm_education.answer.tools import CourseTools
from lmm_education.errors import SearchError
from lmm_education.material import Hit


def test_a_question_that_cannot_be_looked_up_is_the_models_mistake() -> None:
    """It is told, and goes on."""

    async def search(query: str, limit: int) -> Sequence[Hit]:
        raise SearchError(f"there is nothing to look up in '{query}'")

    tools = CourseTools(cast(Any, None), search)
    result = asyncio.run(tools.run(ToolCall("1", "search", '{"query": "???"}')))
    assert result.failed
    assert "nothing to look up" in result.text
