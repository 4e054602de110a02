-- Decides about several keys, one after the other, each as if it were alone.
--
-- KEYS     the states, of which some may be the same
-- ARGV     the quotas, then the costs, or no costs if all are one permit
-- Reply    for each key its own reply, or as a text the error that its value is the cause of. Any other
--          error is that of the whole call, unless something was admitted before it
local replies, has_admitted = {}, false
for i, key in ipairs(KEYS) do
  local is_decided, reply = pcall(decide, { key }, ARGV[1 + i])
  if is_decided then
    has_admitted = has_admitted or (type(reply) == 'table' and reply[1] or reply) > 0
  else
    -- Redis 6.2 says at which line a command was refused.
    reply = string.gsub(type(reply) == 'table' and reply.err or reply, '^@user_script: %d+: %-?', '')
    local word = string.match(reply, '^%u+')
    if word and word ~= 'ERR' and word ~= 'WRONGTYPE' and not has_admitted then
      return { err = reply }
    end
  end
  replies[i] = reply
end
return replies
