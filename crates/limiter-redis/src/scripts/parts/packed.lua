-- Entries packed in a text, where others share the key: all of them, the oldest first, with a comma
-- between them and a space at the end.

-- The most permits of an entry, as in tape.lua.
local most = limit > 16777215 and 2 ^ 40 - 1 or 16777215

-- All are there.
local function at_of(log, i)
  return log.at[i]
end

local function count_of(log, i)
  return log.count[i]
end

local function entries(text)
  local log = { total = 0, first = 1, last = 0, at = {}, count = {} }
  for entry in string.gmatch(text and text ~= '- ' and text or '', '[^, ]+') do
    local at, count = entry_of(entry)
    if not at then
      -- Counts as full, and is written as such.
      return { total = limit, first = 1, last = 1, at = { now }, count = { limit } }, true
    end
    log.last = log.last + 1
    log.at[log.last], log.count[log.last], log.total = at, count, log.total + count
  end
  return log, false
end

local function change(log, i, count)
  log.count[i] = count
  if count == 0 then
    table.remove(log.at, i)
    table.remove(log.count, i)
    log.last = log.last - 1
  end
end

local function written(log, till)
  local texts = {}
  for i = log.first, log.last do
    texts[#texts + 1] = text_of(log.at[i], log.count[i])
  end
  return (#texts > 0 and table.concat(texts, ',') or '-') .. ' '
end

local function length(text, from)
  return (string.find(text, ' ', from, true) or #text) - from + 1
end
