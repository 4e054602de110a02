-- What is rare, and stands beside a state: until when permits were promised, since when receipts are
-- good, when what they tell of has moved last, and until when the last two matter.
local promised, since, moved, horizon = 0, 0, 0, 0

-- No note is later: 1,900 days, in microseconds, from now.
local far = now + 164160000000000

-- Sees notes.
local function note(p, s, m, h)
  since, moved = math.min(s, now), math.min(m, now)
  promised = p > now and p <= far and p or 0
  horizon = h > now and h <= far and h or 0
end
