//! The script `refund`: gives permits of one charge back.

use crate::{call::Call, keyspace::WrongType, limit::Charge, reply::Reply, text::digits};

pub(super) fn run(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let keys = call.keys.clone();
    let (states, leases) = keys.split_at(keys.len() / 2);
    let arguments = &mut call.arguments;
    let (permits, cost) = (arguments.permits()?, arguments.permits()?);
    let (made, at, length) = (arguments.number()?, arguments.number()?, arguments.number()?);
    let (mut most, mut are_whole, mut given) = (0, true, Vec::new());
    for (key, leases) in states.iter().zip(leases) {
        let (mut limit, mark) = (call.arguments.limit()?, call.arguments.number()?);
        let wrong = |WrongType| Reply::error(WrongType::TEXT);
        limit.read(call.space, key, call.now).map_err(wrong)?;
        let leases_end = call.space.text(leases).ok().flatten();
        let leases_end = leases_end.and_then(|text| str::from_utf8(text).ok());
        let leases_end = leases_end.and_then(digits).unwrap_or(0);
        let charge = Charge { permits, cost, made, at, length, mark, leases_end };
        let (back, is_whole) = if limit.is_damaged() { (0, false) } else { limit.refund(&charge) };
        (most, are_whole) = (most.max(back), are_whole && is_whole);
        if back > 0 {
            given.push((*key, limit));
        }
    }
    // Charged later than now: the clock has stepped back.
    if call.now < made || call.now < at && !are_whole {
        return Ok(Reply::Integer(0));
    }
    for (key, limit) in given {
        limit.store_refunded(call.space, key);
    }
    Ok(Reply::Integer(i64::try_from(most).unwrap_or(i64::MAX)))
}
