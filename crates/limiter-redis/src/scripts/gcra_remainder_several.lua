-- GCRA with a remainder in the short way of a check by several limits. See parts/several_check.lua; N is
-- the number of the limit, and A of its first argument.
--
-- ARGV     the quota, as in gcra.lua
-- Reply    the debt
local increment_N, capacity_N, scale_N = ARGV[A] + 0, ARGV[A + 1] + 0, ARGV[A + 2] + 0
local mantissa_N, exponent_N = ARGV[A + 3] + 0, ARGV[A + 4] + 0
local debt_N = 0
if text then
  local at, rem, digits, zeros, ticks, behind = match(text, '^ ?(%d+):(%d+):(%d+)e(%d):(%d+)()', from)
  is_own = is_own and digits == ARGV[A + 3] and zeros == ARGV[A + 4] and ticks == ARGV[A + 2]
  if is_own then
    debt_N = at - now >= 0 and (at - now) * scale_N + rem or 0
    is_own, from = debt_N <= capacity_N, behind
  end
end
local charged_N = debt_N + cost * increment_N
local rem_N = charged_N % scale_N
local drains_in_N = (charged_N - rem_N) / scale_N
if charged_N > capacity_N then
  longest = max(longest, cost * increment_N > capacity_N and math.huge or math.ceil((charged_N - capacity_N) / scale_N))
else
  lasts = max(lasts, drains_in_N + 1)
end
