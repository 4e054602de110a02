-- Gives permits back, also to a limit that is alone at its key.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quotas; the permits, and of how many; when they were charged, and for when; the mark of each limit
-- Reply    how many permits came back: the fewest that came back to a limit
-- Costs    TIME and GET; SET if permits came back
local text = call('GET', KEYS[1])
local fewest, most, texts, lasts = math.huge, 0, {}, 0
for n, limit in ipairs(text and limits_of(ARGV[1], text) or {}) do
  local back, state, matters = 0, '-', 0
  if limit.state then
    back, state, matters = refunds[limit.family](limit.state, limit.quota, limit.a, limit.b, tonumber(ARGV[2]),
      tonumber(ARGV[4]), tonumber(ARGV[5 + n]), limit.rest, tonumber(ARGV[3]), tonumber(ARGV[5]))
  end
  if not back then
    return 0
  end
  fewest, most = math.min(fewest, back), math.max(most, back)
  texts[n], lasts = state, math.max(lasts, matters)
end
if most > 0 and lasts > 0 then
  call('SET', KEYS[1], table.concat(texts, ', '), 'PX', format('%.0f', ceil(lasts / 1000) + 1))
elseif most > 0 then
  call('DEL', KEYS[1])
end
return most > 0 and fewest or 0
