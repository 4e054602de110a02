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

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Returns how many permits to charge for a check that may become a lease: of those that are wanted, as many as there are
-- in half of the room, or in all of it if it is little; at least the cost.
local function granted(cost, wanted, room, little)
  if room > little then
    room = math.floor(room / 2)
  end
  return math.max(cost, math.min(wanted, room))
end

-- Returns how many permits to charge, and on top of which debt. A lease is charged for its end.
local function leased(debt, cost, wanted, length, burst, increment)
  local base = math.max(debt, length)
  local permits = granted(cost, wanted, math.floor((burst * increment - base) / increment), length / 2 / increment)
  return permits, permits > cost and base or debt
end

-- Checks a state that another quota wrote, or that has decimals, is above the capacity, or is damaged. Returns the reply,
-- the state to write, if any, and for how many microseconds it matters.
local function check_other(text, quota, burst, increment, cost, wanted, length)
  -- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c.
  local function scaled(a, b, c)
    if a * b <= 2 ^ 53 then
      return math.ceil(a * b / c)
    end
    -- Long division, four bits of b at a time, so that no product reaches 2^53.
    local quotient, rest = 0, 0
    for digit = 11, 0, -1 do
      rest = rest * 16 + a * (math.floor(b / 16 ^ digit) % 16)
      quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
    end
    return rest > 0 and quotient + 1 or quotient
  end

  -- Returns the debt of a state in ticks of the quota that wrote it; its increment, its ticks of a microsecond, and its
  -- text; and whether the state is damaged or from the future, and so a full debt. A debt drains at the pace of the quota
  -- that wrote it until another one charges.
  local function gcra_read(text, quota, burst, own_increment)
    local digits, decimals = string.gsub((text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
    local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
    -- False if the text can't be read. All three numbers have decimals, or none.
    local debt, scale, writer = not text and 0, decimals > 0 and 10000 or 1, text and string.match(text, ' .*')
    increment, reach = tonumber(increment), tonumber(reach)
    if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
      and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
      debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
    end
    local is_damaged = not debt or debt > 0 and debt > reach
    if debt and debt > 0 and writer ~= quota then
      return math.min(debt, reach), increment, scale, writer, is_damaged
    end
    scale = string.find(quota, '.', 1, true) and 10000 or 1
    return is_damaged and burst * own_increment or debt, own_increment, scale, quota, is_damaged
  end

  -- Returns a debt as the text of a state.
  local function gcra_text(debt, scale, quota)
    local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
    return string.format('%d', now + math.floor(debt / scale)) .. fraction .. quota
  end

  -- Returns a debt of one quota in the ticks of another: as many permits, rounded up to a tick.
  local function gcra_converted(debt, old_increment, increment)
    local rest = debt % old_increment
    return (debt - rest) / old_increment * increment + scaled(rest, increment, old_increment)
  end

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
