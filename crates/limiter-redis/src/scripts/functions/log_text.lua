-- Returns the elements of a text, which are joined by semicolons.
local function log_split(text)
  local log = {}
  for element in string.gmatch(text or '', '[^;]+') do
    log[#log + 1] = element
  end
  return (not text or text ~= '' and table.concat(log, ';') == text) and log or { '' }
end

-- Returns a log as text, and for how long it matters.
local function log_text(log)
  local older = table.concat(log, ';', log.dropped + 2)
  older = (older ~= '' and ';' .. older or '') .. (log.older and ';' .. log.older or '')
  return log_head(log) .. older, log.count > 0 and log_end(log, log, log.at) - now or 0
end
