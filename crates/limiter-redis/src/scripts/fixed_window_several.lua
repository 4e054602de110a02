-- The fixed window in the short way of a check by several limits. See parts/several_check.lua; N is the
-- number of the limit.
--
-- ARGV     the quota, as in fixed_window.lua
-- Reply    the time until the end, the count
local left_N, count_N = 0, 0
if text then
  is_own = is_own and ends_N >= 0 and ends_N - now <= window_N and taken_N >= 0 and taken_N <= limit_N
    and ends_N % 1 == 0 and taken_N % 1 == 0
  if ends_N - now > 0 then
    left_N, count_N = ends_N - now, taken_N
  end
end
local lasts_N = left_N
if left_N == 0 then
  lasts_N = offset_N < 0 and window_N or window_N - (now + offset_N) % window_N
end
if count_N > limit_N - cost then
  longest = max(longest, cost > limit_N and math.huge or left_N)
else
  lasts = max(lasts, lasts_N)
end
