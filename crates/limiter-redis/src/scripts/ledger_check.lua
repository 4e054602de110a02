-- The short way of a check by dated entries: it reads the beginning of what tape.lua keeps, where the ends
-- of the ledger are, and writes that alone. What is not ordinary goes the long way, which follows: a fresh
-- subject, a tape without room, or with much behind it; permits promised for later, notes, foreign or
-- corrupt values.
--
-- KEYS[1]  as in tape.lua
-- ARGV     the quota, as in ledger.lua; then the cost, or nothing for one permit
-- Reply    the numbers, as of the long way but for when the permits were taken; or of an admission, where
--          that is exact, the first two as one number, since a table takes a server a tenth of its time:
--          the first times one more than the limit, and the second
-- Cost     TIME and one read; one write if it admits; one more and one read for each dozen entries that
--          are added, and one read for each nine that are over
do
  local key, head = KEYS[1], call('GETRANGE', KEYS[1], '0', '154')
  local own_kind, width, entry, whole, added = 1, 9, '<I6I3', '<BdddI5BBI3I3I6I3', '<ddI5BBI3I3c0I6I3'
  if limit > 16777215 then
    own_kind, width, entry, whole, added = 2, 11, '<I6I5', '<BdddI5BBI3I3I6I5', '<ddI5BBI3I3c0I6I5'
  end
  local kind, expires, total, at, count, olds, youngs, first, stop, oldest_at, oldest_count
  if #head == 155 then
    kind, expires, total, at, count, olds, youngs, first, stop, oldest_at, oldest_count = from_bytes(whole, head)
  end
  local begun = kind == own_kind and at - (at + offset) % slot
  local is_ordinary = begun and begun <= now and now - begun < span and cost <= limit
    and (olds + youngs) * width <= 117 and (olds > 0 or first == stop) and first <= stop and count > 0
    and total >= 0 and expires >= 0
  -- The pocket's part of what was read, and what was fetched.
  local pocket, from, to, has_fetched = head, 39, nil, false
  if is_ordinary then
    to = 39 + (olds + youngs) * width
    if to == 39 then
      oldest_at, oldest_count = at, count
    else
      oldest_at = at - (at - oldest_at) % 2 ^ 48
    end
  end
  while is_ordinary and now - (oldest_at - (oldest_at + offset) % slot) >= span do
    total = total > oldest_count and total - oldest_count or 0
    from = from + width
    if olds > 1 then
      olds, first = olds - 1, first + 1
    elseif olds == 1 then
      first = first + 1
      olds = stop - first < 9 and stop - first or 9
      local texts = call('GETRANGE', key,
        format('%d', 155 + first * width), format('%d', 154 + (first + olds) * width))
      is_ordinary = olds > 0 and #texts == olds * width and not has_fetched
        and first <= 2 * (stop - first + youngs + 1) + 64
      pocket, has_fetched = texts .. string.sub(pocket, from, to - 1), true
      from, to = 1, #pocket + 1
    else
      youngs = youngs - 1
    end
    if from == to then
      oldest_at, oldest_count = at, count
    elseif is_ordinary then
      oldest_at, oldest_count = from_bytes(entry, pocket, from)
      oldest_at = at - (at - oldest_at) % 2 ^ 48
    end
  end

  if is_ordinary and total + cost <= limit then
    total = total + cost
    local own, last_at, last_count = now - (now + offset) % slot, at, count
    local is_new = begun < own
    if is_new then
      begun, at, count, youngs = own, now, cost, youngs + 1
    else
      at, count = at > now and at or now, count + cost
    end
    local till = begun + span
    local expiry = expires
    if expiry <= till + 2000 or expiry > now + 164160000000000 then
      expiry = till + math.ceil((till - now) / 2) + 2000
    end
    local is_plain = from == 39 and not is_new
    if (olds + youngs) * width > 117 then
      is_ordinary = olds > 0 and call('STRLEN', key) >= 155 + (stop + youngs) * width
      if is_ordinary then
        local middle = from + olds * width
        local texts = string.sub(pocket, middle, to - 1) .. (is_new and to_bytes(entry, last_at, last_count) or '')
        call('SETRANGE', key, format('%d', 155 + stop * width), texts)
        to, stop, youngs, is_new = middle, stop + youngs, 0, false
      end
    end
    if is_ordinary then
      -- From the sum on, which stands behind the kind and the expiry.
      local text
      if is_new then
        text = to_bytes(added, total, at, count, olds, youngs, first, stop, string.sub(pocket, from, to - 1),
          last_at, last_count)
      elseif is_plain then
        text = to_bytes('<ddI5', total, at, count)
      else
        text = to_bytes('<ddI5BBI3I3c0', total, at, count, olds, youngs, first, stop, string.sub(pocket, from, to - 1))
      end
      call('SETRANGE', key, '9', text)
      if expiry ~= expires then
        call('SETRANGE', key, '1', to_bytes('<d', expiry))
        call('PEXPIRE', key, format('%d', (expiry - now) / 1000 + 2))
      end
    end
    if is_ordinary then
      if span * (limit + 1) <= 2 ^ 52 then
        return (till - now) * (limit + 1) + limit - total
      end
      return { till - now, limit - total, 0 }
    end
  end
  if is_ordinary and total - oldest_count + cost <= limit then
    local fits_at = oldest_at - (oldest_at + offset) % slot + span
    return { now - begun - span, total < limit and limit - total or 0, fits_at - now }
  end
end
