use super::*;

const ONE: ProcessId = ProcessId(1);
const TWO: ProcessId = ProcessId(2);

/// What happened, and when.
type Seen = Arc<Mutex<Vec<(&'static str, Micros)>>>;

/// Returns an executor with two processes, and a list of what happened.
fn world() -> (Executor, Seen) {
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
