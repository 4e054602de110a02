-- Script  lease: checks subjects, and charges more than the cost where a process may hold permits for later: a lease.
--
-- State   that of the script gcra or window. Beside a field of GCRA, `FIELD:leases` has the latest end of its leases, in
--         microseconds of Unix time.
-- KEYS    the hashes
-- ARGV    for each key six words as for the script list; the cost; the permits that are wanted; and by GCRA the length of a
--         lease in ticks, else how many permits are little: of more, half are granted at most
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { 1, reset, left, permits, now, mark }  admitted; the time until the limit is fresh, the permits left, the
--                                                 permits charged, which are a lease if they are more than the cost;
--                                                 when; and by GCRA the debt, else the time until the window ends
--         { 0, reset, left, wait }                refused; the wait is -1 if the cost never fits
--         { ..., permits, now, mark, wait }       either, and behind it a lease of these permits that begins after the wait.
--                                                 Then a cost is refused, too, that fits alone.
--         text                                    the error of a command, such as that of a full memory; nothing is charged
-- Costs   those of the script gcra or window; for a lease by GCRA another HGET
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c.
local function scaled(a, b, c)
  if a * b <= 2 ^ 53 then
    return math.ceil(a * b / c)
  end
  -- Long division, four bits of b at a time, so that no product reaches 2^53.
  local quotient, rest = 0, 0
  for digit = 12, 0, -1 do
    rest = rest * 16 + a * (math.floor(b / 16 ^ digit) % 16)
    quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
  end
  return rest > 0 and quotient + 1 or quotient
end

-- Writes fields of a hash, `{ field, text, field, text }`, so that it lasts for so long, in milliseconds, and some more. Returns
-- the error of a command: then it has the texts of before.
local function hash_write(key, words, before, lasts, slack)
  local ttl, created = redis.call('PTTL', key), redis.pcall('HSET', key, unpack(words))
  if type(created) == 'table' then
    return 'HSET: ' .. created.err
  end
  if ttl == -1 or ttl >= 0 and created > 0 then
    -- The hash had other fields only, or no expiry: what is past goes, and nothing is forgotten early.
    local all = redis.pcall('HGETALL', key)
    for n = 1, #all, 2 do
      local past = string.match(all[n + 1], '^%d+')
      if past and #past == 16 and past + 0 < now then
        redis.pcall('HDEL', key, all[n])
      elseif past and #past == 16 then
        lasts = math.max(lasts, (past - now) / 1000 + 2)
      end
    end
  end
  local expires = ttl < lasts and redis.pcall('PEXPIRE', key, math.ceil(lasts + slack))
  if type(expires) == 'table' then
    for n = 1, #words / 2 do
      if before[n] then
        redis.call('HSET', key, words[2 * n - 1], before[n])
      else
        redis.call('HDEL', key, words[2 * n - 1])
      end
    end
    return 'PEXPIRE: ' .. expires.err
  end
end

-- GCRA: a debt in ticks, of which a microsecond has 1 or 10000. Its text is the theoretical arrival time (TAT), at which it is
-- paid off, in microseconds of Unix time, with four decimals if a permit does not add a whole number of them.

-- Returns the debt of a text, and whether none is that large under any quota of the span: then it is a whole burst.
local function gcra_read(text, scale, capacity, most)
  if not text then
    return 0, false
  end
  local tat, part = #text == 16 and not string.find(text, '%D') and text, 0
  if not tat and #text == 21 then
    tat, part = string.match(text, '^(%d+)%.(%d%d%d%d)$')
  end
  local debt = tat and math.max((tat - now) * scale + math.ceil(part * scale / 10000), 0) or math.huge
  if debt > capacity and debt > most * 513 / 512 + 10 * scale then
    return capacity, true
  end
  return debt, false
end

-- Returns the text of a debt, or the number that becomes it.
local function gcra_text(debt, scale)
  return scale == 1 and now + debt or string.format('%d.%04d', now + math.floor(debt / scale), debt % scale)
end

-- Windows: `past count`, or of a sliding counter `past count before`: when the window is past, the permits taken in it, and
-- those of the window before, which fade. A counter's window is past a length after its end. A window that is reserved for
-- later decides, in front of the present one, which decides again if all of that is refunded.

-- Returns when a window ends that opens at a moment.
local function window_end(kind, length, at)
  return at + length - (kind == 'aligned' and at % length or 0)
end

-- Returns when the window of a text ends, its permits, those of the window before, and the text of older ones; nil if the text
-- is not a window.
local function window_parse(kind, length, text)
  local fades = kind == 'counter'
  local past, count, before, older =
    string.match(text, fades and '^(%d+) (%d+) (%d+)(.*)$' or '^(%d+) (%d+)()(.*)$')
  if past and #past == 16 and #count < 16 and (not fades or #before < 16) then
    return past - (fades and length or 0), count + 0, fades and before + 0 or 0, older
  end
end

-- Returns the same of the window that a moment is in, or of one that is reserved for later; of an empty one if nothing counts
-- any more.
local function window_at(kind, length, at, ends, count, before)
  if kind == 'counter' and ends <= at then
    ends, count, before = ends + length, 0, count
  end
  if ends <= at or count + before == 0 then
    return window_end(kind, length, at), 0, 0
  end
  return ends, count, before
end

-- Returns the same of the newest window of a field, and whether the text is damaged, or the window too far ahead: then it is full.
local function window_read(kind, permits, length, ahead, text)
  if not text then
    return now, 0, 0, '', false
  end
  local ends, count, before, older = window_parse(kind, length, text)
  if ends and ends <= now + ahead then
    return ends, count, before, older, false
  end
  -- The present aligned window may be about to end, so the next one is full, too.
  local full = window_end(kind, length, now) + (kind == 'aligned' and length or 0)
  return full, math.max(ends and count + before or 0, permits), 0, '', true
end

-- Returns the first moment from one on at which a cost fits.
local function window_fits(kind, permits, length, cost, from, ends, count, before)
  local room = permits - cost
  if room < 0 then
    return math.huge
  elseif count > 0 and ends - length > from then
    from = ends - length
  end
  ends, count, before = window_at(kind, length, from, ends, count, before)
  local excess = count + before - room
  if count <= room then
    ends = ends - length + (excess > 0 and scaled(excess, length, before) or 0)
  elseif kind == 'counter' then
    -- In the next window, in which the permits of this one fade.
    ends = ends + scaled(count - room, length, count)
  end
  return math.max(ends, from)
end

-- Returns how long the permits last, how many are left, and the window that has those of the present.
local function window_usage(kind, permits, length, ends, count, before)
  ends, count, before = window_at(kind, length, now, ends, count, before)
  local reset = count + before > 0 and ends - now + (kind == 'counter' and count > 0 and length or 0) or 0
  if ends - length > now then
    return reset, 0, ends, count, before
  elseif before > 0 then
    permits = permits - scaled(ends - now, before, length)
  end
  return reset, permits > count and permits - count or 0, ends, count, before
end

local function window_text(kind, length, ends, count, before)
  if kind == 'counter' then
    return string.format('%d %d %d', ends + length, count, before)
  end
  return string.format('%d %d', ends, count)
end

-- Returns how many permits to charge: those that are wanted, as many as there are in half of the room, or in all of it if
-- it is little; at least the cost.
local function granted(cost, wanted, room, little)
  return math.max(cost, math.min(wanted, room > little and math.floor(room / 2) or room))
end

-- Returns how many permits are granted for later if there are fewer now: a twelfth of those that are little, at most those
-- that are wanted. Without that, a process that asks for each permit gets nearly all.
local function few(wanted, little)
  return math.min(wanted, math.floor(little / 12))
end

-- Each charges a limit. Returns the text of its field, the permits that are charged now, the mark, the wait of a refusal, how many are granted for later
-- with their mark and when they begin, the usage, and the end of a lease.

local function lease_debt(limit, cost, wanted, length)
  local increment, scale, capacity = limit.number, limit.extra, limit.permits * limit.number
  local debt, is_damaged = gcra_read(limit.text, scale, capacity, limit.ahead)
  local permits, after, little = 0, debt, length / 2 / increment
  if debt + cost * increment <= capacity then
    -- A lease is charged for its end.
    local base = math.max(debt, length)
    permits = granted(cost, wanted, math.floor((capacity - base) / increment), little)
    after = (permits > cost and base or debt) + permits * increment
  end
  local is_lease = permits > cost
  local before = is_lease and after or debt
  local ahead, begins = few(wanted, little) - (is_lease and permits or 0), nil
  local later = before + ahead * increment
  if ahead > cost and before <= capacity and later > capacity and later <= limit.ahead then
    permits, begins = is_lease and permits or 0, math.ceil((later - capacity) / scale)
  end
  local wait = cost > limit.permits and -1 or math.ceil((debt + cost * increment - capacity) / scale)
  limit.is_damaged = is_damaged
  debt = begins and later or permits > 0 and after or debt
  local ends = begins and now + begins + length / scale or is_lease and now + length / scale
  local left = math.max(math.floor((capacity - debt) / increment), 0)
  return gcra_text(debt, scale), permits, after, wait, ahead, later, begins, math.ceil(debt / scale), left, ends
end

local function lease_window(limit, cost, wanted, little)
  local kind, most, length = limit.kind, limit.permits, limit.number
  local ends, count, before, older, is_damaged = window_read(kind, most, length, limit.ahead, limit.text)
  local function fits(permits)
    return window_fits(kind, most, length, permits, now, ends, count, before)
  end
  local reset, left, present, taken, fading = window_usage(kind, most, length, ends, count, before)
  local permits, begins = cost <= left and granted(cost, wanted, left, little) or 0, nil
  local leased = permits > cost and permits or 0
  -- A window before of fewer permits fades as much more slowly.
  local ahead = few(wanted, little * fading / most) - leased
  local later = kind == 'counter' and ahead > cost and taken + leased + ahead < most and fits(leased + ahead) or now
  if later > now and fits(0) == now then
    permits, begins = leased, later - now
  end
  local wait = cost > most and -1 or permits == 0 and not begins and fits(cost) - now
  local charged = begins and leased + ahead or permits
  limit.is_damaged = is_damaged
  if charged > 0 then
    older, taken = present == ends and older or '', taken + charged
    reset, left = present - now + (kind == 'counter' and length or 0), math.max(left - charged, 0)
  end
  local text = window_text(kind, length, present, taken, fading) .. older
  return text, permits, present - now, wait, ahead, present - now, begins, reset, left
end

local replies = {}
for i, key in ipairs(KEYS) do
  local kind, field, permits, number, ahead, extra, cost, wanted, term = unpack(ARGV, 9 * i - 8, 9 * i)
  local limit = { kind = kind, permits = permits + 0, number = number + 0, ahead = ahead + 0, extra = extra + 0 }
  local is_gcra = kind == 'gcra'
  limit.text = redis.pcall('HGET', key, field)
  if type(limit.text) == 'table' then
    replies[i] = 'HGET: ' .. limit.text.err
  else
    local lease = is_gcra and lease_debt or lease_window
    local written, charged, mark, wait, later, later_mark, begins, reset, left, ends = lease(limit, cost + 0, wanted + 0, term + 0)
    local reply = charged > 0 and { 1, reset, left, charged, now, mark } or { 0, reset, left, begins or wait }
    for _, number in ipairs(begins and { later, now, later_mark, begins } or {}) do
      reply[#reply + 1] = number
    end
    local words, before, failed = { field, written }, { limit.text }, nil
    local latest = ends and redis.call('HGET', key, field .. ':leases')
    local others = tonumber(latest or 0) or 0
    -- Refunds ignore one that is too far ahead.
    if ends and not (others >= ends and others <= now + limit.ahead / limit.extra) then
      words[3], words[4], before[2] = field .. ':leases', string.format('%d', ends), latest
    end
    if charged > 0 or begins or limit.is_damaged then
      local slack = is_gcra and limit.permits * limit.number / limit.extra or limit.number
      failed = hash_write(key, words, before, reset / 1000 + 2, slack / 1000)
    end
    replies[i] = failed or reply
  end
end
if #KEYS == 1 then
  return replies[1]
end
return replies
