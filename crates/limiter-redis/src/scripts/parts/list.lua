-- Entries in a list of their own: the newest first, behind a head `total:size:tail:expires`: their sum
-- and number, when the oldest was taken, and when the key is to expire. Behind that the notes stand, as
-- in text.lua.
local promised, since, moved, horizon, expires = 0, 0, 0, 0, 0
local far = now + 164160000000000
-- What is there already, and the newest entry of it.
local size, newest = 0, nil
-- What is to be there.
local stored

local function load()
  local ends = call('LRANGE', KEYS[1], 0, 1)
  local head = ends[1]
  newest = ends[2]
  if head and string.find(head, '|', 1, true) then
    local state, p, s, m, h = match(head, '^([^|]*)|(%d+)|(%d+)|(%d+)|(%d+)$')
    if state then
      head, promised, horizon = state, p + 0, h + 0
      since, moved = math.min(s + 0, now), math.min(m + 0, now)
      promised = promised > now and promised <= far and promised or 0
      horizon = horizon > now and horizon <= far and horizon or 0
    end
  end
  return head
end

-- Sees entries from the one with the number `i` on: the more, the longer this goes on.
local function fetch(log, i)
  local position = size - i + 1
  local from = math.max(1, position - log.ahead + 1)
  local texts = call('LRANGE', KEYS[1], from, position)
  for n = #texts, 1, -1 do
    local number = size - from - n + 2
    if not log.count[number] then
      local at, count = entry_of(texts[n])
      log.at[number], log.count[number] = at or 0, count or 0
    end
  end
  -- The head tells of more than there are; what is not there is long over.
  if not log.count[i] then
    log.at[i], log.count[i] = 0, 0
  end
  log.ahead = math.min(log.ahead * 4, 256)
end

local function at_of(log, i)
  if not log.at[i] then
    fetch(log, i)
  end
  return log.at[i]
end

local function count_of(log, i)
  if not log.count[i] then
    fetch(log, i)
  end
  return log.count[i]
end

local function entries(head)
  local log = { total = 0, first = 1, last = 0, kept = 0, at = {}, count = {}, ahead = 1 }
  if not head then
    return log, false
  end
  local total, length, tail, expiry = match(head, '^(%d+):(%d+):(%d+):(%d+)$')
  local at, count = entry_of(newest or '')
  if not total or total + 0 > 2 ^ 52 or length + 0 > 2 ^ 22 or tail + 0 > 2 ^ 52 or length + 0 > 0 and not at then
    -- Counts as full, and is written as such.
    log.total, log.last = limit, 1
    log.at[1], log.count[1] = now, limit
    return log, true
  end
  size, expires = length + 0, expiry + 0
  log.last, log.kept = size, size
  if size > 0 then
    log.total = total + 0
    log.at[1] = tail + 0
    log.at[size], log.count[size] = at, count
  end
  return log, false
end

local function change(log, i, count)
  log.count[i] = count
  log.changed = i
  if count == 0 then
    if i == log.last then
      log.last, log.kept = i - 1, i - 1
    elseif i == log.first then
      log.first = i + 1
    else
      log.removed = i
    end
  end
end

local function written(log)
  local tail = log.last >= log.first and at_of(log, log.first) or 0
  stored = log
  local number = log.last - log.first + 1 - (log.removed and 1 or 0)
  return format('%d:%d:%d', log.total, math.max(0, number), tail)
end

local function store(head, till)
  local log, key = stored, KEYS[1]
  local needed = math.max(till, promised, horizon)
  local expiry = expires
  if expiry <= needed + 2000 or expiry > far then
    expiry = needed + math.ceil((needed - now) / 2) + 2000
  end
  head = format('%s:%d', head, expiry)
  if promised > now or horizon > now then
    head = format('%s|%d|%d|%d|%d', head, promised, since, moved, horizon)
  end

  -- Entries up to `kept` stay, those before the first and after it go.
  local kept = log.kept
  if kept < log.first then
    call('DEL', key)
    call('RPUSH', key, head)
    kept, expires = log.first - 1, 0
  else
    -- Counted from the newest, so that the head stays whatever it tells of their number.
    if log.first > 1 then
      call('LTRIM', key, 0, format('%d', size - log.first + 1))
    end
    if kept < size then
      call('LTRIM', key, format('%d', size - kept), -1)
    end
    local changed = log.changed
    if changed and changed <= kept and changed >= log.first then
      local position = format('%d', kept - changed + 1)
      if log.removed then
        call('LSET', key, position, '-')
        call('LREM', key, 1, '-')
      else
        call('LSET', key, position, text_of(log.at[changed], log.count[changed]))
      end
    end
    call('LSET', key, 0, head)
  end
  for i = kept + 1, log.last do
    call('LSET', key, 0, text_of(log.at[i], log.count[i]))
    call('LPUSH', key, head)
  end
  if expiry ~= expires then
    call('PEXPIRE', key, format('%d', (expiry - now) / 1000 + 2))
  end
end

-- Leaves the notes alone.
local function clear()
  stored = { first = 1, last = 0, kept = 0 }
  store('0:0:0', now)
end
