-- Checks several keys, each as if it were alone.
--
-- KEYS     the keys, of which some may be the same
-- ARGV     the quota; then a cost for each key
-- Reply    for each key its own reply, or the text of the error that its value caused. Any other error
--          before the first admission is the error of the call
local numbers, replies, has_admitted = #ARGV - #KEYS, {}, false
local arguments = { unpack(ARGV, 1, numbers) }
for i, key in ipairs(KEYS) do
  arguments[numbers + 1] = ARGV[numbers + i]
  local is_done, reply = pcall(check, { key }, arguments)
  if is_done then
    has_admitted = has_admitted or (type(reply) == 'table' and reply[1] or reply) > 0
  else
    -- Redis 6.2 puts the line of the script in front.
    reply = string.gsub(type(reply) == 'table' and reply.err or reply, '^@user_script: %d+: %-?', '')
    local word = string.match(reply, '^%u+')
    if word and word ~= 'ERR' and word ~= 'WRONGTYPE' and not has_admitted then
      return { err = reply }
    end
  end
  replies[i] = reply
end
return replies
