
-- Gives permits back, also to a limit that is alone at its key.
--
-- KEYS[1]  the key of one subject
-- ARGV     how many limits; of each its quota, two numbers and its kind; the permits, and of how many; when
--          they were charged, and for when; the mark of each limit
-- Reply    how many permits came back: the most that came back to a limit. Before the moment that they were
--          charged for, all of them come back in all limits, or none
-- Costs    TIME and GET; SET if permits came back
local count, text = ARGV[1] + 0, redis.call('GET', KEYS[1])
local rest, from, most, states, lasts = 4 * count + 2, 1, 0, {}, 0
local is_early, is_whole = now < ARGV[rest + 3] + 0, true
-- Charged later than now: the clock has stepped back.
if not text or now < ARGV[rest + 2] + 0 then
  return 0
end
for n = 1, count do
  local i, back, matters, comes_back_whole, state = 4 * n - 2, 0, 0, false, nil
  state, from = next_state(text, from)
  states[n] = '-'
  if state then
    back, states[n], matters, comes_back_whole = refunds[ARGV[i + 3]](state, now, ARGV[i], ARGV[i + 1] + 0, ARGV[i + 2] + 0,
      ARGV[rest] + 0, ARGV[rest + 1] + 0, ARGV[rest + 2] + 0, ARGV[rest + 3] + 0,
      ARGV[rest + 3 + n] + 0, ARGV[i + 3])
  end
  if not back then
    return 0
  end
  most, lasts, is_whole = math.max(most, back), math.max(lasts, matters), is_whole and comes_back_whole
end
if is_early and not is_whole then
  return 0
elseif most > 0 and lasts > 0 then
  redis.call('SET', KEYS[1], table.concat(states, ', '), 'PX', math.ceil(lasts / 1000) + 1)
elseif most > 0 then
  redis.call('DEL', KEYS[1])
end
return most
