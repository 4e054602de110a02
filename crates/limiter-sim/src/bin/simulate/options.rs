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
    /// How many new seeds to run.
    count: Option<u64>,
    processes: Option<u32>,
    faults_for: Option<Micros>,
    without: Vec<Fault>,
    wrong: Vec<Wrong>,
}

/// What is run.
pub(super) enum What {
    /// Wrong variants, of which each is run until it is found.
    Variants(Vec<Variant>),
    Seed(u64),
    Seeds(Seeds),
}

/// A variant of the world that has to be found: its name, and its settings for the first seed.
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) settings: Settings,
}

const NAMES: &str =
    "--seed, --seeds, --minutes, --count, --processes, --faults-for, --without or --wrong";

impl Options {
    pub(super) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{name} needs a value"));
            match name.as_str() {
                "--seed" => options.seed = Some(number(&name, &value()?)?),
                "--seeds" => options.listed = Some(Seeds::listed_in(&value()?)?),
                "--minutes" => options.minutes = Some(number(&name, &value()?)?),
                "--count" => options.count = Some(number(&name, &value()?)?),
                "--processes" => options.processes = Some(number(&name, &value()?)?),
                "--faults-for" => options.faults_for = Some(number(&name, &value()?)?),
                "--without" => {
                    for kind in value()?.split(',') {
                        let unknown = || format!("unknown fault {kind:?}; use {}", fault_names());
                        options.without.push(Fault::named(kind).with_context(unknown)?);
                    }
                }
                "--wrong" => match value()?.as_str() {
                    "all" => options.wrong.extend(Wrong::all()),
                    wanted => {
                        let wrong = Wrong::all().find(|wrong| wrong.name() == wanted);
                        let names: Vec<_> = Wrong::all().map(Wrong::name).collect();
                        let names = names.join(", ");
                        let unknown = || format!("unknown variant {wanted:?}; use all, {names}");
                        options.wrong.push(wrong.with_context(unknown)?);
                    }
                },
                _ => bail!("unknown option {name:?}; use {NAMES}"),
            }
        }
        ensure!(
            options.minutes.is_none() || options.count.is_none(),
            "--minutes and --count exclude each other; use one of them"
        );
        Ok(options)
    }

    pub(super) fn what(&self) -> Result<What> {
        if !self.wrong.is_empty() {
            return Ok(What::Variants(
                self.wrong.iter().map(|wrong| self.variant(*wrong)).collect(),
            ));
        }
        let goal = match (self.minutes, self.count) {
            (Some(minutes), _) => Goal::Minutes(minutes),
            (_, Some(count)) => Goal::Count(count),
            // A list alone is run without others.
            (None, None) if self.listed.is_some() => Goal::Count(0),
            (None, None) => match self.seed {
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
