-- Returns all windows of a limit, the newest first.
local function windows_of(limit)
  local windows = {}
  for text in string.gmatch(window_text(limit.kind, limit.number, limit.ends, limit.count, limit.before) .. limit.older, '%d[^,]*') do
    local ends, count, before = window_parse(limit.kind, limit.number, text)
    local past = ends and ends + (limit.kind == 'counter' and limit.number or 0)
    windows[#windows + 1] = ends and { ends = ends, past = past, count = count, before = before, text = text }
  end
  return windows
end

-- Charges a cost for a moment.
local function windows_charge(limit, cost, at)
  local kind, length = limit.kind, limit.number
  local ends, count, before = window_at(kind, length, at, limit.ends, limit.count, limit.before)
  if ends ~= limit.ends then
    -- Windows that count at present follow the new one. A fifth goes, and the fourth is full from then on.
    local kept, newest = {}, limit.ends
    limit.ends, limit.count, limit.before = window_at(kind, length, now, limit.ends, limit.count, limit.before)
    limit.older = limit.ends == newest and limit.older or ''
    for _, window in ipairs(limit.count + limit.before > 0 and ends ~= limit.ends and windows_of(limit) or {}) do
      -- One whose permits all came back is past earlier.
      local past = window.count > 0 and window.past or window.before > 0 and window.ends or 0
      if past > now and #kept == 3 then
        kept[3] = string.gsub(kept[3], '(%d) %d+', '%1 200000000000000', 1)
      elseif past > now then
        kept[#kept + 1] = ', ' .. window.text
      end
    end
    limit.older = table.concat(kept)
  end
  limit.ends, limit.count, limit.before = ends, count + cost, before
end
