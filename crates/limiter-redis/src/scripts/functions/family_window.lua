-- Reads the windows. One that is damaged or from the future is full.
local function read(limit)
  limit.length, limit.reach = string.match(limit.quota, '(%d+) (%d+)')
  limit.length, limit.reach, limit.windows, limit.is_damaged = limit.length + 0, limit.reach + 0, {}, false
  for element in string.gmatch(limit.text and limit.text .. ', ' or '', '(.-), ') do
    limit.windows[#limit.windows + 1] = window_parse(limit, element) or {}
  end
  for _, window in ipairs(limit.windows) do
    if not window.length or #limit.windows > 4 then
      limit.windows = { { length = limit.length, shortest = limit.length, reach = limit.reach, count = 1, previous = 0,
        ends = math.huge } }
    end
  end
  for _, window in ipairs(limit.windows) do
    limit.is_damaged = limit.is_damaged or window.ends > now + window.reach
  end
  if limit.is_damaged then
    limit.windows = window_drop(limit.windows, function(window, other) return other.ends > window.ends end)
  end
  for _, window in ipairs(limit.windows) do
    if window.ends > now + window.reach then
      -- The present aligned window may be about to end, so the next one is full too.
      window.since, window.ends = now, window_end(limit, now, window.length)
      window.ends = window.ends + (limit.kind == 'aligned' and window.length or 0)
      window.reach = math.max(window.reach, window.ends - now)
      window.count, window.previous = math.max(window.count + window.previous, limit.permits), 0
    end
    local present = window_at(limit, window, now)
    -- Behind windows of other lengths nothing is promised: one of them may admit something earlier.
    limit.is_foreign = limit.is_foreign or present and present.length ~= limit.length
  end
end

-- Returns whether the quota decides by a window.
local function is_own(limit, window)
  return window.shortest <= limit.length and limit.length <= window.length
end

-- Returns the window by which the quota decides at a moment, the last that is reserved; nil if none is open.
local function own_at(limit, at)
  local own
  for _, window in ipairs(window_successors(limit.windows, at)) do
    window = is_own(limit, window) and window_at(limit, window, at)
    own = window and (not own or window.ends > own.ends) and window or own
  end
  return own
end

-- Returns the fullest of the windows that began within the length of the quota, from which a window takes its permits
-- that opens at a moment; and when the last of those with more than `room` permits has ended or is older.
local function source_at(limit, at, room)
  local fullest, over = { since = at, count = 0 }, at
  for _, window in ipairs(window_successors(limit.windows, at)) do
    window = window_at(limit, window, at)
    if window and window.count > 0 and window.since + limit.length > at then
      if window.count > fullest.count or window.count == fullest.count and window.since > fullest.since then
        fullest = window
      end
      if window.count > room then
        over = math.max(over, math.min(window.ends, window.since + limit.length))
      end
    end
  end
  return fullest, over
end

-- Returns how many permits count at a moment: those of the window before fade.
local function counted(window, at)
  local left = math.min(window.ends - at, window.length)
  return window.count + (window.previous > 0 and scaled(left, window.previous, window.length) or 0)
end

-- Returns when the last window begins, if that is later than a moment. Nothing is charged before what is reserved.
local function begun(limit, at)
  for _, window in ipairs(limit.windows) do
    at = math.max(at, window.ends - window.length)
  end
  return at
end

local function fits(limit, from)
  local room = limit.permits - limit.cost
  from = begun(limit, from)
  local own = own_at(limit, from)
  if room < 0 then
    return math.huge
  elseif own then
    local at = own.ends
    if own.count > room and limit.kind == 'counter' then
      -- In the next window, in which the permits of this one fade.
      at = at + scaled(own.count - room, own.length, own.count)
    elseif own.count <= room then
      local excess = own.count + own.previous - room
      at = at - own.length + (excess > 0 and scaled(excess, own.length, own.previous) or 0)
    end
    if math.max(at, from) < window_over(limit, own) then
      return math.max(at, from)
    end
    from = window_over(limit, own)
  end
  local _, over = source_at(limit, from, room)
  return over
end

-- Adds a window that opens. A fifth drops the first of its length. If there is none, it counts in the next longer
-- window, or the longest one becomes as long.
local function add(limit, window)
  local sorted = { unpack(limit.windows) }
  for n, other in ipairs(#sorted < 4 and {} or sorted) do
    if other.length == window.length then
      table.remove(limit.windows, n)
      break
    end
  end
  if #limit.windows < 4 then
    table.insert(limit.windows, window)
    return
  end
  table.sort(sorted, function(one, other) return one.length < other.length end)
  for _, other in ipairs(sorted) do
    if other.length > window.length then
      other.shortest = window.length
      return
    end
  end
  window.shortest = sorted[4].shortest
  for name, value in pairs(window) do
    sorted[4][name] = value
  end
end

local function charge(limit, at)
  local windows, own, is_stored = window_successors(limit.windows, now), own_at(limit, at), false
  if not own then
    local source = source_at(limit, at, 0)
    local ends = window_end(limit, limit.kind == 'aligned' and at or source.since, limit.length)
    own = { since = source.since, length = limit.length, reach = 0, count = source.count, previous = 0,
      shortest = limit.length, ends = ends }
  end
  limit.windows = {}
  for _, window in ipairs(windows) do
    window = window_at(limit, window, now) or window
    -- The present window stays as it is until the one begins that is reserved.
    local is_before = now < window.ends and window.ends <= at
    window = is_before and window or window_at(limit, window, at)
    limit.windows[#limit.windows + 1] = window
    if window and not is_before then
      window.count = window.count + limit.cost
      is_stored = is_stored or is_own(limit, window) and window.ends == own.ends
    end
  end
  if not is_stored then
    own.count = own.count + limit.cost
    add(limit, own)
  end
  own = own_at(limit, at)
  own.reach = math.max(own.reach, limit.reach)
  return own.ends - now
end

local function usage(limit)
  local from = begun(limit, now)
  local own = own_at(limit, from)
  local source, over = source_at(limit, own and window_over(limit, own) or from, 0)
  local left = limit.permits - (own and counted(own, from) or source.count)
  return over - now, from <= now and math.max(left, 0) or 0
end

-- Any number until more than the permits count. A count stays far below the largest one that is read.
local function most(limit)
  local own, fullest = own_at(limit, now), 0
  for _, window in ipairs(window_successors(limit.windows, now)) do
    window = window_at(limit, window, now)
    fullest = math.max(fullest, window and window.count or 0)
  end
  local room = limit.permits - (own and counted(own, now) or source_at(limit, now, 0).count)
  return begun(limit, now) <= now and room >= 0 and math.max(room, 1e14 - fullest) or 0
end

return { read = read, fits = fits, most = most, charge = charge, usage = usage, write = write_text(window_text) }
