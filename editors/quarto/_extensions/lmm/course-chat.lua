-- {{< course-chat URL >}}: embeds the chat of a course (`lmm serve`) in a page or slide; in other formats, a link.
-- Options: height="600px", title="…".

local function escaped(text)
  return (text:gsub('[&<>"]', {['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', ['"'] = '&quot;'}))
end

local function given(kwargs, name, default)
  local value = kwargs[name] and pandoc.utils.stringify(kwargs[name]) or ''
  return value ~= '' and value or default
end

return {
  ['course-chat'] = function(args, kwargs)
    local url = args[1] and pandoc.utils.stringify(args[1]) or ''
    if not url:find('^https?://[^%s]+$') then
      error('course-chat needs the URL of the chat: {{< course-chat https://HOST/ >}}', 0)
    end
    local title, height = given(kwargs, 'title', 'Ask the course'), given(kwargs, 'height', '600px')
    if not height:find('^[%d.]+[%a%%]*$') then error('course-chat: a height is 600px, 80vh or the like', 0) end
    if not quarto.doc.is_format('html:js') then
      return pandoc.Para {pandoc.Link(title, url)}
    end
    return pandoc.RawBlock('html', string.format(
      '<iframe class="lmm-course-chat" src="%s" title="%s" loading="lazy" referrerpolicy="no-referrer"'
        .. ' style="width: 100%%; height: %s; border: 1px solid #ccc"></iframe>',
      escaped(url), escaped(title), height))
  end
}
