-- Returns when a window no longer counts. One without permits is reserved, and all of them came back.
local function window_over(window, limit)
  if window.count + window.previous == 0 then
    return window.ends - window.length
  end
  return window.ends + (limit.kind == 'counter' and window.count > 0 and window.length or 0)
end

-- Returns the window that a moment is in, or a later one that is reserved. A fresh one is all zeros.
local function window_at(window, limit, at)
  if limit.kind == 'counter' and window.ends <= at then
    window = { ends = window.ends + window.length, length = window.length, quota = window.quota, count = 0,
      previous = window.count }
  end
  return window_over(window, limit) > at and window or { ends = 0, length = 0, count = 0, previous = 0 }
end

-- Returns when a window ends that opens at a moment.
local function window_end(limit, at, length)
  return at + length - (limit.kind == 'aligned' and at % length or 0)
end

-- Returns the window of a state. One that is damaged or from the future is full, by the length and the counts that it
-- has, which may be larger than this quota's.
local function window_read(text, limit)
  local ends, quota, length, reach, count, previous =
    string.match(text or '', '^(%d+)( (%d+) (%d+) )(%d+) ?(%d*)$')
  local is_readable = ends and #ends == 16 and (previous ~= '') == (limit.kind == 'counter')
  length, reach, count, previous = tonumber(length), tonumber(reach), tonumber(count), tonumber(previous) or 0
  if not text then
    ends, length, reach, count, previous = 0, 0, 0, 0, 0
  elseif not is_readable or length < 1000 or length > math.min(reach, 31622400000000) or reach > 189734400000000
    or math.max(count, previous) > 158112000000000 then
    ends, quota, length, count, previous = math.huge, limit.quota, limit.number, 0, 0
    reach = string.match(quota, '(%d+) $') + 0
  end
  local window = { ends = ends + 0, quota = quota, length = length, count = count, previous = previous }
  if window.ends > now + reach then
    -- The present aligned window may be about to end, so the next one is full too.
    window.ends = window_end(limit, now, length) + (limit.kind == 'aligned' and length or 0)
    window.quota = string.format(' %d %d ', length, math.max(reach, window.ends - now))
    window.count, window.previous, window.is_damaged = math.max(count + previous, limit.most), 0, true
  end
  window = window_at(window, limit, now)
  -- An aligned window may be open already when one of another length ends, so nothing is reserved behind that.
  window.is_foreign = limit.kind == 'aligned' and window.ends > 0 and window.length ~= limit.number
  return window
end

-- Returns the state of a window, and for how long it matters.
local function window_text(window, limit)
  local text = string.format('%d%s%d', window.ends, window.quota or '', window.count)
  local lasts = window_over(window, limit) - now
  return limit.kind == 'counter' and string.format('%s %d', text, window.previous) or text, lasts
end
