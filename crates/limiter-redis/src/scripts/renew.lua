-- Script  renew: lets permits of requests in flight last longer. A permit that is not there is added again if there is room.
--
-- State   that of the script enter
-- KEYS    the keys, each once
-- ARGV    how long a permit lasts from now, in microseconds; then for each key how many of its permits are renewed, their
--         ids, and their limits
-- Reply   an array of the replies for the permits in their order:
--         1     kept, even if its deadline was over: nobody needed its place
--         2     restored: it was not there, and fewer permits than its limit were held
--         0     lost: it was not there, and there is no room. Nothing is written for it, but permits whose deadlines are
--               over are removed.
--         text  the error of a command, such as for a key of another type
-- Costs   TIME; for each key ZMSCORE, and if some are there PTTL, PEXPIRE and ZADD; for each permit that is not there ZCARD,
--         at its limit ZREMRANGEBYSCORE and ZCARD, and if it is restored ZADD, and for the first of a key PTTL and PEXPIRE
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local expiry, place, replies = ARGV[1] + 0, 2, {}
local deadline, lasts = string.format('%d', now + expiry), math.ceil(expiry / 1000) + 1000
for _, key in ipairs(KEYS) do
  local count, kept, expires_later = ARGV[place] + 0, {}, false
  local scores = redis.pcall('ZMSCORE', key, unpack(ARGV, place + 1, place + count))
  local first = #replies
  for n = 1, count do
    if scores[n] then
      kept[#kept + 1] = deadline
      kept[#kept + 1] = ARGV[place + n]
    end
    replies[first + n] = scores.err and 'ZMSCORE: ' .. scores.err or scores[n] and 1 or 0
  end
  -- First, so that none of them is removed for one that is not there. And PEXPIRE before ZADD, because a full memory refuses
  -- a script's first write alone, if that may need memory, and members that are there need none.
  if #kept > 0 then
    redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), lasts))
    redis.call('ZADD', key, unpack(kept))
  end
  for n = 1, count do
    if replies[first + n] == 0 then
      local held, limit = redis.call('ZCARD', key), ARGV[place + count + n] + 0
      if held >= limit then
        redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
        held = redis.call('ZCARD', key)
      end
      if held < limit then
        expires_later = expires_later or redis.call('PTTL', key) >= lasts
        local added = redis.pcall('ZADD', key, deadline, ARGV[place + n])
        local expires = not expires_later and redis.pcall('PEXPIRE', key, lasts)
        if type(added) == 'table' then
          replies[first + n] = 'ZADD: ' .. added.err
        elseif type(expires) == 'table' then
          -- No key stays without an expiry.
          redis.call('ZREM', key, ARGV[place + n])
          replies[first + n] = 'PEXPIRE: ' .. expires.err
        else
          replies[first + n], expires_later = 2, true
        end
      end
    end
  end
  place = place + 2 * count + 1
end
return replies
