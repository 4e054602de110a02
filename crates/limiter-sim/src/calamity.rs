//! The faults that happen to processes, their network and the server, and how they end.

use std::mem;

use limiter_core::Error;
use limiter_double::Refusal;

use crate::{
    fault::{Fault, Faults},
    server::{Server, Trouble},
    step::Step,
    vocabulary::{Micros, ProcessId, Subject},
    world::World,
    wrong::Wrong,
};

/// How long it takes until all processes have reloaded a quota.
const RELOADED_WITHIN: Micros = 1_000_000;

impl World {
    /// Takes a step. Those after the faults have ended only undo what they did.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), Error> {
        let is_over = self.executor.now() >= self.faults_until;
        match step {
            Step::Resume(process) => self.processes.resume(process),
            Step::Start(place) => self.processes.start(place)?,
            Step::Reload { place, limiter, tier } => self.processes.reload(place, limiter, tier),
            Step::NextFault | Step::Fault(_) | Step::Replicate if is_over => {}
            Step::FirstFault => {
                self.network.with_faults(Faults::begin);
                self.plan(0, Step::NextFault);
            }
            Step::LastFault => self.network.with_faults(Faults::end),
            Step::NextFault => {
                let (fault, gap) = self.network.with_faults(Faults::next);
                if let Some(fault) = fault {
                    self.plan(gap, Step::Fault(fault));
                }
                self.plan(gap, Step::NextFault);
            }
            Step::Fault(fault) => {
                let fault = self.wrong.map_or(fault, |wrong| wrong.in_place_of(fault));
                // Each fault draws from numbers of its own, so that the others stay the same without it.
                let random = self.random.fork();
                let others = mem::replace(&mut self.random, random);
                if !self.network.with_faults(|faults| faults.are_without(fault)) {
                    self.happens(fault)?;
                }
                self.random = others;
            }
            Step::Replicate => {
                self.network.with_servers(Server::replicate);
                let lag = self.random.between(10_000, 300_000);
                self.plan(lag, Step::Replicate);
            }
        }
        Ok(())
    }

    fn happens(&mut self, fault: Fault) -> Result<(), Error> {
        let now = self.executor.now();
        let node = self.any_node();
        let process = self.processes.any_that_runs(&mut self.random);
        let time = self.random.between(10_000, 1_500_000);
        let until = now + time;
        match fault {
            Fault::Stopped | Fault::Suspended | Fault::Killed | Fault::Cut | Fault::Partitioned => {
                let Some(process) = process else { return Ok(()) };
                self.happens_to(fault, process, time);
                return Ok(());
            }
            Fault::Stale => {
                let Some(process) = process else { return Ok(()) };
                self.network.with_server(node, |server| server.answers_stale(process, until));
                self.network.with_records(|records, moment| {
                    // The server's clock may be slewed meanwhile.
                    let from = moment.passed(node);
                    let end = from + time + time / 1_000 + 1;
                    records.auditor.have_incarnation(node, from, end);
                    records.auditor.in_flight.loses(node, until);
                });
            }
            Fault::Flooded => {
                let Some(process) = process else { return Ok(()) };
                self.processes.flood(process);
            }
            Fault::Slow => {
                let by = self.random.between(1_000, 80_000);
                self.network.slow_down(node, by, until);
            }
            Fault::ErrorReplies => {
                let troubles: &[Trouble] = match self.random.below(2) {
                    0 => &Trouble::OF_ALL_COMMANDS,
                    _ => &Trouble::OF_WRITES,
                };
                let trouble = self.random.pick(troubles).map(|trouble| (*trouble, until));
                self.network.with_server(node, |server| server.trouble = trouble);
            }
            Fault::ScriptsFlushed => {
                self.network.with_server(node, |server| server.flush_scripts(now));
            }
            Fault::Restarted => {
                self.network.with_server(node, |server| {
                    server.restart();
                    server.trouble = Some((Trouble::Refuses(Refusal::Loading), until));
                });
                self.loses_permits(node);
                self.starts_incarnation(node);
                self.cut_all(node);
            }
            Fault::FailedOver => {
                self.network.with_server(node, |server| {
                    server.fail_over();
                    // It is a replica until it is promoted.
                    server.trouble = Some((Trouble::Refuses(Refusal::ReadOnly), until));
                });
                self.loses_permits(node);
                self.starts_incarnation(node);
                self.cut_all(node);
            }
            Fault::Stepped => {
                let micros = self.random.around_zero(5_000_000);
                self.network.with_server(node, |server| server.clock.step(micros));
                self.starts_incarnation(node);
                self.network.with_records(|records, moment| {
                    let in_flight = &mut records.auditor.in_flight;
                    match micros {
                        0.. => in_flight.steps_ahead(node, moment.now),
                        ..0 => in_flight.stepped_back += micros.unsigned_abs(),
                    }
                });
            }
            Fault::Slewed => {
                let ppm = self.random.around_zero(300);
                self.network.with_server(node, |server| server.clock.slew(now, ppm));
            }
            Fault::QuotaReloaded => self.reload(),
            Fault::SettingsChanged => {
                let Some(process) = process else { return Ok(()) };
                self.change_settings(process)?;
            }
            Fault::RequestLost
            | Fault::ReplyLost
            | Fault::Delayed
            | Fault::Held
            | Fault::CallerLeaves
            | Fault::LateRefund
            | Fault::TierChanged => return Ok(()),
        }
        let lasts = matches!(
            fault,
            Fault::Stale | Fault::Slow | Fault::ErrorReplies | Fault::Restarted | Fault::FailedOver
        );
        self.note(None, fault, if lasts { until } else { 0 });
        Ok(())
    }

    fn happens_to(&mut self, fault: Fault, process: ProcessId, time: Micros) {
        let time = if fault == Fault::Cut { time / 10 } else { time };
        let until = self.executor.now() + time;
        let node = self.any_node();
        match fault {
            Fault::Stopped | Fault::Suspended => {
                let stands_still =
                    fault == Fault::Suspended || self.wrong == Some(Wrong::ClockStandsStill);
                self.processes.stop(process, stands_still, fault == Fault::Suspended);
                self.plan(time, Step::Resume(process));
            }
            Fault::Killed => {
                self.check_counters(process);
                if let Some(place) = self.processes.kill(process) {
                    self.plan(time, Step::Start(place));
                }
            }
            Fault::Cut => self.network.cut(process, node, until),
            _ => self.network.partition(process, node, until),
        }
        self.note(Some(process), fault, until);
    }

    /// Lets all processes use another tier of a limiter, each at a moment of its own.
    fn reload(&mut self) {
        let (limiter, tier) = self.processes.next_tier(&mut self.random);
        for place in 0..self.processes.number() as usize {
            let after = self.random.below(RELOADED_WITHIN);
            self.plan(after, Step::Reload { place, limiter, tier });
        }
    }

    /// Starts a process anew with other settings, or lets it share its keys with another number of processes.
    fn change_settings(&mut self, process: ProcessId) -> Result<(), Error> {
        if self.random.below(2) == 0 {
            let most = 2 * u64::from(self.processes.number());
            self.processes.share(process, self.random.between(1, most));
            return Ok(());
        }
        self.check_counters(process);
        match self.processes.kill(process) {
            Some(place) => self.processes.start_otherwise(place),
            None => Ok(()),
        }
    }

    /// Checks the counters of a process that is about to be killed.
    fn check_counters(&self, process: ProcessId) {
        if let Some(message) = self.processes.disagrees(process, false) {
            self.violated(Subject::ALL, &message);
        }
    }

    fn any_node(&mut self) -> usize {
        usize::try_from(self.random.below(self.network.nodes() as u64)).unwrap_or(0)
    }

    fn starts_incarnation(&self, node: usize) {
        self.network.with_records(|records, moment| {
            let at = moment.passed(node);
            records.auditor.have_incarnation(node, at, at);
        });
    }

    fn loses_permits(&self, node: usize) {
        self.network.with_records(|records, moment| {
            records.auditor.in_flight.loses(node, moment.now);
        });
    }

    fn cut_all(&mut self, node: usize) {
        let until = self.executor.now() + self.random.between(1_000, 100_000);
        for process in self.processes.ids() {
            self.network.cut(process, node, until);
        }
    }

    fn note(&self, process: Option<ProcessId>, fault: Fault, until: Micros) {
        self.network.with_faults(|faults| faults.count(fault));
        self.network.with_records(|records, moment| records.fault(moment, process, fault, until));
    }
}
