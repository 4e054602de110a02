-- Gives permits back, as far as they still count.
--
-- KEYS[1]  the state of one subject
-- ARGV     the quotas of the limits, in one string of doubles; then permits, cost, charged, at: how many
--          of how many, when they were charged, and for when; then the marks of the charge, two for each
--          limit
-- Reply    1 if the receipt was good, else 0
-- Cost     TIME and one read; one write if it was good
local permits, cost, charged, at = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
local text = load()
-- A reset, and whatever may have taken a charge's mark away, make receipts void.
if not text or charged > now or horizon > now and charged <= since then
  return 0
end
local latest = promised > now and promised or now
local healed, a, b, c = read(text, latest)
if not healed then
  local has_moved = horizon > now and charged <= moved
  local text, before = write(a, b, c)
  local moves
  moves, a, b, c = refund(permits, cost, at, has_moved, ARGV[6] + 0, ARGV[7] + 0, a, b, c)
  if moves then
    moved, horizon = now, math.max(horizon, before)
  end
  store(write(a, b, c))
end
return healed and 0 or 1
