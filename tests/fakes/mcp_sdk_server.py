"""An MCP server made with the SDK, of both protocol generations: all kinds of results, changes, HTTP and its logins.

Usage: ``mcp_sdk_server.py [--http [--port PORT]] [--token TOKEN] [--client ID SECRET] [--elsewhere URL]``. Over HTTP it
prints its URL. `--client` lets in those who got a token from its own authorization server; `--elsewhere`
names another one instead.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import socket
import sys
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOKEN = "issued-token-xyz"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
RESOURCE = types.TextResourceContents(uri="notes://leaf", mime_type="text/markdown", text="A <resource> leaf.")
BLOB = types.BlobResourceContents(
    uri="notes://zip", mime_type="application/zip", blob=base64.b64encode(b"zip").decode()
)
RICH: list[types.ContentBlock] = [
    types.TextContent(text="first"),
    types.ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png"),
    types.ImageContent(data=base64.b64encode(b"tiff").decode(), mime_type="image/tiff"),
    types.AudioContent(data=base64.b64encode(b"x" * 1500).decode(), mime_type="audio/wav"),
    types.EmbeddedResource(resource=RESOURCE),
    types.EmbeddedResource(resource=BLOB),
    types.ResourceLink(name="root", uri="notes://root", mime_type="text/plain", size=7, description="The roots."),
]
names = ["echo", "rich", "structured", "broken", "crash"]


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    tools = [types.Tool(name=n, title=n.title(), input_schema=_schema(n), output_schema=_output(n)) for n in names]
    return types.ListToolsResult(tools=tools)


def _schema(name: str) -> dict[str, Any]:
    return SCHEMA if name == "echo" else {"type": "object"}


def _output(name: str) -> dict[str, Any] | None:
    return {"type": "object", "required": ["found"]} if name in ("structured", "broken") else None


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "rich":
        return types.CallToolResult(content=RICH)
    if params.name in ("structured", "broken"):
        value = {"found": ["ä"]} if params.name == "structured" else {"lost": 1}
        return types.CallToolResult(content=[], structured_content=value)
    if params.name == "crash":
        os._exit(4)
    return types.CallToolResult(content=[types.TextContent(text=(params.arguments or {}).get("text", "done"))])


server: Server[Any] = Server("sdk", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


# -- HTTP ------------------------------------------------------------------------------------------


class Gate:
    """Lets in who has the token; others learn where to get one."""

    def __init__(self, app: ASGIApp, token: str, metadata: str) -> None:
        self.app, self.token, self.metadata = app, token, metadata

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/mcp":
            headers = dict(scope["headers"])
            if headers.get(b"authorization") != f"Bearer {self.token}".encode():
                wants = {"WWW-Authenticate": f'Bearer resource_metadata="{self.metadata}"'} if self.metadata else {}
                await Response("no", 401, headers=wants)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def login_routes(base: str, issuer: str, client: tuple[str, str]) -> list[Route]:
    async def resource(request: Request) -> Response:
        return JSONResponse({"resource": f"{base}/mcp", "authorization_servers": [issuer]})

    async def authority(request: Request) -> Response:
        return JSONResponse({
            "issuer": base, "authorization_endpoint": f"{base}/authorize", "token_endpoint": f"{base}/token",
            "response_types_supported": ["code"], "grant_types_supported": ["client_credentials"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        })  # fmt: skip

    async def token(request: Request) -> Response:
        expected = base64.b64encode(":".join(client).encode()).decode()
        if request.url.query or request.headers.get("authorization") != f"Basic {expected}":
            return JSONResponse({"error": "invalid_client"}, 401)
        return JSONResponse({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})

    return [
        Route("/.well-known/oauth-protected-resource", resource),
        Route("/.well-known/oauth-protected-resource/mcp", resource),
        Route("/.well-known/oauth-authorization-server", authority),
        Route("/token", token, methods=["POST"]),
    ]


def serve_http(options: argparse.Namespace) -> None:
    listener = socket.create_server(("127.0.0.1", options.port))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    routes = login_routes(base, options.elsewhere or base, tuple(options.client)) if options.client else []
    app: ASGIApp = server.streamable_http_app(custom_starlette_routes=routes)
    if options.client:
        app = Gate(app, TOKEN, f"{base}/.well-known/oauth-protected-resource")
    elif options.token:
        app = Gate(app, options.token, "")
    sys.stdout.write(json.dumps({"url": f"{base}/mcp"}) + "\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listener])


async def serve_stdio() -> None:
    async with stdio_server() as (reading, writing):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        await server.run(reading, writing, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="")
    parser.add_argument("--client", nargs=2)
    parser.add_argument("--elsewhere", default="")
    chosen = parser.parse_args()
    if chosen.http:
        serve_http(chosen)
    else:
        anyio.run(serve_stdio)
