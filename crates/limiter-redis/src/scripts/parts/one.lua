-- What a policy of one limit replies.
local function reply(admitted, wanted, delay, a, b, c)
  local x, y, z = numbers(a, b, c)
  if not admitted then
    return { -x, y, z }
  end
  local all = { x, y, z }
  if wanted then
    all[#all + 1] = delay
    all[#all + 1] = now
  end
  return all
end
