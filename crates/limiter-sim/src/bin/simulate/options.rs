//! The options of the program.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use limiter_sim::{Fault, Micros, Settings, Wrong};

use super::seeds::{Goal, Seeds, new_seed};

/// What to run.
#[derive(Default)]
pub(super) struct Options {
    /// The first seed. The default is the time.
    pub(super) seed: Option<u64>,
    /// Seeds to run before the others.
    listed: Option<Vec<u64>>,
    /// For how long to run one seed after the other. Without it, a given seed is run alone.
    minutes: Option<f64>,
    /// Until how many faults have happened.
    faults: Option<u64>,
    /// How many new seeds to run.
    count: Option<u64>,
    processes: Option<u32>,
    faults_for: Option<Micros>,
    without: Vec<Fault>,
    wrong: Vec<Wrong>,
    /// Whether processes have services. Without it, one of four seeds is run with them, too, if there are many.
    pub(super) services: bool,
    /// Whether callers hold permits of requests in flight. Without it, one of four seeds is run with them, too, if there are
    /// many.
    pub(super) in_flight: bool,
    /// Whether to print what many runs have found as sections of a page: of limiters, services and requests in flight.
    pub(super) sections: bool,
    /// Whether to print the table of the picture.
    picture: bool,
    /// Whether to compare loads with leases and without, instead of runs with faults.
    pub(super) compare: bool,
}

/// What is run.
pub(super) enum What {
    /// Wrong variants, of which each is run until it is found.
    Variants(Vec<Variant>),
    Seed(u64),
    /// The run of which there is a picture.
    Picture,
    Seeds(Seeds),
}

/// A variant of the world that has to be found: its name, and its settings for the first seed.
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) settings: Settings,
}

const NAMES: &str = "--seed, --seeds, --minutes, --faults, --count, --processes, --faults-for, --without, --wrong, \
                     --services, --in-flight, --sections, --picture or --compare";

impl Options {
    pub(super) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{name} needs a value"));
            match name.as_str() {
                "--seed" => options.seed = Some(number(&name, &value()?)?),
                "--seeds" => options.listed = Some(Seeds::listed_in(&value()?)?),
                "--minutes" => options.minutes = Some(number(&name, &value()?)?),
                "--faults" => options.faults = Some(number(&name, &value()?)?),
                "--count" => options.count = Some(number(&name, &value()?)?),
                "--processes" => options.processes = Some(number(&name, &value()?)?),
                "--faults-for" => options.faults_for = Some(number(&name, &value()?)?),
                "--without" => {
                    for kind in value()?.split(',') {
                        let unknown = || format!("unknown fault {kind:?}; use {}", fault_names());
                        options.without.push(Fault::named(kind).with_context(unknown)?);
                    }
                }
                "--services" => options.services = true,
                "--in-flight" => options.in_flight = true,
                "--sections" => options.sections = true,
                "--picture" => options.picture = true,
                "--compare" => options.compare = true,
                "--wrong" => match value()?.as_str() {
                    "all" => options.wrong.extend(Wrong::ALL),
                    wanted => {
                        let names = Wrong::ALL.map(Wrong::name).join(", ");
                        let wrong = Wrong::ALL.into_iter().find(|wrong| wrong.name() == wanted);
                        let unknown = || format!("unknown variant {wanted:?}; use all, {names}");
                        options.wrong.push(wrong.with_context(unknown)?);
                    }
                },
                _ => bail!("unknown option {name:?}; use {NAMES}"),
            }
        }
        let goals = [options.minutes.is_some(), options.faults.is_some(), options.count.is_some()];
        ensure!(
            goals.into_iter().filter(|is_given| *is_given).count() <= 1,
            "--minutes, --faults and --count exclude each other; use one of them"
        );
        ensure!(
            !options.services || !options.in_flight,
            "--services and --in-flight exclude each other; use one of them"
        );
        ensure!(
            !options.compare || !options.is_for_runs(),
            "--compare excludes all options but --seed, --seeds and --minutes; use it without them"
        );
        Ok(options)
    }

    /// Returns whether there are options that comparisons don't have.
    const fn is_for_runs(&self) -> bool {
        let are_changed =
            self.processes.is_some() || self.faults_for.is_some() || !self.without.is_empty();
        are_changed
            || self.services
            || self.in_flight
            || self.faults.is_some()
            || self.count.is_some()
            || self.sections
            || !self.wrong.is_empty()
            || self.picture
    }

    pub(super) fn what(&self) -> Result<What> {
        if !self.wrong.is_empty() {
            return Ok(What::Variants(
                self.wrong.iter().map(|wrong| self.variant(*wrong)).collect(),
            ));
        }
        if self.picture {
            return Ok(What::Picture);
        }
        let goal = match (self.minutes, self.faults, self.count) {
            (Some(minutes), ..) => Goal::Minutes(minutes),
            (_, Some(faults), _) => Goal::Faults(faults),
            (.., Some(count)) => Goal::Count(count),
            // A list alone is run without others.
            (None, None, None) if self.listed.is_some() => Goal::Count(0),
            (None, None, None) => match self.seed {
                Some(seed) => return Ok(What::Seed(seed)),
                None => Goal::Minutes(1.0),
            },
        };
        let first = self.seed.unwrap_or_else(new_seed);
        Ok(What::Seeds(Seeds::new(self.listed.clone().unwrap_or_default(), first, goal)))
    }

    pub(super) fn settings(&self, seed: u64) -> Settings {
        let default = Settings::default();
        Settings {
            seed,
            processes: self.processes,
            faults_for: self.faults_for.unwrap_or(default.faults_for),
            without: self.without.clone(),
            services: self.services,
            in_flight: self.in_flight,
            ..default
        }
    }

    fn variant(&self, wrong: Wrong) -> Variant {
        let mut settings = self.settings(self.seed.unwrap_or(1));
        settings.wrong = Some(wrong);
        settings.without.extend(wrong.best_without());
        Variant { name: wrong.name(), settings }
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().ok().with_context(|| format!("invalid {name} {value:?}; use a number"))
}

fn fault_names() -> String {
    let names: Vec<String> = Fault::all().map(Fault::name).collect();
    names.join(", ")
}
