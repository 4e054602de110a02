-- Entries in a string of their own: 38 bytes of a head, 117 bytes of a pocket, and a tape of entries,
-- the oldest first, with room behind them.
--
-- Head    the kind; as doubles when the key is to expire, the sum of all entries, and when the newest
--         permits were taken, and in five bytes how many, 0 if there are none; how many entries in the
--         pocket are old, and how many young; and which places of the tape are in use, from the first to
--         before the stop, in three bytes each
-- Pocket  the oldest entries, as the tape has them too: at least one if it has any; behind them those
--         between the tape and the newest, which are not in the tape yet
-- Kind    1; or 2, where an entry's count takes five bytes; and 2 more where the pocket has the notes
--         in place of entries, as doubles
-- Entry   the time in six bytes, less than 2^48 us before the newest; the count in three bytes. All
--         numbers are little-endian
--
-- So most checks read and write the beginning alone, see ledger_check.lua. An entry's number is its
-- place on the tape; the young go on behind the stop, and the newest is the last.
local own_kind, width, entry, most = 1, 9, '<I6I3', 16777215
if limit > most then
  own_kind, width, entry, most = 2, 11, '<I6I5', 2 ^ 40 - 1
end

-- What is there, nil if nothing that can be read.
local found
-- When the key is to expire.
local expires = 0

local function load()
  local head = call('GETRANGE', KEYS[1], '0', '154')
  if head == '' then
    -- What is empty is not nothing: someone else has left it.
    return call('EXISTS', KEYS[1]) == 1 and head
  end
  local kind = string.byte(head)
  if #head == 155 and kind >= 1 and kind <= 4 then
    local form = kind % 2 == 1 and { width = 9, entry = '<I6I3' } or { width = 11, entry = '<I6I5' }
    form.expires, form.total, form.at, form.count, form.olds, form.youngs, form.first, form.stop =
      from_bytes('<dddI5BBI3I3', head, 2)
    form.kind, form.in_pocket, found = kind, form.olds + form.youngs, form
    if kind > 2 then
      note(from_bytes('<dddd', head, 39))
    end
  end
  return head
end

-- Returns whether the head tells of what can be there.
local function is_whole()
  local used = found.stop - found.first
  if used > 0 then
    found.capacity = math.floor((call('STRLEN', KEYS[1]) - 155) / found.width)
  end
  return found.total >= 0 and found.total <= 2 ^ 52 and found.at >= 0 and found.at <= 2 ^ 52
    and found.expires >= 0 and used >= 0 and used <= 2 ^ 23
    and found.in_pocket * found.width <= 117 and (found.kind <= 2 or found.in_pocket == 0)
    and found.olds <= used and (used == 0 or found.stop <= found.capacity)
    and (found.count > 0 or used + found.in_pocket == 0)
end

-- Sees an entry of a text.
local function see(log, i, text, position)
  local at, count = from_bytes(found.entry, text, position)
  log.at[i], log.count[i] = found.at - (found.at - at) % 2 ^ 48, count
end

-- Sees entries of the tape from the one with the number `i` on, or down from it: the more, the longer
-- this goes on.
local function fetch(log, i)
  local from, to = i, math.min(i + log.ahead, found.stop) - 1
  if log.count[i + 1] then
    from, to = math.max(i - log.ahead + 1, found.first), i
  end
  local texts = call('GETRANGE', KEYS[1],
    format('%d', 155 + from * found.width), format('%d', 154 + (to + 1) * found.width))
  for number = from, to do
    if not log.count[number] then
      see(log, number, texts, (number - from) * found.width + 1)
    end
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
  local log = { total = 0, first = 0, last = -1, kept = -1, at = {}, count = {}, ahead = 1 }
  if not head then
    return log, false
  end
  if not found or not is_whole() then
    -- Counts as full, and is written as such.
    found = nil
    log.total, log.last = limit, 0
    log.at[0], log.count[0] = now, limit
    return log, true
  end
  expires = found.expires
  if found.count > 0 then
    local olds, youngs = found.olds, found.youngs
    log.total, log.first, log.last = found.total, found.first, found.stop + youngs
    log.kept = log.last
    for n = 0, olds + youngs - 1 do
      see(log, n < olds and found.first + n or found.stop + n - olds, head, 39 + n * found.width)
    end
    log.at[log.last], log.count[log.last] = found.at, found.count
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
  return log
end

-- Returns the texts of the entries from one number to another, which were seen.
local function texts_of(log, from, to)
  local texts = {}
  for i = from, to do
    texts[#texts + 1] = to_bytes(entry, log.at[i], log.count[i])
  end
  return table.concat(texts)
end

-- Makes the entries what the policy's own kind can tell, where another policy has left them.
local function convert(log)
  for i = log.first, log.last do
    local surplus = math.max(0, count_of(log, i) - most)
    log.count[i], log.total = log.count[i] - surplus, math.max(0, log.total - surplus)
  end
end

-- Returns how many places a tape has for so many entries: an eighth more, and as many as fit into what
-- a server then takes for it.
local function places_for(number)
  local bytes = 165 + (number + math.max(13, math.ceil(number / 8))) * width
  local _, exponent = math.frexp(bytes)
  local step = 2 ^ (exponent - 3)
  return math.floor((math.ceil(bytes / step) * step - 165) / width)
end

local function store(log, till)
  local key, needed = KEYS[1], math.max(till, promised, horizon)
  local expiry = expires
  if expiry <= needed + 2000 or expiry > far then
    expiry = needed + math.ceil((needed - now) / 2) + 2000
  end
  local first, last, removed = log.first, log.last, log.removed
  -- All but the newest.
  local number = math.max(0, last - first) - (removed and 1 or 0)
  -- Before the stop, the tape has what it is to have, from `from` on it has not.
  local stop = found and math.max(first, math.min(found.stop, log.kept + 1, last)) or first
  if found and found.width ~= width then
    convert(log)
    stop = first
  end
  local is_noted = promised > now or horizon > now
  local is_small = number == 0 or number * width <= 117 and not is_noted
  local is_new = stop == first or is_small or last > found.capacity or first > 2 * number + 64
  local changed = log.changed and log.changed >= first and log.changed < last and log.changed
  local from = is_new and first or math.min(stop, changed or stop)

  local text = texts_of(log, stop, last - 1)
  if from < stop then
    text = call('GETRANGE', key, format('%d', 155 + from * width), format('%d', 154 + stop * width)) .. text
  end
  if changed and changed >= from then
    local before, own = (changed - from) * width, removed and '' or texts_of(log, changed, changed)
    text = string.sub(text, 1, before) .. own .. string.sub(text, before + width + 1)
  end
  -- Places count from the start of a tape that is written anew.
  local base = is_new and first or 0
  local olds, youngs, pocket = 0, 0, ''
  if is_noted then
    pocket = to_bytes('<dddd', promised, since, moved, horizon)
  elseif is_small then
    pocket, youngs = text, number
  else
    pocket, olds = to_bytes(entry, at_of(log, first), count_of(log, first)), 1
  end
  local at, count = 0, 0
  if last >= first then
    at, count = at_of(log, last), count_of(log, last)
  end
  local places = is_small and 0 or number
  local head = to_bytes('<BdddI5BBI3I3', own_kind + (is_noted and 2 or 0), expiry, log.total, at, count, olds, youngs,
    first - base, first - base + places)
  head = head .. pocket .. string.rep('\0', 117 - #pocket)

  if is_new then
    if not is_small then
      head = head .. text .. string.rep('\0', (places_for(number) - number) * width)
    end
    if expiry == expires then
      call('SET', key, head, 'KEEPTTL')
    else
      call('SET', key, head, 'PX', format('%d', (expiry - now) / 1000 + 2))
    end
    return
  end
  if text ~= '' then
    call('SETRANGE', key, format('%d', 155 + from * width), text)
  end
  call('SETRANGE', key, '0', head)
  if expiry ~= expires then
    call('PEXPIRE', key, format('%d', (expiry - now) / 1000 + 2))
  end
end

-- Leaves the notes alone, or nothing.
local function clear()
  if horizon > now then
    store({ total = 0, first = 0, last = -1, kept = -1, at = {}, count = {} }, now)
  else
    call('DEL', KEYS[1])
  end
end
