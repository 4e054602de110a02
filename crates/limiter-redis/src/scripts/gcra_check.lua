-- The short way of a check by GCRA, for the quotas whose increment is written in four digits: the
-- most frequent of all. What it finds to be anything but such a state goes the long way, which
-- follows.
--
-- ARGV     price, rest, digits: the cost in ticks, the capacity without it, and the increment as it
--          is written
-- Reply    the debt: positive, with the price in it, if the cost was admitted; negative or zero,
--          without it, if it was refused
do
  local text, rest = call('GET', KEYS[1]), ARGV[2] + 0
  local at, debt = now, 0
  if text then
    at = sub(text, -4) == ARGV[3] and tonumber(sub(text, 1, -5))
    -- What is over may not be a number at all, such as `-nan`.
    at = at and at > now and at
    debt = at and at - now
  end
  if at and debt <= rest + ARGV[1] then
    if debt > rest then
      return -debt
    end
    debt = debt + ARGV[1]
    call('SET', KEYS[1], format('%d%s', now + debt, ARGV[3]), 'PX', format('%d', debt / 1000 + 2))
    return debt
  end
end

local mantissa, exponent, scale = sub(ARGV[3], 1, -2) + 0, sub(ARGV[3], -1) + 0, 1
local increment = mantissa * 10 ^ exponent
local capacity, cost, within = ARGV[1] + ARGV[2], ARGV[1] / increment, -1
