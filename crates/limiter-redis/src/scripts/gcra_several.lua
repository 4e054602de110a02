-- GCRA in the short way of a check by several limits, where its texts end with the increment in four
-- digits. See parts/several_check.lua; N is the number of the limit, and A of its first argument.
--
-- ARGV     the burst, and behind it the increment in four digits
-- Reply    the debt
local quota_N, digits_N = ARGV[A] + 0, sub(ARGV[A], -4)
local ending_N, exponent_N, scale_N = quota_N % 10000, quota_N % 10, 1
local mantissa_N = (ending_N - exponent_N) / 10
local increment_N = mantissa_N * 10 ^ exponent_N
local capacity_N = (quota_N - ending_N) / 10000 * increment_N
local debt_N = 0
if text then
  -- Before 15 digits there is the separator, or what is no number; with fewer, it is no time.
  local at = tonumber(sub(text, from, from + 15)) or 0
  debt_N = at > now and at - now or 0
  is_own = is_own and at >= 10 ^ 14 and debt_N <= capacity_N and sub(text, from + 16, from + 19) == digits_N
  from = from + 20
end
local charged_N = debt_N + cost * increment_N
if charged_N > capacity_N then
  longest = max(longest, cost * increment_N > capacity_N and math.huge or charged_N - capacity_N)
elseif charged_N > lasts then
  lasts = charged_N
end
