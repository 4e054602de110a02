
-- Alone, as a list: `slot span horizon total oldest`, then at and count of each entry, the newest entry first, so
-- that a check reads and writes both ends alone. `total` is the sum of all counts, and `oldest` the time of the
-- oldest entry. It takes some 12 bytes an entry.

-- Returns the whole number that an element is, nothing if it is none.
local function whole(text)
  return text and #text <= 16 and string.find(text, '^%d+$') and tonumber(text) or nil
end

-- Fetches entries from one on, or down to it: the more, the longer this goes on.
local function fetch(limit, i)
  local from, to = i, math.min(i + limit.ahead, limit.found)
  if limit.count[i + 1] then
    from, to = math.max(i - limit.ahead, 1), i
  end
  limit.ahead = math.min(2 * limit.ahead, 1000)
  local numbers = call('LRANGE', limit.key, format('%.0f', -2 * to), format('%.0f', 1 - 2 * from))
  for n = from, to do
    local at, count = numbers[2 * (to - n) + 1], numbers[2 * (to - n) + 2]
    if not limit.count[n] then
      limit.at[n], limit.count[n] = whole(at) or 0, whole(count) or 0
    end
  end
end

local function ledger_load(limit, key)
  limit.key, limit.fetch, limit.ahead, limit.header, limit.found = key, fetch, 1, limit, 0
  local head = call('LRANGE', key, '0', '2')
  if head[1] then
    local slot, span, horizon, total, oldest = string.match(head[1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    local newest, count, entries = whole(head[2]), whole(head[3]), (call('LLEN', key) - 1) / 2
    limit.header, limit.last, limit.total = header_of(slot, span, horizon), entries, whole(total)
    limit.found, limit.at[1] = entries, whole(oldest)
    if newest and count and limit.total and limit.at[1] and entries % 1 == 0 then
      limit.at[entries], limit.count[entries] = newest, count
    else
      limit.header = nil
    end
  end
  limit.is_possible = ledger_advance(limit)
  return head[1], limit.is_possible
end

local function ledger_expiry(limit)
  return format('%.0f', ceil(math.max(end_of(limit.header, limit.at[limit.last] or 0) - now, 0) / 1000) + 1)
end

local function ledger_head(limit, oldest)
  local header = limit.header
  return format('%.0f %.0f %.0f %.0f %.0f', header.slot, header.span, header.horizon, limit.total, oldest)
end

-- Stores what the newest entry became, and drops those that are over.
local function ledger_store(limit)
  local key, last = limit.key, limit.last
  local head = ledger_head(limit, limit.at[limit.first] or entry(limit, limit.first))
  local at, count = format('%.0f', limit.at[last]), format('%.0f', limit.count[last])
  if not limit.is_possible or limit.first > limit.found then
    call('DEL', key)
    for i = limit.first, last do
      call('LPUSH', key, format('%.0f', limit.count[i]), format('%.0f', limit.at[i]))
    end
    call('LPUSH', key, head)
  else
    if last > limit.found then
      call('LSET', key, '0', count)
      call('LPUSH', key, at, head)
    else
      call('LSET', key, '0', head)
      call('LSET', key, '1', at)
      call('LSET', key, '2', count)
    end
    if limit.first > 1 then
      call('LTRIM', key, '0', format('%.0f', 1 - 2 * limit.first))
    end
  end
  call('PEXPIRE', key, ledger_expiry(limit))
end
