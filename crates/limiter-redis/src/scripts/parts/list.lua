-- Entries in a list of their own: the newest first, behind a head `total:size:tail:expires`: their sum
-- and number, when the oldest was taken, and when the key is to expire. Notes stand behind that.
--
-- Or behind a head that ledger_check.lua wrote, which has the ends of the list in it: `*`; as doubles
-- the sum, when the key is to expire, the length of the texts of the newest, and the time and the count
-- of the newest entry and of the oldest; the texts of the others of the newest, the newest first, and of
-- the oldest, the oldest first, each with a comma behind it.

-- When the key is to expire.
local expires = 0
-- What is there already, and the newest entry of it.
local size, newest = 0, nil
-- The entry whose text is next to the head.
local base = 0
-- The texts of the entries that are in the head, the newest first.
local young, old
-- What is to be there.
local stored

-- Returns what stands before the notes, and sees them.
local function without_notes(text)
  local state, p, s, m, h = match(text, '^([^|]*)|(%d+)|(%d+)|(%d+)|(%d+)$')
  if not state then
    return text
  end
  note(p + 0, s + 0, m + 0, h + 0)
  return state
end

local function with_notes(text)
  if promised > now or horizon > now then
    return format('%s|%d|%d|%d|%d', text, promised, since, moved, horizon)
  end
  return text
end

local function load()
  local ends = call('LRANGE', KEYS[1], 0, 1)
  local head = ends[1]
  newest = ends[2]
  if head and string.byte(head) ~= 42 and string.find(head, '|', 1, true) then
    head = without_notes(head)
  end
  return head
end

-- Sees entries from the one with the number `i` on: the more, the longer this goes on.
local function fetch(log, i)
  local position = base - i + 1
  local from = math.max(1, position - log.ahead + 1)
  local texts = call('LRANGE', KEYS[1], from, position)
  for n = #texts, 1, -1 do
    local number = base - from - n + 2
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

-- Returns the texts that a part of the head has, and the text of an entry that is next to them: before
-- the first, which is the newest, or behind the last, of which they are then in the other order.
local function texts_in(part, at, count, are_oldest_first)
  local texts = { text_of(at, count) }
  for text in string.gmatch(part, '[^,]+') do
    table.insert(texts, are_oldest_first and 1 or #texts + 1, text)
  end
  return texts
end

-- Sees what is in a head that ledger_check.lua wrote, and returns the sum and the number of entries, when
-- the oldest was taken and when the key is to expire.
local function unpacked(head, log)
  local total, expiry, border, at, count, oldest_at, oldest_count = struct.unpack('>ddddddd', head, 2)
  -- Not so either where one is no number, or there is more than is ever written.
  local is_whole = #head <= 1024 and total >= 0 and total <= 2 ^ 52 and expiry >= 0 and border >= 0 and border <= 256
    and at <= 2 ^ 52 and oldest_at >= 0 and oldest_at <= at
    and count >= 0 and count <= 2 ^ 52 and oldest_count >= 0 and oldest_count <= 2 ^ 52
  if not is_whole then
    return
  end
  young = texts_in(string.sub(head, 58, 57 + border), at, count, false)
  old = texts_in(string.sub(head, 58 + border), oldest_at, oldest_count, true)
  base = #old + call('LLEN', KEYS[1]) - 1
  for i = 1, #old do
    local old_at, old_count = entry_of(old[#old - i + 1])
    log.at[i], log.count[i] = old_at or 0, old_count or 0
  end
  for i = 1, #young do
    local young_at, young_count = entry_of(young[#young - i + 1])
    log.at[base + i], log.count[base + i] = young_at or 0, young_count or 0
  end
  return total, base + #young, oldest_at, expiry
end

local function entries(head)
  local log = { total = 0, first = 1, last = 0, kept = 0, at = {}, count = {}, ahead = 1 }
  if not head then
    return log, false
  end
  local total, length, tail, expiry
  local at, count = entry_of(newest or '')
  if #head >= 57 and string.byte(head) == 42 then
    total, length, tail, expiry = unpacked(head, log)
    at = 0
  else
    total, length, tail, expiry = match(head, '^(%d+):(%d+):(%d+):(%d+)$')
  end
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
    if not young then
      base = size
      log.at[1] = tail + 0
      log.at[size], log.count[size] = at, count
    end
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
  head = with_notes(format('%s:%d', head, expiry))

  -- Entries up to `kept` stay, those before the first and after it go.
  local kept = log.kept
  if kept < log.first then
    call('DEL', key)
    call('RPUSH', key, head)
    kept, expires = log.first - 1, 0
  else
    if young then
      call('RPUSH', key, unpack(old))
      call('LSET', key, 0, young[#young])
      for i = #young - 1, 1, -1 do
        call('LPUSH', key, young[i])
      end
      call('LPUSH', key, '*')
    end
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
