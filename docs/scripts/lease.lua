-- Script  lease: checks keys, and charges more than the cost where a process may hold permits for later: a lease.
--
-- State   that of the script gcra, window or counter. Beside the key of a state by GCRA, another one has the latest end of
--         its leases, in microseconds of Unix time.
-- KEYS    the keys, and then for each the key of the latest end, which windows do not have
-- ARGV    for each key: gcra, fixed, aligned or counter; the quota as the state has it; the permits, which are the burst of
--         GCRA; the increment in ticks, or the length; the cost; the permits that are wanted; and by GCRA the length of a
--         lease in ticks, else how many permits are little: of more, half are granted at most
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { 1, reset, left, permits, now, mark }  admitted; the time until the key is fresh, the permits left, the
--                                                 permits charged, which are a lease if they are more than the cost;
--                                                 when; and by GCRA the debt, else the time until the window ends
--         { 0, reset, left, wait }                refused; the wait is -1 if the cost never fits
--         { ..., permits, now, mark, wait }       either, and behind it a lease of these permits that begins after the wait.
--                                                 Then a cost is refused, too, that fits alone.
--         text                                    the error of SET, such as that of a full memory; nothing is charged
--         false                                   the script policy has to decide. Nothing is charged.
-- Costs   TIME; for each key GET, and SET if admitted or leased; for a lease by GCRA another GET and SET
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
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

-- Returns an admission, or the refusal of a cost with a wait; and behind it a lease that begins later, if there is one.
local function replied(permits, mark, wait, ahead, ahead_mark, begins)
  local reply = permits > 0 and { 1, 0, 0, permits, now, mark } or { 0, 0, 0, begins or wait }
  for _, number in ipairs(begins and { ahead, now, ahead_mark, begins } or {}) do
    reply[#reply + 1] = number
  end
  return reply
end

-- Each decides on one key by a state of its own quota. Returns the reply, and the state to write and for how long.

local function lease_debt(text, quota, burst, increment, cost, wanted, length, latest_key)
  local scale, capacity = string.find(quota, '.', 1, true) and 10000 or 1, burst * increment
  local tat, decimals = string.match(text or '', scale == 1 and '^(%d+) ' or '^(%d+)%.(%d%d%d%d) ')
  local is_own = tat and #tat == 16 and string.sub(text, scale == 1 and 17 or 22) == quota
  local debt = is_own and math.max((tat - now) * scale + (decimals or 0), 0) or text and math.huge or 0
  local left, reach = math.floor((capacity - debt) / increment), string.match(string.gsub(quota, '%.', ''), '%d+$') + 0
  if debt > reach then
    return false
  end
  local permits, after, ends = 0, debt, nil
  if cost <= left then
    -- A lease is charged for its end.
    local base = math.max(debt, length)
    permits = granted(cost, wanted, math.floor((capacity - base) / increment), length / 2 / increment)
    after = (permits > cost and base or debt) + permits * increment
  end
  local is_lease = permits > cost
  local before = is_lease and after or debt
  local ahead, begins = few(wanted, length / 2 / increment) - (is_lease and permits or 0), nil
  local later = before + ahead * increment
  if ahead > cost and before <= capacity and later > capacity and later <= reach then
    permits, begins = is_lease and permits or 0, math.ceil((later - capacity) / scale)
  end
  local wait = permits == 0 and (cost > burst and -1 or math.ceil((debt + cost * increment - capacity) / scale))
  local reply = replied(permits, after, wait, ahead, later, begins)
  if begins then
    debt, ends = later, now + begins + length / scale
  elseif permits > 0 then
    debt, ends = after, is_lease and now + length / scale
  end
  reply[2], reply[3] = math.ceil(debt / scale), math.max(math.floor((capacity - debt) / increment), 0)
  if ends and ends > (tonumber(redis.pcall('GET', latest_key)) or 0) then
    local set = redis.pcall('SET', latest_key, string.format('%d', ends), 'PX', math.ceil((ends - now) / 1000) + 1)
    if set.err then
      return 'SET: ' .. set.err
    end
  end
  if permits == 0 and not begins then
    return reply
  end
  local written = string.format('%d', now + math.floor(debt / scale))
  if scale > 1 then
    written = string.format('%s.%04d', written, debt % scale)
  end
  return reply, written .. quota, reply[2]
end

local function lease_window(text, quota, most, length, cost, wanted, little, kind)
  local found, middle, taken, before = string.match(text or '', '^(%d+)( %d+ %d+ )(%d+) ?(%d*)$')
  local is_own = middle == quota and #found == 16 and taken + 0 <= 158112000000000 and (before ~= '') == (kind == 'counter')
  local since, count, previous = is_own and found + 0 or text and math.huge or now, tonumber(taken) or 0, tonumber(before) or 0
  local grid, fades = kind == 'aligned' and length or 1, kind == 'counter'
  if fades and since + length <= now then
    since, count, previous = since + length, 0, count
  end
  if since - since % grid + length <= now or count + previous == 0 and since <= now then
    since, count, previous = now, 0, 0
  end
  if since > now or fades and math.max(count, previous) * length > 2 ^ 53 then
    return false
  end
  local ends = since - since % grid + length
  local counted = count + math.ceil(previous * (ends - now) / length)
  local function wait(number)
    -- The permits of the window before fade until the number fits, or in the next window those of this one.
    if fades and count + number > most then
      return ends - now + math.ceil((count + number - most) * length / count)
    elseif fades then
      return ends - now - length + math.ceil((count + previous + number - most) * length / previous)
    end
    return ends - now
  end
  local permits, begins = 0, nil
  if counted + cost <= most then
    permits = granted(cost, wanted, most - counted, little)
  end
  local leased = permits > cost and permits or 0
  -- A window before of fewer permits fades as much more slowly.
  local ahead = few(wanted, little * previous / most) - leased
  local taken = leased + ahead
  if fades and ahead > cost and counted <= most and counted + taken > most and count + taken < most then
    permits, begins = leased, wait(taken)
  end
  local reply = replied(permits, ends - now, permits == 0 and (cost > most and -1 or wait(cost)), ahead, ends - now, begins)
  count = count + (begins and taken or permits)
  counted = counted + (begins and taken or permits)
  local reset = count + previous > 0 and ends + (fades and count > 0 and length or 0) - now or 0
  reply[2], reply[3] = reset, math.max(most - counted, 0)
  if permits == 0 and not begins then
    return reply
  end
  return reply, string.format(fades and '%d%s%d %d' or '%d%s%d', since, quota, count, previous), reset
end

local replies, keys = {}, #KEYS / 2
for i = 1, keys do
  local kind, quota = ARGV[7 * i - 6], ARGV[7 * i - 5]
  local permits, number, cost, wanted, term = ARGV[7 * i - 4] + 0, ARGV[7 * i - 3] + 0, ARGV[7 * i - 2] + 0,
    ARGV[7 * i - 1] + 0, ARGV[7 * i] + 0
  local text, decide = redis.pcall('GET', KEYS[i]), kind == 'gcra' and lease_debt or lease_window
  text = type(text) == 'table' and 'a key of another type' or text
  local reply, written, lasts = decide(text, quota, permits, number, cost, wanted, term, kind == 'gcra' and KEYS[keys + i] or kind)
  if written then
    local set = redis.pcall('SET', KEYS[i], written, 'PX', math.ceil(lasts / 1000) + 1)
    reply = set.err and 'SET: ' .. set.err or reply
  end
  replies[i] = reply
end
if keys == 1 then
  return replies[1]
end
return replies
