
function refunds.ledger(text, quota, horizon, most, permits, taken_at, mark, rest)
  local limit = ledger_of(quota, horizon, most, rest)
  if not ledger_read(limit, text) then
    return
  end
  return (ledger.refund(limit, permits, taken_at, mark)), ledger_text(limit)
end
