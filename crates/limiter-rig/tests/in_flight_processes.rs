//! Processes that share limits on requests in flight stay within them together, also if one is killed and one is stopped.
//!
//! 10,000 tasks of eight processes take permits of keys with limits from 50 to 500, and work while they hold them. Each drops
//! its work when its permit is lost. An auditor counts the work of all processes at every moment.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that fails fails its test")]
#![expect(clippy::indexing_slicing, reason = "places are within their arrays")]

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write, stdin},
    path::Path,
    pin::pin,
    process::{ChildStdin, ChildStdout, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use limiter_core::InFlightPermit;
use limiter_redis::RedisInFlight;
use limiter_rig::{
    audit::{
        in_flight::{Span, most_at_once},
        unix_micros,
    },
    program::Again,
    server::{Folder, Server, wait_until},
};
use tokio::{runtime, select, sync::Notify, time::sleep};

const PROCESSES: u64 = 8;
const TASKS: u64 = 10_000;

/// Keys of all processes, with these limits in turn: 8,100 permits.
const KEYS: u64 = 36;
const LIMITS: [u32; 4] = [50, 100, 250, 500];

/// The first two processes have a key of their own each, which no other process uses. One of them is killed, and one
/// stopped.
const KILLED: usize = 0;
const STOPPED: usize = 1;
const OWN_LIMIT: u32 = 50;
const OWN_TASKS: u64 = 60;

/// The tasks begin to make requests one after the other within so many milliseconds.
const BEGINS_WITHIN: u64 = 5_000;

/// What a process that is to work needs: the server, the expiry in milliseconds, its number, and the file that it writes.
/// The test starts itself with it.
const CHILD: &str = "LIMITER_TEST_IN_FLIGHT_CHILD";
const READY: &str = "ready";
const COUNTED: &str = "counted ";

/// How long a process is stopped, in seconds. The expiry is less than half of it.
const STOP: &str = "LIMITER_TEST_STOP";

const NAME: &str = "requests_in_flight_of_all_processes_stay_within_the_limits";

#[test]
fn requests_in_flight_of_all_processes_stay_within_the_limits() {
    if let Ok(words) = env::var(CHILD) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(work(&words));
    }
    let stop = env::var(STOP).map_or(5, |seconds| seconds.parse().unwrap());
    let stop = Duration::from_secs(stop);
    let expiry = stop * 2 / 5;
    let server = Server::start();
    let folder = Folder::create().unwrap();
    let start = |number| Process::start(&server, expiry, number, folder.path());
    let mut processes: Vec<_> = (0..PROCESSES).map(start).collect();
    for process in &mut processes {
        assert!(process.line(READY).is_some(), "a process did not start");
    }
    let own = |process: usize| stored_key(KEYS + process as u64);
    // Permits are renewed, too.
    thread::sleep(Duration::from_millis(BEGINS_WITHIN) + expiry);
    let works = |process| held(&server, &own(process)) > u64::from(OWN_LIMIT) / 2;
    wait_until("both work", || works(KILLED) && works(STOPPED));

    let begun = Instant::now();
    processes[STOPPED].again.signal("STOP");
    processes[KILLED].again.signal("KILL");
    let mut back = [KILLED, STOPPED].map(|process| (process, None));
    while begun.elapsed() < stop {
        for (process, back) in &mut back {
            if back.is_none() && held(&server, &own(*process)) == 0 {
                *back = Some(begun.elapsed());
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    println!("permits of the killed and the stopped process were back after {back:?}");
    // After an expiry, of which the stop has more than two.
    for (process, back) in back {
        assert!(back.is_some(), "the permits of process {process} are not back after {stop:?}");
    }
    processes[STOPPED].again.signal("CONT");
    wait_until("the stopped process works again", || works(STOPPED));

    for (number, process) in processes.into_iter().enumerate() {
        let Some([admitted, failures, lost, not_released]) = process.counted() else {
            assert_eq!(number, KILLED, "process {number} ended early");
            continue;
        };
        println!("process {number}: {admitted} admitted, {failures} failures, {lost} permits lost");
        assert!(admitted > 0, "process {number}");
        // Those of the process that was stopped have expired meanwhile.
        assert!(not_released <= failures || number == STOPPED, "process {number}");
        // A machine that is busy with other tests may keep other processes from renewing theirs.
        assert!(lost > 0 || number != STOPPED, "the process that was stopped lost no permit");
    }
    let are_back = || (0..KEYS + 2).all(|key| held(&server, &stored_key(key)) == 0);
    wait_until("all permits are back", are_back);
    audit(folder.path());
}

/// Checks that the work of all processes was within the limits at every moment.
fn audit(folder: &Path) {
    let mut spans = Vec::new();
    for log in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(log.unwrap().path()).unwrap();
        let (numbers, _) = bytes.as_chunks::<8>();
        let (records, _) = numbers.as_chunks::<3>();
        let records = records.iter().map(|record| record.map(u64::from_le_bytes));
        spans.extend(records.map(|[key, begun, ended]| Span { key, begun, ended }));
    }
    let most = most_at_once(&spans);
    println!("{} at once, in {} spans", most.of_all, spans.len());
    let mut full = 0;
    for (key, (most, at)) in &most.of_keys {
        let limit = u64::from(limit_of(*key));
        assert!(*most <= limit, "key {key}: {most} at once at {at}, above the limit of {limit}");
        // Work is logged a bit shorter than its permit is held.
        full += u64::from(most * 10 >= limit * 9);
    }
    println!("{full} of {} keys were at least nine tenths full", KEYS + 2);
    assert!(full > KEYS / 4 && most.of_all > TASKS / 2, "the processes did not use the limits");
}

fn limit_of(key: u64) -> u32 {
    let place = usize::try_from(key).unwrap() % LIMITS.len();
    if key < KEYS { LIMITS[place] } else { OWN_LIMIT }
}

fn stored_key(key: u64) -> String {
    format!("limiter:{{i{key}}}:test:inflight")
}

/// Returns how many permits of a key have not expired.
fn held(server: &Server, key: &str) -> u64 {
    let script = "local time = redis.call('TIME') \
                  return redis.call('ZCOUNT', KEYS[1], time[1] * 1000000 + time[2], '+inf')";
    // The machine is busy, and how soon the server replies is not what is tested.
    let reply = (0..10).find_map(|_| server.command(&["EVAL", script, "1", key]).ok());
    reply.expect("the server replies").trim_start_matches(':').parse().unwrap()
}

/// A task's own sequence of random numbers.
struct Random(u64);

impl Random {
    /// Returns a time between two, in milliseconds.
    fn between(&mut self, least: u64, most: u64) -> Duration {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(least + (self.0 >> 33) % (most - least))
    }
}

/// What the tasks of a process share.
struct Worker {
    limiter: RedisInFlight,
    expiry: u64,
    log: File,
    is_over: AtomicBool,
    /// Woken when it is over.
    over: Notify,
    /// After what part of its work a task logs it.
    step: Duration,
}

/// Works until the standard input ends.
async fn work(words: &str) {
    let [url, expiry, number, log] = words.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let (expiry, number): (u64, u64) = (expiry.parse().unwrap(), number.parse().unwrap());
    let builder = RedisInFlight::builder("test", 1).expires_after(Duration::from_millis(expiry));
    let builder = builder.deadline(Duration::from_millis(expiry / 3));
    let limiter = builder.connect(url).await.unwrap();
    // What has not been logged when a process is killed, or when a permit is lost, is not known.
    let step = Duration::from_millis(if number < 2 { expiry / 4 } else { expiry * 100 });
    let (log, is_over, over) = (File::create(log).unwrap(), AtomicBool::new(false), Notify::new());
    let worker = Arc::new(Worker { limiter, expiry, log, is_over, over, step });
    // As many tasks of each key as suits its limit.
    let permits: Vec<_> = (0..KEYS).flat_map(|key| (0..limit_of(key)).map(move |_| key)).collect();
    let tasks = (number..TASKS).filter(|task| task % PROCESSES == number);
    let place = |task| usize::try_from(task * permits.len() as u64 / TASKS).unwrap();
    let mut keys: Vec<_> = tasks.map(|task| permits[place(task)]).collect();
    if number < 2 {
        keys.extend((0..OWN_TASKS).map(|_| KEYS + number));
    }
    let tasks = keys.into_iter().zip(0..).map(|(key, task): (_, u64)| {
        tokio::spawn(Arc::clone(&worker).requests(key, Random(number << 32 | task)))
    });
    let tasks: Vec<_> = tasks.collect();
    // On a line of its own: the test harness leaves its own line open.
    println!("\n{READY}");
    let ended = tokio::task::spawn_blocking(|| stdin().read_to_end(&mut Vec::new()));
    ended.await.unwrap().unwrap();
    worker.is_over.store(true, Relaxed);
    worker.over.notify_waiters();
    let counters = worker.limiter.counters();
    for task in tasks {
        task.await.unwrap();
    }
    worker.limiter.drain(Duration::from_millis(expiry)).await.unwrap();
    let failures = counters.unavailable + counters.undetermined + counters.unexpected;
    let not_released = worker.limiter.counters().releases_failed;
    let (admitted, lost) = (counters.admitted, counters.permits_lost);
    println!("{COUNTED}{admitted} {failures} {lost} {not_released}");
}

impl Worker {
    /// Makes requests of a key, one after the other: a tenth of them short, the others renewed several times.
    async fn requests(self: Arc<Self>, key: u64, mut random: Random) {
        let Self { expiry, .. } = *self;
        sleep(random.between(0, BEGINS_WITHIN)).await;
        while !self.is_over.load(Relaxed) {
            let work = match random.between(0, 10).as_millis() {
                0 => random.between(expiry / 12, expiry / 3),
                _ => random.between(expiry * 3, expiry * 9),
            };
            let permit = match self.limiter.enter_under(key, limit_of(key)).await {
                Ok(entry) => entry.into_permit(),
                Err(_) => None,
            };
            match permit {
                Some(permit) => self.hold(key, permit, work).await,
                None => sleep(random.between(expiry / 2, expiry * 2)).await,
            }
        }
    }

    /// Works with a permit until it is lost, and logs when it worked.
    async fn hold(&self, key: u64, permit: InFlightPermit, work: Duration) {
        let (end, mut begun) = (Instant::now() + work, unix_micros());
        if permit.is_lost() {
            return;
        }
        let mut lost = pin!(permit.lost());
        while Instant::now() < end && !self.is_over.load(Relaxed) {
            let step = self.step.min(end.saturating_duration_since(Instant::now()));
            select! {
                biased;
                () = &mut lost => return,
                () = sleep(step) => {}
                () = self.over.notified() => {}
            }
            let now = unix_micros();
            if permit.is_lost() {
                return;
            }
            // It was held at that time, and since it began.
            let record = [key, begun, now].map(u64::to_le_bytes);
            (&self.log).write_all(record.as_flattened()).unwrap();
            begun = now;
        }
    }
}

/// This test as another process, that works.
struct Process {
    again: Again,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(server: &Server, expiry: Duration, number: u64, folder: &Path) -> Self {
        let log = folder.join(number.to_string());
        let words = format!("{} {} {number} {}", server.url(), expiry.as_millis(), log.display());
        let mut command = Again::command(NAME);
        command.env(CHILD, words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut again = Again::start(&mut command);
        let process = again.process();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        Self { again, input, output: BufReader::new(output) }
    }

    /// Waits for a line that begins with `start`, and returns the rest of it, or `None` if the process has ended.
    fn line(&mut self, start: &str) -> Option<String> {
        let mut lines = self.output.by_ref().lines().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix(start).map(str::to_owned))
    }

    /// Lets the process end, and returns what it has counted.
    fn counted(mut self) -> Option<[u64; 4]> {
        self.input = None;
        let counted = self.line(COUNTED)?;
        let numbers = counted.split(' ').map(|number| number.parse().unwrap());
        numbers.collect::<Vec<_>>().try_into().ok()
    }
}
