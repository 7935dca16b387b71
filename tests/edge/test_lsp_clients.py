"""The configurations of docs/editors.md in real editors: Neovim and Emacs ask, and the reply is in their buffers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from edge.support import exchanges_of

PAGE = Path(__file__).parent.parent.parent / "docs" / "editors.md"
NOTES = "# Leaves\n\n---\n?: which colour has a leaf?\n---\n\nA leaf is green.\n"


def configured(language: str) -> str:
    """The block of the page in a language, with the command of this environment."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    assert '"lmm"' in found[1]
    return (
        found[1]
        .replace('"lmm", "lsp"', f'"{sys.executable}", "-m", "lmm", "lsp"')
        .replace('("lmm" "lsp")', f'("{sys.executable}" "-m" "lmm" "lsp")')
    )


def run(folder: Path, *words: str) -> None:
    """Run an editor to its end."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is missing")
    env = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


NEOVIM = """
local function wait(what, condition)
  if not vim.wait(30000, condition, 50) then
    io.stderr:write("not so: " .. what .. "\\n" .. vim.fn.execute("messages"))
    vim.cmd("cquit 1")
  end
end
local function text() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\\n") end
vim.cmd("edit notes.md")
wait("attached", function() return #vim.lsp.buf_get_clients(0) > 0 and vim.lsp.buf_get_clients(0)[1] or false end)
vim.api.nvim_buf_set_lines(0, 0, 0, false, { "---", "see: a: b", "---", "" })
wait("diagnostics", function() return #vim.diagnostic.get(0) > 0 end)
vim.api.nvim_buf_set_lines(0, 0, 4, false, {})
wait("mended", function() return #vim.diagnostic.get(0) == 0 end)
vim.api.nvim_win_set_cursor(0, { 4, 0 })
vim.lsp.codelens.refresh()
wait("lenses", function() return #vim.lsp.codelens.get(vim.api.nvim_get_current_buf()) >= 2 end)
vim.lsp.buf_request(0, "workspace/executeCommand",
  { command = "lmm.ask", arguments = { vim.uri_from_bufnr(vim.api.nvim_get_current_buf()), 4 } }, function() end)
wait("reply", function() return text():match("~reply") end)
vim.cmd("let &undolevels = &undolevels") -- as if a key had been pressed
vim.lsp.buf_request(0, "workspace/executeCommand",
  { command = "lmm.clear", arguments = { vim.uri_from_bufnr(vim.api.nvim_get_current_buf()), 3 } }, function() end)
wait("cleared", function() return not text():match("~reply") end)
vim.cmd("undo")
wait("one step of undo", function() return text():match("~reply") end)
vim.cmd("write")
vim.cmd("edit chat.chatmd")
wait("attached to a chat", function() return next(vim.lsp.buf_get_clients(0)) ~= nil end)
vim.cmd("qall!")
"""


def test_neovim_asks(folder: Path) -> None:
    """Diagnostics come and go, lenses are there, the reply is saved; a ChatMD file is served too."""
    (folder / "notes.md").write_text(NOTES)
    (folder / "chat.chatmd").write_text("<user>\nWhy?\n</user>\n")
    (folder / "init.lua").write_text(configured("lua"))
    (folder / "test.lua").write_text(NEOVIM)
    run(folder, "nvim", "--headless", "-n", "-u", "init.lua", "-c", "luafile test.lua")
    assert [prompt for prompt, _ in exchanges_of(folder / "notes.md")] == ["which colour has a leaf?"]


EMACS = """
(package-initialize)
(define-derived-mode markdown-mode text-mode "Markdown")
(add-to-list 'auto-mode-alist '("\\\\.md\\\\'" . markdown-mode))
(require 'eglot)
(load-file "init.el")
(defun wait (what condition)
  (let ((rounds 1200))
    (while (and (not (funcall condition)) (> rounds 0))
      (setq rounds (1- rounds))
      (accept-process-output nil 0.05))
    (when (= rounds 0) (message "not so: %s" what) (kill-emacs 1))))
(setq eglot-sync-connect 60)
(find-file "notes.md")
(apply #'eglot--connect (eglot--guess-contact))
(goto-char (point-min))
(forward-line 3)
(lmm-ask)
(wait "reply" (lambda () (string-match-p "~reply" (buffer-string))))
(accept-process-output nil 2)
(save-buffer)
(kill-emacs 0)
"""


def test_emacs_asks(folder: Path) -> None:
    """As the page has it, but for the mode itself."""
    if shutil.which("emacs") and not list(Path("/usr/share").glob("emacs/**/eglot*")):
        pytest.skip("eglot is missing")
    (folder / "notes.md").write_text(NOTES)
    (folder / "init.el").write_text(configured("elisp"))
    (folder / "test.el").write_text(EMACS)
    run(folder, "emacs", "--batch", "-l", "test.el")
    assert [prompt for prompt, _ in exchanges_of(folder / "notes.md")] == ["which colour has a leaf?"]
