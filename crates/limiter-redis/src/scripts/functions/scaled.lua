-- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c: by long division, four bits of
-- b at a time, if the product is above 2^53.
local function scaled(a, b, c)
  local quotient, rest = 0, a * b
  for digit = 11, rest > 2 ^ 53 and 0 or 12, -1 do
    rest = (digit < 11 and rest or 0) * 16 + a * (math.floor(b / 16 ^ digit) % 16)
    quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
  end
  return quotient + math.ceil(rest / c)
end
