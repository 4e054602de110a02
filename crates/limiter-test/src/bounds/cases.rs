//! The algorithms, with quotas small enough to search all that matters.

use limiter_core::{Algorithm, Limit, Policy};

/// Each algorithm with a few quotas.
const CASES: [&str; 22] = [
    "5/s burst 2",
    "3/s",
    "3/s burst 10",
    "4/min burst 1",
    "5/s burst 1 by leaky-queue depth 10",
    "4/s burst 3 by leaky-queue depth 2",
    "2/s by fixed-window",
    "5/s by fixed-window",
    "1/s by aligned-window",
    "5/min by aligned-window",
    "1/s by sliding-counter",
    "5/s by sliding-counter",
    "3/s by sub-windows 1 slots",
    "5/s by sub-windows 7 slots",
    "3/s by sub-windows 2 slots loose",
    "5/s by sub-windows 7 slots loose",
    "5/s by sub-windows 3 slots paced",
    "3/min by sub-windows 10 slots paced",
    "5/s by sub-windows 3 slots loose paced",
    "3/min by sub-windows 10 slots loose paced",
    "1/s by sliding-log",
    "5/s by sliding-log",
];

/// Returns the quota of `limit` and what else it was given, as it is written.
#[must_use]
pub fn quota(limit: &Limit) -> String {
    let quota = limit.quota();
    match limit.algorithm() {
        Algorithm::SubWindows(slots) => format!("{quota}, {slots}"),
        Algorithm::LeakyQueue { depth } => format!("{quota}, depth {depth}"),
        _ => quota.to_string(),
    }
}

/// Returns each algorithm with a few quotas, and two limits together, each with a text.
///
/// # Panics
///
/// If one of them is not valid.
#[must_use]
pub fn policies() -> Vec<(&'static str, Policy)> {
    let parse = |name, text| Policy::parse(name, text).expect("a valid policy");
    let several = [parse("short", "2/s by sliding-log"), parse("long", "5/10s by aligned-window")];
    let several = Policy::all_of("both", several).expect("the limits make sense");
    let single = CASES.iter().map(|text| (*text, parse("one", text)));
    single.chain([("several limits", several)]).collect()
}
