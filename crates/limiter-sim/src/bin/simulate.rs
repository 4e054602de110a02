//! Runs simulations of many seeds, and prints what they found: see `cargo xtask simulate`.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use limiter_sim::{Fault, Micros, Report, Settings, Wrong, run};

/// What to run.
struct Options {
    /// The first seed. The default is the time.
    seed: Option<u64>,
    /// For how long to run one seed after the other. Without it, a given seed is run alone.
    minutes: Option<f64>,
    processes: Option<u32>,
    /// The variants of which one after the other is run until it is found.
    wrong: Vec<Wrong>,
}

/// How many seeds a wrong variant gets.
const MOST_SEEDS: u64 = 1_000;

/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

fn main() -> Result<ExitCode> {
    let options = Options::read(std::env::args().skip(1))?;
    let is_right = match options.wrong.is_empty() {
        true => simulate(&options),
        false => find(&options),
    };
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self { seed: None, minutes: None, processes: None, wrong: Vec::new() };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{name} needs a value"));
            match name.as_str() {
                "--seed" => options.seed = Some(number(&name, &value()?)?),
                "--minutes" => options.minutes = Some(number(&name, &value()?)?),
                "--processes" => options.processes = Some(number(&name, &value()?)?),
                "--wrong" => match value()?.as_str() {
                    "all" => options.wrong.extend(Wrong::ALL),
                    wanted => {
                        let names = Wrong::ALL.map(Wrong::name).join(", ");
                        let wrong = Wrong::ALL.into_iter().find(|wrong| wrong.name() == wanted);
                        let unknown = || format!("unknown variant {wanted:?}; use all, {names}");
                        options.wrong.push(wrong.with_context(unknown)?);
                    }
                },
                _ => {
                    bail!("unknown option {name:?}; use --seed, --minutes, --processes or --wrong")
                }
            }
        }
        Ok(options)
    }

    fn settings(&self, seed: u64) -> Settings {
        Settings { seed, processes: self.processes, ..Settings::default() }
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().ok().with_context(|| format!("invalid {name} {value:?}; use a number"))
}

/// What many runs have found.
#[derive(Default)]
struct Total {
    runs: u64,
    simulated: Micros,
    decisions: u64,
    faults: BTreeMap<Fault, u64>,
    violations: usize,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.simulated += report.simulated;
        self.decisions += report.decisions;
        self.violations += report.violations.len();
        for (fault, count) in &report.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    /// Returns the figures in one line.
    fn line(&self, took: Duration) -> String {
        let (simulated, took) = (self.simulated / 1_000_000, took.as_secs().max(1));
        let faults: u64 = self.faults.values().sum();
        let Self { runs, decisions, violations, .. } = self;
        format!(
            "{runs} runs, {:.1} simulated hours, {decisions} decisions, {faults} faults, {violations} violations; {} \
             simulated seconds and {} decisions a second",
            Duration::from_secs(simulated).as_secs_f64() / 3_600.0,
            simulated / took,
            decisions / took,
        )
    }
}

/// Runs one seed, or seeds until the time is over. Returns whether there was no violation.
fn simulate(options: &Options) -> bool {
    let minutes = options.minutes.or(options.seed.is_none().then_some(1.0)).unwrap_or(0.0);
    let first = options.seed.unwrap_or_else(new_seed);
    let (begin, mut printed, mut total) = (Instant::now(), Instant::now(), Total::default());
    for seed in first.. {
        let report = run(&options.settings(seed));
        total.add(&report);
        if options.minutes.is_none() && options.seed.is_some() || !report.violations.is_empty() {
            print!("{report}");
        }
        if printed.elapsed() > PROGRESS {
            printed = Instant::now();
            eprintln!("seed {seed}: {}", total.line(begin.elapsed()));
        }
        if begin.elapsed().as_secs_f64() >= 60.0 * minutes {
            break;
        }
    }
    println!("{}", total.line(begin.elapsed()));
    for (fault, count) in &total.faults {
        println!("{count:>9}  {fault}");
    }
    total.violations == 0
}

/// Runs each wrong variant until it is found. Returns whether all were.
fn find(options: &Options) -> bool {
    let first = options.seed.unwrap_or(1);
    let mut found_all = true;
    for wrong in &options.wrong {
        let mut seeds = first..first + MOST_SEEDS;
        let report = seeds.find_map(|seed| {
            let report = run(&Settings { wrong: Some(*wrong), ..options.settings(seed) });
            (!report.violations.is_empty()).then_some(report)
        });
        let name = wrong.name();
        match report {
            Some(report) => {
                let seeds = report.seed - first + 1;
                let message = report.violations.first().map_or("", |it| it.message.as_str());
                println!("{name}: found within {seeds} seeds: {message}");
            }
            None => {
                println!("{name}: NOT found within {MOST_SEEDS} seeds");
                found_all = false;
            }
        }
    }
    found_all
}

/// Returns a seed that was hardly run before.
fn new_seed() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(1)
}
