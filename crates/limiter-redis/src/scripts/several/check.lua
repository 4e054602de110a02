-- Checks, reserves or peeks.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quotas; the cost, 1 if there is none, 0 to peek; for a reservation, within how many
--          microseconds
-- Reply    admitted: of each limit the time until it is fresh and the permits that remain; for a
--          reservation, also its delay, `now`, and the mark of each limit
--          else: 0, the wait or -1 for ever, the number of the limit that has it; of each limit, as above
-- Costs    TIME, GET and SET; a refusal or a peek has PTTL in place of SET
local cost, within, text = tonumber(ARGV[2] or 1), tonumber(ARGV[3] or 0), call('GET', KEYS[1])
local limits = limits_of(ARGV[1], text)

-- Takes the cost from each limit that admits it by `latest`. Returns whether all did, when all do, and the
-- number of the limit for which that is the longest wait; and sets `within` to 0 if nothing can be promised.
local function take(latest, at)
  local are_admitted, all_fit, longest = true, at or now, 1
  for n, limit in ipairs(limits) do
    local fits, is_stuck
    fits, limit.written, limit.lasts, limit.remaining, limit.mark, is_stuck, limit.matters =
      takes[limit.family](limit.state, limit.quota, limit.a, limit.b, cost, latest, at, limit.rest)
    if fits >= all_fit then
      all_fit, longest = fits, n
    end
    are_admitted = are_admitted and limit.mark
    if is_stuck then
      within = 0
    end
  end
  return are_admitted, all_fit, longest
end

local is_admitted, fits, longest = take(cost > 0 and now or -1)
local _
if not is_admitted then
  _, fits, longest = take(-1)
  -- The slots of a paced limit may miss that moment.
  if fits > now and fits < math.huge then
    _, fits = take(-1, fits)
  end
  if cost > 0 and fits > now and fits <= now + within then
    is_admitted = take(fits, fits)
  end
end
local texts, lasts, is_written, reply = {}, 0, is_admitted, {}
if not is_admitted then
  reply = { 0, fits < math.huge and fits - now or -1, longest }
end
for n, limit in ipairs(limits) do
  reply[#reply + 1] = limit.lasts
  reply[#reply + 1] = limit.remaining
  local matters = limit.matters or limit.lasts
  texts[n] = limit.written or matters > 0 and limit.state or '-'
  lasts, is_written = math.max(lasts, matters), is_written or limit.written
end
local expiry = format('%.0f', ceil(lasts / 1000) + 1)
if is_written then
  call('SET', KEYS[1], table.concat(texts, ', '), 'PX', expiry)
elseif text and call('PTTL', KEYS[1]) == -1 then
  call('PEXPIRE', KEYS[1], expiry)
end
if is_admitted and ARGV[3] then
  reply[#reply + 1] = fits - now
  reply[#reply + 1] = now
  for _, limit in ipairs(limits) do
    reply[#reply + 1] = limit.mark
  end
end
return reply
