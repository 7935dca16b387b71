"""Whether a model's server answers at all, without asking the model for anything."""

from __future__ import annotations

from lmm.config import ModelSettings
from lmm.models.context_window import server_client


async def unreachable(settings: ModelSettings) -> str:
    """Why nothing can be expected of a model's server: a reason, or ``""`` if it lists its models or its address is not
    known (of a provider's own, a question tells)."""
    if not settings.base_url:
        return ""
    import httpx2

    try:
        async with server_client(settings) as client:
            answer = await client.get(settings.base_url.rstrip("/") + "/models")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return str(error) or type(error).__name__
    refused = answer.status_code in (401, 403) or answer.status_code >= 500
    return f"its server answers with {answer.status_code}" if refused else ""
