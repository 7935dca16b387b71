-- A pre-render script: exports clean notes from a folder to another one, which the project renders. In _quarto.yml:
--   project:
--     pre-render: _extensions/lmm/pre-render.lua
-- The folders are `notes` and `pages`, or LMM_NOTES and LMM_PAGES; `lmm` must be on the path, or LMM be its path.

local notes, pages = os.getenv('LMM_NOTES') or 'notes', os.getenv('LMM_PAGES') or 'pages'
local ok, said = pcall(pandoc.pipe, os.getenv('LMM') or 'lmm', {'export', notes, '-o', pages, '--keep-lines'}, '')
if ok then
  io.stdout:write(said)
else
  io.stderr:write('lmm export ', notes, ' -o ', pages, ': ', type(said) == 'table' and said.output or tostring(said), '\n')
  os.exit(1)
end
