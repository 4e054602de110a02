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
  local text, debt = call('GET', KEYS[1]), 0
  if text then
    -- What is over, is not a number, or is one in another form, goes the long way.
    local at = #text == 19 and text:sub(-4) == ARGV[3] and tonumber(text:sub(1, 15))
    debt = at and at - now or -1
  end
  if debt >= 0 then
    local charged = debt + cost * increment
    if charged <= capacity then
      call('SET', KEYS[1], format('%d%s', now + charged, ARGV[3]), 'PX', format('%d', charged / 1000 + 2))
      return charged
    end
    if debt <= capacity then
      return -debt
    end
  end
end

local scale, exponent = 1, ARGV[3] % 10
local mantissa = (ARGV[3] - exponent) / 10
