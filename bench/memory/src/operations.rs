//! What a program does beside plain checks, with ours alone.

use std::{hint::black_box, time::Duration};

use limiter_core::{Cost, MemoryLimiter, Policy};

use crate::{
    Effort,
    keys::{Pattern, visits},
    measure::{self, Measured, Runner, on_threads},
    subjects::{Keyed, Quota},
    table::Table,
};

const KEYS: usize = 10_000;

/// Returns what each operation takes, a plain check first.
pub(crate) fn measure(effort: &Effort) -> Vec<Measured> {
    let limiter = <MemoryLimiter as Keyed<String>>::new(Quota::ADMITS_ALL, KEYS);
    let other = Quota::ADMITS_ALL_TOO.policy();
    let handle = limiter.with_policy(&other).expect("there is room for a quota");
    let own: Vec<String> = visits(KEYS, Pattern::Uniform);
    // Other keys, so that each key is asked about by one quota.
    let others: Vec<String> = own.iter().map(|key| format!("{key}/other")).collect();
    let limiter_of = |limit: &str| {
        let policy = Policy::parse("bench", limit).expect("a limit that is served");
        MemoryLimiter::new(policy)
    };
    let windows = limiter_of("1000000000/h by fixed-window");
    let log = limiter_of("1000/s by sliding-log");
    let wide = MemoryLimiter::builder(Quota::ADMITS_ALL.policy()).wide_states();
    let wide = wide.build().expect("the default capacity");
    let runners = vec![
        operation("a check", &own, |key| black_box(&limiter.check(key)).is_admitted()),
        operation("a check whose figures are read", &own, |key| {
            let decision = black_box(limiter.check(key));
            let _ = black_box((decision.remaining(), decision.reset_after()));
            decision.is_admitted()
        }),
        operation("a check through another quota's handle", &others, |key| {
            black_box(&handle.check(key)).is_admitted()
        }),
        operation("a check by a fixed window", &own, |key| {
            black_box(&windows.check(key)).is_admitted()
        }),
        operation("a check by a log", &own, |key| black_box(&log.check(key)).is_admitted()),
        operation("a check with wide states", &own, |key| {
            black_box(&wide.check(key)).is_admitted()
        }),
        operation("a reservation", &own, |key| {
            black_box(&limiter.reserve(key, Cost::ONE, Duration::ZERO)).is_admitted()
        }),
        operation("`with_policy`, a quota seen before", &others, |_| {
            black_box(&limiter.with_policy(&other)).is_ok()
        }),
    ];
    measure::rounds(effort, runners)
}

fn operation<'a>(
    name: &'static str,
    visits: &'a [String],
    run: impl Fn(&str) -> bool + Sync + 'a,
) -> Runner<'a> {
    let run = move |operations| {
        on_threads(1, operations, |_| {
            visits.iter().cycle().take(operations).filter(|key| run(key)).count()
        })
    };
    Runner { name, run: Box::new(run) }
}

/// Returns the table of what was measured.
pub(crate) fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(&["operation", "ns", "ratio to a check", "target"]);
    for operation in measured {
        let target = match operation.name {
            "a check through another quota's handle" => "1.50",
            "`with_policy`, a quota seen before" => "100 ns",
            _ => "",
        };
        let ratio = operation.nanos.over(&measured[0].nanos).show(1.0, 2);
        let nanos = operation.nanos.show(1.0, 1);
        table.row([operation.name.to_owned(), nanos, ratio, target.to_owned()]);
    }
    table
}
