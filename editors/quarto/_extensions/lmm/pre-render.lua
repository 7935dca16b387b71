-- A pre-render script: clean notes of a folder into another one, from which the project renders. In _quarto.yml:
--   project:
--     pre-render: _extensions/lmm/pre-render.lua
-- The folders are `notes` and `pages`, or what LMM_NOTES and LMM_PAGES say; `lmm` is on the path, or LMM says where.

local notes, pages = os.getenv('LMM_NOTES') or 'notes', os.getenv('LMM_PAGES') or 'pages'
local ok, said = pcall(pandoc.pipe, os.getenv('LMM') or 'lmm', {'export', notes, '-o', pages, '--keep-lines'}, '')
if ok then
  io.stdout:write(said)
else
  io.stderr:write('lmm export ', notes, ' -o ', pages, ': ', type(said) == 'table' and said.output or tostring(said), '\n')
  os.exit(1)
end
