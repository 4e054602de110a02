-- Writes the newest entry of a log in place of element `place`, which becomes element 0, and pushes the one before it, if
-- any. Returns the error of the command that failed, if any; then what counts is what counted before: `replaced` is the
-- element at `place`, and `before` the first one. Each undo is by LSET, which the user may call if it is reached.
local function log_write(key, place, newest, replaced, before, pushed)
  local reply = redis.pcall('LSET', key, place, newest)
  if reply.err then
    return 'LSET: ' .. reply.err
  end
  if place ~= 0 then
    reply = redis.pcall('LTRIM', key, place, -1)
    if reply.err then
      redis.call('LSET', key, place, replaced)
      return 'LTRIM: ' .. reply.err
    end
  end
  reply = pushed and redis.pcall('RPUSH', key, pushed)
  if type(reply) == 'table' then
    redis.call('LSET', key, 0, before)
    return 'RPUSH: ' .. reply.err
  end
end
