//! The options of the program.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use limiter_sim::{Fault, Settings, Wrong};

use super::seeds::{listed_in, new_seed};

/// What to run.
#[derive(Default)]
pub(super) struct Options {
    /// The first seed. The default is the time.
    pub(super) seed: Option<u64>,
    /// Seeds to run before the others.
    listed: Option<Vec<u64>>,
    /// How many new seeds to run. Without it, a given seed is run alone.
    count: Option<u64>,
    /// Those of each seed.
    settings: Settings,
    wrong: Vec<Wrong>,
}

/// What is run.
pub(super) enum What {
    /// Wrong variants, of which each is run until it is found.
    Variants(Vec<Wrong>),
    Seed(u64),
    Seeds(Vec<u64>),
}

/// How many new seeds are run without options, in about a minute.
const NEW_SEEDS: u64 = 180;

const NAMES: &str = "--seed, --seeds, --count, --processes, --faults-for, --without or --wrong";

impl Options {
    pub(super) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{name} needs a value"));
            match name.as_str() {
                "--seed" => options.seed = Some(number(&name, &value()?)?),
                "--seeds" => options.listed = Some(listed_in(&value()?)?),
                "--count" => options.count = Some(number(&name, &value()?)?),
                "--processes" => options.settings.processes = Some(number(&name, &value()?)?),
                "--faults-for" => options.settings.faults_for = number(&name, &value()?)?,
                "--without" => {
                    for kind in value()?.split(',') {
                        let names = || Fault::all().map(Fault::name).collect::<Vec<_>>().join(", ");
                        let unknown = || format!("unknown fault {kind:?}; use {}", names());
                        options.settings.without.push(Fault::named(kind).with_context(unknown)?);
                    }
                }
                "--wrong" => {
                    let wanted = value()?;
                    let names: Vec<_> = Wrong::all().map(Wrong::name).collect();
                    let is_known = wanted == "all" || names.contains(&&*wanted);
                    ensure!(is_known, "unknown variant {wanted:?}; use all, {}", names.join(", "));
                    let wrong = Wrong::all().filter(|it| wanted == "all" || it.name() == wanted);
                    options.wrong.extend(wrong);
                }
                _ => bail!("unknown option {name:?}; use {NAMES}"),
            }
        }
        Ok(options)
    }

    pub(super) fn what(&self) -> What {
        match (&self.listed, self.count, self.seed) {
            _ if !self.wrong.is_empty() => What::Variants(self.wrong.clone()),
            (None, None, Some(seed)) => What::Seed(seed),
            (listed, count, seed) => {
                // A list alone is run without others.
                let count = count.unwrap_or(if listed.is_some() { 0 } else { NEW_SEEDS });
                let first = seed.unwrap_or_else(new_seed);
                let new = (0..count).map(|number| first.wrapping_add(number));
                What::Seeds(listed.iter().flatten().copied().chain(new).collect())
            }
        }
    }

    pub(super) fn settings(&self, seed: u64) -> Settings {
        Settings { seed, ..self.settings.clone() }
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().ok().with_context(|| format!("invalid {name} {value:?}; use a number"))
}
