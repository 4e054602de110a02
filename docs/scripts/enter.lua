-- Script  enter: takes permits of requests in flight, or only asks how many are held.
--
-- State   a sorted set: the ids of the permits, each by its deadline in microseconds of Unix time. A permit whose deadline
--         is over counts until its place is needed. No key: no permits.
-- KEYS    the keys, one for each permit
-- ARGV    how long a permit lasts without renewal, in microseconds; then for each key the limit, and the permit's id, which
--         is new, or '' to take none
-- Reply   for one key its reply, for several an array of theirs:
--         { 1, held }  admitted; how many permits are held, this one included, unless none is taken
--         { 0, held }  refused. Nothing is written, but permits whose deadlines are over are removed.
--         text         the error of a command, or of the key
-- Costs   TIME; for each key ZCARD; at the limit ZCOUNT, and if deadlines are over ZREMRANGEBYSCORE and ZCARD; if admitted PTTL,
--         ZADD and PEXPIRE; if refused ZCOUNT
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local expiry, replies = ARGV[1] + 0, {}
-- A second longer than the permit, and never shorter than another process set it.
local lasts = math.ceil(expiry / 1000) + 1000
for i, key in ipairs(KEYS) do
  local limit, id, reply = ARGV[2 * i] + 0, ARGV[2 * i + 1], nil
  local held = redis.pcall('ZCARD', key)
  if type(held) == 'table' then
    reply = 'ZCARD: ' .. held.err
  elseif held >= limit then
    -- Only if some are over: a full memory refuses a script's first write alone, and a removal is one that it does not refuse.
    if redis.call('ZCOUNT', key, '-inf', string.format('%d', now)) > 0 then
      redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
      held = redis.call('ZCARD', key)
    end
  end
  if reply then
    -- Another key may be right.
  elseif held >= limit then
    reply = { 0, held }
    -- A member that no permit can be would refuse for ever.
    if redis.call('ZCOUNT', key, string.format('(%d', now + 86400000000), '+inf') > 0 then
      reply = 'ZCOUNT: ERR a member of the set is not a permit, because its deadline is more than a day ahead: delete the key'
    end
  elseif id == '' then
    reply = { 1, held }
  else
    local expires_later = redis.call('PTTL', key) >= lasts
    local added = redis.pcall('ZADD', key, string.format('%d', now + expiry), id)
    local expires = not expires_later and redis.pcall('PEXPIRE', key, lasts)
    if type(added) == 'table' then
      reply = 'ZADD: ' .. added.err
    elseif type(expires) == 'table' then
      -- No key stays without an expiry.
      redis.call('ZREM', key, id)
      reply = 'PEXPIRE: ' .. expires.err
    else
      reply = { 1, held + 1 }
    end
  end
  replies[i] = reply
end
return #KEYS == 1 and replies[1] or replies
