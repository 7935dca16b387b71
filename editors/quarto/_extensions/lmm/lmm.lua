-- Removes from a document what LM Markdown has added and readers should not see: the new text of a pending edit (or,
-- with `lmm-edits: new` in the header, the old one), its marks, and our keys in the metadata. Pandoc ignores chats and
-- annotations anyway. It cannot remove material hidden by a `type:`; `lmm export` does.

local function mark(block, which)
  return block and block.t == 'RawBlock' and block.text:match('^<!%-%- lmm:' .. which .. ' (%w+) %-%->%s*$')
end

local function is_heading(block, title)
  return block and block.t == 'Header' and block.level == 6 and pandoc.utils.stringify(block) == title
end

-- The positions of the first and last block of the edit whose new text begins at `place`.
local function parts_of(blocks, place)
  local id, first, last = mark(blocks[place], 'new'), place, nil
  for at = place + 1, #blocks do
    if mark(blocks[at], 'end') == id then last = at break end
  end
  local depth = 0
  for at = place - 1, 1, -1 do
    if mark(blocks[at], 'end') then depth = depth + 1 end
    if mark(blocks[at], 'new') then depth = depth - 1 end
    if depth < 0 then break end
    if depth == 0 and is_heading(blocks[at], 'old text') then first = at break end
  end
  return last and is_heading(blocks[place + 1], 'new text') and first, last
end

local function slice(blocks, first, last)
  local found = pandoc.List()
  for at = first, last do found:insert(blocks[at]) end
  return found
end

local function without_edits(blocks, keep)
  for place = 1, #blocks do
    if mark(blocks[place], 'new') then
      local first, last = parts_of(blocks, place)
      if first then
        local all = slice(blocks, 1, first - 1)
        if keep == 'new' then all:extend(slice(blocks, place + 2, last - 1))
        elseif first < place then all:extend(slice(blocks, first + 1, place - 1)) end
        all:extend(slice(blocks, last + 1, #blocks))
        return without_edits(all, keep)
      end
    end
  end
  return blocks
end

function Pandoc(doc)
  local keep = doc.meta['lmm-edits'] and pandoc.utils.stringify(doc.meta['lmm-edits']) or 'old'
  doc.meta['lmm-edits'] = nil
  for key in pairs(doc.meta) do
    if key:find('^~') or key:find('=$') then doc.meta[key] = nil end
  end
  -- A list of blocks may be a section, a div, an item: an edit is always within one.
  doc = doc:walk {Blocks = function(blocks) return without_edits(blocks, keep) end}
  doc.blocks = without_edits(doc.blocks, keep)
  return doc
end
