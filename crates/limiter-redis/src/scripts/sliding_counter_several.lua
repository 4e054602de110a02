-- The sliding counter in the short way of a check by several limits. See parts/several_check.lua; N is
-- the number of the limit.
--
-- ARGV     the quota, as in sliding_counter.lua
-- Reply    the time until the end, current, previous
local left_N, current_N, previous_N = 2 * window_N, 0, 0
if text then
  is_own = is_own and own_N == window_N and ends_N >= 0 and ends_N - now <= 2 * window_N
    and newer_N >= 0 and newer_N <= limit_N and older_N >= 0 and older_N <= limit_N
    and ends_N % 1 == 0 and newer_N % 1 == 0 and older_N % 1 == 0
  if is_own then
    left_N, current_N, previous_N = ends_N - now, newer_N, older_N
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
