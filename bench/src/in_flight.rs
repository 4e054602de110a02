//! Requests in flight: a permit is taken and given back, beside what programs do without a library.

use std::{
    collections::HashMap,
    hint::black_box,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use dashmap::DashMap;
use limiter_core::InFlight;
use tokio::sync::Semaphore;

use crate::{
    memory::keys,
    rounds::{Effort, Table, keyed, rounds},
};

const LIMIT: u32 = 100;

pub(crate) fn print(effort: &Effort) -> Result<()> {
    println!(
        "## Requests in flight\n\nns to take a permit and to give it back. At most two of {LIMIT} are held. Peers are \
         what programs write by hand: a map of semaphores, which is never cleaned, and a map of counts under one lock.\n"
    );
    let peers = ["InFlight", "dashmap of tokio's Semaphore", "Mutex<HashMap> of counts"];
    let mut table = Table::new(["keys", "threads"].into_iter().chain(peers));
    for (number, threads) in [(1, 1), (1, 2), (10_000, 1), (10_000, 2)] {
        let visits = keys(0, number);
        let ours = InFlight::new("bench", LIMIT)?;
        let (semaphores, counts) = (DashMap::new(), Mutex::new(HashMap::new()));
        let [first, second, third] = peers;
        let contenders = vec![
            keyed(first, effort, threads, Some(true), &visits, |key: &String| {
                black_box(ours.try_enter(key)).is_admitted()
            }),
            keyed(second, effort, threads, Some(true), &visits, |key: &String| {
                black_box(semaphore(&semaphores, key).try_acquire_owned()).is_ok()
            }),
            keyed(third, effort, threads, Some(true), &visits, |key: &String| count(&counts, key)),
        ];
        let measured = rounds(effort.rounds, contenders)?;
        let figures = measured.iter().map(|it| it.figures[0].show(1));
        table.row([number.to_string(), threads.to_string()].into_iter().chain(figures));
    }
    println!("{table}");
    Ok(())
}

fn semaphore(semaphores: &DashMap<String, Arc<Semaphore>>, key: &String) -> Arc<Semaphore> {
    let found = semaphores.get(key).map(|semaphore| Arc::clone(&semaphore));
    found.unwrap_or_else(|| {
        let new = || Arc::new(Semaphore::new(LIMIT as usize));
        Arc::clone(&semaphores.entry(key.clone()).or_insert_with(new))
    })
}

fn count(counts: &Mutex<HashMap<String, u32>>, key: &String) -> bool {
    let is_admitted = {
        let mut counts = counts.lock().expect("no panic");
        let count = counts.entry(key.clone()).or_default();
        let has_room = *count < LIMIT;
        *count += u32::from(has_room);
        has_room
    };
    let mut counts = counts.lock().expect("no panic");
    if let Some(count) = counts.get_mut(key) {
        *count -= u32::from(black_box(is_admitted));
        if *count == 0 {
            counts.remove(key);
        }
    }
    is_admitted
}
