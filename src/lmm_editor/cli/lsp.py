"""`lmm lsp`: the language server."""

from __future__ import annotations

from lmm import terminal
from lmm.cli import options
from lmm.extras import check_installed
from lmm.terminal import DONE


@options.command()
@options.flag("--stdio", help="Accepted for compatibility; the server always speaks on standard input and output.")
def lsp(*, stdio: bool) -> int:
    """Serve an editor: questions answered in the text, problems shown as you write, edits accepted one by one.

    The editor starts this command itself: see docs/editors.md. Needs the extra `editor`.
    """
    check_installed("editor", "lmm lsp needs", "pygls")
    from lmm_editor.server import EditorServer

    terminal.log_to_stderr("%(levelname)s %(name)s: %(message)s")  # standard output belongs to the protocol
    EditorServer().start_io()
    return DONE
