//! Decisions a second by a client, beside `fred` without the limiter and beside peers.

mod contenders;
mod layers;

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
    targets::Ratio,
};
use contenders::{Contender, NAMES};

/// What all contenders check.
struct Scenario {
    name: &'static str,
    /// A letter for the names of the keys.
    letter: char,
    keys: usize,
    /// How many quotas the keys have, in turn.
    quotas: u16,
    /// Whether all checks are admitted, or else refused.
    admits: bool,
    tasks: &'static [usize],
    /// The least ratio of the limiter's rate to that of the better peer.
    target: Option<f64>,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "100,000, admitted",
        letter: 'a',
        keys: 100_000,
        quotas: 1,
        admits: true,
        tasks: &[1, 50, 500],
        target: None,
    },
    Scenario {
        name: "100,000 of 600 quotas, admitted",
        letter: 'q',
        keys: 100_000,
        quotas: 600,
        admits: true,
        tasks: &[500],
        target: Some(1.5),
    },
    Scenario {
        name: "1, refused",
        letter: 'r',
        keys: 1,
        quotas: 1,
        admits: false,
        tasks: &[1, 50, 500],
        target: None,
    },
];

/// The figures of all contenders in one scenario with one number of tasks.
pub(crate) struct Race {
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
    scenario: &'static Scenario,
    contenders: [Contender; NAMES.len()],
    keys: Vec<String>,
    /// Counts the checks, so that each key is checked in turn.
    next: AtomicUsize,
    over: AtomicBool,
}

/// Measures the speed of the clients.
pub(crate) fn measure(bench: &Bench) -> Result<Vec<Race>> {
    let url = bench.host.url();
    let mut races = Vec::new();
    for scenario in &SCENARIOS {
        let shared = Arc::new(bench.runtime.block_on(Shared::new(&url, scenario))?);
        let race = |tasks: &usize| Race {
            tasks: *tasks,
            shared: Arc::clone(&shared),
            rates: Default::default(),
            own: Default::default(),
        };
        races.extend(scenario.tasks.iter().map(race));
    }
    let rounds = bench.effort.clients.number;
    for round in 0..rounds {
        eprintln!("clients: round {} of {rounds}", round + 1);
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
    Ok(races)
}

/// Returns the ratios that have a target.
pub(crate) fn ratios(races: &[Race]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for race in races {
        let scenario = race.shared.scenario;
        if scenario.target.is_some() {
            let name = format!("{}, {} tasks: to the better peer", scenario.name, race.tasks);
            let [by_rate, by_time] = [&race.rates, &race.own].map(to_better_peer);
            ratios.push(Ratio { name, by_rate, by_time, target: scenario.target });
        }
    }
    ratios
}

fn to_better_peer([ours, _, throttled, tower, ..]: &[Sample; NAMES.len()]) -> Sample {
    ours.over(&throttled.max(tower))
}

/// Prints the speed of the clients.
pub(crate) fn print(bench: &Bench, races: &[Race]) {
    println!(
        "## Clients\n\nThousands of decisions a second by one connection and concurrent tasks, \
         on Tokio's multi-threaded runtime: the median of {} rounds, and the range of the middle \
         half of them. Bare fred is the same script with the same arguments by `evalsha`. A ratio \
         is that of the rates in the same round. limiter-redis sends concurrent checks in batches, \
         and answers checks of a refused key from its cache of denials; the others send one call for \
         each check. \
         A layer is in front of a service that answers at once, reads the key in a header field, and limiter-tower's adds \
         header fields to the response. \
         With 600 quotas, limiter-redis has a handle for each by `with_policy`, and all have one \
         connection.\n",
        bench.effort.clients.number
    );
    print_table(races, |race| &race.rates);
    println!(
        "The same for each second of the client's processor time, which depends less on other \
         processes.\n"
    );
    print_table(races, |race| &race.own);
}

impl Shared {
    async fn new(url: &str, scenario: &'static Scenario) -> Result<Self> {
        let keys: Vec<String> = (0..scenario.keys).map(subjects::key).collect();
        let shared = Self {
            scenario,
            contenders: contenders::all(url, &keys, scenario).await?,
            keys,
            next: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        };
        if !scenario.admits {
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
        thread::sleep(bench.effort.clients.turn);
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
                admitted == self.scenario.admits,
                "the key {:?}: admitted: {admitted}",
                self.keys[index]
            );
            checks += 1;
        }
        Ok(checks)
    }
}

fn print_table(races: &[Race], pick: fn(&Race) -> &[Sample; NAMES.len()]) {
    let ratios = ["to bare fred", "to the better peer", "layer to layer"];
    let head: Vec<_> = ["keys", "tasks"].into_iter().chain(NAMES).chain(ratios).collect();
    let mut table = Table::new(&head);
    for race in races {
        let rates = pick(race);
        let [ours, fred, .., layer, peer_layer] = rates;
        let mut cells = vec![race.shared.scenario.name.to_owned(), race.tasks.to_string()];
        cells.extend(rates.iter().map(|rate| rate.show(1e3, 1)));
        cells.push(ours.over(fred).show(1.0, 2));
        cells.push(to_better_peer(rates).show(1.0, 2));
        cells.push(layer.over(peer_layer).show(1.0, 2));
        table.row(cells);
    }
    table.print();
}
