//! The scripts `window` and `counter`: check keys by one window of their own quota.

use limiter_core::algorithms::WindowKind;

use crate::{
    call::Call,
    limit::{Limit, Terms},
    limits::Windows,
    reply::Reply,
};

/// Runs the script of fixed and aligned windows.
pub(super) fn run(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let keys = call.keys.len();
    check_all(call, (0..keys).map(|_| None))
}

/// Runs the script of one kind.
pub(super) fn run_kind(call: &mut Call<'_>, kind: WindowKind) -> Result<Reply, Reply> {
    let keys = call.keys.len();
    check_all(call, (0..keys).map(|_| Some(kind)))
}

fn check_all(
    call: &mut Call<'_>,
    kinds: impl Iterator<Item = Option<WindowKind>>,
) -> Result<Reply, Reply> {
    let keys = call.keys.clone();
    let limits: Result<Vec<_>, Reply> = kinds.map(|kind| limit(call, kind)).collect();
    let costs = call.arguments.costs(keys.len())?;
    let mut replies = Vec::new();
    for ((key, mut limit), cost) in keys.into_iter().zip(limits?).zip(costs) {
        let is_own = limit.read_own(call.space, key, call.now);
        replies.push(if is_own { check(call, key, &mut limit, cost) } else { Reply::Nil });
    }
    Ok(Reply::all(replies))
}

/// Returns a limit of a kind, or of the one that its grid says.
fn limit(call: &mut Call<'_>, kind: Option<WindowKind>) -> Result<Windows, Reply> {
    let arguments = &mut call.arguments;
    let (quota, permits, number) = (arguments.text()?, arguments.permits()?, arguments.number()?);
    let terms = Terms { quota, permits, number };
    let kind = match kind {
        Some(kind) => kind,
        None if arguments.number()? == 1 => WindowKind::Fixed,
        None => WindowKind::Aligned,
    };
    let error = || Reply::error(format!("ERR no {kind:?} window has {terms:?}"));
    Windows::new(kind, terms).ok_or_else(error)
}

/// Checks a key whose state was read.
pub(super) fn check(call: &mut Call<'_>, key: &[u8], limit: &mut Windows, cost: u64) -> Reply {
    let fits_at = limit.fits(cost, call.now);
    if fits_at != Some(call.now) {
        return refused(limit, fits_at, call.now);
    }
    limit.charge(cost, call.now);
    limit.store(call.space, key);
    let [reset, left] = limit.usage();
    Reply::integers([1, reset, left])
}

/// Returns a refusal until some moment.
pub(super) fn refused(limit: &dyn Limit, fits_at: Option<i64>, now: i64) -> Reply {
    let [reset, left] = limit.usage();
    Reply::integers([0, reset, left, fits_at.map_or(-1, |at| at - now)])
}
