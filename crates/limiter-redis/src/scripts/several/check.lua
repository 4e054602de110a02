
-- Checks, reserves or peeks at several limits, all or nothing. Their states are joined by `, `; `-` is a fresh one.
--
-- KEYS[1]  the key of one subject
-- ARGV     how many limits; of each its quota, two numbers and its kind; the cost, 0 to peek, 1 by default;
--          for a reservation, within how many microseconds
-- Reply    admitted: of each limit the time until it is fresh and the permits that remain; for a
--          reservation, also its delay, `now`, and the mark of each limit
--          else: 0, the wait or -1 for ever, the number of the limit that has it; of each limit, as above
-- Costs    TIME, GET and SET; a refusal or a peek has PTTL in place of SET
local count, text = ARGV[1] + 0, redis.call('GET', KEYS[1])
local cost, within = (ARGV[4 * count + 2] or 1) + 0, ARGV[4 * count + 3]
local promised, usages, states, marks, lasts, is_repaired = (within or 0) + 0, {}, {}, {}, 0, false

-- Takes the cost from each limit that admits it by `latest`. Returns whether all did, when all do, and the
-- number of the limit for which that is the longest wait.
local function take(latest, at)
  local are_admitted, all_fit, longest, from = true, at or now, 1, 1
  lasts = 0
  for n = 1, count do
    local i, kind, state = 4 * n - 2, ARGV[4 * n + 1], nil
    if text then
      state, from = next_state(text, from)
    end
    local fits, written, reset, remaining, mark, is_stuck, matters =
      takes[kind](state, now, ARGV[i], ARGV[i + 1] + 0, ARGV[i + 2] + 0, cost, latest, at, kind)
    if fits >= all_fit then
      all_fit, longest = fits, n
    end
    matters = matters or reset
    lasts = math.max(lasts, matters)
    usages[2 * n - 1], usages[2 * n], marks[n] = reset, remaining, mark
    states[n] = written or matters > 0 and state or '-'
    are_admitted, is_repaired = are_admitted and mark, is_repaired or written and not mark
    promised = is_stuck and 0 or promised
  end
  return are_admitted, all_fit, longest
end

local is_admitted, fits, longest, _ = take(cost > 0 and now or -1)
if not is_admitted then
  _, fits, longest = take(-1)
  -- The slots of a paced limit may miss that moment.
  if fits > now and fits < math.huge then
    _, fits = take(-1, fits)
  end
  if cost > 0 and fits > now and fits <= now + promised then
    is_admitted = take(fits, fits)
  end
end
if is_admitted or is_repaired then
  redis.call('SET', KEYS[1], table.concat(states, ', '), 'PX', math.ceil(lasts / 1000) + 1)
elseif text and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], math.ceil(lasts / 1000) + 1)
end
if not is_admitted then
  return { 0, fits < math.huge and fits - now or -1, longest, unpack(usages) }
end
if within then
  for n, number in ipairs({ fits - now, now, unpack(marks) }) do
    usages[2 * count + n] = number
  end
end
return usages
