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

-- include clock

-- Checks a state that another quota wrote, or that has decimals, is above the capacity, or can't be read. Returns the
-- reply, the state to write, if any, and for how many microseconds it matters.
local function check_other(text, quota, burst, increment, cost)
  -- include scaled

  -- include gcra

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
