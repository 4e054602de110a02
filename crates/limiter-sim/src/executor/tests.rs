use std::time::Duration;

use super::*;
use crate::clock::ProcessClock;

const ONE: ProcessId = ProcessId(1);
const TWO: ProcessId = ProcessId(2);

/// Returns an executor with two processes, and a list of what happened.
fn world() -> (Executor, Arc<Mutex<Vec<(&'static str, Micros)>>>) {
    let executor = Executor::new();
    executor.start(ONE);
    executor.start(TWO);
    (executor, Arc::default())
}

#[test]
fn events_happen_by_time_and_then_in_their_order() {
    let (executor, seen) = world();
    for (name, time) in [("c", 20), ("a", 10), ("b", 10)] {
        let (seen, clock) = (Arc::clone(&seen), executor.clone());
        executor.at(time, move || lock(&seen).push((name, clock.now())));
    }
    executor.run_until(15);
    assert_eq!(*lock(&seen), [("a", 10), ("b", 10)]);
    executor.run_until(30);
    assert_eq!(lock(&seen).last(), Some(&("c", 20)));
    assert_eq!(executor.now(), 30);
}

/// Lets a process sleep for 10 ms, and returns when it woke up.
fn sleeper(executor: &Executor, ppm: i64) -> (ProcessClock, Arc<Mutex<Option<Micros>>>) {
    let clock = ProcessClock::new(executor, 7, ppm);
    let (sleep, woken) = (clock.sleep(Duration::from_millis(10)), Arc::default());
    let (seen, now) = (Arc::clone(&woken), executor.clone());
    executor.spawn(ONE, async move {
        sleep.await;
        *lock(&seen) = Some(now.now());
    });
    (clock, woken)
}

#[test]
fn a_sleep_of_a_process_that_runs_ends_by_its_clock() {
    for (ppm, end) in [(0, 10_000), (1_000, 9_991), (-1_000, 10_011)] {
        let (executor, _) = world();
        let (_, woken) = sleeper(&executor, ppm);
        executor.run_until(20_000);
        assert_eq!(*lock(&woken), Some(end), "{ppm}");
    }
}

#[test]
fn a_sleep_of_a_stopped_process_ends_when_it_is_resumed() {
    let (executor, _) = world();
    let (_, woken) = sleeper(&executor, 0);
    executor.run_until(1_000);
    executor.stop(ONE);
    executor.run_until(50_000);
    assert_eq!(*lock(&woken), None);
    executor.resume(ONE);
    executor.run_until(50_000);
    assert_eq!(*lock(&woken), Some(50_000));
}

#[test]
fn a_sleep_of_a_suspended_process_goes_on_when_it_is_resumed() {
    let (executor, _) = world();
    let (clock, woken) = sleeper(&executor, 0);
    executor.run_until(1_000);
    executor.stop(ONE);
    clock.stand_still();
    executor.run_until(50_000);
    clock.go_on();
    executor.resume(ONE);
    executor.run_until(58_999);
    assert_eq!(*lock(&woken), None);
    executor.run_until(59_000);
    assert_eq!(*lock(&woken), Some(59_000));
}

#[test]
fn a_killed_process_runs_nothing_and_spawns_nothing() {
    let (executor, seen) = world();
    for process in [ONE, TWO] {
        let (executor, seen) = (executor.clone(), Arc::clone(&seen));
        executor.clone().spawn(process, async move {
            lock(&seen).push(("ran", executor.now()));
        });
    }
    assert_eq!(executor.tasks(ONE), 1);
    executor.kill(ONE);
    executor.spawn(ONE, async { unreachable!() });
    executor.run_until(1);
    assert_eq!(lock(&seen).len(), 1);
    assert_eq!((executor.tasks(ONE), executor.tasks(TWO)), (0, 0));
}
