//! The processes of a fleet, and what they report.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{options::Options, totals::Report};

/// The processes. Dropping the fleet ends them.
#[derive(Debug)]
pub(crate) struct Fleet {
    processes: Vec<Child>,
    changes: Receiver<Change>,
    ended: usize,
}

#[derive(Debug)]
pub(crate) enum Change {
    /// A process has reported, at that time.
    Reported { process: usize, at: Instant, report: Report },
    /// The output of a process has ended.
    Ended { process: usize },
    /// The time is over.
    Nothing,
}

impl Fleet {
    /// Starts the processes, and returns once all are connected.
    pub(crate) fn start(words: &[String], options: &Options, url: &str, key: &str) -> Result<Self> {
        let (sender, changes) = channel();
        let mut fleet = Self { processes: Vec::new(), changes, ended: 0 };
        let program = env::current_exe()?;
        for number in 0..options.processes as usize {
            let mut command = Command::new(&program);
            command.args(["process", key]).args(words).env("REDIS_URL", url);
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let output = process.stdout.take().context("the output is a pipe")?;
            let sender = sender.clone();
            fleet.processes.push(process);
            thread::spawn(move || forward(number, BufReader::new(output), &sender));
        }
        let mut ready = 0;
        while ready < fleet.processes.len() {
            match fleet.wait(None)? {
                Some(Change::Reported { report: Report::Ready, .. }) => ready += 1,
                Some(Change::Reported { .. } | Change::Nothing) => {}
                Some(Change::Ended { process }) => bail!("process {} ended early", process + 1),
                None => bail!("all processes ended early"),
            }
        }
        Ok(fleet)
    }

    /// Lets the processes begin.
    pub(crate) fn begin(&mut self) -> Result<()> {
        for process in &mut self.processes {
            let mut input = process.stdin.take().context("the input is a pipe")?;
            writeln!(input, "begin")?;
        }
        Ok(())
    }

    /// Waits for a change, `until` then at most. Returns `None` if all processes have ended.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> Result<Option<Change>> {
        if self.ended == self.processes.len() {
            return Ok(None);
        }
        let change = match until {
            Some(until) => {
                self.changes.recv_timeout(until.saturating_duration_since(Instant::now()))
            }
            None => self.changes.recv().map_err(RecvTimeoutError::from),
        };
        match change {
            Ok(Change::Ended { process }) => {
                self.ended += 1;
                let child = self.processes.get_mut(process).context("the process is known")?;
                let status = child.wait()?;
                ensure!(status.success(), "process {} failed: {status}", process + 1);
                Ok(Some(Change::Ended { process }))
            }
            Ok(change) => Ok(Some(change)),
            Err(RecvTimeoutError::Timeout) => Ok(Some(Change::Nothing)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // An error means that it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Sends each line of a process until its output ends.
fn forward(process: usize, output: impl BufRead, sender: &Sender<Change>) {
    for line in output.lines().map_while(Result::ok) {
        if let Some(report) = Report::parse(&line) {
            // An error means that nobody receives it any more.
            let _ = sender.send(Change::Reported { process, at: Instant::now(), report });
        }
    }
    let _ = sender.send(Change::Ended { process });
}
