-- Script  gcra: checks subjects by GCRA. Each is decided on its own.
--
-- State   a field of the subject's hash: the theoretical arrival time (TAT), at which the debt is paid off, in microseconds of
--         Unix time, with four decimals if a permit does not add a whole number of them. No field: no debt.
-- KEYS    the hashes; one may occur twice
-- ARGV    how many ticks a microsecond has: 1 or 10000. Then for each key the field; and in ticks what the cost adds to the
--         debt, the debt of a whole burst, and the largest that the quota can leave.
-- Reply   an array of the replies for the keys, or for one key its reply: the debt in ticks after the charge if admitted;
--         -1 - debt if refused; a text, the error of a command, such as that of a full memory: nothing is charged
-- Costs   TIME; for each key HGET; if admitted or damaged PTTL, HSET, and PEXPIRE unless the hash lasts as long; HGETALL, and
--         HDEL of what is past, if the hash had other fields only, or no expiry
-- include clock
local scale, replies = ARGV[1] + 0, {}
for i = 1, #KEYS do
  local key, field, price, capacity = KEYS[i], ARGV[4 * i - 2], ARGV[4 * i - 1] + 0, ARGV[4 * i] + 0
  local text, debt, failed = redis.pcall('HGET', key, field), 0, nil
  if type(text) == 'table' then
    failed = 'HGET: ' .. text.err
  elseif text then
    local tat, part = #text == 16 and not string.find(text, '%D') and text, 0
    if not tat and #text == 21 then
      tat, part = string.match(text, '^(%d+)%.(%d%d%d%d)$')
    end
    debt = tat and math.max((tat - now) * scale + math.ceil(part * scale / 10000), 0) or math.huge
  end
  local after, is_damaged = debt + price, debt > capacity and debt > ARGV[4 * i + 1] * 513 / 512 + 10 * scale
  if is_damaged then
    -- A whole burst is in use.
    debt, after = capacity, capacity
  end
  local is_admitted = after <= capacity and not is_damaged and not failed
  if is_admitted or is_damaged then
    local value, lasts, slack = now + after, after / scale / 1000 + 2, capacity / scale / 1000
    if scale > 1 then
      value = string.format('%d.%04d', now + math.floor(after / scale), after % scale)
    end
    -- include write
    -- A refusal needs no repair: the state is full all the same.
    failed = is_admitted and failed or nil
  end
  replies[i] = failed or is_admitted and after or -1 - debt
end
if #KEYS == 1 then
  return replies[1]
end
return replies
