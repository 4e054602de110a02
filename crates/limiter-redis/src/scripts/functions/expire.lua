if ttl == -1 or ttl >= 0 and created > 0 then
  -- The hash had other fields only, or no expiry: what is past goes, and nothing is forgotten early.
  local all = redis.pcall('HGETALL', key)
  for n = 1, #all, 2 do
    local past = string.match(all[n + 1], '^%d+')
    if past and #past == 16 and past + 0 < now then
      redis.pcall('HDEL', key, all[n])
    elseif past and #past == 16 then
      lasts = math.max(lasts, (past - now) / 1000 + 2)
    end
  end
end
local expires = ttl < lasts and redis.pcall('PEXPIRE', key, math.ceil(lasts + slack))
