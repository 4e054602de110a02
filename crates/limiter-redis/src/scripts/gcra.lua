-- Script  gcra: checks keys by GCRA, or peeks at them. Each key is decided on its own.
--
-- State   `TAT increment reach`, in microseconds: the Unix time at which the debt is paid off, the debt that a permit
--         adds, and the largest debt that the quota can leave. If the increment is not a whole number, all three have
--         four decimals, and a tick is a ten-thousandth of a microsecond; else a tick is a microsecond. No key: no debt.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key: the quota as the state has it, ` increment reach`; the burst in permits; the increment in ticks.
--         Then for each key the cost, 0 to peek. Without costs, each cost is 1.
--         Then, for leases, for each key the permits that are wanted, 0 without a lease; then their length in ticks.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         debt                               admitted; the debt in ticks after the charge
--         { debt, permits, now }             the same if a lease was wanted: how many permits were charged, more than the
--                                            cost for a lease, and when, in microseconds of Unix time
--         -1 - debt                          refused, or a peek
--         { -1 - debt, increment, scale }    the same in the ticks of the quota that wrote the state, its increment, and
--                                            how many of its ticks a microsecond has
--         { any of these, text }             the error of PTTL or PEXPIRE, so that a lost expiry was not restored
--         text                               the error of GET; nothing is charged
-- Costs   TIME; for each key GET, then SET if admitted or damaged, else PTTL

-- include clock

-- include granted

-- Returns how many permits to charge, and on top of which debt. A lease is charged for its end.
local function leased(debt, cost, wanted, length, burst, increment)
  local base = math.max(debt, length)
  local permits = granted(cost, wanted, math.floor((burst * increment - base) / increment), length / 2 / increment)
  return permits, permits > cost and base or debt
end

-- Checks a state that another quota wrote, or that has decimals, is above the capacity, or is damaged. Returns the reply,
-- the state to write, if any, and for how many microseconds it matters.
local function check_other(text, quota, burst, increment, cost, wanted, length)
  -- include scaled

  -- include gcra

  -- include gcra_converted

  if type(text) == 'table' then
    return 'GET: ' .. text.err
  end
  local debt, old_increment, scale, writer, is_damaged = gcra_read(text, quota, burst, increment)
  if cost > 0 and cost <= burst and debt <= (burst - cost) * old_increment then
    debt, scale = gcra_converted(debt, old_increment, increment), string.find(quota, '.', 1, true) and 10000 or 1
    local permits, base = leased(debt, cost, wanted, length, burst, increment)
    debt = base + permits * increment
    return wanted > 0 and { debt, permits, now } or debt, gcra_text(debt, scale, quota), debt / scale
  end
  local written = is_damaged and gcra_text(debt, scale, writer)
  return { -1 - debt, old_increment, scale }, written, text and debt / scale
end

local replies = {}
for i, key in ipairs(KEYS) do
  local quota, burst, increment = ARGV[3 * i - 2], ARGV[3 * i - 1] + 0, ARGV[3 * i] + 0
  local cost, capacity = (ARGV[3 * #KEYS + i] or 1) + 0, burst * increment
  local wanted, length = (ARGV[4 * #KEYS + i] or 0) + 0, (ARGV[5 * #KEYS + i] or 0) + 0
  local text, debt = redis.pcall('GET', key), 0
  local is_own = not text and not string.find(quota, '.', 1, true)
  if type(text) == 'string' and string.sub(text, 17) == quota then
    -- Not -inf or nan, which Lua takes for numbers.
    debt = (tonumber(string.sub(text, 1, 16)) or math.huge) - now
    is_own, debt = debt >= -now and debt <= capacity, math.max(debt, 0)
  end
  local reply, written, lasts
  if is_own and cost > 0 and debt + cost * increment <= capacity then
    local permits, base = cost, debt
    if wanted > 0 then
      permits, base = leased(debt, cost, wanted, length, burst, increment)
    end
    lasts = base + permits * increment
    reply = wanted > 0 and { lasts, permits, now } or lasts
    written = string.format('%d', now + lasts) .. quota
  elseif is_own then
    reply, lasts = -1 - debt, text and debt
  else
    reply, written, lasts = check_other(text, quota, burst, increment, cost, wanted, length)
  end
  if written then
    redis.call('SET', key, written, 'PX', math.ceil(lasts / 1000) + 1)
  elseif lasts then
    local command, ttl = 'PTTL', redis.pcall('PTTL', key)
    if ttl == -1 then
      command, ttl = 'PEXPIRE', redis.pcall('PEXPIRE', key, math.ceil(lasts / 1000) + 1)
    end
    reply = type(ttl) == 'table' and { reply, command .. ': ' .. ttl.err } or reply
  end
  replies[i] = reply
end
return #KEYS == 1 and replies[1] or replies
