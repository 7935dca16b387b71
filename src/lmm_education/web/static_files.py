"""The page's own files: style sheets, scripts, icons, and the HTML that words are put into."""

from __future__ import annotations

from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

from lmm_education.errors import RequestError

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES = (
    *("page.css", "page.js", "reactions.js", "kept.js", "icon.svg", "thumb.svg", "guard.js", "login.js"),
    *("study.js", "teacher.css", "teacher.js"),
)


async def static(request: Request) -> Response:
    """``GET /static/NAME``: style sheet, script or icon."""
    name = request.path_params["name"]
    if name not in _FILES:
        raise RequestError("there is no such file", status=404)
    kind = _KINDS[name.rpartition(".")[2]]
    return Response(static_text(name), media_type=kind, headers={"Cache-Control": "no-cache"})


@cache
def static_text(name: str) -> str:
    """The text of a file of ours."""
    return resources.files("lmm_education.web").joinpath("static", name).read_text(encoding="utf-8")
