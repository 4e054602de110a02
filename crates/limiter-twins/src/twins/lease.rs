//! The script `lease`: checks keys by their own quota, and charges more than the cost where a process may hold permits
//! for later.

use limiter_core::algorithms::WindowKind;

use crate::{
    call::Call,
    limit::{Limit, Terms},
    limits::{Gcra, Windows},
    reply::Reply,
    text::{digits, expiry},
    units::{signed, unsigned},
};

/// What is asked of a key.
struct Request<'a> {
    kind: &'a str,
    terms: Terms<'a>,
    cost: u64,
    wanted: u64,
    /// By GCRA, how many ticks a lease lasts; else how many permits are little.
    term: i64,
}

impl<'a> Request<'a> {
    fn read(call: &mut Call<'a>) -> Result<Self, Reply> {
        let arguments = &mut call.arguments;
        let (kind, quota) = (arguments.text()?, arguments.text()?);
        let terms = Terms { quota, permits: arguments.permits()?, number: arguments.number()? };
        let (cost, wanted) = (arguments.permits()?, arguments.permits()?);
        Ok(Self { kind, terms, cost, wanted, term: arguments.number()? })
    }

    fn error(&self) -> Reply {
        Reply::error(format!("ERR nothing of {} {:?} is leased", self.kind, self.terms))
    }
}

pub(super) fn run(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let keys = call.keys.clone();
    let (states, leases) = keys.split_at(keys.len() / 2);
    let requests: Result<Vec<_>, Reply> = states.iter().map(|_| Request::read(call)).collect();
    let mut replies = Vec::new();
    for ((key, leases), request) in states.iter().zip(leases).zip(requests?) {
        replies.push(match request.kind {
            "gcra" => by_debt(call, key, leases, &request)?,
            _ => by_window(call, key, &request)?,
        });
    }
    Ok(Reply::all(replies))
}

fn by_debt(
    call: &mut Call<'_>,
    key: &[u8],
    leases: &[u8],
    request: &Request<'_>,
) -> Result<Reply, Reply> {
    let &Request { cost, wanted, term, .. } = request;
    let mut limit = Gcra::new(request.terms).ok_or_else(|| request.error())?;
    if !limit.read_own(call.space, key, call.now) {
        return Ok(Reply::Nil);
    }
    let fits_at = limit.fits(cost, call.now);
    let mut charged = limit.clone();
    let fits = fits_at == Some(call.now);
    let mut permits = if fits { charged.lease(cost, wanted, term) } else { 0 };
    let mark = charged.debt();
    if permits > cost {
        limit = charged.clone();
    }
    let leased = if permits > cost { permits } else { 0 };
    let ahead = limit.lease_ahead(cost, (wanted, leased), term);
    match ahead {
        Some(_) => permits = leased,
        None => limit = charged,
    }
    if permits > cost || ahead.is_some() {
        let lasts = ahead.map_or(0, |(_, begins)| begins) + limit.micros(term);
        let text = call.space.text(leases).ok().flatten();
        let text = text.and_then(|text| str::from_utf8(text).ok());
        if call.now + lasts > text.and_then(digits).unwrap_or(0) {
            let end = (call.now + lasts).to_string();
            call.space.set(leases, end.into(), Some(expiry(lasts)));
        }
    }
    if permits > 0 || ahead.is_some() {
        limit.store(call.space, key);
    }
    let granted = (permits > 0).then_some((permits, mark));
    let ahead = ahead.map(|(permits, begins)| (permits, limit.debt(), begins));
    Ok(reply(&limit, granted, fits_at, ahead, call.now))
}

fn by_window(call: &mut Call<'_>, key: &[u8], request: &Request<'_>) -> Result<Reply, Reply> {
    let &Request { cost, wanted, .. } = request;
    let kind = match request.kind {
        "fixed" => WindowKind::Fixed,
        "aligned" => WindowKind::Aligned,
        "counter" => WindowKind::Sliding,
        _ => return Err(request.error()),
    };
    let mut limit = Windows::new(kind, request.terms).ok_or_else(|| request.error())?;
    if !limit.read_own(call.space, key, call.now) {
        return Ok(Reply::Nil);
    }
    let fits_at = limit.fits(cost, call.now);
    let [_, room] = limit.usage();
    let room = if room > request.term { room / 2 } else { room };
    let mut permits = match fits_at == Some(call.now) {
        true => wanted.min(u64::try_from(room).unwrap_or(0)).max(cost),
        false => 0,
    };
    let leased = if permits > cost { permits } else { 0 };
    let ahead = limit.lease_ahead(cost, (wanted, leased), request.term);
    let (ahead_permits, begins) = ahead.unwrap_or_default();
    if ahead.is_some() {
        permits = leased;
    }
    let taken = permits + unsigned(ahead_permits);
    let mark = if taken > 0 { limit.charge(taken, call.now) } else { 0 };
    if taken > 0 {
        limit.store(call.space, key);
    }
    let granted = (permits > 0).then_some((permits, mark));
    let ahead = ahead.map(|_| (ahead_permits, mark, begins));
    Ok(reply(&limit, granted, fits_at, ahead, call.now))
}

/// Returns the reply to a check of which some permits were `granted`, with a mark, or which fits later. Behind it is a lease
/// `ahead`: its permits, its mark, and when it begins.
fn reply(
    limit: &dyn Limit,
    granted: Option<(u64, i64)>,
    fits_at: Option<i64>,
    ahead: Option<(i64, i64, i64)>,
    now: i64,
) -> Reply {
    let [reset, left] = limit.usage();
    let mut numbers = match (granted, ahead) {
        (Some((permits, mark)), _) => vec![1, reset, left, signed(permits), now, mark],
        (None, Some((_, _, begins))) => vec![0, reset, left, begins],
        (None, None) => vec![0, reset, left, fits_at.map_or(-1, |at| at - now)],
    };
    if let Some((permits, mark, begins)) = ahead {
        numbers.extend([permits, now, mark, begins]);
    }
    Reply::integers(numbers)
}
