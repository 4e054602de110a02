-- How an entry of a ledger is written.

-- Returns when how many permits were taken, nothing where that can't be read.
local function entry_of(text)
  local at, count = string.match(text, '^(%d+)(%d%d%d%d)$')
  if not at then
    at, count = string.match(text, '^(%d+):(%d+)$')
  end
  if at and at + 0 < 2 ^ 52 and count + 0 < 2 ^ 52 then
    return at + 0, count + 0
  end
end

local function text_of(at, count)
  return format(count <= 9999 and '%d%04d' or '%d:%d', at, count)
end
