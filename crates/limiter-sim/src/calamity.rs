//! The faults that happen to processes, their network and the server, and how they end.

use std::mem;

use limiter_core::Error;

use crate::{
    fault::{Fault, Faults},
    server::Server,
    step::Step,
    vocabulary::{Micros, ProcessId, Subject},
    world::World,
    wrong::Wrong,
};

/// What servers reply while they can't execute a call.
const ERRORS: [&str; 5] = [
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
];

impl World {
    /// Takes a step. Those after the faults have ended only undo what they did.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), Error> {
        let is_over = self.executor.now() >= self.faults_until;
        match step {
            Step::Resume(process) => self.processes.resume(process),
            Step::Start(place) => self.processes.start(place)?,
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
                    self.happens(fault);
                }
                self.random = others;
            }
            Step::Replicate => {
                self.network.with_server(Server::replicate);
                let lag = self.random.between(10_000, 300_000);
                self.plan(lag, Step::Replicate);
            }
        }
        Ok(())
    }

    fn happens(&mut self, fault: Fault) {
        let now = self.executor.now();
        let process = self.processes.any_that_runs(&mut self.random);
        let time = self.random.between(10_000, 1_500_000);
        let until = now + time;
        match fault {
            Fault::Stopped | Fault::Suspended | Fault::Killed | Fault::Cut | Fault::Partitioned => {
                let Some(process) = process else { return };
                self.happens_to(fault, process, time);
                return;
            }
            Fault::Stale => {
                let Some(process) = process else { return };
                self.network.with_server(|server| server.answers_stale(process, until));
                self.network.with_records(|records, moment| {
                    // The server's clock may be slewed meanwhile.
                    let end = moment.passed + time + time / 1_000 + 1;
                    records.auditor.have_incarnation(moment.passed, end);
                });
            }
            Fault::Flooded => {
                let Some(process) = process else { return };
                self.processes.flood(process);
            }
            Fault::Slow => {
                let by = self.random.between(1_000, 80_000);
                self.network.slow_down(by, until);
            }
            Fault::ErrorReplies => {
                let error = self.random.pick(&ERRORS).copied().unwrap_or_default();
                self.network.with_server(|server| server.refuses = Some((error, until)));
            }
            Fault::ScriptsFlushed => {
                self.network.with_server(|server| server.flush_scripts(now));
            }
            Fault::Restarted => {
                self.network.with_server(Server::restart);
                self.starts_incarnation();
                self.cut_all();
            }
            Fault::FailedOver => {
                self.network.with_server(Server::fail_over);
                self.starts_incarnation();
                self.cut_all();
            }
            Fault::Stepped => {
                let micros = self.random.around_zero(5_000_000);
                self.network.with_server(|server| server.clock.step(micros));
                self.starts_incarnation();
            }
            Fault::Slewed => {
                let ppm = self.random.around_zero(300);
                self.network.with_server(|server| server.clock.slew(now, ppm));
            }
            Fault::RequestLost
            | Fault::ReplyLost
            | Fault::Delayed
            | Fault::Held
            | Fault::CallerLeaves
            | Fault::LateRefund => return,
        }
        let lasts = matches!(fault, Fault::Stale | Fault::Slow | Fault::ErrorReplies);
        self.note(None, fault, if lasts { until } else { 0 });
    }

    fn happens_to(&mut self, fault: Fault, process: ProcessId, time: Micros) {
        let time = if fault == Fault::Cut { time / 10 } else { time };
        let until = self.executor.now() + time;
        match fault {
            Fault::Stopped | Fault::Suspended => {
                let stands_still =
                    fault == Fault::Suspended || self.wrong == Some(Wrong::ClockStandsStill);
                self.processes.stop(process, stands_still, fault == Fault::Suspended);
                self.plan(time, Step::Resume(process));
            }
            Fault::Killed => {
                let disagreement = self.processes.disagrees(process);
                if let Some(message) = disagreement {
                    self.violated(Subject::ALL, &message);
                }
                if let Some(place) = self.processes.kill(process) {
                    self.plan(time, Step::Start(place));
                }
            }
            Fault::Cut => self.network.cut(process, until),
            _ => self.network.partition(process, until),
        }
        self.note(Some(process), fault, until);
    }

    fn starts_incarnation(&self) {
        self.network.with_records(|records, moment| {
            records.auditor.have_incarnation(moment.passed, moment.passed);
        });
    }

    fn cut_all(&mut self) {
        let until = self.executor.now() + self.random.between(1_000, 100_000);
        for process in self.processes.ids() {
            self.network.cut(process, until);
        }
    }

    fn note(&self, process: Option<ProcessId>, fault: Fault, until: Micros) {
        self.network.with_faults(|faults| faults.count(fault));
        self.network.with_records(|records, moment| records.fault(moment, process, fault, until));
    }
}
