//! Measures processes that share limits through one server: with leases, without, and by a peer.
//!
//! `cargo xtask bench fleet [--quick]` runs it, in the root of the repository, and `cargo xtask bench fleet --audit
//! SECONDS` checks that processes that are stopped, killed and cut off stay within the limit together.

mod audit;
mod child;
mod compare;
mod proxy;
mod single;
mod speed;

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
            let report = report(3, 10, 4)?;
            print!("{report}");
            Ok(fs::write(REPORT, report)?)
        }
        ["fleet", "--quick"] => {
            print!("{}", report(1, 2, 1)?);
            Ok(())
        }
        _ => bail!("unknown arguments {words:?}; use fleet [--quick] | fleet --audit SECONDS"),
    }
}

/// Returns the report of all parts. One turn of a fleet takes `full` seconds at full speed, and `compared` where leases
/// are compared with calls.
fn report(rounds: usize, full: u64, compared: u64) -> Result<String> {
    let server = Server::start();
    let date = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output()?.stdout;
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output()?.stdout;
    let compiler = Command::new("rustc").arg("--version").output()?.stdout;
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let mut text = format!(
        "Printed by `cargo xtask bench fleet`.\nCommit: {}\nDate: {}\nMachine: {}, {} processors, which the server and \
         all processes share.\nCompiler: {}, profile `release`, without LTO.\n",
        String::from_utf8_lossy(&commit).trim(),
        String::from_utf8_lossy(&date).trim(),
        model.unwrap_or("an unknown processor"),
        std::thread::available_parallelism()?,
        String::from_utf8_lossy(&compiler).trim(),
    );
    text.push_str(&speed::report(&server, rounds, full)?);
    text.push_str(&single::report(&server, rounds)?);
    text.push_str(&compare::report(&server, rounds, compared)?);
    Ok(text)
}

/// What a fleet did in one turn.
struct Turn {
    decisions: f64,
    admitted: f64,
    failed: f64,
    calls: f64,
    seconds: f64,
}

const PROCESSES: usize = 8;

/// Returns when processes begin that are started now: at the same time, once all are connected.
fn begins() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)? + Duration::from_millis(500))
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

/// Returns how many decisions a process got, how many admitted, and how many failed.
fn result(mut child: Child) -> Result<[f64; 3]> {
    let output = child.stdout.take().context("no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(child.wait()?.success(), "a process failed");
    let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    numbers?.try_into().ok().context("three numbers")
}

/// Returns how many scripts the server was called to run.
fn calls(server: &Server) -> Result<f64> {
    let stats = server.command(&["INFO", "commandstats"])?;
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<f64>().ok();
    Ok(lines.filter_map(calls).sum())
}

impl Job {
    /// Runs processes that do this at the same time.
    fn fleet(&self, server: &Server) -> Result<Turn> {
        server.command(&["CONFIG", "RESETSTAT"])?;
        let children = (0..PROCESSES).map(|_| self.start()).collect::<Result<Vec<_>>>()?;
        let mut turn =
            Turn { decisions: 0.0, admitted: 0.0, failed: 0.0, calls: 0.0, seconds: self.seconds };
        for child in children {
            let [decisions, admitted, failed] = result(child)?;
            turn.decisions += decisions;
            turn.admitted += admitted;
            turn.failed += failed;
        }
        turn.calls = calls(server)?;
        Ok(turn)
    }

    /// Starts a process that does this.
    fn start(&self) -> Result<Child> {
        let mut command = Command::new(env::current_exe()?);
        Ok(command.arg("child").args(self.words()).stdout(Stdio::piped()).spawn()?)
    }
}
