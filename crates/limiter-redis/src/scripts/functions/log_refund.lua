-- Gives permits of a charge back to its entry, if no more than 1,000 entries are behind it and it has at least `least`.
-- Returns how many, the number of the entry, and how many of the older entries remain.
local function log_refund(log, limit, charge, least)
  local mark = charge.taken_at + charge.mark
  local n = log_find(log, limit, math.max(log.dropped, 0) + 1, mark, 0, 0)
  local at, count, total = log_entry(log, n)
  if at < mark or at - at % limit.slot ~= mark - mark % limit.slot or count < least then
    return 0
  end
  log_entry(log, n + 1000)
  if log[n + 1001] then
    return 0
  end
  local permits, last = math.min(charge.permits, count), n - 1
  if not log[n + 1] then
    log.count = count - permits
  end
  -- All totals from there on are lower.
  while log[last + 2] do
    last = last + 1
    log[last + 1] = string.format('%d %d %d', at, last == n and count - permits or count, total - permits)
    at, count, total = log_entry(log, last + 1)
  end
  log.total = log.total - permits
  -- Nothing is behind an entry of which all came back.
  while log.count == 0 and last > log.dropped do
    log.at, log.count, log.total = log_entry(log, last)
    log[last + 1], last = nil, last - 1
  end
  return permits, n, last
end
