-- The short way of a check by GCRA whose tick is a microsecond, and whose increment takes four digits:
-- the most frequent of all, so it is given few arguments. Anything but a state that this very quota has
-- left goes the long way, which follows.
--
-- ARGV     increment, capacity, digits: as in gcra.lua, and the increment as a text ends with it; then
--          the cost, or nothing for one permit
-- Reply    the debt, as of the long way
local increment, capacity = ARGV[1] + 0, ARGV[2] + 0
local cost, within = (ARGV[4] or 1) + 0, -1
do
  local text, at, digits = call('GET', KEYS[1]), now, ARGV[3]
  if text then
    at, digits = match(text, '^(%d+)(%d%d%d%d)$')
  end
  if digits == ARGV[3] then
    local debt = at - now
    if debt < 0 then
      debt = 0
    end
    local charged = debt + cost * increment
    if charged <= capacity then
      call('SET', KEYS[1], format('%d%s', now + charged, digits), 'PX', format('%d', charged / 1000 + 2))
      return charged
    end
    if debt <= capacity then
      return -debt
    end
  end
end

local scale, exponent = 1, ARGV[3] % 10
local mantissa = (ARGV[3] - exponent) / 10
