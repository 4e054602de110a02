//! Requests in flight: a permit is taken and given back, beside what programs do without a library.

use std::{
    collections::HashMap,
    hint::black_box,
    sync::{Arc, Mutex},
};

use dashmap::DashMap;
use limiter_core::{InFlight, InFlightBuilder};
use tokio::sync::Semaphore;

use crate::{
    Effort,
    keys::{Pattern, visits},
    measure::{self, Measured, keyed},
    report::thousands,
    subjects::{Keyed, Quota},
    table::Table,
};

const LIMIT: u32 = 100;
const SIZES: [usize; 2] = [1, 10_000];

/// The most nanoseconds to take a permit and to give it back, on one thread: 60 each.
const MOST_NANOS: f64 = 120.0;

/// Semaphores in a map, whose entries are never removed.
struct Semaphores(DashMap<String, Arc<Semaphore>>);

/// Counts in a map under a lock, each removed at zero.
struct Counts(Mutex<HashMap<String, u32>>);

impl Keyed<String> for InFlight {
    const NAME: &'static str = "InFlight";

    fn new(_: Quota, room: usize) -> Self {
        let builder =
            Self::builder("bench", LIMIT).capacity(room.max(InFlightBuilder::DEFAULT_CAPACITY));
        builder.build().expect("the settings are valid")
    }

    fn check(&self, key: &String) -> bool {
        black_box(self.try_enter(key)).is_admitted()
    }
}

impl Keyed<String> for Semaphores {
    const NAME: &'static str = "dashmap of tokio's Semaphore";

    fn new(_: Quota, _: usize) -> Self {
        Self(DashMap::new())
    }

    fn check(&self, key: &String) -> bool {
        let found = self.0.get(key).map(|semaphore| Arc::clone(&semaphore));
        let semaphore = found.unwrap_or_else(|| {
            let new = || Arc::new(Semaphore::new(LIMIT as usize));
            Arc::clone(&self.0.entry(key.clone()).or_insert_with(new))
        });
        black_box(semaphore.try_acquire_owned()).is_ok()
    }
}

impl Keyed<String> for Counts {
    const NAME: &'static str = "Mutex<HashMap> of counts";

    fn new(_: Quota, _: usize) -> Self {
        Self(Mutex::default())
    }

    fn check(&self, key: &String) -> bool {
        let is_admitted = {
            let mut counts = self.0.lock().expect("no panic");
            let count = counts.entry(key.clone()).or_default();
            let has_room = *count < LIMIT;
            *count += u32::from(has_room);
            has_room
        };
        let mut counts = self.0.lock().expect("no panic");
        if let Some(count) = counts.get_mut(key) {
            *count -= u32::from(black_box(is_admitted));
            if *count == 0 {
                counts.remove(key);
            }
        }
        is_admitted
    }
}

/// The measurements for some keys on some threads.
pub(crate) struct Cell {
    keys: usize,
    threads: usize,
    measured: Vec<Measured>,
}

pub(crate) fn measure(effort: &Effort) -> Vec<Cell> {
    let mut cells = Vec::new();
    for keys in SIZES {
        let visits: Vec<String> = visits(keys, Pattern::Uniform);
        let ours = <InFlight as Keyed<String>>::new(Quota::ADMITS_ALL, keys);
        let semaphores = Semaphores::new(Quota::ADMITS_ALL, keys);
        let counts = Counts::new(Quota::ADMITS_ALL, keys);
        for threads in [1, 2] {
            let runners = vec![
                keyed(&ours, &visits, threads),
                keyed(&semaphores, &visits, threads),
                keyed(&counts, &visits, threads),
            ];
            cells.push(Cell { keys, threads, measured: measure::rounds(effort, runners) });
        }
    }
    cells
}

/// Returns the table of what was measured.
pub(crate) fn table(cells: &[Cell]) -> Table {
    let names = cells.first().into_iter().flat_map(|cell| &cell.measured).map(|it| it.name);
    let head: Vec<_> = ["keys", "threads"].into_iter().chain(names).chain(["target"]).collect();
    let mut table = Table::new(&head);
    for cell in cells {
        let mut row = vec![thousands(cell.keys), cell.threads.to_string()];
        row.extend(cell.measured.iter().map(|measured| measured.nanos.show(1.0, 1)));
        let is_met = cell.measured.first().is_some_and(|it| it.nanos.quartiles().0 <= MOST_NANOS);
        row.push(match (cell.threads, is_met) {
            (1, true) => format!("{MOST_NANOS}"),
            (1, false) => format!("{MOST_NANOS}, missed"),
            _ => String::new(),
        });
        table.row(row);
    }
    table
}

/// What the table shows.
pub(crate) const CAPTION: &str = "ns to take a permit and to give it back, on 16-byte `&str` keys under a limit of 100, none \
     of which is held otherwise. Peers are what programs write by hand: a map of semaphores, which is never cleaned, and a \
     map of counts under one lock.";
