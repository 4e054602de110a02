-- The sliding counter in the short way of a check by several limits. See parts/several_check.lua; N is
-- the number of the limit, and A of its first argument.
--
-- ARGV     the quota, as in sliding_counter.lua
-- Reply    the time until the end, current, previous
local limit_N, window_N = ARGV[A] + 0, ARGV[A + 1] + 0
local left_N, current_N, previous_N = 2 * window_N, 0, 0
if text then
  local ends, current, previous, length, behind = match(text, '^ ?(%d+):(%d+):(%d+):(%d+)()', from)
  is_own = is_own and length == ARGV[A + 1] and ends - now <= 2 * window_N
    and current + 0 <= limit_N and previous + 0 <= limit_N
  if is_own then
    from, left_N, current_N, previous_N = behind, ends - now, current + 0, previous + 0
  end
  if left_N <= 0 then
    current_N, previous_N = 0, 0
  elseif left_N <= window_N then
    left_N, current_N, previous_N = left_N + window_N, 0, current_N
  end
  -- With nothing in it, the window begins anew.
  if current_N + previous_N == 0 then
    left_N = 2 * window_N
  end
end
do
  -- How many of a window's permits have to fade to how many, and how long after the present one began:
  -- see `fades_to`.
  local count, room, waits = previous_N, limit_N - cost - current_N, left_N - 2 * window_N
  if room < 0 then
    count, room, waits = current_N, limit_N - cost, left_N - window_N
  end
  if room < 0 then
    waits = math.huge
  elseif count > room then
    local rest = window_N % count
    waits = waits + window_N - room * ((window_N - rest) / count) - math.floor(room * rest / count)
  end
  if waits > 0 then
    longest = max(longest, waits)
  else
    lasts = max(lasts, left_N)
  end
end
