-- Returns the log of a text, whose elements are joined by semicolons.
local function log_parse(text, limit)
  local older = {}
  for element in string.gmatch(text or '', '[^;]+') do
    older[#older + 1] = element
  end
  local is_whole = text and text ~= '' and table.concat(older, ';') == text
  return log_read(is_whole and table.remove(older, 1) or text and '', older, limit)
end

-- Returns a log as text, and for how long it matters.
local function log_text(log)
  local elements = { log_head(log) }
  for n = math.max(log.dropped, 0) + 1, log.length do
    elements[#elements + 1] = log_element(log.older[n])
  end
  elements[#elements + 1] = log.pushed
  return table.concat(elements, ';'), log.count > 0 and log_end(log, log, log.at) - now or 0
end
