//! The script `gcra`: checks keys by their own quota.

use crate::{
    call::Call,
    limit::{Limit, Terms},
    limits::Gcra,
    reply::Reply,
};

pub(super) fn run(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let keys = call.keys.clone();
    let limits: Result<Vec<_>, Reply> = keys.iter().map(|_| limit(call)).collect();
    let costs = call.arguments.costs(keys.len())?;
    let mut replies = Vec::new();
    for ((key, mut limit), cost) in keys.into_iter().zip(limits?).zip(costs) {
        replies.push(check(call, key, &mut limit, cost));
    }
    Ok(Reply::all(replies))
}

fn limit(call: &mut Call<'_>) -> Result<Gcra, Reply> {
    let (quota, permits) = (call.arguments.text()?, call.arguments.permits()?);
    let terms = Terms { quota, permits, number: call.arguments.number()? };
    Gcra::new(terms).ok_or_else(|| Reply::error(format!("ERR no GCRA has {terms:?}")))
}

fn check(call: &mut Call<'_>, key: &[u8], limit: &mut Gcra, cost: u64) -> Reply {
    if !limit.read_own(call.space, key, call.now) || limit.has_reservations() {
        return Reply::Nil;
    }
    if limit.fits(cost, call.now) != Some(call.now) {
        return Reply::Integer(-1 - limit.debt());
    }
    let debt = limit.charge(cost, call.now);
    limit.store(call.space, key);
    Reply::Integer(debt)
}
