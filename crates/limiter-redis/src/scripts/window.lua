-- Script  window: checks subjects by fixed windows, aligned windows or sliding counters. Each is decided on its own.
--
-- State   a field of the subject's hash: windows, see below
-- KEYS    the hashes; one may occur twice
-- ARGV    fixed, aligned or counter. Then for each key the field, the permits, the length, how far ahead a window can end,
--         and the cost.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { 1, reset, left }        admitted; the time until the limit is fresh, and the permits left
--         { 0, reset, left, wait }  refused; the wait is -1 if the cost never fits
--         text                      the error of a command, such as that of a full memory; nothing is charged
-- Costs   those of the script gcra
-- include clock

-- include scaled

-- include window

local kind, replies = ARGV[1], {}
for i = 1, #KEYS do
  local key, field, permits, length = KEYS[i], ARGV[5 * i - 3], ARGV[5 * i - 2] + 0, ARGV[5 * i - 1] + 0
  local text, cost, failed = redis.pcall('HGET', key, field), ARGV[5 * i + 1] + 0, nil
  if type(text) == 'table' then
    failed, text = 'HGET: ' .. text.err, nil
  end
  local ends, count, before, older, is_damaged = window_read(kind, permits, length, ARGV[5 * i] + 0, text)
  local reset, left, present, taken, fading = window_usage(kind, permits, length, ends, count, before)
  local is_admitted = cost <= left and not failed
  if is_admitted or is_damaged then
    if is_admitted then
      left, taken, older = left - cost, taken + cost, present == ends and older or ''
      reset = present - now + (kind == 'counter' and length or 0)
    end
    local value, lasts, slack = window_text(kind, length, present, taken, fading) .. older, reset / 1000 + 2, length / 1000
    -- include write
    -- A refusal needs no repair: the state is full all the same.
    failed = is_admitted and failed or nil
  end
  if failed or is_admitted then
    replies[i] = failed or { 1, reset, left }
  else
    local fits = window_fits(kind, permits, length, cost, now, ends, count, before)
    replies[i] = { 0, reset, left, fits < math.huge and fits - now or -1 }
  end
end
if #KEYS == 1 then
  return replies[1]
end
return replies
