-- Gives permits of a charge back to its entry, if no more than 1,000 entries are behind it and it has at least `least`.
-- Returns how many, and the number of the entry.
local function log_refund(log, limit, charge, least)
  local mark = charge.taken_at + charge.mark
  local entry, n = log_find(log, math.max(log.dropped, 0) + 1, function(entry) return entry.at >= mark end)
  if entry.at < mark or entry.at - entry.at % limit.slot ~= mark - mark % limit.slot or entry.count < least
    or log.length >= n + 1000 then
    return 0
  end
  local permits = math.min(charge.permits, entry.count)
  entry.count = entry.count - permits
  -- All totals from there on are lower.
  for later = n, log.length do
    log_entry(log, later).total = log_entry(log, later).total - permits
  end
  log.total = log.total - permits
  -- Nothing is behind an entry of which all came back.
  while log.count == 0 and log.length > log.dropped do
    local entry = log_entry(log, log.length)
    log.at, log.count, log.total, log.length = entry.at, entry.count, entry.total, log.length - 1
  end
  return permits, n
end
