-- The short way of a check by several limits, which has a part of each limit in it: what all of them have
-- left by these very quotas is decided here. All else goes the long way, which follows.
local sub, tonumber, max = string.sub, tonumber, math.max
local cost, within = (ARGV[COST] or 1) + 0, -1
local text = call('GET', KEYS[1])
-- Whether each text was left by its limit's quota, and the position before the next one, where there is
-- a separator.
local is_own, from = true, 0
-- How long the cost has to wait, and how long what it leaves counts.
local longest, lasts = 0, 0
--LIMITS
if is_own and (not text or from == #text + 1) then
  if longest == 0 then
    call('SET', KEYS[1], format('TEXTS', WRITTEN), 'PX', format('%d', lasts / 1000 + 2))
    return { CHARGED }
  end
  return { FOUND, longest < math.huge and longest or -1 }
end
