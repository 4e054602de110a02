//! What is measured: the cells of the report.

use std::{net::IpAddr, sync::Arc, thread, time::Duration};

use anyhow::{Result, ensure};
use governor::DefaultKeyedRateLimiter;
use limiter_core::MemoryLimiter;
use rate_net::RateLimiter;

use crate::{
    Effort,
    keys::{Key, Pattern, visits},
    measure::{self, Measured, Runner},
    report::thousands,
    subjects::{self, ForAll, Keyed, Quota},
    table::Sample,
};

/// What the checks of a cell lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Admitted,
    Refused,
    /// Each check has a key that was never seen.
    Fresh,
    /// Admitted in a table that other keys have filled and left ten times.
    Warm,
}

impl Outcome {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Refused => "refused",
            Self::Fresh => "fresh keys",
            Self::Warm => "admitted in a warm table",
        }
    }
}

/// Limiters side by side at the same work.
pub(crate) struct Cell {
    /// The kind of key, `None` of limiters for everybody.
    pub(crate) kind: Option<&'static str>,
    pub(crate) keys: usize,
    pub(crate) pattern: Pattern,
    pub(crate) outcome: Outcome,
    pub(crate) threads: usize,
    /// Ours, governor, and others.
    pub(crate) measured: Vec<Measured>,
}

impl Cell {
    /// Returns ours as a ratio to governor, round by round.
    pub(crate) fn ratio(&self) -> Sample {
        match self.measured.as_slice() {
            [ours, governor, ..] => ours.nanos.over(&governor.nanos),
            _ => Sample::default(),
        }
    }

    /// Returns what is measured, in words.
    pub(crate) fn name(&self) -> String {
        let (pattern, outcome) = (self.pattern.name(), self.outcome.name());
        let threads = self.threads();
        match (self.kind, self.keys) {
            (None, _) => format!("one key for all, {outcome}, {threads}"),
            (Some(kind), 1) => format!("{kind}, 1 key, {outcome}, {threads}"),
            (Some(kind), _) if self.outcome == Outcome::Fresh => {
                format!("{kind}, {outcome}, {threads}")
            }
            (Some(kind), keys) => {
                format!("{kind}, {} keys, {pattern}, {outcome}, {threads}", thousands(keys))
            }
        }
    }

    pub(crate) const fn threads(&self) -> &'static str {
        if self.threads == 1 { "1 thread" } else { "2 threads" }
    }

    /// Fails if the checks did not lead to what they are named after.
    fn verify(self) -> Result<Self> {
        for Measured { name, admitted, .. } in &self.measured {
            let right = match self.outcome {
                Outcome::Admitted | Outcome::Warm => *admitted > 0.99,
                Outcome::Refused => *admitted < 0.01,
                // Keys that find no room are refused.
                Outcome::Fresh => true,
            };
            ensure!(right, "{}: {name} admitted {admitted:.3} of the checks", self.name());
        }
        Ok(self)
    }
}

/// Measures all cells.
pub(crate) fn all(effort: &Effort) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for_all(effort, &mut cells)?;
    keyed::<String>(effort, &mut cells)?;
    warm(effort, &mut cells)?;
    keyed::<u64>(effort, &mut cells)?;
    keyed::<IpAddr>(effort, &mut cells)?;
    Ok(cells)
}

fn for_all(effort: &Effort, cells: &mut Vec<Cell>) -> Result<()> {
    for (outcome, quota) in OUTCOMES {
        for threads in [1, 2] {
            let limiters = subjects::for_all(quota);
            if outcome == Outcome::Refused {
                for limiter in &limiters {
                    limiter.check_many(1);
                }
            }
            let runner = |limiter: &Arc<dyn ForAll>| measure::for_all(Arc::clone(limiter), threads);
            let runners = limiters.iter().map(runner).collect();
            let cell = Cell {
                kind: None,
                keys: 1,
                pattern: Pattern::Uniform,
                outcome,
                threads,
                measured: measure::rounds(effort, runners),
            };
            cells.push(shown(cell).verify()?);
        }
    }
    Ok(())
}

const OUTCOMES: [(Outcome, Quota); 2] =
    [(Outcome::Admitted, Quota::ADMITS_ALL), (Outcome::Refused, Quota::ADMITS_ONE)];

/// The limiters of a kind of key.
struct Limiters<K: Key> {
    ours: MemoryLimiter,
    governor: DefaultKeyedRateLimiter<K>,
    rate_net: RateLimiter,
}

impl<K: Key> Limiters<K> {
    fn new(quota: Quota, room: usize) -> Self {
        Self {
            ours: Keyed::<K>::new(quota, room),
            governor: Keyed::<K>::new(quota, room),
            rate_net: Keyed::<K>::new(quota, room),
        }
    }

    /// Checks each key once.
    fn fill(&self, keys: usize) {
        self.fill_from(0, keys);
    }

    /// Checks so many keys once, beginning with a number.
    fn fill_from(&self, first: usize, keys: usize) {
        for key in (first..first + keys).map(K::of) {
            Keyed::check(&self.ours, &key);
            Keyed::check(&self.governor, &key);
            Keyed::check(&self.rate_net, &key);
        }
    }

    /// Measures them side by side.
    fn rounds(&self, effort: &Effort, visits: &[K], threads: usize) -> Vec<Measured> {
        let runners = vec![
            measure::keyed(&self.ours, visits, threads),
            measure::keyed(&self.governor, visits, threads),
            measure::keyed(&self.rate_net, visits, threads),
        ];
        measure::rounds(effort, runners)
    }
}

fn keyed<K: Key>(effort: &Effort, cells: &mut Vec<Cell>) -> Result<()> {
    for (outcome, quota) in OUTCOMES {
        for keys in effort.sizes.iter().copied() {
            let limiters = Limiters::<K>::new(quota, keys);
            limiters.fill(keys);
            for pattern in [Pattern::Uniform, Pattern::Zipf] {
                if keys == 1 && pattern == Pattern::Zipf {
                    continue;
                }
                let visits: Vec<K> = visits(keys, pattern);
                for threads in [1, 2] {
                    let measured = limiters.rounds(effort, &visits, threads);
                    let kind = Some(K::KIND);
                    let cell = Cell { kind, keys, pattern, outcome, threads, measured };
                    cells.push(shown(cell).verify()?);
                }
            }
        }
    }
    for threads in [1, 2] {
        cells.push(shown(flood::<K>(effort, threads)));
    }
    Ok(())
}

/// Keys that came after ten generations of others, each of which filled half of the limiter and then
/// recovered: they have their slots where the others have left some.
fn warm(effort: &Effort, cells: &mut Vec<Cell>) -> Result<()> {
    const ROOM: usize = 1_000_000;
    const KEYS: usize = ROOM / 2;
    const RECOVERY: Duration = Duration::from_millis(600);
    let limiters = Limiters::<String>::new(Quota::KEEPS_DEBT, ROOM);
    for generation in 1..=10 {
        limiters.fill_from(generation * KEYS, KEYS);
        thread::sleep(RECOVERY);
    }
    limiters.fill(KEYS);
    let visits: Vec<String> = visits(KEYS, Pattern::Uniform);
    for threads in [1, 2] {
        let measured = limiters.rounds(effort, &visits, threads);
        let (kind, outcome, pattern) = (Some(String::KIND), Outcome::Warm, Pattern::Uniform);
        let cell = Cell { kind, keys: KEYS, pattern, outcome, threads, measured };
        cells.push(shown(cell).verify()?);
    }
    Ok(())
}

/// A flood of fresh keys through limiters for a million, which are full at the start.
fn flood<K: Key>(effort: &Effort, threads: usize) -> Cell {
    const ROOM: usize = 1_000_000;
    let limiters = Limiters::<K>::new(Quota::COMMON, ROOM);
    limiters.fill(2 * ROOM);
    let mut next = 2 * ROOM;
    let fresh = |_| {
        let keys: Vec<K> = (next..next + effort.flood).map(K::of).collect();
        next += effort.flood;
        keys
    };
    // Each turn visits its keys once.
    let floods: Vec<Vec<K>> = (0..effort.rounds).map(fresh).collect();
    let runners: Vec<Runner<'_>> = vec![
        measure::flood(&limiters.ours, &floods, threads),
        measure::flood(&limiters.governor, &floods, threads),
        measure::flood(&limiters.rate_net, &floods, threads),
    ];
    let measured = measure::same_rounds(effort, runners);
    let (kind, outcome) = (Some(K::KIND), Outcome::Fresh);
    Cell { kind, keys: ROOM, pattern: Pattern::Uniform, outcome, threads, measured }
}

/// Reports progress.
fn shown(cell: Cell) -> Cell {
    let show = |measured: &Measured| format!("{} {}", measured.name, measured.nanos.show(1.0, 0));
    let measured: Vec<String> = cell.measured.iter().map(show).collect();
    eprintln!("{}: ns {}; {}", cell.name(), measured.join(", "), cell.ratio().show(1.0, 2));
    cell
}
