//! Whether processes that are stopped, killed and cut off stay within the limit together.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use limiter_core::{Policy, Quota};
use limiter_rig::{
    audit::{Admission, Audit},
    server::Server,
};

use crate::child::Job;

const RATE: u64 = 3_000;
const PROCESSES: usize = 6;

/// How long a part is, whose admissions are checked together.
const PART: u64 = 30;

/// Runs the processes for so many seconds, and prints by how much the limit was exceeded at most.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let server = Server::start();
    let folder = env::temp_dir().join(format!("limiter-audit-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (mut total, mut worst, mut seed) = (0, i64::MIN, 1_u64);
    let mut faults = HashMap::<&str, u64>::new();
    for part in 0..seconds.div_ceil(PART) {
        // Processes that are killed lose permits, so each second part has no faults and uses the whole limit.
        let faults = if part % 2 == 0 { None } else { Some(&mut faults) };
        let (admitted, over) = one_part(&server, &folder, &mut seed, faults)?;
        total += admitted;
        worst = worst.max(over);
        println!(
            "{} s: {total} admitted, at most {worst} permits over the bound ({over} in the last {PART} s)",
            (part + 1) * PART
        );
    }
    fs::remove_dir_all(&folder)?;
    println!("Processes: {faults:?}.");
    ensure!(worst <= 0, "the limit was exceeded by {worst} permits");
    Ok(())
}

fn one_part(
    server: &Server,
    folder: &Path,
    seed: &mut u64,
    faults: Option<&mut HashMap<&'static str, u64>>,
) -> Result<(u64, i64)> {
    let (mut logs, end) = (Vec::new(), Instant::now() + Duration::from_secs(PART));
    let mut start = |left: Duration| -> Result<Child> {
        let number = logs.len();
        let log = folder.join(number.to_string());
        logs.push(log.clone());
        start_child(server, number, log, left)
    };
    let mut children = (0..PROCESSES)
        .map(|_| start(end.saturating_duration_since(Instant::now())))
        .collect::<Result<Vec<_>>>()?;
    let mut faults = faults;
    while let Some(faults) = &mut faults
        && Instant::now() + Duration::from_secs(2) < end
    {
        thread::sleep(Duration::from_millis(random(seed, 150)));
        let index = usize::try_from(random(seed, PROCESSES as u64))?;
        let child = children.get_mut(index).context("a process")?;
        match random(seed, 4) {
            0 => {
                signal("-STOP", child)?;
                thread::sleep(Duration::from_millis(random(seed, 600)));
                signal("-CONT", child)?;
                *faults.entry("stopped").or_default() += 1;
            }
            1 => {
                child.kill()?;
                child.wait()?;
                *child = start(end.saturating_duration_since(Instant::now()))?;
                *faults.entry("killed").or_default() += 1;
            }
            2 => {
                server.command(&["CLIENT", "KILL", "TYPE", "normal"])?;
                *faults.entry("cut off").or_default() += 1;
            }
            _ => {}
        }
    }
    for mut child in children {
        child.wait()?;
    }
    let audit = Audit::default();
    for log in &logs {
        let bytes = fs::read(log).unwrap_or_default();
        let (numbers, _) = bytes.as_chunks::<8>();
        let (pairs, _) = numbers.as_chunks::<2>();
        audit.extend(pairs.iter().map(|[begun, ended]| {
            let [begun, ended] = [begun, ended].map(|bytes| u64::from_le_bytes(*bytes));
            Admission { begun, ended, permits: 1 }
        }));
        let _ = fs::remove_file(log);
    }
    let policy = Policy::gcra("fleet", Quota::per_second(RATE));
    Ok((audit.admitted(), audit.over(&policy)))
}

fn start_child(server: &Server, number: usize, log: PathBuf, left: Duration) -> Result<Child> {
    let job = Job {
        // Leases keep back what may be spent at their end, and calls find it.
        contender: if number % 3 == 2 { "calls" } else { "leases" }.to_owned(),
        url: server.url(),
        // Half of the burst has leases of half the length.
        policy: format!("{RATE}/s burst {}", if number % 3 == 1 { RATE / 2 } else { RATE }),
        deadline: Duration::from_secs(1),
        keys: 1,
        pattern: "audited".to_owned(),
        checks: 0.0,
        begins: SystemTime::now().duration_since(UNIX_EPOCH)?,
        seconds: left.as_secs_f64(),
        log: Some(log),
    };
    job.start()
}

fn signal(name: &str, child: &Child) -> Result<()> {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status()?;
    ensure!(status.success(), "kill {name} failed");
    Ok(())
}

/// Returns a number below `most` that looks random.
fn random(seed: &mut u64, most: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % most
}
