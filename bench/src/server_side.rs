//! Decisions a second by the server, beside a script without logic and beside the classic scripts.

mod figures;

use anyhow::{Context, Result, ensure};
use limiter_redis::ScriptReply;

pub(crate) use figures::{Figures, print, ratios};

use crate::{
    Bench, Rounds,
    capture::Captured,
    classics::{self, Classic},
    subjects::{self, Subject, Traffic},
    targets::{FLOOR, PAIRS},
    wire::{Calls, Pipe},
};

/// What each script with a state in a string needs: the time, a read, and a write with an expiry. It
/// has no logic, and its value is from the clock.
const FLOOR_SOURCE: &str = "local time = redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], time[1], 'PX', ARGV[1])
return 1";

/// The floor with a value that differs from call to call, as a timestamp does.
const TIMESTAMP: &str = "local time = redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], time[1] .. time[2], 'PX', ARGV[1])
return 1";

/// The shortest possible GCRA: it trusts the clock and the value that it reads, and assumes that the
/// quota never changes. Replies the debt if it admits, and else a number that is not positive.
const SHORTEST: &str = "local time = redis.call('TIME')
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
const HOUR: &str = "3600000";

/// The shortest GCRA's increment in microseconds: 100 permits an hour, as the policies have.
const INCREMENT: &str = "36000000";

/// A script and its figures.
struct Runner {
    calls: Calls,
    replies: Replies,
    figures: Figures,
}

/// How replies are read.
enum Replies {
    /// They are not decisions.
    Ignored,
    /// The first integer is positive if the check was admitted.
    FirstInteger,
    /// By the limiter that the script belongs to.
    Limiter(Captured),
}

/// Measures the scripts' speed.
pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figures>> {
    let mut runners = runners(bench)?;
    let mut pipe = Pipe::connect(bench.host.port())?;
    for Runner { calls, figures, .. } in &mut runners {
        // Each key has a state before anything is measured.
        pipe.run(calls, figures.traffic.warm_up(), figures.traffic.keys())?;
    }
    for traffic in [Traffic::Many, Traffic::Few] {
        let is_turn = |runner: &&mut Runner| runner.figures.traffic == traffic;
        let mut turns: Vec<&mut Runner> = runners.iter_mut().filter(is_turn).collect();
        if turns.is_empty() {
            continue;
        }
        let Rounds { number, .. } = bench.effort.scripts(traffic);
        for round in 1..=number {
            eprintln!("scripts with {} keys: round {round} of {number}", traffic.keys());
            for runner in &mut turns {
                runner.run(bench, &mut pipe).with_context(|| runner.figures.name.clone())?;
            }
            // The order alternates, so that a drift within rounds favours no script.
            turns.reverse();
        }
    }
    Ok(runners.into_iter().map(|runner| runner.figures).collect())
}

fn runners(bench: &Bench) -> Result<Vec<Runner>> {
    use Replies::{FirstInteger, Ignored};
    use Traffic::{Few, Many};

    let script = |name: &str, source, arguments: &[&str]| Classic {
        name: name.to_owned(),
        source,
        arguments: arguments.iter().map(ToString::to_string).collect(),
    };
    let bare = [
        (script("`return 1`", "return 1", &[HOUR]), Many, Ignored),
        (script("floor that stores a timestamp", TIMESTAMP, &[HOUR]), Many, Ignored),
        (script("shortest GCRA", SHORTEST, &[HOUR, INCREMENT]), Many, FirstInteger),
    ];
    let mut runners = Vec::new();
    for (index, (script, traffic, replies)) in bare.into_iter().enumerate() {
        if bench.measures(&script.name) {
            runners.push(Runner::bare(bench, script, &format!("b{index:02}"), traffic, replies)?);
        }
    }
    for (index, subject) in subjects::all()?.into_iter().enumerate() {
        if bench.measures(subject.name) {
            runners.push(Runner::of(bench, &subject, &format!("s{index:02}"))?);
        }
    }
    for (index, (script, traffic)) in classics::all().into_iter().enumerate() {
        if bench.measures(&script.name) {
            let prefix = format!("c{index:02}");
            runners.push(Runner::bare(bench, script, &prefix, traffic, FirstInteger)?);
        }
    }
    ensure!(!runners.is_empty(), "no script has a name that contains any of {:?}", bench.names);
    for (traffic, prefix) in [(Few, "f00"), (Many, "f01")] {
        if runners.iter().any(|runner| runner.figures.traffic == traffic) {
            let floor = script(FLOOR, FLOOR_SOURCE, &[HOUR]);
            runners.insert(0, Runner::bare(bench, floor, prefix, traffic, Ignored)?);
        }
    }
    put_pairs_together(&mut runners);
    Ok(runners)
}

/// Sorts the runners so that two scripts that are compared are measured within a second or two.
fn put_pairs_together(runners: &mut Vec<Runner>) {
    runners.sort_by_key(|runner| runner.figures.traffic);
    for pair in PAIRS.iter().filter(|pair| pair.reference != FLOOR) {
        let position = |runners: &[Runner], name| {
            runners.iter().position(|runner| runner.figures.name == name)
        };
        if let Some(reference) = position(runners, pair.reference) {
            let reference = runners.remove(reference);
            let script = position(runners, pair.script);
            runners.insert(script.map_or(runners.len(), |script| script + 1), reference);
        }
    }
}

impl Runner {
    fn bare(
        bench: &Bench,
        script: Classic,
        prefix: &str,
        traffic: Traffic,
        replies: Replies,
    ) -> Result<Self> {
        let key = |number| subjects::stored_key(prefix, &subjects::key(number)).into_bytes();
        let keys: Vec<_> = (0..traffic.keys()).map(|number| vec![key(number)]).collect();
        let calls = Calls::new(&bench.host.load(script.source)?, &keys, &script.bytes());
        Ok(Self::new(script.name, traffic, calls, replies))
    }

    fn of(bench: &Bench, subject: &Subject, prefix: &str) -> Result<Self> {
        let limiter = Captured::new(bench.runtime.handle(), &subject.policy, prefix)?;
        let subjects: Vec<_> = (0..subject.traffic.keys()).map(subjects::key).collect();
        let first = subjects.first().context("no keys")?;
        let call = bench.runtime.block_on(limiter.call(first))?;
        let keys = call.keys_of(first, &subjects)?;
        let calls = Calls::new(&bench.host.load(&call.source)?, &keys, &call.arguments);
        Ok(Self::new(subject.name.to_owned(), subject.traffic, calls, Replies::Limiter(limiter)))
    }

    fn new(name: String, traffic: Traffic, calls: Calls, replies: Replies) -> Self {
        Self { calls, replies, figures: Figures::new(name, traffic) }
    }

    fn run(&mut self, bench: &Bench, pipe: &mut Pipe) -> Result<()> {
        let figures = &mut self.figures;
        let warm_up = figures.traffic.warm_up();
        if !warm_up.is_zero() {
            pipe.run(&mut self.calls, warm_up, 0)?;
        }
        let before = bench.host.busy()?;
        let outcome = pipe.run(&mut self.calls, bench.effort.scripts(figures.traffic).turn, 0)?;
        let busy = bench.host.busy()? - before;
        let (calls, seconds) = (outcome.calls as f64, outcome.time.as_secs_f64());
        figures.rate.push(calls / seconds);
        figures.busy_rate.push(calls / busy);
        figures.busy.push(busy / seconds);
        if let Some(admitted) = bench.runtime.block_on(self.replies.admitted(&outcome.replies))? {
            let sample = figures.admitted.get_or_insert_default();
            sample.push(admitted as f64 / outcome.replies.len() as f64);
        }
        Ok(())
    }
}

impl Replies {
    /// Returns how many of the replies are admissions, `None` if they are not decisions.
    async fn admitted(&self, replies: &[ScriptReply]) -> Result<Option<usize>> {
        let limiter = match self {
            Self::Ignored => return Ok(None),
            Self::FirstInteger => {
                let is_admitted = |reply: &&ScriptReply| first_integer(reply) > Some(0);
                return Ok(Some(replies.iter().filter(is_admitted).count()));
            }
            Self::Limiter(limiter) => limiter,
        };
        let mut admitted = 0;
        for reply in replies {
            admitted += usize::from(limiter.decision(reply).await?.is_admitted());
        }
        Ok(Some(admitted))
    }
}

/// Returns the first integer of a reply, however deeply it is nested.
fn first_integer(reply: &ScriptReply) -> Option<i64> {
    match reply {
        ScriptReply::Integer(integer) => Some(*integer),
        ScriptReply::Array(replies) => first_integer(replies.first()?),
        _ => None,
    }
}
