-- Script  window: checks subjects by fixed windows, aligned windows or sliding counters. Each is decided on its own.
--
-- State   a field of the subject's hash: windows, see below
-- KEYS    the hashes; one may occur twice
-- ARGV    fixed, aligned or counter. Then for each key the field, the permits, the length, how far ahead a window can end,
--         and the cost.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { 1, reset, left }        admitted; the time until the limit is fresh, and the permits left
--         { 0, reset, left, wait }  refused; the wait is -1 if the cost never fits
--         text                      the error of a command, such as that of a full memory; nothing is charged
-- Costs   those of the script gcra
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

local kind, replies = ARGV[1], {}
for i = 1, #KEYS do
  local key, field, permits, length = KEYS[i], ARGV[5 * i - 3], ARGV[5 * i - 2] + 0, ARGV[5 * i - 1] + 0
  local text, cost, failed = redis.pcall('HGET', key, field), ARGV[5 * i + 1] + 0, nil
  if type(text) == 'table' then
    failed, text = 'HGET: ' .. text.err, nil
  end
  local ends, count, before, older, is_damaged = window_read(kind, permits, length, ARGV[5 * i] + 0, text)
  local reset, left, present, taken, fading = window_usage(kind, permits, length, ends, count, before)
  local is_admitted = cost <= left and not failed
  if is_admitted or is_damaged then
    if is_admitted then
      left, taken, older = left - cost, taken + cost, present == ends and older or ''
      reset = present - now + (kind == 'counter' and length or 0)
    end
    local value, lasts, slack = window_text(kind, length, present, taken, fading) .. older, reset / 1000 + 2, length / 1000
    local ttl, created = redis.call('PTTL', key), redis.pcall('HSET', key, field, value)
    if type(created) == 'table' then
      failed = 'HSET: ' .. created.err
    elseif ttl < lasts or created > 0 then
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
        failed = 'PEXPIRE: ' .. expires.err
        if text then
          redis.call('HSET', key, field, text)
        else
          redis.call('HDEL', key, field)
        end
      end
    end
  end
  if failed or is_admitted then
    replies[i] = failed or { 1, reset, left }
  else
    local fits = window_fits(kind, permits, length, cost, now, ends, count, before)
    replies[i] = { 0, reset, left, fits < math.huge and fits - now or -1 }
  end
end
if #KEYS == 1 then
  return replies[1]
end
return replies
