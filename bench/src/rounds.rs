//! How everything is measured: in rounds. Every contender has a turn in each.
//!
//! Each round begins with the next contender, and a ratio is that of two turns in the same round, so that a change of the
//! machine's speed affects both.

use std::{fmt, sync::Barrier, thread, time::Duration};

use anyhow::{Result, ensure};
use cpu_time::ThreadTime;

/// How much to measure.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) turn: Duration,
    /// The most keys.
    pub(crate) keys: usize,
}

/// What has a turn in each round: the turn returns its figures.
pub(crate) struct Contender<'a, const N: usize> {
    pub(crate) name: String,
    pub(crate) turn: Box<dyn FnMut() -> Result<[f64; N]> + 'a>,
}

/// The figures of a contender, each by round.
pub(crate) struct Measured<const N: usize> {
    pub(crate) name: String,
    pub(crate) figures: [Sample; N],
}

/// Measures contenders side by side.
pub(crate) fn rounds<const N: usize>(
    number: usize,
    mut contenders: Vec<Contender<'_, N>>,
) -> Result<Vec<Measured<N>>> {
    let mut all: Vec<_> = contenders
        .iter()
        .map(|it| Measured { name: it.name.clone(), figures: [(); N].map(|()| Sample::default()) })
        .collect();
    for round in 0..number {
        for place in 0..contenders.len() {
            let index = (round + place) % contenders.len();
            let figures = (contenders[index].turn)()?;
            for (sample, figure) in all[index].figures.iter_mut().zip(figures) {
                sample.0.push(figure);
            }
        }
    }
    Ok(all)
}

/// Returns a contender whose figure is the processor time of an operation in ns, while each thread runs as many.
///
/// `run` runs a number of operations, and returns how many were admitted: all, none or, without `admits`, any.
pub(crate) fn timed<'a>(
    name: &str,
    effort: &Effort,
    threads: usize,
    admits: Option<bool>,
    run: impl Fn(usize) -> usize + Sync + 'a,
) -> Contender<'a, 1> {
    let (wanted, mut number) = (effort.turn.as_nanos() as f64, 1_000);
    // The number that fills a turn.
    while on_threads(threads, number, &run).0 * (number as f64) < wanted / 20.0 {
        number *= 10;
    }
    number = (wanted / on_threads(threads, number, &run).0) as usize;
    let owned = name.to_owned();
    let turn = move || {
        // The other contenders have emptied the caches.
        on_threads(threads, number / 8, &run);
        let (nanos, admitted) = on_threads(threads, number, &run);
        let share = admitted as f64 / (number * threads) as f64;
        let is_right = admits.is_none_or(|all| if all { share > 0.99 } else { share < 0.01 });
        ensure!(is_right, "{owned}: {share:.3} of the operations were admitted");
        Ok([nanos])
    };
    Contender { name: name.to_owned(), turn: Box::new(turn) }
}

/// Returns a contender that visits keys in order, each thread from a place of its own. Before, each key is visited once.
pub(crate) fn keyed<'a, K: Sync>(
    name: &str,
    effort: &Effort,
    threads: usize,
    admits: Option<bool>,
    keys: &'a [K],
    check: impl Fn(&K) -> bool + Sync + 'a,
) -> Contender<'a, 1> {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    if admits.is_some() {
        keys.iter().for_each(|key| _ = check(key));
    }
    let next = AtomicUsize::new(0);
    timed(name, effort, threads, admits, move |number| {
        let start = next.fetch_add(number, Relaxed) % keys.len();
        let visits = keys[start..].iter().chain(keys.iter().cycle());
        visits.take(number).filter(|key| check(key)).count()
    })
}

/// Runs so many operations on each thread. Returns the processor time of one in ns, and how many were admitted.
fn on_threads(
    threads: usize,
    number: usize,
    run: &(impl Fn(usize) -> usize + Sync),
) -> (f64, usize) {
    let barrier = Barrier::new(threads);
    let one = || {
        barrier.wait();
        let begin = ThreadTime::now();
        let admitted = run(number);
        (begin.elapsed().as_nanos() as f64, admitted)
    };
    let results: Vec<(f64, usize)> = match threads {
        1 => vec![one()],
        _ => thread::scope(|scope| {
            let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            spawned.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        }),
    };
    let nanos: f64 = results.iter().map(|(nanos, _)| nanos).sum();
    (nanos / (threads * number) as f64, results.iter().map(|(_, admitted)| admitted).sum())
}

/// Measurements of the same thing, by round.
#[derive(Clone, Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    /// Returns the quotients of two samples.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    /// Returns the differences of two samples.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one - other).collect())
    }

    /// Prints the median, and half the interquartile range.
    pub(crate) fn show(&self, decimals: usize) -> String {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted.get(sorted.len() * part / 4).copied().unwrap_or(f64::NAN);
        let [low, median, high] = [1, 2, 3].map(at);
        let half = (high - low) / 2.0;
        format!("{median:.decimals$} ±{half:.decimals$}")
    }
}

/// A table in Markdown.
pub(crate) struct Table(String);

impl Table {
    pub(crate) fn new<S: AsRef<str>>(head: impl IntoIterator<Item = S>) -> Self {
        let mut table = Self(String::new());
        let columns = table.line(head);
        table.line(vec!["---"; columns]);
        table
    }

    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.line(cells);
    }

    fn line<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) -> usize {
        let cells: Vec<_> = cells.into_iter().map(|cell| cell.as_ref().to_owned()).collect();
        self.0 += &format!("| {} |\n", cells.join(" | "));
        cells.len()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
