-- GCRA with a remainder in the short way of a check by several limits. See parts/several_check.lua; N is
-- the number of the limit.
--
-- ARGV     the quota, as in gcra.lua
-- Reply    the debt
local debt_N = 0
if text then
  is_own = is_own and own_N == increment_N and ticks_N == scale_N and at_N < 0 and at_N % 1 == 0
  if is_own and -at_N >= now then
    debt_N = (-at_N - now) * scale_N + found_N
    is_own = debt_N <= capacity_N
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
