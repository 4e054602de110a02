-- Tries the commands of limiters' scripts on keys of its own.
--
-- KEYS    a hash and a list
-- Reply   the error of the first command that fails, or OK
local hash, list = KEYS[1], KEYS[2]
for _, command in ipairs({
  { 'TIME' }, { 'HSET', hash, 'field', '1' }, { 'PEXPIRE', hash, '1000' }, { 'PTTL', hash }, { 'HGET', hash, 'field' },
  { 'HMGET', hash, 'field' }, { 'HGETALL', hash }, { 'HDEL', hash, 'field' }, { 'RPUSH', list, '1' }, { 'LSET', list, '0', '2' },
  { 'LLEN', list }, { 'LINDEX', list, '0' }, { 'LRANGE', list, '0', '-1' }, { 'LREM', list, '1', '3' },
  { 'LTRIM', list, '1', '0' }, { 'UNLINK', hash, list },
}) do
  local reply = redis.pcall(unpack(command))
  if type(reply) == 'table' and reply.err then
    return command[1] .. ': ' .. reply.err
  end
end
return 'OK'
