//! Several limits in one call, beside limitador, whose one call checks all limits of a namespace.

use std::{collections::HashMap, hint::black_box};

use anyhow::{Result, ensure};
use limitador::{
    RateLimiter,
    limit::{Context, Limit, Namespace},
};
use limiter_core::{Cost, Demand, MemoryLimiter, Policy, decide};

use crate::{
    memory::keys,
    rounds::{Effort, Table, keyed, rounds},
};

const KEYS: usize = 10_000;

/// What a limit counts, and the name by which limitador finds it in a request.
const SUBJECTS: [&str; 3] = ["user", "organisation", "route"];

const NAMESPACE: &str = "bench";

pub(crate) fn print(effort: &Effort) -> Result<()> {
    println!(
        "ns a call that charges one permit of each limit, or none, by fixed windows of an hour, \
         for {KEYS} string keys. Ours is `check` for one limit and `decide` for three. limitador evaluates an expression for \
         each limit, whose values are in a context that a caller makes for each request. The last column has contexts that \
         were made before.\n\n## Admitted and refused\n"
    );
    let peers = ["Limiter", "limitador", "limitador, context at hand"];
    let mut table = Table::new(["limits", "checks", "threads"].into_iter().chain(peers));
    for limits in [1, SUBJECTS.len()] {
        for (outcome, permits) in [("admitted", 1_000_000_000), ("refused", 1)] {
            for threads in [1, 2] {
                let figures = measure(effort, limits, permits, threads, peers)?;
                let row = [limits.to_string(), outcome.to_owned(), threads.to_string()];
                table.row(row.into_iter().chain(figures));
            }
        }
    }
    println!("{table}");
    Ok(())
}

fn measure(
    effort: &Effort,
    limits: usize,
    permits: u64,
    threads: usize,
    names: [&str; 3],
) -> Result<Vec<String>> {
    let subjects = &SUBJECTS[..limits];
    let keys = keys(0, KEYS);
    let policy = Policy::parse(NAMESPACE, &format!("{permits}/h by fixed-window"))?;
    let first = MemoryLimiter::new(policy);
    let [second, third] = [(); 2].map(|()| first.sibling(first.policy()));
    let ours = |key: &String| {
        if limits == 1 {
            return black_box(&first.check(key.as_str())).is_admitted();
        }
        let demands =
            [&first, &second, &third].map(|limiter| Demand::new(limiter, key.as_str(), Cost::ONE));
        let joint = decide(&demands).take_ready().expect("it is in memory");
        black_box(joint.expect("the list is valid")).is_admitted()
    };
    let limitador = || -> Result<RateLimiter> {
        let limiter = RateLimiter::new(4 * (KEYS * SUBJECTS.len()) as u64);
        for subject in subjects {
            let limit = Limit::new(NAMESPACE, permits, 3_600, [], [(*subject).try_into()?]);
            ensure!(limiter.add_limit(limit), "limitador has a limit of {subject} already");
        }
        Ok(limiter)
    };
    let namespace = Namespace::from(NAMESPACE);
    let update = |limiter: &RateLimiter, context: &Context<'_>| {
        let result = limiter.check_rate_limited_and_update(&namespace, context, 1);
        !black_box(result).expect("the limits are in memory").limited
    };
    let contexts: HashMap<&str, Context<'_>> =
        keys.iter().map(|key| (key.as_str(), context(subjects, key))).collect();
    let (made, at_hand) = (limitador()?, limitador()?);
    let admits = Some(permits > 1);
    let contenders = vec![
        keyed(names[0], effort, threads, admits, &keys, ours),
        keyed(names[1], effort, threads, admits, &keys, |key| {
            update(&made, &context(subjects, key))
        }),
        keyed(names[2], effort, threads, admits, &keys, |key| {
            update(&at_hand, &contexts[key.as_str()])
        }),
    ];
    let measured = rounds(effort.rounds, contenders)?;
    Ok(measured.iter().map(|it| it.figures[0].show(0)).collect())
}

/// Returns what limitador reads of a request whose subjects all have the same key.
fn context(subjects: &[&str], key: &str) -> Context<'static> {
    let values: HashMap<String, String> =
        subjects.iter().map(|subject| ((*subject).to_owned(), key.to_owned())).collect();
    values.into()
}
