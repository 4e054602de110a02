-- Script  log: checks subjects by sliding logs or sub-windows. Each is decided on its own.
--
-- State   a list of the subject: a log, see below
-- KEYS    the lists; one may occur twice
-- ARGV    loose or strict. Then for each key the permits, the length of a slot, how far ahead the newest permits can be, the
--         span for which they count, and the cost.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { 1, reset, left }        admitted; the time until the limit is fresh, and the permits left
--         { 0, reset, left, wait }  refused; the wait is -1 if the cost never fits
--         text                      the error of a command, such as that of a full memory; nothing is charged, unless
--                                   PEXPIRE is denied in a list that is there
-- Costs   TIME; for each key LRANGE, and again for each 64 entries that are read; if admitted, damaged or with more than 64
--         entries that are past LSET or RPUSH, RPUSH in a new slot, LTRIM, PTTL, and PEXPIRE unless the list lasts as long
-- include clock

-- include log

local replies = {}
for i, key in ipairs(KEYS) do
  local permits, slot, ahead, span, cost = unpack(ARGV, 5 * i - 3, 5 * i + 1)
  local limit = { kind = ARGV[1], key = key, permits = permits + 0, number = slot + 0, ahead = ahead + 0, span = span + 0 }
  local failed = log_read(limit)
  local fits = failed and now or log_fits(limit, cost + 0, now)
  if not failed and fits == now then
    log_charge(limit, cost + 0, now)
  end
  if not failed and (fits == now or limit.is_damaged or limit.past > 64) then
    -- A refusal needs no repair, and what is past may stay.
    local refused = log_write(limit)
    failed = fits == now and refused or nil
  end
  local reset, left = log_usage(limit)
  local is_admitted = fits == now
  replies[i] = failed or is_admitted and { 1, reset, left } or { 0, reset, left, fits < math.huge and fits - now or -1 }
end
if #KEYS == 1 then
  return replies[1]
end
return replies
