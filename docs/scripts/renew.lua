-- Script  renew: lets permits of requests in flight last longer. A permit that is not there is added again if there is room.
--
-- State   that of the script enter
-- KEYS    the keys, each once
-- ARGV    how long a permit lasts from now, in microseconds; then for each key how many of its permits are renewed, and for
--         each of these its id and its limit
-- Reply   an array of the replies for the permits in their order:
--         1     kept, even if its deadline was over: nobody needed its place
--         2     restored: it was not there, and fewer permits than its limit were held
--         0     lost: it was not there, and there is no room. Nothing is written for it, but permits whose deadlines are
--               over are removed.
--         text  the error of a command, such as for a key of another type
-- Costs   TIME; for each permit ZSCORE, and ZADD unless it is lost; if it was not there also ZCARD, and at its limit
--         ZREMRANGEBYSCORE and ZCARD; for each key with a permit that is not lost PTTL and PEXPIRE
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local expiry, place, replies = ARGV[1] + 0, 2, {}
local deadline, lasts = string.format('%d', now + expiry), math.ceil(expiry / 1000) + 1000
for _, key in ipairs(KEYS) do
  local last, is_renewed = place + 2 * ARGV[place], false
  for n = place + 1, last, 2 do
    local id, limit, reply = ARGV[n], ARGV[n + 1] + 0, 1
    local score = redis.pcall('ZSCORE', key, id)
    if type(score) == 'table' and score.err then
      reply = 'ZSCORE: ' .. score.err
    elseif not score then
      local held = redis.call('ZCARD', key)
      if held >= limit then
        redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
        held = redis.call('ZCARD', key)
      end
      reply = held < limit and 2 or 0
    end
    if reply == 1 or reply == 2 then
      redis.call('ZADD', key, deadline, id)
      is_renewed = true
    end
    replies[#replies + 1] = reply
  end
  if is_renewed and redis.call('PTTL', key) < lasts then
    redis.call('PEXPIRE', key, lasts)
  end
  place = last + 1
end
return replies
