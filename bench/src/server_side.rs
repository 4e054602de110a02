//! How many decisions the server takes in a second, beside a script that decides nothing.

use anyhow::{Context, Result};

use crate::{
    Bench,
    capture::Captured,
    subjects::{self, Subject, Traffic},
    table::{Sample, Table},
    wire::{Calls, Pipe},
};

/// What no script with a state in a string can do without: the time, a read, and a write with an
/// expiry. No logic; the value comes of the time.
const FLOOR: &str = "local time = redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], time[1], 'PX', ARGV[1])
return 1";

/// The floor with a value that differs from call to call, as a moment does.
const MOMENT: &str = "local time = redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], time[1] .. time[2], 'PX', ARGV[1])
return 1";

/// The shortest GCRA there is: it trusts the clock, the value that it finds, and that the quota never
/// changes. A yardstick for the one that trusts none of them.
const TRUSTING: &str = "local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local drained = math.max(redis.call('GET', KEYS[1]) or 0, now) + ARGV[2]
local debt = drained - now
if debt > ARGV[1] * 1000 then
  return ARGV[2] - debt
end
redis.call('SET', KEYS[1], string.format('%d', drained), 'PX', string.format('%d', debt / 1000 + 1))
return debt";

/// The floor's expiry, and the shortest GCRA's burst, in milliseconds: the keys outlive the run, as
/// those of the policies do.
const HOUR: &[u8] = b"3600000";

/// The shortest GCRA's increment in microseconds: 100 permits an hour, as the policies have.
const INCREMENT: &[u8] = b"36000000";

/// A script that runs, and what was measured.
struct Runner {
    name: &'static str,
    traffic: Traffic,
    calls: Calls,
    limiter: Option<Captured>,
    rate: Sample,
    /// Decisions for each second that the server's process computed.
    busy_rate: Sample,
    /// The part of the time in which it did.
    busy: Sample,
    admitted: Sample,
}

/// Prints the scripts' speed.
pub(crate) fn table(bench: &Bench) -> Result<()> {
    let (mut runners, refused) = runners(bench)?;
    let mut pipe = Pipe::connect(bench.host.port())?;
    for runner in &mut runners {
        // Each key is there before anything is measured.
        pipe.run(&mut runner.calls, runner.traffic.warm_up(), runner.traffic.keys())?;
    }
    for round in 1..=bench.effort.rounds {
        eprintln!("scripts: round {round} of {}", bench.effort.rounds);
        for runner in &mut runners {
            runner.run(bench, &mut pipe).with_context(|| runner.name)?;
        }
        // There and back again: what drifts within a round favours none.
        runners.reverse();
    }
    if bench.effort.rounds % 2 == 1 {
        runners.reverse();
    }
    print(bench, &runners, &refused);
    Ok(())
}

/// Returns what runs, and the names of the policies that can't.
fn runners(bench: &Bench) -> Result<(Vec<Runner>, Vec<&'static str>)> {
    let nothing = "return 1";
    let mut runners = vec![
        Runner::bare(bench, "`return 1`", nothing, &[HOUR], "b00", Traffic::Many)?,
        Runner::bare(bench, "floor", FLOOR, &[HOUR], "b01", Traffic::Many)?,
        Runner::bare(bench, "floor", FLOOR, &[HOUR], "b02", Traffic::Few)?,
        Runner::bare(bench, "floor that stores a moment", MOMENT, &[HOUR], "b03", Traffic::Many)?,
        Runner::bare(bench, "shortest GCRA", TRUSTING, &[HOUR, INCREMENT], "b04", Traffic::Many)?,
    ];
    let mut refused = Vec::new();
    for (index, subject) in subjects::all()?.into_iter().enumerate() {
        match Captured::new(&subject.policy, &format!("s{index:02}")) {
            Ok(limiter) => runners.push(Runner::of(bench, &subject, limiter)?),
            Err(error) => {
                eprintln!("{}: {error}", subject.name);
                refused.push(subject.name);
            }
        }
    }
    Ok((runners, refused))
}

impl Runner {
    fn bare(
        bench: &Bench,
        name: &'static str,
        source: &str,
        arguments: &[&[u8]],
        prefix: &str,
        traffic: Traffic,
    ) -> Result<Self> {
        let key = |number| format!("{prefix}:{}:s{}", subjects::NAME, subjects::key(number));
        let keys: Vec<Vec<u8>> =
            (0..traffic.keys()).map(|number| key(number).into_bytes()).collect();
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.to_vec()).collect();
        let calls = Calls::new(&load(bench, source)?, &keys, &arguments);
        Ok(Self::new(name, traffic, calls, None))
    }

    fn of(bench: &Bench, subject: &Subject, limiter: Captured) -> Result<Self> {
        let first = subjects::key(0);
        let call = limiter.call(&first)?;
        let before = call.key.strip_suffix(first.as_bytes()).context("a key without its name")?;
        let key = |number| [before, subjects::key(number).as_bytes()].concat();
        let keys: Vec<_> = (0..subject.traffic.keys()).map(key).collect();
        let calls = Calls::new(&load(bench, &call.source)?, &keys, &call.arguments);
        Ok(Self::new(subject.name, subject.traffic, calls, Some(limiter)))
    }

    fn new(name: &'static str, traffic: Traffic, calls: Calls, limiter: Option<Captured>) -> Self {
        let [rate, busy_rate, busy, admitted] = Default::default();
        Self { name, traffic, calls, limiter, rate, busy_rate, busy, admitted }
    }

    fn run(&mut self, bench: &Bench, pipe: &mut Pipe) -> Result<()> {
        let warm_up = self.traffic.warm_up();
        if !warm_up.is_zero() {
            pipe.run(&mut self.calls, warm_up, 0)?;
        }
        let before = bench.host.busy()?;
        let outcome = pipe.run(&mut self.calls, bench.effort.script, 0)?;
        let busy = bench.host.busy()? - before;
        let (calls, seconds) = (outcome.calls as f64, outcome.time.as_secs_f64());
        self.rate.push(calls / seconds);
        self.busy_rate.push(calls / busy);
        self.busy.push(busy / seconds);
        if let Some(limiter) = &mut self.limiter {
            let mut admitted = 0;
            for reply in &outcome.replies {
                let decision = limiter.decision(reply)?;
                admitted += usize::from(decision.is_admitted());
            }
            self.admitted.push(admitted as f64 / outcome.replies.len() as f64);
        }
        Ok(())
    }
}

/// Loads a script, and returns its digest.
fn load(bench: &Bench, source: &str) -> Result<String> {
    let reply = bench.host.command(&["SCRIPT", "LOAD", source])?;
    Ok(reply.lines().next_back().unwrap_or_default().to_owned())
}

fn print(bench: &Bench, runners: &[Runner], refused: &[&str]) {
    println!(
        "**Scripts.** Thousands of decisions a second by EVALSHA on one connection without waiting \
         for replies: the median of {} rounds, and the range of the middle half of them. The floor \
         is TIME, GET and SET with PX, and no logic; the shortest GCRA is one that trusts the clock, \
         the value that it finds, and that its quota never changes. A ratio is that of a script's \
         rate to the rate of the floor with as many keys in the same round; by decisions a second, \
         and by decisions for each second that the server's process computed, which other processes \
         disturb less. With {} keys, all slots of a window are filled, and expire.\n",
        bench.effort.rounds,
        Traffic::Few.keys(),
    );
    let mut table = Table::new(&[
        "script",
        "keys",
        "1,000/s",
        "to the floor",
        "by the server's time",
        "server busy",
        "admitted",
    ]);
    for runner in runners {
        let floor =
            runners.iter().find(|floor| floor.name == "floor" && floor.traffic == runner.traffic);
        let ratio = |pick: fn(&Runner) -> &Sample| {
            floor.map_or(String::new(), |floor| pick(runner).over(pick(floor)).show(1.0, 2))
        };
        let admitted = runner.limiter.as_ref().map(|_| percent(&runner.admitted));
        table.row([
            runner.name.to_owned(),
            runner.traffic.keys().to_string(),
            runner.rate.show(1e3, 0),
            ratio(|runner| &runner.rate),
            ratio(|runner| &runner.busy_rate),
            percent(&runner.busy),
            admitted.unwrap_or_default(),
        ]);
    }
    table.print();
    if !refused.is_empty() {
        println!("Not there through Redis: {}.\n", refused.join("; "));
    }
}

fn percent(sample: &Sample) -> String {
    format!("{:.0} %", sample.quartiles().0 * 100.0)
}
