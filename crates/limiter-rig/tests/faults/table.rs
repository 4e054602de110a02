//! The table of what was measured.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::FAULTS;

/// What a limiter did in one fault.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) fault: &'static str,
    /// What follows without the store: the error, or a decision by a share.
    pub(crate) follows: &'static str,
    pub(crate) decisions: usize,
    /// How many of them were decided neither by the store nor by its earlier refusals.
    pub(crate) without_store: usize,
    pub(crate) slowest: Duration,
    pub(crate) short_circuited: u64,
    pub(crate) undetermined: u64,
    pub(crate) double_charges: u64,
    /// From the end of the fault to the first decision of the store.
    pub(crate) recovery: Duration,
    /// From the end of the fault to the last answer that was not by the store: on a busy machine the
    /// breaker may open once more, since replies are slow.
    pub(crate) last_without: Duration,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Adds the rows of a fault, and prints them; and all rows, once it was the last.
pub(crate) fn add(rows: &[Row]) {
    let mut all = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    all.extend_from_slice(rows);
    print(rows);
    if all.len() == rows.len() * FAULTS {
        println!("\nAll faults:");
        print(&all);
    }
}

fn print(rows: &[Row]) {
    println!(
        "\n| fault | without the store | checks | of these without | slowest | not asked | undetermined \
         | double charges | recovery | last without |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    rows.iter().for_each(|row| println!("{row}"));
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fault, follows, decisions, without_store, short_circuited, undetermined, ..
        } = self;
        let slowest = self.slowest.as_secs_f64() * 1e3;
        let recovery = self.recovery.as_secs_f64() * 1e3;
        let last_without = self.last_without.as_secs_f64() * 1e3;
        write!(
            f,
            "| {fault} | {follows} | {decisions} | {without_store} | {slowest:.1} ms | {short_circuited} \
             | {undetermined} | {} | {recovery:.0} ms | {last_without:.0} ms |",
            self.double_charges
        )
    }
}
