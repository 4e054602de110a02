//! How a cell is measured: rounds, in each of which every limiter has a turn.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

use crate::{
    Effort,
    keys::Key,
    subjects::{ForAll, Keyed},
    table::Sample,
};

/// What one limiter did in one turn.
pub(crate) struct Turn {
    /// Nanoseconds a check, on average over the threads.
    pub(crate) nanos: f64,
    /// Which part of the checks was admitted.
    pub(crate) admitted: f64,
}

/// A limiter in a cell: runs so many checks on each thread.
pub(crate) struct Runner<'a> {
    pub(crate) name: &'static str,
    pub(crate) run: Box<dyn FnMut(usize) -> Turn + 'a>,
}

/// The measurements of one limiter in one cell.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) nanos: Sample,
    /// The part that was admitted, in all turns together.
    pub(crate) admitted: f64,
}

/// Measures limiters side by side. Each round begins with the next limiter.
pub(crate) fn rounds(effort: &Effort, mut runners: Vec<Runner<'_>>) -> Vec<Measured> {
    let checks: Vec<usize> = runners.iter_mut().map(|runner| calibrate(effort, runner)).collect();
    interleave(effort, runners, |index, runner| {
        // The other limiters have emptied the caches.
        let _ = (runner.run)(checks[index] / 8);
        (runner.run)(checks[index])
    })
}

/// Measures limiters side by side, each round with the same keys for all.
pub(crate) fn same_rounds(effort: &Effort, runners: Vec<Runner<'_>>) -> Vec<Measured> {
    interleave(effort, runners, |_, runner| (runner.run)(effort.flood))
}

fn interleave(
    effort: &Effort,
    mut runners: Vec<Runner<'_>>,
    mut turn: impl FnMut(usize, &mut Runner<'_>) -> Turn,
) -> Vec<Measured> {
    let new = |runner: &Runner<'_>| Measured {
        name: runner.name,
        nanos: Sample::default(),
        admitted: 0.0,
    };
    let mut measured: Vec<Measured> = runners.iter().map(new).collect();
    for round in 0..effort.rounds {
        for place in 0..runners.len() {
            let index = (round + place) % runners.len();
            let turn = turn(index, &mut runners[index]);
            measured[index].nanos.push(turn.nanos);
            measured[index].admitted += turn.admitted / effort.rounds as f64;
        }
    }
    measured
}

/// Returns how many checks fill a turn.
fn calibrate(effort: &Effort, runner: &mut Runner<'_>) -> usize {
    let mut checks = 1_000;
    loop {
        let nanos = (runner.run)(checks).nanos;
        let wanted = effort.turn.as_nanos() as f64 / nanos;
        if wanted < checks as f64 * 20.0 {
            return (wanted as usize).max(1_000);
        }
        checks *= 10;
    }
}

/// Returns a runner that visits keys in order, each thread from a place of its own.
pub(crate) fn keyed<'a, K: Key, L: Keyed<K>>(
    limiter: &'a L,
    visits: &'a [K],
    threads: usize,
) -> Runner<'a> {
    let mut start = 0;
    let run = move |checks| {
        let turn = on_threads(threads, checks, |thread| {
            let start = (start + thread * visits.len() / threads) % visits.len();
            let visits = visits[start..].iter().chain(visits.iter().cycle());
            visits.take(checks).filter(|key| limiter.check(key)).count()
        });
        start = (start + checks) % visits.len();
        turn
    };
    Runner { name: L::NAME, run: Box::new(run) }
}

/// Returns a runner of a limiter for everybody.
pub(crate) fn for_all(limiter: Arc<dyn ForAll>, threads: usize) -> Runner<'static> {
    let name = limiter.name();
    let run = move |checks| on_threads(threads, checks, |_| limiter.check_many(checks));
    Runner { name, run: Box::new(run) }
}

/// Returns a runner whose every turn takes the next of the floods, a share on each thread.
pub(crate) fn flood<'a, K: Key, L: Keyed<K>>(
    limiter: &'a L,
    floods: &'a [Vec<K>],
    threads: usize,
) -> Runner<'a> {
    let mut floods = floods.iter();
    let run = move |checks| {
        let keys = floods.next().map_or(&[][..], Vec::as_slice);
        let share = checks / threads;
        on_threads(threads, share, |thread| {
            keys.iter().skip(thread * share).take(share).filter(|key| limiter.check(key)).count()
        })
    };
    Runner { name: L::NAME, run: Box::new(run) }
}

/// Runs the same number of checks on each thread, and returns what they took.
pub(crate) fn on_threads(
    threads: usize,
    checks: usize,
    check: impl Fn(usize) -> usize + Sync,
) -> Turn {
    let start = Barrier::new(threads);
    let timed = |thread| {
        start.wait();
        let begin = Instant::now();
        let admitted = check(thread);
        (begin.elapsed().as_nanos() as f64, admitted as f64)
    };
    let results = if threads == 1 {
        vec![timed(0)]
    } else {
        thread::scope(|scope| {
            let timed = &timed;
            let spawned: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || timed(thread))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join();
            spawned.into_iter().map(join).collect::<Result<_, _>>().expect("no panic")
        })
    };
    let all = (threads * checks) as f64;
    let sum = |part: fn(&(f64, f64)) -> f64| results.iter().map(part).sum::<f64>();
    Turn { nanos: sum(|result| result.0) / all, admitted: sum(|result| result.1) / all }
}
