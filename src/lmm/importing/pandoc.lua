-- Tidies documents that Pandoc has read, so that its markdown is what a person would write: see
-- lmm/importing/pandoc.py. Images are written to LMM_FOLDER; LMM_PREFIX is the path to the folder
-- of the file. For a book, LMM_BOOK lists the files with its contents; its links must lead to places in it.

local folder, prefix = os.getenv('LMM_FOLDER'), os.getenv('LMM_PREFIX') or ''
local book = os.getenv('LMM_BOOK')
local KEPT = {'theorem', 'lemma', 'corollary', 'proposition', 'conjecture', 'definition', 'example', 'exercise',
  'solution', 'remark', 'proof', 'note', 'tip', 'warning', 'caution', 'important'}
local META = {'title', 'subtitle', 'author', 'date', 'abstract', 'keywords', 'lang'}
local NO_LANGUAGE = {sourceCode = true, numberLines = true}
local PERMALINK = {['¶'] = true, ['§'] = true, ['#'] = true, ['🔗'] = true, ['⚓'] = true, [''] = true}
local MOST_LETTERS = 20000000  -- in a table with repeated cells
local stringify = pandoc.utils.stringify
local numbers, count, linked = {}, 0, {}

-- Remove invisible characters, and replace line ends by blanks, so that the text after them cannot become a heading.
local function clean(text)
  return (text:gsub('[\0-\8\14-\31\127]', ''):gsub('\194[\128-\132\134-\159\173]', ''):gsub('\226\128\139', '')
    :gsub('\226\129\160', ''):gsub('\239\187\191', ''):gsub('\239\191[\190\191]', '')
    :gsub('[\9-\13]', ' '):gsub('\194\133', ' '):gsub('\226\128[\168\169]', ' '))
end

local function relative(address)
  return address ~= '' and not address:find('^[%a][%w+.-]*:') and not address:find('^[/#]')
end

local function from_here(address)
  if prefix == '' or not relative(address) then return address end
  return prefix .. '/' .. address:gsub('^%./', '')
end

local function save(address)
  local mime, data = pandoc.mediabag.lookup(address)
  if not data then return not book and from_here(address) end
  if not numbers[address] then
    local name = string.format('%d%s', count, address:match('%.%w+$') or ('.' .. mime:match('[%w]+$')))
    local file = assert(io.open(folder .. '/' .. name, 'wb'))
    file:write(data)
    file:close()
    numbers[address], count = count, count + 1
  end
  return 'lmm-image:' .. numbers[address]
end

local function image(node)
  local title = node.title:find('^Picture %d+$') and '' or clean(node.title)  -- PowerPoint's name for it
  local address = save(node.src)
  return address and pandoc.Image(node.caption, address, title) or node.caption
end

-- An entry of Word's table of contents: a link that contains the page number, which is a link as well.
local function is_contents(node)
  local only = #node.content == 1 and node.content[1].t == 'Link' and node.content[1]
  local inner = only and only.target:find('^#') and only.content[#only.content]
  return inner and inner.t == 'Link' and inner.target == only.target
end

local function without_contents(node)
  if node.t == 'Header' and node.classes:includes('TOC-Heading') or node.t ~= 'Header' and is_contents(node) then
    return {}
  end
end

local function link(node)
  local name = node.target:match('^#(.*)')
  local nowhere = node.target == '' or name and not linked[name] or book and relative(node.target)
  if nowhere or #node.content == 0 then return node.content end
  return pandoc.Link(node.content, from_here(node.target), clean(node.title))
end

-- -- headings -------------------------------------------------------------------------------------------

local function is_permalink(node)
  local words = (node.title .. ' ' .. (node.attributes['aria-label'] or '')):lower()
  return node.target:find('#') and PERMALINK[clean(stringify(node)):gsub('%s', '')]
    or node.target:find('^#') and (words:find('permalink') or words:find('direct link') or words:find('^%s*anchor'))
    or node.classes:find_if(function(class) return class:find('anchor') or class:find('headerlink') end)
      and #stringify(node) < 9
end

-- A heading's id may be that of an anchor in it; permalinks in the heading are removed.
local function named(node)
  local id = node.identifier
  node = node:walk {Span = function(part) if id == '' then id = part.identifier end end,
    Link = function(part)
      if id == '' then id = part.identifier end
      if is_permalink(part) then return {} end
      if part.target:find('^#') and (part.target == '#' .. node.identifier or part.target == '#' .. part.identifier) then
        return part.content
      end
    end}
  if not id:find('^[%w_\128-\255][%w_:.\128-\255-]*$') then id = '' end
  return pandoc.Header(node.level, node.content, pandoc.Attr(id, node.classes))
end

-- Move a section's id to its heading.
local function section(node)
  local first = node.content[1]
  if first and first.t == 'Header' and first.identifier == '' and node.identifier ~= '' then
    first.identifier = node.identifier
    return node
  end
end

local function heading(node)
  if #node.content == 0 then return {} end
  local last = node.content[#node.content]
  if last.t == 'Str' and last.text:find('[}#]$') then  -- neither attributes nor closing hashes: "C#"
    node.content:insert(pandoc.RawInline('markdown', '\\' .. last.text:sub(-1)))
    last.text = last.text:sub(1, -2)
  end
  local kept = linked[node.identifier] == 'used'
  return pandoc.Header(node.level, node.content, pandoc.Attr(kept and node.identifier or ''))
end

-- In a list, a heading would not be read as one, or would end the list.
local function items(node)
  for _, item in ipairs(node.content) do
    for place, block in ipairs(item) do
      if block.t == 'Header' then
        item[place] = pandoc.Para {pandoc.Strong(block.content)}
      end
    end
  end
  return node
end

-- -- texts ----------------------------------------------------------------------------------------------

-- Separate adjacent pieces of code, which would be read as one with backticks; join those that Word split at blanks.
local function together(inlines)
  for place = #inlines - 1, 1, -1 do
    local node, after = inlines[place], inlines[place + 1]
    if node.t == 'Code' and after.t == 'Code' and (node.text:find('%s$') or after.text:find('^%s')) then
      inlines[place] = pandoc.Code(node.text .. after.text)
      inlines:remove(place + 1)
    elseif node.t == 'Code' and after.t == 'Code' then
      inlines:insert(place + 1, pandoc.Space())
    end
  end
end

-- Escape marks at the beginning of a line that Pandoc does not escape, but would read as something else.
local function paragraph(node)
  if #node.content == 0 then return node.t == 'Para' and {} or nil end
  together(node.content)
  for place = #node.content, 1, -1 do
    local part = node.content[place]
    if part.t == 'Str' and (place == 1 or node.content[place - 1].t == 'LineBreak') then
      if part.text:find('^[:%%]') or part.text:find('^%-+$') or part.text:find('^=+$') then
        node.content[place] = pandoc.Str(part.text:sub(2))
        node.content:insert(place, pandoc.RawInline('markdown', '\\' .. part.text:sub(1, 1)))
      elseif part.text == 'Table:' then
        node.content[place] = pandoc.RawInline('markdown', 'Table\\:')
      end
    end
  end
  return node
end

-- Separate consecutive lists, and consecutive pieces of code.
local function apart(blocks)
  for place = #blocks, 2, -1 do
    if blocks[place].t == 'RawBlock' and blocks[place - 1].t == 'RawBlock' then
      blocks[place - 1].text = blocks[place - 1].text .. '\n'
    elseif blocks[place].t == 'RawBlock' and blocks[place].text == '* * *' and blocks[place - 1].t == 'Plain' then
      blocks[place - 1] = pandoc.Para(blocks[place - 1].content)
    end
    if blocks[place].t == blocks[place - 1].t and blocks[place].t:find('List$') then
      blocks:insert(place, pandoc.RawBlock('markdown', '<!-- -->'))
    end
  end
  return blocks
end

-- Escape @ and &, which Pandoc would write without a backslash, and backticks, which in a list Pandoc reads as code
-- even after a backslash.
local function word(node)
  if not node.text:find('[%c@&`\194\226\239]') then return nil end
  local text = clean(node.text)
  local parts, from = pandoc.List(), 1
  for place, mark in text:gmatch('()([@&`])') do
    local is_word = place > 1 and text:find('^[%w\128-\255]', place - 1)
    if mark == '`' or mark == '@' and not is_word or mark == '&' and text:find('^#?%w+;', place + 1) then
      parts:insert(pandoc.Str(text:sub(from, place - 1)))
      parts:insert(pandoc.RawInline('markdown', mark == '`' and '&#96;' or '\\' .. mark))
      from = place + 1
    end
  end
  parts:insert(pandoc.Str(text:sub(from)))
  return parts:filter(function(part) return part.text ~= '' end)
end

-- Remove everything that would hide the end of a formula: comments, blank lines, dollars and a final backslash.
local function formula(node)
  local lines = pandoc.List()
  for line in (node.text .. '\n'):gmatch('(.-)\r?\n') do
    line = clean((' ' .. line):gsub('([^\\])%%.*', '%1')):match('^%s*(.-)%s*$')
    if line ~= '' then lines:insert(line) end
  end
  local tex = (' ' .. table.concat(lines, ' ')):gsub('([^\\])%$', '%1\\$'):match('^%s*(.-)%s*$')
  if #tex:match('\\*$') % 2 == 1 then tex = tex:sub(1, -2):match('^(.-)%s*$') end
  return tex == '' and {} or pandoc.Math(node.mathtype, tex)
end

local function code(node) return pandoc.Code(clean(node.text)) end

-- Without this, code without a language would be indented, and code with the class {r} would be run by knitr.
local function fence(node)
  local language = ''
  for _, class in ipairs(node.classes) do
    if not NO_LANGUAGE[class] then language = class:match('[%w+#_.-]+') or '' break end  -- of rust,ignore: rust
  end
  local text = node.text:gsub('\r\n?', '\n'):gsub('[ \t]+\n', '\n'):gsub('\194\160', ' ')
  local marks = '```'
  while text:find(marks, 1, true) do marks = marks .. '`' end
  return pandoc.RawBlock('markdown', marks .. language .. '\n' .. text:gsub('^\n+', ''):gsub('%s+$', '') .. '\n' .. marks)
end

local function figure(node)
  local blocks = pandoc.List(node.content)
  local only = #blocks == 1 and (blocks[1].t == 'Plain' or blocks[1].t == 'Para') and blocks[1].content
  local words = pandoc.utils.blocks_to_inlines(node.caption.long)
  if only and #only == 1 and only[1].t == 'Image' then
    if #words > 0 then only[1].caption = words end
    return pandoc.Para(only)
  end
  if #words > 0 then blocks:insert(pandoc.Para(words)) end
  return blocks
end

local function division(node)
  local pages = node.classes:includes('lmm-pages') and (node.attributes.pages or ''):match('^[%a. ]*[%d:]+[\128-\255]*[%d:]*$')
  if pages then return pandoc.RawBlock('markdown', '<!-- ' .. pages .. ' -->') end
  if node.classes:includes('lmm-notes') then return pandoc.Div(node.content, pandoc.Attr('', {'notes'})) end  -- of slides
  local is_code = #node.content == 1 and node.content[1].t == 'CodeBlock'  -- Texinfo's examples
  for _, class in ipairs(KEPT) do
    if not is_code and node.classes:includes(class) then return pandoc.Div(node.content, pandoc.Attr('', {class})) end
  end
  return node.content
end

local function content(node) return node.content end

local function span(node) return node.classes:includes('kbd') and pandoc.Code(stringify(node)) or node.content end

-- A note is not raised twice, does not repeat its number, and is not a quotation because LibreOffice indents it.
local function without_number(node)
  local first = node.content[1]
  if #node.content == 1 and first.t == 'BlockQuote' then node.content = first.content end
  local text = node.content[1] and node.content[1].t:find('^Pa') and node.content[1].content
  if text and #text > 1 and text[1].t == 'Superscript' and stringify(text[1]):find('^%d+$') then text:remove(1) end
  return node
end

local function raised(node)
  return #node.content == 1 and node.content[1].t == 'Note' and node.content or nil
end

-- -- tables ---------------------------------------------------------------------------------------------

local function rows_of(node)
  local rows, heads = pandoc.List(node.head.rows), #node.head.rows
  for place, body in ipairs(node.bodies) do
    rows:extend(body.head)
    if place == 1 and heads == 0 then heads = #body.head end  -- browsers put the header row into the body
    rows:extend(body.body)
  end
  rows:extend(node.foot.rows)
  return rows, heads
end

local function holds(blocks, kinds)
  for _, block in ipairs(blocks) do
    if kinds[block.t] or block.t == 'Div' and holds(block.content, kinds) then return true end
  end
end

-- A table used for layout only: it is marked so, has one cell, or contains tables or headings.
local function layout(node, rows)
  local all, placed = pandoc.List(), node.attributes.role == 'presentation' or node.attributes.role == 'none'
  local cells = 0
  for _, row in ipairs(rows) do
    for _, cell in ipairs(row.cells) do
      cells, placed = cells + 1, placed or holds(cell.contents, {Table = true, Header = true})
      all:extend(cell.contents)
    end
  end
  return (placed or cells <= 1) and all
end

-- The content of a cell as lines, which a pipe table needs on one line: paragraphs, items and lines of code.
local function lines_of(blocks, lines, mark)
  for _, block in ipairs(blocks) do
    if block.t == 'BulletList' or block.t == 'OrderedList' then
      for _, item in ipairs(block.content) do lines_of(item, lines, '• ') end
    elseif block.t == 'DefinitionList' then
      for _, entry in ipairs(block.content) do
        for _, meaning in ipairs(entry[2]) do lines_of(meaning, lines, pandoc.Inlines(entry[1]) .. pandoc.Inlines(': ')) end
      end
    elseif block.t == 'CodeBlock' then
      for line in block.text:gmatch('[^\r\n]*[^%s][^\r\n]*') do lines:insert {pandoc.Code(line)} end
    elseif block.t == 'BlockQuote' or block.t == 'Div' then
      lines_of(block.content, lines, mark)
    else
      lines:insert(pandoc.Inlines(mark) .. pandoc.utils.blocks_to_inlines {block})
    end
    mark = ''
  end
  return lines
end

local function line_of(blocks)
  local all = pandoc.List()
  for place, line in ipairs(lines_of(blocks, pandoc.List(), '')) do
    if place > 1 then all:insert(pandoc.LineBreak()) end
    all:extend(line)
  end
  return pandoc.Blocks {pandoc.Plain(all)}:walk {
    LineBreak = function() return pandoc.RawInline('markdown', '<br>') end,
    Math = function(part) return pandoc.Math('InlineMath', part.text:gsub('\\|', '\\Vert '):gsub('|', '\\vert ')) end}
end

-- The cells by row and column; a cell that spans several is repeated, so that each row is complete.
local function spread(rows)
  local hanging, letters, all = {}, 0, pandoc.List()
  for number, row in ipairs(rows) do
    local cells, column = pandoc.List(), 1
    local function put(contents, align, down)
      hanging[column] = down > 1 and {contents, align, down - 1} or nil
      cells:insert(pandoc.Cell(contents, align))
      column = column + 1
    end
    local function fill() while hanging[column] do put(table.unpack(hanging[column])) end end
    for _, cell in ipairs(row.cells) do
      fill()
      local contents, size = line_of(cell.contents), cell.col_span * cell.row_span > 1 and #stringify(cell.contents) or 0
      for _ = 1, cell.col_span do put(contents, cell.alignment, math.min(cell.row_span, #rows - number + 1)) end
      letters = letters + (1 + size) * cell.col_span * cell.row_span
      if letters > MOST_LETTERS then error('lmm: a table has more than 20,000,000 letters') end
    end
    fill()
    all:insert(pandoc.Row(cells))
  end
  return all
end

-- Merge several header rows into one.
local function stacked(rows)
  if #rows < 2 then return rows end
  local cells = rows[1].cells
  for place = 2, #rows do
    for column, cell in ipairs(rows[place].cells) do
      local above = cells[column]
      if above and stringify(above.contents) == '' then
        above.contents = cell.contents
      elseif above and stringify(above.contents) ~= stringify(cell.contents) and stringify(cell.contents) ~= '' then
        above.contents = {pandoc.Plain(pandoc.utils.blocks_to_inlines(above.contents) .. {pandoc.Str(' – ')} ..
          pandoc.utils.blocks_to_inlines(cell.contents))}
      end
    end
  end
  return {pandoc.Row(cells)}
end

local function plain_table(node)
  local rows, heads = rows_of(node)
  local placed = layout(node, rows)
  if placed then
    placed:extend(node.caption.long)
    return placed
  end
  rows = spread(rows)
  local head, body = pandoc.List(), pandoc.List()
  for place, row in ipairs(rows) do (place <= heads and head or body):insert(row) end
  for place, column in ipairs(node.colspecs) do node.colspecs[place] = {column[1], nil} end  -- Word's widths make grids
  node.head, node.foot, node.attr = pandoc.TableHead(stacked(head)), pandoc.TableFoot(), pandoc.Attr()
  node.bodies = {{attr = pandoc.Attr(), body = body, head = {}, row_head_columns = 0}}
  return node
end

-- -- books ----------------------------------------------------------------------------------------------

-- Remove the book's contents. Each file of a book begins with a paragraph whose id is the file's name.
local function without_navigation(blocks)
  local kept, all = true, pandoc.List()
  for _, block in ipairs(blocks) do
    local mark = block.t == 'Para' and #block.content == 1 and block.content[1].t == 'Span' and block.content[1]
    if mark and #mark.content == 0 and mark.identifier ~= '' then
      kept = not book:find('/' .. mark.identifier .. '/', 1, true)
    elseif kept then
      all:insert(block)
    end
  end
  return all
end

-- -- the document ---------------------------------------------------------------------------------------

function Pandoc(doc)
  local meta = {}
  for _, key in ipairs(META) do meta[key] = doc.meta[key] end
  meta.lang = meta.lang or doc.meta.language
  doc = pandoc.Pandoc(book and without_navigation(doc.blocks) or doc.blocks, meta):walk {Header = named, Div = section}
  local targets = {}
  doc:walk {Header = function(node) linked[node.identifier] = node.identifier ~= '' and 'there' or nil end,
    Link = function(node) targets[node.target:match('^#(.*)') or ''] = true end}
  for name in pairs(targets) do linked[name] = linked[name] and 'used' end
  doc = doc:walk {Header = without_contents, Para = without_contents, Figure = figure, Div = division, Span = span,
    Underline = content, SmallCaps = content, Note = without_number, Superscript = raised, BulletList = items, OrderedList = items,
    Table = plain_table}
  return doc:walk {Str = word, Math = formula, Code = code, Para = paragraph, Plain = paragraph,
    CodeBlock = fence, Image = image, Link = link, Header = heading, Blocks = apart,
    HorizontalRule = function() return pandoc.RawBlock('markdown', '* * *') end}
end
