-- GCRA whose tick is a microsecond in the short way of a check by several limits. See
-- parts/several_check.lua; N is the number of the limit.
--
-- ARGV     the quota, as in gcra.lua
-- Reply    the debt
local debt_N = 0
if text then
  is_own = is_own and own_N == increment_N and at_N >= 0 and at_N - now <= capacity_N and at_N % 1 == 0
  debt_N = at_N > now and at_N - now or 0
end
local charged_N = debt_N + cost * increment_N
if charged_N > capacity_N then
  longest = max(longest, cost * increment_N > capacity_N and math.huge or charged_N - capacity_N)
elseif charged_N > lasts then
  lasts = charged_N
end
