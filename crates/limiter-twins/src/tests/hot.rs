//! A hot script decides as the script `policy`, and leaves the same, or lets it decide.

use limiter_core::{Algorithm, Policy};
use proptest::{prelude::*, test_runner::TestRunner};

use crate::{
    tests::arguments::Arguments,
    tests::world::{START, Step, World, after, policies, steps, sub_windows},
};

/// Returns a decision of the script `policy` on one demand as the hot script of the limit replies it.
fn as_hot(reply: Vec<i64>) -> Vec<i64> {
    match *reply.as_slice() {
        [0, reset, left, wait, 1] => vec![0, reset, left, wait],
        _ => reply,
    }
}

/// Returns a decision of GCRA's hot script as the others reply it.
fn spelled_out(reply: Vec<i64>, limit: &Arguments, cost: u64) -> Vec<i64> {
    let [number] = *reply.as_slice() else { return reply };
    let scale = if limit.quota.contains('.') { 10_000 } else { 1 };
    let [burst, increment, cost] =
        [limit.permits, limit.number, cost].map(|it| i64::try_from(it).unwrap());
    let up = |a: i64, b: i64| -(-a).div_euclid(b);
    if cost > burst {
        return vec![0, up(-1 - number, scale), burst - up(-1 - number, increment), -1];
    }
    let debt = if number > 0 { number } else { -1 - number };
    let [reset, left] = [up(debt, scale), burst - up(debt, increment)];
    let wait = up(debt - (burst - cost) * increment, scale);
    match number {
        1.. => vec![1, reset, left],
        _ => vec![0, reset, left, wait],
    }
}

fn agree(algorithms: impl Strategy<Value = Algorithm> + Clone, least: f64) {
    let config = ProptestConfig::with_source_file(file!());
    let (calls, decided) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let law = |(policies, steps): (Vec<Policy>, Vec<Step>)| {
        let (mut general, mut hot, mut now) = (World::new(), World::new(), START);
        let limits: Vec<_> = policies.iter().map(|it| Arguments::new(&it.limits()[0])).collect();
        for (gap, cost, choice) in steps {
            now = after(now, gap, policies[0].limits()[0].quota());
            let limit = &limits[usize::try_from(choice).unwrap_or(0) % limits.len()];
            let found = general.value();
            let within =
                if choice / 3 % 10 == 0 { i64::try_from(limit.horizon).unwrap() } else { -1 };
            let expected = general.take(now, limit, cost, within);
            if within < 0 {
                let (reply, is_hot) = hot.check(now, limit, cost);
                decided.set(decided.get() + usize::from(is_hot));
                calls.set(calls.get() + 1);
                let reply = spelled_out(reply, limit, cost);
                prop_assert_eq!(
                    as_hot(reply),
                    as_hot(expected),
                    "at {} {:?} on {:?}",
                    now,
                    limit,
                    found
                );
            } else {
                hot.take(now, limit, cost, within);
            }
            let all = |world: &World| {
                let keys = world.server.keys().map(|(key, stored)| (key.to_vec(), stored.clone()));
                keys.collect::<Vec<_>>()
            };
            prop_assert_eq!(all(&hot), all(&general), "at {} {:?} on {:?}", now, limit, found);
        }
        Ok(())
    };
    TestRunner::new(config).run(&(policies(algorithms), steps()), law).unwrap();
    let share = f64::from(u32::try_from(decided.get()).unwrap()) / f64::from(calls.get());
    println!("{share:.2} of {} calls", calls.get());
    assert!(share > least, "the hot script decided on {share}");
}

#[test]
fn gcra_decides_as_policy() {
    agree(Just(Algorithm::Gcra), 0.3);
}

#[test]
fn windows_decide_as_policy() {
    agree(Just(Algorithm::FixedWindow), 0.3);
    agree(Just(Algorithm::AlignedWindow), 0.3);
}

#[test]
fn counters_decide_as_policy() {
    agree(Just(Algorithm::SlidingCounter), 0.3);
}

#[test]
fn logs_decide_as_policy() {
    agree(Just(Algorithm::SlidingLog), 0.2);
    agree(sub_windows(), 0.1);
}
