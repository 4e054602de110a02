-- How an entry of a ledger is written.

local function entry_of(text)
  local at, count = match(text, '^(%d+)(%d%d%d%d)$')
  if not at then
    at, count = match(text, '^(%d+):(%d+)$')
  end
  -- What can't be read was taken just now.
  return at and at + 0 or now, count and count + 0 or 0
end

local function text_of(at, count)
  return format(count <= 9999 and '%d%04d' or '%d:%d', at, count)
end
