//! What a program does beside plain checks, with ours alone.

use std::{hint::black_box, time::Duration};

use limiter_core::{Cost, Demand, MemoryLimiter, Policy, decide};

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
    let handle = limiter.with_policy(&other).expect("both are by GCRA");
    let own: Vec<String> = visits(KEYS, Pattern::Uniform);
    // Other keys, so that each key is asked about by one quota.
    let others: Vec<String> = own.iter().map(|key| format!("{key}/other")).collect();
    let limiter_of = |limit: &str| {
        let policy = Policy::parse("bench", limit).expect("a limit that is served");
        MemoryLimiter::new(policy)
    };
    let windows = limiter_of("1000000000/h by fixed-window");
    let log = limiter_of("1000/s by sliding-log");
    // Of the limiter itself and its siblings, so that a list has as many states as demands.
    let siblings_of = |limiter: &MemoryLimiter| {
        let second = limiter.sibling(limiter.policy());
        let third = limiter.sibling(limiter.policy());
        [limiter.clone(), second, third]
    };
    let by_rate = siblings_of(&limiter);
    let by_window = siblings_of(&windows);
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
        operation("a reservation", &own, |key| {
            black_box(&limiter.reserve(key, Cost::ONE, Duration::ZERO)).is_admitted()
        }),
        operation("one demand by `decide`", &own, |key| decide_on(&by_rate[..1], key)),
        operation("three demands by `decide`", &own, |key| decide_on(&by_rate, key)),
        operation("one demand on a fixed window", &own, |key| decide_on(&by_window[..1], key)),
        operation("three demands on fixed windows", &own, |key| decide_on(&by_window, key)),
        operation("`with_policy`, a quota seen before", &others, |_| {
            black_box(&limiter.with_policy(&other)).is_ok()
        }),
    ];
    measure::rounds(effort, runners)
}

/// Charges one permit of each limiter, or none.
fn decide_on(limiters: &[MemoryLimiter], key: &str) -> bool {
    let demand = |limiter| Demand::new(limiter, key, Cost::ONE);
    let mut decided = match limiters {
        [first, second, third] => decide(&[demand(first), demand(second), demand(third)]),
        [first, ..] => decide(&[demand(first)]),
        [] => decide(&[]),
    };
    let joint = decided.take_ready().expect("it is in memory");
    black_box(joint.expect("the list is valid")).is_admitted()
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

/// The most that an operation may take.
#[derive(Clone, Copy)]
enum Target {
    /// Of the time of a check.
    Ratio(f64),
    Nanos(f64),
}

impl Target {
    fn of(operation: &str) -> Option<Self> {
        match operation {
            "a check through another quota's handle" => Some(Self::Ratio(1.50)),
            "three demands by `decide`" => Some(Self::Ratio(3.60)),
            "`with_policy`, a quota seen before" => Some(Self::Nanos(100.0)),
            _ => None,
        }
    }

    fn show(self) -> String {
        match self {
            Self::Ratio(most) => format!("{most:.2}"),
            Self::Nanos(most) => format!("{most:.0} ns"),
        }
    }

    /// Returns what was measured if it is above the target.
    fn missed(self, operation: &Measured, check: &Measured) -> Option<String> {
        let ((median, ..), most, unit) = match self {
            Self::Ratio(most) => {
                (operation.nanos.over(&check.nanos).quartiles(), most, "times a check")
            }
            Self::Nanos(most) => (operation.nanos.quartiles(), most, "ns"),
        };
        (median > most).then(|| format!("{median:.2} {unit}"))
    }
}

/// Returns a line for each operation that misses its target.
pub(crate) fn missed(measured: &[Measured]) -> String {
    let of_operation = |operation: &Measured| {
        let target = Target::of(operation.name)?;
        let missed = target.missed(operation, &measured[0])?;
        Some(format!("- {}: {missed}, and the target is {}\n", operation.name, target.show()))
    };
    measured.iter().filter_map(of_operation).collect()
}

/// Returns the table of what was measured.
pub(crate) fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(&["operation", "ns", "ratio to a check", "target"]);
    for operation in measured {
        let target = Target::of(operation.name).map_or_else(String::new, Target::show);
        let ratio = operation.nanos.over(&measured[0].nanos).show(1.0, 2);
        let nanos = operation.nanos.show(1.0, 1);
        table.row([operation.name.to_owned(), nanos, ratio, target]);
    }
    table
}
