-- Gives a key that has lost its expiry a new one. Returns the error of the command that failed, if any.
local function restore_expiry(key, micros)
  local command, ttl = 'PTTL', redis.pcall('PTTL', key)
  if ttl == -1 then
    command, ttl = 'PEXPIRE', redis.pcall('PEXPIRE', key, math.ceil(micros / 1000) + 1)
  end
  return type(ttl) == 'table' and command .. ': ' .. ttl.err or nil
end
