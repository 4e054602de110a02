//! How a cell is measured: rounds, in each of which every layer has a turn.

use std::{collections::HashMap, env, net::SocketAddr, process::Command, sync::Barrier, thread};

use anyhow::{Context, Result, ensure};
use cpu_time::ThreadTime;
use limiter_bench_layer::{
    SEPARATOR,
    cells::Cell,
    contenders::CONTENDERS,
    send::{self, Subject},
};

use crate::{Effort, table::Sample};

/// The measurements of one cell. The bare service is the first contender.
pub(crate) struct Measured {
    pub(crate) contenders: Vec<Contender>,
}

/// The measurements of one contender in one cell.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Nanoseconds of processor time a request.
    pub(crate) nanos: Sample,
    /// Nanoseconds a request more than the bare service in the same round.
    pub(crate) added: Sample,
}

/// Measures the layers of a cell. Each round begins with the next one.
pub(crate) fn rounds(effort: &Effort, cell: &Cell) -> Result<Measured> {
    let addresses = send::addresses();
    let build = |contender: &limiter_bench_layer::contenders::Contender| {
        let subject = (contender.build)(cell.setup)?;
        Some(Runner { name: contender.name, subject, addresses: &addresses, start: 0, requests: 0 })
    };
    let mut runners: Vec<Runner<'_>> = CONTENDERS.iter().filter_map(build).collect();
    for (index, runner) in runners.iter_mut().enumerate() {
        runner.prepare(effort, cell, index > 0 && cell.setup.refuses)?;
    }
    let new = |runner: &Runner<'_>| Contender {
        name: runner.name,
        nanos: Sample::default(),
        added: Sample::default(),
    };
    let mut contenders: Vec<Contender> = runners.iter().map(new).collect();
    let mut nanos = vec![0.0; runners.len()];
    for round in 0..effort.rounds {
        for place in 0..runners.len() {
            let index = (round + place) % runners.len();
            let runner = &mut runners[index];
            // The other layers have emptied the caches.
            runner.run(cell, runner.requests / 8);
            nanos[index] = runner.run(cell, runner.requests).0;
        }
        for (contender, &turn) in contenders.iter_mut().zip(&nanos) {
            contender.nanos.push(turn);
            contender.added.push(turn - nanos[0]);
        }
    }
    Ok(Measured { contenders })
}

struct Runner<'a> {
    name: &'static str,
    subject: Box<dyn Subject>,
    addresses: &'a [SocketAddr],
    /// The index of the next address.
    start: usize,
    /// The requests that fill a turn, on each thread.
    requests: usize,
}

impl Runner<'_> {
    /// Sends requests of all addresses, computes how many requests fill a turn, and fails if the
    /// limiter does not decide as the cell is named.
    fn prepare(&mut self, effort: &Effort, cell: &Cell, refuses: bool) -> Result<()> {
        self.subject.send(cell.call, &mut self.addresses.iter().copied());
        let sample = self.addresses.len();
        let (nanos, refused) = self.run(cell, sample);
        let expected = if refuses { sample * cell.threads } else { 0 };
        let name = self.name;
        ensure!(
            refused == expected,
            "{}: {name} refused {refused} requests, not {expected}",
            cell.name
        );
        self.requests = (effort.turn.as_nanos() as f64 / nanos) as usize;
        Ok(())
    }

    /// Sends so many requests on each thread. Returns the processor time a request in
    /// nanoseconds, and how many were refused.
    fn run(&mut self, cell: &Cell, requests: usize) -> (f64, usize) {
        let barrier = Barrier::new(cell.threads);
        let (subject, length) = (&*self.subject, self.addresses.len());
        let (addresses, start) = (self.addresses, self.start);
        self.start = (start + requests) % length;
        let timed = |thread: usize| {
            let start = (start + thread * length / cell.threads) % length;
            let addresses = addresses.iter().copied().cycle().skip(start).take(requests);
            let mut addresses = addresses;
            barrier.wait();
            let begin = ThreadTime::now();
            let refused = subject.send(cell.call, &mut addresses);
            (begin.elapsed().as_nanos() as f64, refused)
        };
        let results: Vec<(f64, usize)> = if cell.threads == 1 {
            vec![timed(0)]
        } else {
            thread::scope(|scope| {
                let timed = &timed;
                let spawn = |thread| scope.spawn(move || timed(thread));
                let spawned: Vec<_> = (0..cell.threads).map(spawn).collect();
                spawned.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            })
        };
        let nanos: f64 = results.iter().map(|result| result.0).sum();
        let refused = results.iter().map(|result| result.1).sum();
        (nanos / (cell.threads * requests) as f64, refused)
    }
}

/// Returns the allocations that a layer adds to a request, by the index of a cell and the name of a
/// contender. The program that counts them is built beside this one.
pub(crate) fn allocations() -> Result<HashMap<(usize, String), f64>> {
    let program = env::current_exe()?.with_file_name("allocations");
    let output = Command::new(&program).output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(output.status.success(), "{} failed", program.display());
    let parse = |line: &str| {
        let mut fields = line.split(SEPARATOR);
        let index = fields.next()?.parse().ok()?;
        let name = fields.next()?.to_owned();
        Some(((index, name), fields.next()?.parse().ok()?))
    };
    String::from_utf8(output.stdout)?
        .lines()
        .map(|line| parse(line).with_context(|| format!("cannot parse the count {line:?}")))
        .collect()
}
