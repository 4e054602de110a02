-- GCRA for one key. Its twin is gcra.rs, which does the same in the same words.
--
-- KEYS[1]  the key's theoretical arrival time in microseconds: `at`, or `at:rem` with a remainder
--          in ticks; absent means fresh
-- ARGV     price, capacity, scale: the cost and the burst in ticks, and the ticks of a microsecond
-- Reply    the debt in ticks: positive, with the price in it, if the cost was admitted;
--          negative or zero, without it, if it was refused
-- Cost     TIME and one read; one write if it admits

local price, capacity, scale = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

-- Advance. A state that this policy can't have written (the clock stepped back, the quota was
-- larger, the value is corrupt) counts as the largest debt there is, and is written as such: if it
-- stayed, it would hold the key until the clock has caught up with it.
local debt, impossible = 0, false
local state = redis.call('GET', KEYS[1])
if state then
  local at, rem = string.match(state, '^(%d+):?(%d*)$')
  at, rem = at and tonumber(at) or math.huge, rem and tonumber(rem) or 0
  if rem >= scale then
    at, rem = at + 1, 0
  end
  debt = math.max((at - now) * scale + rem, 0)
  impossible = debt > capacity
  debt = math.min(debt, capacity)
end

-- Decide.
local admitted = debt + price <= capacity

-- Commit. The key lives until its debt is drained and at least a millisecond more, since the
-- server counts its expiry in milliseconds from the start of this one.
if admitted then
  debt = debt + price
end
if admitted or impossible then
  local rem = debt % scale
  local drain = (debt - rem) / scale
  local value = string.format('%.0f', now + drain)
  if rem > 0 then
    value = string.format('%s:%.0f', value, rem)
  end
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', math.floor(drain / 1000) + 2))
end
return admitted and debt or -debt
