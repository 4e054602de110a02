-- Script  gcra: checks keys by GCRA. Each key is decided on its own.
--
-- State   `TAT increment reach`, in microseconds: the Unix time at which the debt is paid off, the debt that a permit
--         adds, and the largest debt that the quota can leave. If the increment is not a whole number, all three have
--         four decimals, and a tick is a ten-thousandth of a microsecond; else a tick is a microsecond. No key: no debt.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key: the quota as the state has it, ` increment reach`; the burst in permits; the increment in ticks.
--         Then for each key the cost, unless all are 1.
-- Reply   an array of the replies for the keys, or for one key its reply: the debt in ticks after the charge if admitted;
--         -1 - debt if refused; false if the script policy has to decide, because the state is not one that this quota
--         leaves up to its capacity; a text, the error of SET, such as that of a full memory. With the last two nothing
--         is charged.
-- Costs   TIME; for each key GET, and SET if admitted
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local replies = {}
for i, key in ipairs(KEYS) do
  local quota, burst, increment = ARGV[3 * i - 2], ARGV[3 * i - 1] + 0, ARGV[3 * i] + 0
  local price, capacity = increment * (ARGV[3 * #KEYS + i] or 1), increment * burst
  local scale = string.find(quota, '.', 1, true) and 10000 or 1
  local text, debt, reply = redis.pcall('GET', key), 0, false
  if text and type(text) == 'string' then
    local tat, decimals = string.match(text, scale == 1 and '^(%d+) ' or '^(%d+)%.(%d%d%d%d) ')
    local is_own = tat and #tat == 16 and string.sub(text, scale == 1 and 17 or 22) == quota
    debt = is_own and math.max((tat - now) * scale + (decimals or 0), 0) or math.huge
  elseif text then
    debt = math.huge
  end
  if debt + price <= capacity then
    debt = debt + price
    local tat = string.format('%d', now + math.floor(debt / scale))
    local decimals = scale > 1 and string.format('.%04d', debt % scale) or ''
    local set = redis.pcall('SET', key, tat .. decimals .. quota, 'PX', math.ceil(debt / scale / 1000) + 1)
    reply = set.err and 'SET: ' .. set.err or debt
  elseif debt <= capacity then
    reply = -1 - debt
  end
  replies[i] = reply
end
if #KEYS == 1 then
  return replies[1]
end
return replies
