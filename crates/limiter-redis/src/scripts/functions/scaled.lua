-- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c.
local function scaled(a, b, c)
  if a * b <= 2 ^ 53 then
    return math.ceil(a * b / c)
  end
  -- Long division, four bits of b at a time, so that no product reaches 2^53.
  local quotient, rest = 0, 0
  for digit = 12, 0, -1 do
    rest = rest * 16 + a * (math.floor(b / 16 ^ digit) % 16)
    quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
  end
  return rest > 0 and quotient + 1 or quotient
end
