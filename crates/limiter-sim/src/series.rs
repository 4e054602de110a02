//! What became of one key over time, as a table that `cargo xtask plots` draws.

use std::fmt::Write;

use limiter_core::Source;

use crate::{
    fault::Fault,
    vocabulary::{Micros, ProcessId, Subject},
};

/// How long a row of the table is.
const ROW: Micros = 50_000;

/// What became of one key.
#[derive(Clone, Debug)]
pub struct Series {
    pub(crate) subject: Subject,
    burst: u64,
    permits: u64,
    window: Micros,
    until: Micros,
    admissions: Vec<Admission>,
    /// When permits came back, and how many.
    refunds: Vec<(Micros, u64)>,
    /// When callers reset the key.
    resets: Vec<Micros>,
    leases: Vec<Lease>,
    /// Faults, from when to when.
    faults: Vec<(Fault, Micros, Micros)>,
}

#[derive(Clone, Copy, Debug)]
struct Admission {
    at: Micros,
    process: ProcessId,
    source: Source,
    permits: u64,
}

/// Permits that the server charged for a lease of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) process: ProcessId,
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    pub(crate) permits: u64,
}

impl Series {
    /// Returns the empty series of a key, with the burst, the permits and the window of its limit.
    pub(crate) fn new(
        subject: Subject,
        (burst, permits, window): (u64, u64, Micros),
        until: Micros,
    ) -> Self {
        let (admissions, refunds) = (Vec::new(), Vec::new());
        let (resets, leases, faults) = (Vec::new(), Vec::new(), Vec::new());
        Self { subject, burst, permits, window, until, admissions, refunds, resets, leases, faults }
    }

    pub(crate) fn admitted(
        &mut self,
        at: Micros,
        process: ProcessId,
        source: Source,
        permits: u64,
    ) {
        self.admissions.push(Admission { at, process, source, permits });
    }

    pub(crate) fn refunded(&mut self, at: Micros, permits: u64) {
        self.refunds.push((at, permits));
    }

    pub(crate) fn was_reset(&mut self, at: Micros) {
        self.resets.push(at);
    }

    pub(crate) fn leased(&mut self, lease: Lease) {
        self.leases.push(lease);
    }

    /// Adds a fault, which ends at once if `until` is 0. A process that is killed loses its leases.
    pub(crate) fn fault(
        &mut self,
        at: Micros,
        process: Option<ProcessId>,
        fault: Fault,
        until: Micros,
    ) {
        if fault == Fault::Killed {
            let lost = self.leases.iter_mut().filter(|lease| Some(lease.process) == process);
            lost.for_each(|lease| lease.until = lease.until.min(at));
        }
        self.faults.push((fault, at, until.max(at)));
    }

    /// Returns the table as comma-separated values, in milliseconds: the limit; for each row how many permits were admitted
    /// by the server, by leases and by the shares of processes, the most of the burst that was in use, and how many permits
    /// leases held; and the faults.
    #[must_use]
    pub fn table(&self) -> String {
        let Self { burst, permits, window, .. } = self;
        let mut table = format!("limit,{burst},{permits},{}\n", window / 1_000);
        let (used, held) = (self.used(), self.held());
        for (row, (used, held)) in used.into_iter().zip(held).enumerate() {
            let from = row as u64 * ROW;
            let of = |is_of: fn(Source) -> bool| -> u64 {
                let admissions = self.admissions.iter().filter(|it| is_of(it.source));
                let within = admissions.filter(|it| it.at / ROW == row as u64);
                within.map(|it| it.permits).sum()
            };
            let lease = of(|source| source == Source::Lease);
            let share = of(|source| source == Source::Local);
            let server = of(|source| !matches!(source, Source::Lease | Source::Local));
            let _ = writeln!(table, "row,{},{server},{lease},{share},{used},{held}", from / 1_000);
        }
        for (fault, from, to) in &self.faults {
            let _ = writeln!(table, "fault,{},{},{}", fault, from / 1_000, to / 1_000);
        }
        for at in &self.resets {
            let _ = writeln!(table, "fault,reset by a caller,{0},{0}", at / 1_000);
        }
        table
    }

    fn rows(&self) -> usize {
        usize::try_from(self.until / ROW).unwrap_or(0)
    }

    /// Returns the most of the burst that admissions by the server and by leases used in each row, if what they used came
    /// back at the limit's rate.
    fn used(&self) -> Vec<u64> {
        let counted = self.admissions.iter().filter(|it| it.source != Source::Local);
        let mut changes: Vec<(Micros, i64)> =
            counted.map(|it| (it.at, it.permits.cast_signed())).collect();
        changes.extend(self.refunds.iter().map(|(at, permits)| (*at, -permits.cast_signed())));
        changes.extend(self.resets.iter().map(|at| (*at, i64::MIN)));
        changes.sort_by_key(|(at, _)| *at);
        // In permits times the window, so that it is exact.
        let (window, mut used, mut since) = (i128::from(self.window), 0_i128, 0);
        let mut rows = vec![0; self.rows()];
        for (at, permits) in changes {
            used = (used - i128::from(at - since) * i128::from(self.permits)).max(0);
            used = (used + i128::from(permits) * window).max(0);
            since = at;
            let row = usize::try_from(at / ROW).ok().and_then(|row| rows.get_mut(row));
            if let Some(row) = row {
                *row = (*row).max(u64::try_from(used / window.max(1)).unwrap_or(0));
            }
        }
        rows
    }

    /// Returns how many permits leases held at the end of each row. A process spends its oldest lease first.
    fn held(&self) -> Vec<u64> {
        let mut left = self.leases.clone();
        let mut spent = self.admissions.iter().filter(|it| it.source == Source::Lease).peekable();
        let mut rows = Vec::new();
        for row in 1..=self.rows() {
            let end = row as u64 * ROW;
            while let Some(admission) = spent.next_if(|it| it.at < end) {
                let mut permits = admission.permits;
                let has_some = |it: &&mut Lease| {
                    it.process == admission.process
                        && it.from <= admission.at
                        && it.until >= admission.at
                };
                for lease in left.iter_mut().filter(has_some) {
                    let less = permits.min(lease.permits);
                    (permits, lease.permits) = (permits - less, lease.permits - less);
                }
            }
            let live = left.iter().filter(|lease| lease.from < end && lease.until >= end);
            rows.push(live.map(|lease| lease.permits).sum());
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ProcessId = ProcessId(1);

    #[test]
    fn a_row_has_what_was_admitted_used_and_held() {
        let mut series = Series::new(Subject(0), (10, 20, 1_000_000), 4 * ROW);
        series.admitted(0, ONE, Source::State, 4);
        series.leased(Lease { process: ONE, from: 10_000, until: 110_000, permits: 5 });
        series.admitted(50_000, ONE, Source::Lease, 2);
        series.admitted(60_000, ONE, Source::Local, 1);
        series.refunded(150_000, 1);
        series.fault(100_000, Some(ONE), Fault::Stopped, 120_000);
        series.fault(130_000, None, Fault::Restarted, 0);
        let table = "limit,10,20,1000\n\
                     row,0,4,0,0,4,5\nrow,50,0,2,1,5,3\nrow,100,0,0,0,0,0\nrow,150,0,0,0,2,0\n\
                     fault,process stopped,100,120\nfault,server restarted empty,130,130\n";
        assert_eq!(series.table(), table);
    }

    #[test]
    fn a_killed_process_loses_its_leases() {
        let mut series = Series::new(Subject(0), (10, 20, 1_000_000), 2 * ROW);
        series.leased(Lease { process: ONE, from: 0, until: 2 * ROW, permits: 5 });
        series.fault(ROW + 1, Some(ONE), Fault::Killed, 0);
        assert_eq!(series.held(), [5, 0]);
    }
}
