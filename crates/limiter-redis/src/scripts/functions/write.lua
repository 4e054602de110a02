local ttl, created = redis.call('PTTL', key), redis.pcall('HSET', key, field, value)
if type(created) == 'table' then
  failed = 'HSET: ' .. created.err
elseif ttl < lasts or created > 0 then
  -- include expire
  if type(expires) == 'table' then
    failed = 'PEXPIRE: ' .. expires.err
    if text then
      redis.call('HSET', key, field, text)
    else
      redis.call('HDEL', key, field)
    end
  end
end
