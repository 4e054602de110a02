-- Windows: the permits taken in one window for each length that has charged the key, up to four. A charge counts in each
-- of them, and a quota decides by the one of its own length. A window that is reserved follows the present one, which a
-- refund of all that is reserved brings back.

-- Returns when a window ends that opens at a moment.
local function window_end(limit, at, length)
  return at + length - (limit.kind == 'aligned' and at % length or 0)
end

-- Returns a window as text. Numbers that follow from the others are left out.
local function window_element(limit, window)
  local text = string.format('%d %d %d %d', window.since, window.length, window.reach, window.count)
  if limit.kind == 'counter' then
    text = string.format('%s %d', text, window.previous)
  end
  if window.shortest == window.length and window.ends == window_end(limit, window.since, window.length) then
    return text
  end
  return string.format('%s %d %d', text, window.shortest, window.ends)
end

-- Returns the window of a text, nil if no quota can have left it.
local function window_parse(limit, text)
  local numbers = {}
  for number in string.gmatch(text, '%d+') do
    numbers[#numbers + 1] = number + 0
  end
  if limit.kind ~= 'counter' then
    table.insert(numbers, math.min(5, #numbers + 1), 0)
  end
  local since, length, reach, count, previous, shortest, ends = unpack(numbers, 1, 7)
  if not previous or since < 1e15 or since >= 1e16 or length < 1000 or length > math.min(reach, 31622400000000)
    or reach > 189734400000000 or math.max(count, previous) > 158112000000000 then
    return nil
  end
  local window = { since = since, length = length, reach = reach, count = count, previous = previous,
    shortest = shortest or length, ends = ends or window_end(limit, since, length) }
  return window_element(limit, window) == text and window or nil
end

-- Returns when a window no longer counts. One without permits is reserved, and all of them came back.
local function window_over(limit, window)
  if window.count + window.previous == 0 then
    return window.ends - window.length
  end
  return window.ends + (limit.kind == 'counter' and window.count > 0 and window.length or 0)
end

-- Returns the window that a moment is in, or that begins later; nil if it no longer counts.
local function window_at(limit, window, at)
  if limit.kind == 'counter' and window.ends <= at then
    window = { since = window.ends, length = window.length, reach = window.reach, count = 0, previous = window.count,
      shortest = window.shortest, ends = window.ends + window.length }
  end
  return window_over(limit, window) > at and window or nil
end

-- Returns a list of windows without those that another window of the same length makes needless.
local function window_drop(windows, is_needless)
  local kept = {}
  for _, window in ipairs(windows) do
    local drops = false
    for _, other in ipairs(windows) do
      drops = drops or other.length == window.length and is_needless(window, other)
    end
    kept[#kept + 1] = not drops and window or nil
  end
  return kept
end

-- Returns a list of windows without those that have ended at a moment, and behind which a reserved one has begun.
local function window_successors(windows, at)
  return window_drop(windows, function(window, other)
    return window.ends <= at and other.ends == window.ends + window.length
  end)
end

-- Returns the windows as text, and for how long they matter.
local function window_text(limit)
  local texts, lasts = {}, 0
  for n, window in ipairs(limit.windows) do
    texts[n] = window_element(limit, window)
    local present = window_at(limit, window, now)
    lasts = math.max(lasts, present and window_over(limit, present) - now or 0)
  end
  return table.concat(texts, ', '), lasts
end
