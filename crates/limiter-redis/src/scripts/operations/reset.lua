-- Makes a subject a fresh one. What is left notes that earlier receipts are void, as long as they
-- could matter.
--
-- KEYS[1]  the state of one subject
-- ARGV     the quotas of the limits, in one string of doubles
-- Reply    1 if there was a state, else 0
-- Cost     TIME and one read; one write if there was a state
local text = load()
if not text then
  return 0
end
local latest = promised > now and promised or now
local healed, a, b, c = read(text, latest)
local _, till = write(a, b, c)
since, horizon, promised = now, math.max(till, horizon, promised), 0
clear()
return 1
