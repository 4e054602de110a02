//! A fleet with leases beside one that makes calls, where leases might be worse.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use limiter_core::{Cost, Policy};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use tokio::runtime::Builder;

use crate::{PROCESSES, Turn, begins, child::Job, middle, proxy};

/// What both fleets do.
struct Cell {
    name: &'static str,
    policy: &'static str,
    /// How much longer a proxy makes each round trip, in ms. It is 0 without a proxy.
    trip: u64,
    keys: usize,
    pattern: &'static str,
    /// How many times the limit the processes try together. With 0, as fast as they can.
    load: f64,
    /// Whether the burst of each key is used up at the start. Unused, it would cover what leases lose in a short turn.
    starts_drained: bool,
}

const DEADLINE: Duration = limiter_redis::Builder::DEFAULT_DEADLINE;

/// Permits of a key a second, and its burst.
const RATE: f64 = 2_000.0;
const KEYS: usize = 4;
const GCRA: &str = "2000/s";
const FIXED: &str = "2000/s by fixed-window";
const SLIDING: &str = "2000/s by sliding-counter";

const CELLS: [Cell; 13] = [
    steady("trip of 1 ms, 0.9 of the limit", 1, 0.9),
    steady("trip of 5 ms, 0.9 of the limit", 5, 0.9),
    steady("trip of 15 ms, 0.9 of the limit", 15, 0.9),
    steady("trip of 40 ms, 0.9 of the limit", 40, 0.9),
    Cell {
        name: "100,000 keys in turn, as fast as it goes",
        policy: GCRA,
        trip: 0,
        keys: 100_000,
        pattern: "keys in turn",
        load: 0.0,
        starts_drained: false,
    },
    even("0.3 of the limit", GCRA, 0.3),
    steady("0.9 of the limit", 0, 0.9),
    even("0.9 of the limit, fixed window", FIXED, 0.9),
    even("0.9 of the limit, sliding counter", SLIDING, 0.9),
    steady("1.5 of the limit", 0, 1.5),
    bursts("bursts, 0.9 of the limit", GCRA),
    bursts("bursts, 0.9 of the limit, fixed window", FIXED),
    bursts("bursts, 0.9 of the limit, sliding counter", SLIDING),
];

const fn steady(name: &'static str, trip: u64, load: f64) -> Cell {
    Cell { trip, starts_drained: true, ..even(name, GCRA, load) }
}

const fn bursts(name: &'static str, policy: &'static str) -> Cell {
    Cell { pattern: "bursts", ..even(name, policy, 0.9) }
}

const fn even(name: &'static str, policy: &'static str, load: f64) -> Cell {
    Cell { name, policy, trip: 0, keys: KEYS, pattern: "even", load, starts_drained: false }
}

impl Cell {
    fn trip(&self) -> Duration {
        Duration::from_millis(self.trip)
    }

    /// The default deadline, or five trips where it has no room for two.
    fn deadline(&self) -> Duration {
        if 2 * self.trip() > DEADLINE { 5 * self.trip() } else { DEADLINE }
    }

    fn turn(&self, server: &Server, url: &str, contender: &str, seconds: u64) -> Result<Turn> {
        server.command(&["FLUSHALL"])?;
        let job = Job {
            contender: contender.to_owned(),
            url: url.to_owned(),
            policy: self.policy.to_owned(),
            deadline: self.deadline(),
            keys: self.keys,
            pattern: self.pattern.to_owned(),
            checks: self.load * RATE * self.keys as f64 / PROCESSES as f64,
            begins: begins()?,
            seconds: seconds as f64,
            log: None,
        };
        if self.starts_drained {
            self.drain(server, job.begins)?;
        }
        job.fleet(server)
    }

    /// Charges each key its burst and what recovers until `begins`, so that it has neither permits nor a debt then.
    fn drain(&self, server: &Server, begins: Duration) -> Result<()> {
        Builder::new_current_thread().enable_all().build()?.block_on(async {
            let policy = Policy::parse("fleet", self.policy)?;
            let limiter = RedisLimiter::builder(policy).connect(&server.url()).await?;
            for key in 0..self.keys {
                let left = begins.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH)?);
                let permits = (RATE * (1.0 + left.as_secs_f64())) as u64;
                let charged =
                    limiter.charge(format!("tenant-{key}").as_str(), Cost::new(permits)?).await?;
                ensure!(charged.permits() == permits, "not all was charged");
            }
            Ok(())
        })
    }
}

/// Runs each cell with leases and without in each round, and returns the report.
pub(crate) fn report(server: &Server, rounds: usize, seconds: u64) -> Result<String> {
    let mut urls = Vec::new();
    for cell in &CELLS {
        urls.push(if cell.trip == 0 { server.url() } else { proxy::start(server, cell.trip())? });
    }
    let mut rows: Vec<Row> = CELLS.iter().map(|_| Row::default()).collect();
    for round in 1..=rounds {
        for ((cell, url), row) in CELLS.iter().zip(&urls).zip(&mut rows) {
            eprintln!("round {round} of {rounds}: with leases and without, {}", cell.name);
            row.leases.push(cell.turn(server, url, "leases", seconds)?);
            row.calls.push(cell.turn(server, url, "calls", seconds)?);
        }
    }
    let mut text = format!(
        "\n## Leases beside calls\n\n{PROCESSES} processes with one connection each, for {seconds} s; {KEYS} keys and \
         GCRA unless a line says otherwise. Each key has {RATE} permits a second, and GCRA a burst of one second. Where \
         checks are evenly spread at 0.9 of the limit or more, the burst is used up at the start. Below full speed, \
         checks do not wait for each other. Bursts are all checks of a second within its first 200 ms. A proxy adds the \
         trip to each round trip, half of it each way. The deadline is {} ms, the default, and {} ms where that has no \
         room for two trips. With leases / without: the median of {rounds} rounds; of the ratio, the least and the \
         greatest too.\n\n\
         | load | checks, 1,000/s | admitted | ratio | refused, % | failed, % | calls a decision |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
        DEADLINE.as_millis(),
        CELLS.iter().map(Cell::deadline).max().unwrap_or_default().as_millis(),
    );
    let (mut fewer, mut refused) = (Vec::new(), Vec::new());
    for (cell, row) in CELLS.iter().zip(&rows) {
        text.push_str(&format!("| {} | {} |\n", cell.name, row.figures().join(" | ")));
        if median(row.ratios()) < 0.99 {
            fewer.push(cell.name);
        }
        let [leases, calls] = row.medians(Turn::refused);
        if cell.load < 1.0 && leases > calls + 1.0 {
            refused.push(cell.name);
        }
    }
    text.push_str(&format!(
        "\nLeases admit fewer, by a ratio below 0.99, in {} of {} lines{}. Below the limit, they refuse over 1 % more \
         of the checks in {}{}.\n",
        fewer.len(),
        CELLS.len(),
        listed(&fewer),
        refused.len(),
        listed(&refused),
    ));
    Ok(text)
}

/// The turns of a cell.
#[derive(Default)]
struct Row {
    leases: Vec<Turn>,
    calls: Vec<Turn>,
}

impl Row {
    fn figures(&self) -> [String; 6] {
        [
            self.both(|turn| turn.decisions / turn.seconds / 1e3, 1),
            self.both(|turn| turn.admitted, 0),
            middle(self.ratios().collect(), 3),
            self.both(Turn::refused, 2),
            self.both(|turn| turn.failed / turn.decisions * 100.0, 2),
            self.both(|turn| turn.calls / turn.decisions, 4),
        ]
    }

    /// Returns the admissions by leases divided by those by calls, of each round.
    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.leases.iter().zip(&self.calls).map(|(leases, calls)| leases.admitted / calls.admitted)
    }

    /// Returns the median with leases, and without.
    fn medians(&self, figure: impl Fn(&Turn) -> f64) -> [f64; 2] {
        [&self.leases, &self.calls].map(|turns| median(turns.iter().map(&figure)))
    }

    fn both(&self, figure: impl Fn(&Turn) -> f64, digits: usize) -> String {
        let [leases, calls] = self.medians(figure);
        format!("{leases:.digits$} / {calls:.digits$}")
    }
}

impl Turn {
    /// Returns how many percent of the checks were refused.
    fn refused(&self) -> f64 {
        (self.decisions - self.admitted - self.failed) / self.decisions * 100.0
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { String::new() } else { format!(" ({})", names.join("; ")) }
}
