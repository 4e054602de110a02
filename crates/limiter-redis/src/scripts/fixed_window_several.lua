-- The fixed window in the short way of a check by several limits. See parts/several_check.lua; N is the
-- number of the limit, and A of its first argument.
--
-- ARGV     the quota, as in fixed_window.lua
-- Reply    the time until the end, the count
local limit_N, window_N, offset_N = ARGV[A] + 0, ARGV[A + 1] + 0, ARGV[A + 2] + 0
local left_N, count_N = 0, 0
if text then
  local ends, count = tonumber(sub(text, from, from + 15)), tonumber(sub(text, from + 16, from + 18))
  if ends and count then
    from = from + 19
  else
    local behind
    ends, count, behind = match(text, '^ ?(%d+):(%d+)()', from)
    from = behind or from
  end
  is_own = is_own and ends and ends + 0 >= 10 ^ 14 and ends - now <= window_N and count + 0 >= 0 and count + 0 <= limit_N
  if is_own and ends - now > 0 then
    left_N, count_N = ends - now, count + 0
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
