-- Returns how many permits count after a moment that were taken at `since` or later, and the number of their first entry.
local function log_counted(log, limit, since, moment)
  local function counts(entry)
    return entry.at >= since and log_end(log, limit, entry.at) > moment
  end
  local first, n = log_find(log, 1, counts)
  return counts(first) and log.total - first.total + first.count or 0, n
end

-- Returns the first moment from `from` on at which at most `room` of the permits count that were taken at `since` or later.
local function log_room(log, limit, since, room, from)
  local counted, n = log_counted(log, limit, since, from)
  if counted <= room then
    return from
  end
  local last = log_find(log, n, function(entry) return entry.total >= log.total - room end)
  return math.max(from, log_end(log, limit, last.at))
end

-- Returns how many permits a paced window admits in a slot with this number.
local function log_ceiling(limit, number)
  local even, rest, within = math.floor(limit.most / limit.number), limit.most % limit.number, number % limit.number
  return even + math.floor(rest * (within + 1) / limit.number) - math.floor(rest * within / limit.number)
end

-- Returns from which moment on, `from` or later, a cost fits: math.huge for never.
local function log_fits(log, limit, cost, from)
  local even, rest = math.floor(limit.most / math.max(limit.number, 1)), limit.most % math.max(limit.number, 1)
  if cost > even + (rest > 0 and 1 or 0) then
    return math.huge
  end
  -- Not before the slot of the last reservation.
  local fits = math.max(log_room(log, limit, 0, limit.most - cost, from), log.at - log.at % limit.slot)
  if limit.number > 0 then
    local number = math.floor(fits / limit.slot)
    local room = log_ceiling(limit, number) - cost
    fits = room < 0 and math.huge or log_room(log, limit, number * limit.slot, room, fits)
    if fits >= (number + 1) * limit.slot then
      number = number + 1
      if cost > even then
        -- `rest` of every `limit.number` slots admit one permit more, spread evenly. This is the next of them.
        local within = number % limit.number
        number = number - within + math.ceil((math.floor(within * rest / limit.number) + 1) * limit.number / rest) - 1
      end
      fits = number * limit.slot
    end
  end
  return fits
end

-- Returns how many permits are left now, if no later slot is in use.
local function log_left(log, limit)
  local left, number = limit.most - log_counted(log, limit, 0, now), math.floor(now / limit.slot)
  if limit.number > 0 then
    left = math.min(left, log_ceiling(limit, number) - log_counted(log, limit, number * limit.slot, now))
  end
  return left
end

-- Charges a cost at a moment at which it fits. If that begins an entry, the newest one before becomes the last of the
-- older ones, whose element is `pushed`. Returns the log, and the mark of the charge, which is the time until the entry.
local function log_charge(log, limit, cost, at)
  log.left = log_left(log, limit) - cost
  -- Slots of two lengths share no grid.
  log.slot = log.slot == limit.slot and log.span == limit.span and limit.slot or 1
  log.span, log.horizon = math.max(log.span, limit.span), math.max(log.horizon, limit.horizon)
  if log.at > 0 and log.at - log.at % limit.slot < at - at % limit.slot then
    log.pushed, log.count = log_element({ at = log.at, count = log.count, total = log.total }), 0
  end
  log.at, log.count, log.total = math.max(log.at, at), log.count + cost, log.total + cost
  return log, log.at - now
end

-- Returns the time until nothing counts, and the permits that remain.
local function log_usage(log, limit)
  local left = log.left or log_left(log, limit)
  local has_begun = log.at - log.at % limit.slot <= now
  return math.max(log_end(log, limit, log.at) - now, 0), has_begun and math.max(left, 0) or 0
end
