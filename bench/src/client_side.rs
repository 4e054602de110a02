//! Decisions a second by a client, beside `fred` without the limiter and beside peers.

mod contenders;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use crate::{
    Bench, host, subjects,
    table::{Sample, Table},
};
use contenders::{Contender, NAMES};

const KEYS: usize = 100_000;

const TASKS: [usize; 3] = [1, 50, 500];

/// The figures of all contenders with one number of tasks, and keys that are all admitted or refused.
struct Race {
    tasks: usize,
    shared: Arc<Shared>,
    /// Checks a second.
    rates: [Sample; NAMES.len()],
    /// Checks for each second of this process's processor time.
    own: [Sample; NAMES.len()],
}

/// The figures of one turn.
struct Outcome {
    rate: f64,
    own: f64,
}

/// What the tasks share.
struct Shared {
    contenders: [Contender; NAMES.len()],
    keys: Vec<String>,
    admits: bool,
    /// Counts the checks, so that each key is checked in turn.
    next: AtomicUsize,
    over: AtomicBool,
}

/// Prints the speed of the clients.
pub(crate) fn table(bench: &Bench) -> Result<()> {
    let url = bench.host.url();
    let mut races = Vec::new();
    for (keys, admits) in [(KEYS, true), (1, false)] {
        let shared = Arc::new(bench.runtime.block_on(Shared::new(&url, keys, admits))?);
        let race = |tasks| Race {
            tasks,
            shared: Arc::clone(&shared),
            rates: Default::default(),
            own: Default::default(),
        };
        races.extend(TASKS.map(race));
    }
    for round in 0..bench.effort.rounds {
        eprintln!("clients: round {} of {}", round + 1, bench.effort.rounds);
        for race in &mut races {
            for turn in 0..NAMES.len() {
                // Each contender is first in one of the rounds.
                let index = (turn + round) % NAMES.len();
                let outcome = Arc::clone(&race.shared).run(bench, index, race.tasks);
                let context = || format!("{}: {} tasks", NAMES[index], race.tasks);
                let Outcome { rate, own } = outcome.with_context(context)?;
                race.rates[index].push(rate);
                race.own[index].push(own);
            }
        }
    }
    println!(
        "**Clients.** Thousands of decisions a second by one connection and concurrent tasks, \
         on Tokio's multi-threaded runtime: the median of {} rounds, and the range of the middle \
         half of them. Bare fred is the same script with the same arguments by `evalsha`. A ratio \
         is that of the rates in the same round. limiter-redis sends concurrent checks in batches, \
         and answers checks of a refused key from its cache of denials; the others send one call for \
         each check.\n",
        bench.effort.rounds
    );
    print(&races, |race| &race.rates);
    println!(
        "The same for each second of the client's processor time, which depends less on other \
         processes.\n"
    );
    print(&races, |race| &race.own);
    Ok(())
}

impl Shared {
    async fn new(url: &str, keys: usize, admits: bool) -> Result<Self> {
        let keys: Vec<String> = (0..keys).map(subjects::key).collect();
        let shared = Self {
            contenders: contenders::all(url, &keys, admits).await?,
            keys,
            admits,
            next: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        };
        if !admits {
            for contender in &shared.contenders {
                // Takes the only permit.
                contender.is_admitted(&shared.keys, 0).await?;
            }
        }
        Ok(shared)
    }

    /// Checks keys by concurrent tasks for the time of a turn.
    fn run(self: Arc<Self>, bench: &Bench, contender: usize, tasks: usize) -> Result<Outcome> {
        self.over.store(false, Relaxed);
        let (start, own) = (Instant::now(), host::own_seconds());
        let task = |_| bench.runtime.spawn(Arc::clone(&self).check_until_over(contender));
        let tasks: Vec<_> = (0..tasks).map(task).collect();
        // Not a timer of the runtime: tasks that never wait would delay it.
        thread::sleep(bench.effort.client);
        self.over.store(true, Relaxed);
        let mut checks = 0;
        for task in tasks {
            checks += bench.runtime.block_on(task)??;
        }
        let (seconds, own) = (start.elapsed().as_secs_f64(), host::own_seconds() - own);
        Ok(Outcome { rate: checks as f64 / seconds, own: checks as f64 / own })
    }

    async fn check_until_over(self: Arc<Self>, contender: usize) -> Result<usize> {
        let contender = &self.contenders[contender];
        let mut checks = 0;
        while !self.over.load(Relaxed) {
            let index = self.next.fetch_add(7_919, Relaxed) % self.keys.len();
            let admitted = contender.is_admitted(&self.keys, index).await?;
            ensure!(
                admitted == self.admits,
                "the key {:?}: admitted: {admitted}",
                self.keys[index]
            );
            checks += 1;
        }
        Ok(checks)
    }
}

fn print(races: &[Race], pick: fn(&Race) -> &[Sample; NAMES.len()]) {
    let [ours, fred, throttled, tower] = NAMES;
    let mut table = Table::new(&[
        "keys",
        "tasks",
        ours,
        fred,
        throttled,
        tower,
        "to bare fred",
        "to the better peer",
    ]);
    for race in races {
        let [ours, fred, throttled, tower] = pick(race);
        let keys = if race.shared.admits { "100,000, admitted" } else { "1, refused" };
        let mut cells = vec![keys.to_owned(), race.tasks.to_string()];
        cells.extend(pick(race).iter().map(|rate| rate.show(1e3, 1)));
        cells.push(ours.over(fred).show(1.0, 2));
        cells.push(ours.over(&throttled.max(tower)).show(1.0, 2));
        table.row(cells);
    }
    table.print();
}
