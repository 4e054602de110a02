
-- Gives permits back, also to a limit that is alone at its key.
--
-- KEYS[1]  the key of one subject
-- ARGV     how many limits; of each its quota, two numbers and its kind; the permits, and of how many; when
--          they were charged, and for when; the mark of each limit
-- Reply    how many permits came back: the fewest that came back to a limit
-- Costs    TIME and GET; SET if permits came back
local count, text = ARGV[1] + 0, redis.call('GET', KEYS[1])
if not text then
  return 0
end
local rest, from, fewest, most, states, lasts = 4 * count + 2, 1, math.huge, 0, {}, 0
for n = 1, count do
  local i, back, matters, state = 4 * n - 2, 0, 0, nil
  state, from = next_state(text, from)
  states[n] = '-'
  if state then
    back, states[n], matters = refunds[ARGV[i + 3]](state, now, ARGV[i], ARGV[i + 1] + 0, ARGV[i + 2] + 0,
      ARGV[rest] + 0, ARGV[rest + 1] + 0, ARGV[rest + 2] + 0, ARGV[rest + 3] + 0,
      ARGV[rest + 3 + n] + 0, ARGV[i + 3])
  end
  if not back then
    return 0
  end
  fewest, most, lasts = math.min(fewest, back), math.max(most, back), math.max(lasts, matters)
end
if most > 0 and lasts > 0 then
  redis.call('SET', KEYS[1], table.concat(states, ', '), 'PX', math.ceil(lasts / 1000) + 1)
elseif most > 0 then
  redis.call('DEL', KEYS[1])
end
return most > 0 and fewest or 0
