-- Writes fields of a hash, `{ field, text, field, text }`, so that it lasts for so long, in milliseconds, and some more. Returns
-- the error of a command: then it has the texts of before.
local function hash_write(key, words, before, lasts, slack)
  local ttl, created = redis.call('PTTL', key), redis.pcall('HSET', key, unpack(words))
  if type(created) == 'table' then
    return 'HSET: ' .. created.err
  end
  -- include expire
  if type(expires) == 'table' then
    for n = 1, #words / 2 do
      if before[n] then
        redis.call('HSET', key, words[2 * n - 1], before[n])
      else
        redis.call('HDEL', key, words[2 * n - 1])
      end
    end
    return 'PEXPIRE: ' .. expires.err
  end
end
