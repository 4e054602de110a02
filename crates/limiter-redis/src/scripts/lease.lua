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
-- include clock

-- include scaled

-- include hash

-- include gcra

-- include window

-- Returns how many permits to charge: those that are wanted, at most half of the room, or all of it if it is little; at
-- least the cost.
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
    -- A refusal needs no repair: the state is full all the same.
    replies[i] = (charged > 0 or begins) and failed or reply
  end
end
if #KEYS == 1 then
  return replies[1]
end
return replies
