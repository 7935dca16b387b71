-- What Pandoc has read, so that its markdown is what a person would write: see lmm/importing/pandoc.py.
-- LMM_FOLDER takes the images out and has the notes of slides, LMM_PREFIX leads to the folder of the file.

local folder, prefix = os.getenv('LMM_FOLDER'), os.getenv('LMM_PREFIX') or ''
local KEPT = {'theorem', 'lemma', 'corollary', 'proposition', 'conjecture', 'definition', 'example', 'exercise',
  'solution', 'remark', 'proof', 'note', 'tip', 'warning', 'caution', 'important'}
local META = {'title', 'subtitle', 'author', 'date', 'abstract', 'keywords', 'lang'}
local numbers, count, linked = {}, 0, {}

local function relative(address)
  return address ~= '' and not address:find('^[%a][%w+.-]*:') and not address:find('^[/#]')
end

local function from_here(address)
  if prefix == '' or not relative(address) then return address end
  return prefix .. '/' .. address
end

local function save(address)
  local mime, data = pandoc.mediabag.lookup(address)
  if not data then return from_here(address) end
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
  local title = node.title:find('^Picture %d+$') and '' or node.title  -- PowerPoint's name for it
  return pandoc.Image(node.caption, save(node.src), title)
end

-- An entry of Word's table of contents: a link with the page's number, which is a link as well.
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
  if name and not linked[name] then return node.content end
  return pandoc.Link(node.content, from_here(node.target), node.title)
end

local function heading(node)
  return pandoc.Header(node.level, node.content, pandoc.Attr(linked[node.identifier] == 'used' and node.identifier or ''))
end

-- What Pandoc does not escape at the beginning of a paragraph, and reads as something else.
local function paragraph(node)
  local first = node.content[1]
  if not first then return node.t == 'Para' and {} or nil end
  if first.t ~= 'Str' then return nil end
  local mark, rest = first.text:match('^([:%%])(.*)')
  if not mark and first.text:find('^%-%-%-+$') then mark, rest = '-', first.text:sub(2) end
  if not mark and first.text == 'Table:' then mark, rest = 'Table\\:', '' end
  if not mark then return nil end
  node.content[1] = pandoc.Str(rest)
  node.content:insert(1, pandoc.RawInline('markdown', #mark == 1 and '\\' .. mark or mark))
  return node
end

-- Two lists, one below the other, are two.
local function apart(blocks)
  for place = #blocks, 2, -1 do
    if blocks[place].t == blocks[place - 1].t and blocks[place].t:find('List$') then
      blocks:insert(place, pandoc.RawBlock('markdown', '<!-- -->'))
    end
  end
  return blocks
end

-- A straight apostrophe would be written with a backslash, a citation and a character's name without;
-- in a list Pandoc takes backticks for code even behind a backslash.
local function word(node)
  local text = node.text:gsub("(%a)'(%a)", '%1’%2')
  local parts, from = pandoc.List(), 1
  for place, mark in text:gmatch('()([@&`])') do
    local before, after = text:sub(1, place - 1), text:sub(place + 1)
    if mark == '`' or mark == '@' and not before:find('[%w\128-\255]$') or mark == '&' and after:find('^#?%w+;') then
      parts:extend {pandoc.Str(text:sub(from, place - 1)), pandoc.RawInline('markdown', mark == '`' and '&#96;' or '\\' .. mark)}
      from = place + 1
    end
  end
  parts:insert(pandoc.Str(text:sub(from)))
  return parts:filter(function(part) return part.text ~= '' end)
end

-- Word's widths of columns would make tables of grids; what has lists in its cells still is one.
local function plain_table(node)
  for place, column in ipairs(node.colspecs) do node.colspecs[place] = {column[1], nil} end
  node.attr = pandoc.Attr()
  return node
end

-- Code without a language would be indented, and with the class {r} be run by knitr.
local function fence(node)
  local language = ''
  for _, class in ipairs(node.classes) do
    if class ~= 'sourceCode' and class ~= 'numberLines' then language = class:gsub('[^%w+#_.-]', '') break end
  end
  local marks = '```'
  while node.text:find(marks, 1, true) do marks = marks .. '`' end
  return pandoc.RawBlock('markdown', marks .. language .. '\n' .. node.text .. '\n' .. marks)
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
  for _, class in ipairs(KEPT) do
    if node.classes:includes(class) then return pandoc.Div(node.content, pandoc.Attr('', {class})) end
  end
  return node.content
end

local function content(node) return node.content end

-- -- slides ---------------------------------------------------------------------------------------------

local function notes_of(number)
  local file = io.open(folder .. '/notes-' .. number .. '.txt', 'r')
  if not file then return nil end
  local lines = pandoc.List()
  for line in file:lines() do lines:insert(pandoc.Para(pandoc.Str(line))) end
  file:close()
  return pandoc.Div(lines, pandoc.Attr('', {'notes'}))
end

-- Each slide is a section; what was to be said stands at its end.
local function with_notes(blocks)
  local all, slide = pandoc.List(), 0
  for _, block in ipairs(blocks) do
    if block.t == 'Header' and block.identifier:find('^slide%-%d+$') then
      all:insert(slide > 0 and notes_of(slide) or nil)
      slide = tonumber(block.identifier:match('%d+'))
    end
    all:insert(block)
  end
  all:insert(slide > 0 and notes_of(slide) or nil)
  return all
end

-- -- the document ---------------------------------------------------------------------------------------

function Pandoc(doc)
  doc:walk {Header = function(node) linked[node.identifier] = node.identifier ~= '' and 'there' or nil end}
  doc:walk {Link = function(node)
    local name = node.target:match('^#(.*)')
    if name and linked[name] then linked[name] = 'used' end
  end}
  local meta = {}
  for _, key in ipairs(META) do meta[key] = doc.meta[key] end
  doc = pandoc.Pandoc(doc.blocks, meta):walk {Header = without_contents, Para = without_contents,
    Figure = figure, Div = division, Span = content,
    Underline = content, SmallCaps = content}
  doc = doc:walk {Str = word, Para = paragraph, Plain = paragraph, Table = plain_table, CodeBlock = fence, Image = image,
    Link = link}
  doc.blocks = with_notes(doc.blocks)
  return doc:walk {Header = heading, Blocks = apart}
end
