//! The script `policy`: decides on requests with several demands each, and on all states.

use crate::{call::Call, keyspace::WrongType, limit::Limit, reply::Reply};

/// A limit at a key, and what is asked of it.
struct Demand<'a> {
    key: &'a [u8],
    limit: Box<dyn Limit>,
    cost: u64,
    /// Whether the cost only has to fit, and is not charged.
    only_asks: bool,
}

impl Demand<'_> {
    const fn is_charged(&self) -> bool {
        self.cost > 0 && !self.only_asks
    }
}

pub(super) fn run(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let keys = call.keys.clone();
    let (mut keys, mut requests) = (keys.into_iter(), Vec::new());
    while keys.len() > 0 {
        let (count, within) = (call.arguments.number()?, call.arguments.number()?);
        let mut demands = Vec::new();
        for _ in 0..count {
            let (limit, number) = (call.arguments.limit()?, call.arguments.number()?);
            let (cost, only_asks) = (number.unsigned_abs(), number < 0);
            let key = keys.next().ok_or_else(|| Reply::error("ERR a demand has no key"))?;
            demands.push(Demand { key, limit, cost, only_asks });
        }
        if demands.is_empty() {
            return Err(Reply::error("ERR a request has no demands"));
        }
        requests.push((demands, within));
    }
    let decide = |(demands, within)| decide(call, demands, within);
    Ok(Reply::all(requests.into_iter().map(decide).collect()))
}

/// In place of the time within which a request reserves.
const CHECK: i64 = -1;
const UP_TO: i64 = -2;
const IN_ANY_CASE: i64 = -3;

/// Decides on one request.
fn decide(call: &mut Call<'_>, mut demands: Vec<Demand<'_>>, within: i64) -> Reply {
    let now = call.now;
    for Demand { key, limit, .. } in &mut demands {
        if limit.read(call.space, key, now) == Err(WrongType) {
            return Reply::Text(format!("{}: {}", limit.command(), WrongType::TEXT).into());
        }
    }
    if within == UP_TO {
        let fewest = demands.iter().map(|it| it.cost.min(left(&*it.limit))).min().unwrap_or(0);
        demands.iter_mut().for_each(|demand| demand.cost = fewest.max(1));
    }
    let mut fits = all_fit(&demands, now);
    let longest = fits.iter().enumerate().max_by_key(|(_, at)| at.unwrap_or(i64::MAX));
    let (longest, first) = longest.map_or((0, None), |(index, at)| (index, *at));
    // The slots of a paced limit may miss the moment at which the others fit.
    let later = first.map(|at| all_fit(&demands, at));
    let fits_at =
        later.and_then(|fits| fits.into_iter().max_by_key(|at| at.unwrap_or(i64::MAX))?);
    if let Some(fits) = fits.get_mut(longest) {
        *fits = fits_at;
    }
    let promises = demands.iter().all(|demand| demand.limit.promises());
    let is_peek = demands.iter().any(|demand| demand.cost == 0);
    let latest = now + if promises { within.max(0) } else { 0 };
    let fits_at = if within == IN_ANY_CASE { Some(now) } else { fits_at };
    match fits_at.filter(|at| !is_peek && *at <= latest) {
        Some(at) => {
            if within == IN_ANY_CASE {
                let lower = |it: &mut Demand<'_>| it.cost = it.cost.min(it.limit.most_chargeable());
                demands.iter_mut().for_each(lower);
            }
            let charge = |demand: &mut Demand<'_>| match demand.cost {
                cost if demand.is_charged() => demand.limit.charge(cost, at),
                _ => 0,
            };
            let marks: Vec<_> = demands.iter_mut().map(charge).collect();
            for demand in demands.iter().filter(|it| it.is_charged() || it.limit.is_damaged()) {
                demand.limit.store(call.space, demand.key);
            }
            let head = [1].into_iter().chain(usages(&demands));
            let taken = demands.iter().map(|demand| demand.cost).min().unwrap_or(0);
            let third =
                if within < 0 { i64::try_from(taken).unwrap_or(i64::MAX) } else { at - now };
            match within {
                CHECK => Reply::integers(head),
                _ => Reply::integers(head.chain([third, now]).chain(marks)),
            }
        }
        None => {
            for demand in demands.iter().filter(|demand| demand.limit.is_damaged()) {
                demand.limit.store(call.space, demand.key);
            }
            let waits = fits.into_iter().map(|at| at.map_or(-1, |at| at - now));
            Reply::integers([0].into_iter().chain(usages(&demands)).chain(waits))
        }
    }
}

/// Returns from when on each demand fits, `None` for never.
fn all_fit(demands: &[Demand<'_>], from: i64) -> Vec<Option<i64>> {
    demands.iter().map(|demand| demand.limit.fits(demand.cost, from)).collect()
}

/// Returns how many permits a limit has left.
fn left(limit: &dyn Limit) -> u64 {
    let [_, left] = limit.usage();
    u64::try_from(left).unwrap_or(0)
}

fn usages(demands: &[Demand<'_>]) -> impl Iterator<Item = i64> {
    demands.iter().flat_map(|demand| demand.limit.usage())
}
