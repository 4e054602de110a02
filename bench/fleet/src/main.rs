//! Measures processes that share limits through one server: with leases, without, and by a peer.
//!
//! `cargo xtask bench fleet [--quick]` runs it, in the root of the repository, and `cargo xtask bench fleet --audit
//! SECONDS` checks that processes that are stopped, killed and cut off stay within the limit together.

mod audit;
mod child;
mod single;

use std::{
    env, fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail, ensure};
use limiter_rig::server::Server;

use child::Job;

const REPORT: &str = "docs/benchmarks/fleet.md";

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["child", job @ ..] => child::run(&Job::read(job)?),
        ["fleet", "--audit", seconds] => audit::run(seconds.parse().context("--audit SECONDS")?),
        ["fleet"] => {
            let report = measure(3, 10)?;
            print!("{report}");
            Ok(fs::write(REPORT, report)?)
        }
        ["fleet", "--quick"] => {
            print!("{}", measure(1, 2)?);
            Ok(())
        }
        _ => bail!("unknown arguments {words:?}; use fleet [--quick] | fleet --audit SECONDS"),
    }
}

/// What a fleet did in one turn.
struct Turn {
    decisions: f64,
    admitted: f64,
    calls: f64,
    seconds: f64,
}

/// What a fleet is to do.
struct Scenario {
    name: &'static str,
    contender: &'static str,
    /// Permits of a key a second, and its burst.
    rate: u64,
    /// How many times the limit the processes try together. With 0, as fast as they can.
    load: f64,
}

const PROCESSES: usize = 8;
const KEYS: usize = 4;

const SCENARIOS: [Scenario; 6] = [
    scenario("leases, as fast as it goes", "leases", 2_000_000, 0.0),
    scenario("each check a call, as fast as it goes", "calls", 2_000_000, 0.0),
    scenario("tower-rate-limit-fred 2.1, as fast as it goes", "peer", 2_000_000, 0.0),
    scenario("leases, 0.6 of the limit", "leases", 2_000_000, 0.6),
    scenario("leases, twice the limit", "leases", 200_000, 2.0),
    scenario("leases, 10 times the limit", "leases", 50_000, 10.0),
];

const fn scenario(name: &'static str, contender: &'static str, rate: u64, load: f64) -> Scenario {
    Scenario { name, contender, rate, load }
}

/// Runs each scenario in each round, and returns the report.
fn measure(rounds: usize, seconds: u64) -> Result<String> {
    let server = Server::start();
    let mut turns: Vec<Vec<Turn>> = SCENARIOS.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (scenario, turns) in SCENARIOS.iter().zip(&mut turns) {
            eprintln!("round {round} of {rounds}: {}", scenario.name);
            turns.push(turn(&server, scenario, seconds)?);
        }
    }
    let date = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output()?.stdout;
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let mut text = format!(
        "Printed by `cargo xtask bench fleet`.\nDate: {}\nMachine: {}, {} processors, which the server and \
         all processes share.\n\n**Fleet.** {PROCESSES} processes with one connection each, {KEYS} keys with a burst \
         of one second, leases of 250 ms, for {seconds} s: the median of {rounds} rounds, and all of them. \
         A call is an `EVALSHA`, which may be a batch. Of the limit: what was admitted, of the burst and the rate of \
         all keys over that time.\n\n| processes | admitted, 1,000/s | calls an admission | calls a decision | of the \
         limit |\n| --- | --- | --- | --- | --- |\n",
        String::from_utf8_lossy(&date).trim(),
        model.unwrap_or("an unknown processor"),
        std::thread::available_parallelism()?,
    );
    for (scenario, turns) in SCENARIOS.iter().zip(&turns) {
        let limit = |turn: &Turn| (scenario.rate * KEYS as u64) as f64 * (1.0 + turn.seconds);
        let cells = [
            spread(turns, |turn| turn.admitted / turn.seconds / 1e3, 0),
            spread(turns, |turn| turn.calls / turn.admitted, 5),
            spread(turns, |turn| turn.calls / turn.decisions, 5),
            spread(turns, |turn| turn.admitted / limit(turn), 3),
        ];
        text.push_str(&format!("| {} | {} |\n", scenario.name, cells.join(" | ")));
    }
    let leases = turns.first().context("no turns")?;
    for (contender, turns) in SCENARIOS.iter().zip(&turns).skip(1).take(2) {
        let pairs = leases.iter().zip(turns);
        let ratios: Vec<f64> =
            pairs.map(|(a, b)| (a.admitted / a.seconds) / (b.decisions / b.seconds)).collect();
        text.push_str(&format!(
            "\nAdmissions by leases to decisions by {}: {}.\n",
            contender.name,
            middle(ratios, 1)
        ));
    }
    text.push_str(&single::report(&server, rounds)?);
    Ok(text)
}

fn spread(turns: &[Turn], figure: impl Fn(&Turn) -> f64, digits: usize) -> String {
    middle(turns.iter().map(figure).collect(), digits)
}

/// Returns the median, and the least and the greatest.
fn middle(mut figures: Vec<f64>, digits: usize) -> String {
    figures.sort_by(f64::total_cmp);
    let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
    let (median, last) = (at(figures.len() / 2), figures.len().saturating_sub(1));
    format!("{median:.digits$} ({:.digits$} to {:.digits$})", at(0), at(last))
}

fn turn(server: &Server, scenario: &Scenario, seconds: u64) -> Result<Turn> {
    server.command(&["FLUSHALL"])?;
    server.command(&["CONFIG", "RESETSTAT"])?;
    // All begin at the same time, once all are connected.
    let begins = SystemTime::now().duration_since(UNIX_EPOCH)? + Duration::from_secs(1);
    let job = Job {
        contender: scenario.contender.to_owned(),
        url: server.url(),
        rate: scenario.rate,
        keys: KEYS,
        checks: scenario.load * (scenario.rate * KEYS as u64) as f64 / PROCESSES as f64,
        begins,
        seconds: seconds as f64,
        log: None,
    };
    let children = (0..PROCESSES).map(|_| job.start()).collect::<Result<Vec<_>>>()?;
    let mut turn = Turn { decisions: 0.0, admitted: 0.0, calls: 0.0, seconds: seconds as f64 };
    for child in children {
        let [decisions, admitted] = result(child)?;
        turn.decisions += decisions;
        turn.admitted += admitted;
    }
    turn.calls = calls(server)?;
    Ok(turn)
}

/// Returns how many decisions a process got, and how many admitted.
fn result(mut child: Child) -> Result<[f64; 2]> {
    let output = child.stdout.take().context("no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(child.wait()?.success(), "a process failed");
    let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    numbers?.try_into().ok().context("two numbers")
}

/// Returns how many scripts the server was called to run.
fn calls(server: &Server) -> Result<f64> {
    let stats = server.command(&["INFO", "commandstats"])?;
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<f64>().ok();
    Ok(lines.filter_map(calls).sum())
}

impl Job {
    /// Starts a process that does this.
    fn start(&self) -> Result<Child> {
        let mut command = Command::new(env::current_exe()?);
        Ok(command.arg("child").args(self.words()).stdout(Stdio::piped()).spawn()?)
    }
}
