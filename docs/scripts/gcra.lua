-- Script  gcra: checks keys by GCRA, each on its own, or peeks at them.
--
-- State   `TAT increment reach`: when the debt is paid off, by how much a permit raises it, and the largest debt that
--         the quota leaves. In microseconds, the TAT in Unix time. If the increment is not whole, all have four
--         decimals, and a tick is a ten-thousandth of a microsecond. No key: no debt.
-- KEYS    the keys, of which some may be the same
-- ARGV    for each key: the quota as a state ends with it, ` increment reach`; its burst; its increment in ticks; then
--         the cost for each key, 0 to peek. Without costs, each is 1
-- Reply   for each key, alone if there is one: the debt in ticks after an admission; -1 - debt after a refusal, but
--         { -1 - debt, increment, ticks of a microsecond } over another quota's debt; { this reply, a text } if a lost
--         expiry was not restored. A text alone is why the key was not checked
-- Costs   TIME, and for each key GET, then SET if admitted, else PTTL

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Checks a state that another quota wrote, or that has decimals, is above the capacity, or can't be read. Returns the
-- reply, the state to write, if any, and for how many microseconds it matters.
local function check_other(text, quota, burst, increment, cost)
  -- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c: by long division, four bits of
  -- b at a time, if the product is above 2^53.
  local function scaled(a, b, c)
    local quotient, rest = 0, a * b
    for digit = 11, rest > 2 ^ 53 and 0 or 12, -1 do
      rest = (digit < 11 and rest or 0) * 16 + a * (math.floor(b / 16 ^ digit) % 16)
      quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
    end
    return quotient + math.ceil(rest / c)
  end

  -- Returns the debt of a state in ticks, and of the quota that wrote it: its increment, the ticks of a microsecond, and
  -- its text. The debt drains at the pace of that quota until another one charges. A debt that no quota can have left
  -- becomes a full one: returns this last.
  local function gcra_read(text, quota, burst, own_increment)
    local digits, decimals = string.gsub((text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
    local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
    local debt, scale, writer = not text and 0, decimals > 0 and 10000 or 1, text and string.match(text, ' .*')
    increment, reach = tonumber(increment), tonumber(reach)
    if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
      and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
      debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
    end
    local is_impossible = not debt or debt > 0 and debt > reach
    if debt and debt > 0 and writer ~= quota then
      return math.min(debt, reach), increment, scale, writer, is_impossible
    end
    scale = string.find(quota, '.', 1, true) and 10000 or 1
    return is_impossible and burst * own_increment or debt, own_increment, scale, quota, is_impossible
  end

  -- Returns a debt of one quota in the ticks of another: as many permits, rounded up to a tick.
  local function gcra_converted(debt, old_increment, increment)
    local rest = debt % old_increment
    return (debt - rest) / old_increment * increment + scaled(rest, increment, old_increment)
  end

  -- Returns the state that says a debt.
  local function gcra_text(debt, scale, quota)
    local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
    return string.format('%d', now + math.floor(debt / scale)) .. fraction .. quota
  end

  if type(text) == 'table' then
    return 'GET: ' .. text.err
  end
  local debt, old_increment, scale, writer, is_impossible = gcra_read(text, quota, burst, increment)
  if cost > 0 and cost <= burst and debt <= (burst - cost) * old_increment then
    debt = gcra_converted(debt, old_increment, increment) + cost * increment
    scale = string.find(quota, '.', 1, true) and 10000 or 1
    return debt, gcra_text(debt, scale, quota), debt / scale
  end
  local written = is_impossible and gcra_text(debt, scale, writer)
  return { -1 - debt, old_increment, scale }, written, text and debt / scale
end

local replies = {}
for i, key in ipairs(KEYS) do
  local quota, burst, increment = ARGV[3 * i - 2], ARGV[3 * i - 1] + 0, ARGV[3 * i] + 0
  local cost, capacity = (ARGV[3 * #KEYS + i] or 1) + 0, burst * increment
  local text, debt = redis.pcall('GET', key), 0
  local is_own = not text and not string.find(quota, '.', 1, true)
  if type(text) == 'string' and string.sub(text, 17) == quota then
    -- Not -inf or nan, which Lua takes for numbers.
    debt = (tonumber(string.sub(text, 1, 16)) or math.huge) - now
    is_own, debt = debt >= -now and debt <= capacity, math.max(debt, 0)
  end
  local reply, written, lasts
  if is_own and cost > 0 and debt + cost * increment <= capacity then
    reply, lasts = debt + cost * increment, debt + cost * increment
    written = string.format('%d', now + reply) .. quota
  elseif is_own then
    reply, lasts = -1 - debt, text and debt
  else
    reply, written, lasts = check_other(text, quota, burst, increment, cost)
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
