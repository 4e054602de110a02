-- GCRA for one key. Its twin is gcra.rs, which does the same in the same words.
--
-- KEYS[1]  the key's theoretical arrival time in microseconds: `at`, or `at:rem` with a remainder
--          in ticks; absent means fresh
-- ARGV     price, capacity, scale: the cost and the burst in ticks, and the ticks of a microsecond
-- Reply    the debt in ticks: positive, with the price in it, if the cost was admitted;
--          negative or zero, without it, if it was refused
-- Cost     TIME and one read; one write if it admits

-- `+ 0` makes a number of digits, without a call.
local price, capacity, scale = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local call, format = redis.call, string.format

-- Advance. A state that this policy can't have written (the clock stepped back, the quota was
-- larger, the value is corrupt) counts as the largest debt there is, and is written as such: if it
-- stayed, it would hold the key until the clock has caught up with it.
local debt, impossible = 0, false
local state = call('GET', KEYS[1])
if state then
  local at, rem = string.match(state, '^(%d+):?(%d*)$')
  at, rem = at and at + 0 or math.huge, rem and rem ~= '' and rem + 0 or 0
  if rem >= scale then
    at, rem = at + 1, 0
  end
  if at >= now then
    debt = (at - now) * scale + rem
  end
  if debt > capacity then
    debt, impossible = capacity, true
  end
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
  local value = format('%.0f', now + drain)
  if rem > 0 then
    value = format('%s:%.0f', value, rem)
  end
  call('SET', KEYS[1], value, 'PX', format('%.0f', math.floor(drain / 1000) + 2))
end
return admitted and debt or -debt
