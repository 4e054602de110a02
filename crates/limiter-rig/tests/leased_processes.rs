//! Processes that lease permits of one limit, and are stopped, killed and cut off, stay within it together.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::Write,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::{
    audit::{Admission, over, unix_micros},
    program::Again,
    server::{Folder, Server},
};
use tokio::{runtime::Runtime, task::yield_now};

const PROCESSES: usize = 4;

/// How long a lease lasts: a quarter of the time in which the burst recovers.
const LEASE: Duration = Duration::from_millis(250);

/// How long processes are stopped and killed.
const TEST: Duration = Duration::from_secs(8);

/// Where a process that is to check finds its Redis, and the file that it writes. The test starts itself with them.
const REDIS_OF_CHILD: &str = "LIMITER_TEST_LEASING_REDIS";
const LOG_OF_CHILD: &str = "LIMITER_TEST_LEASING_LOG";

const NAME: &str = "processes_that_are_stopped_and_killed_stay_within_the_limit";

fn policy() -> Policy {
    Policy::gcra("test", Quota::per_second(2_000))
}

#[test]
fn processes_that_are_stopped_and_killed_stay_within_the_limit() {
    if let (Ok(redis), Some(log)) = (env::var(REDIS_OF_CHILD), env::var_os(LOG_OF_CHILD)) {
        return Runtime::new().unwrap().block_on(check(&redis, Path::new(&log)));
    }
    let server = Server::start();
    let folder = Folder::create().unwrap();
    let mut logs = Vec::new();
    let mut start = || {
        let log = folder.path().join(logs.len().to_string());
        let mut command = Again::command(NAME);
        command.env(REDIS_OF_CHILD, server.url()).env(LOG_OF_CHILD, &log);
        logs.push(log);
        Again::start(command.stdout(Stdio::null()))
    };
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let mut faults = BTreeMap::<&str, u64>::new();
    let begun = Instant::now();
    for number in 0.. {
        if begun.elapsed() > TEST {
            break;
        }
        // Long enough for leases to grow, and no multiple of their length.
        thread::sleep(LEASE * 2 + Duration::from_millis(37));
        let process = &mut processes[number % PROCESSES];
        let fault = ["stopped", "killed", "cut off"][number % 3];
        match fault {
            // It continues while its lease lasts, and after that.
            "stopped" => {
                process.signal("STOP");
                thread::sleep(if number % 2 == 0 { LEASE / 2 } else { LEASE * 2 });
                process.signal("CONT");
            }
            "killed" => *process = start(),
            _ => _ = server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap(),
        }
        *faults.entry(fault).or_default() += 1;
    }
    drop(processes);
    let mut admissions = Vec::new();
    for log in logs {
        let bytes = fs::read(log).unwrap_or_default();
        let (numbers, _) = bytes.as_chunks::<8>();
        let (pairs, _) = numbers.as_chunks::<2>();
        let pairs = pairs.iter().map(|pair| pair.map(u64::from_le_bytes));
        admissions.extend(pairs.map(|[begun, ended]| Admission { begun, ended, permits: 1 }));
    }
    let (admitted, over) = (admissions.len(), over(&admissions, &policy()));
    println!("{admitted} admitted, {over} permits over the bound, {faults:?}");
    assert!(over <= 0, "{over} permits over the bound");
    // What a process had leased is lost when it is killed.
    assert!(admitted > 4_000, "{admitted}");
}

/// Checks as fast as possible, and writes when each admission began and ended. Each fourth process has no leases.
async fn check(redis: &str, log: &Path) {
    let builder = RedisLimiter::builder(policy());
    let builder = builder.deadline(Duration::from_secs(1));
    let number: usize = log.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let has_leases = !number.is_multiple_of(PROCESSES);
    let limiter = builder.lease(has_leases).connect(redis).await.unwrap();
    let (mut log, end) = (File::create(log).unwrap(), Instant::now() + TEST * 2);
    while Instant::now() < end {
        let begun = unix_micros();
        if limiter.check("key").await.is_ok_and(|decision| decision.is_admitted()) {
            let numbers = [begun, unix_micros()].map(u64::to_le_bytes);
            log.write_all(numbers.as_flattened()).unwrap();
        }
        yield_now().await;
    }
}
