//! Several limits in one call, beside limitador, whose one call checks all limits of a namespace.

use std::{array, collections::HashMap, hint::black_box};

use anyhow::{Result, ensure};
use limitador::{RateLimiter, limit::Context, limit::Limit, limit::Namespace};
use limiter_core::{Cost, Demand, MemoryLimiter, Policy, decide};

use crate::{
    Effort, Profile, host,
    keys::{Pattern, visits},
    measure::{self, Measured, Runner, on_threads},
    report::thousands,
    table::Table,
};

const KEYS: usize = 10_000;

/// What a limit counts, and the name by which limitador finds it in a request.
const SUBJECTS: [&str; 3] = ["user", "organisation", "route"];

const NAMESPACE: &str = "bench";

/// Permits an hour in fixed windows, the only algorithm that limitador has.
#[derive(Clone, Copy)]
struct Quota {
    name: &'static str,
    permits: u64,
}

const QUOTAS: [Quota; 2] =
    [Quota { name: "admitted", permits: 1_000_000_000 }, Quota { name: "refused", permits: 1 }];

/// Measures, and prints the page.
pub(crate) fn run(effort: &Effort, profile: &Profile) -> Result<()> {
    let mut table = Table::new(&[
        "limits",
        "checks",
        "threads",
        "Limiter",
        "limitador",
        "limitador, context at hand",
    ]);
    for (limits, quota) in [1, SUBJECTS.len()].into_iter().flat_map(|n| QUOTAS.map(|it| (n, it))) {
        for threads in [1, 2] {
            let cell = measure(effort, limits, quota, threads)?;
            let row = [limits.to_string(), quota.name.to_owned(), threads.to_string()];
            let figures = cell.iter().map(|measured| measured.nanos.show(1.0, 0));
            table.row(row.into_iter().chain(figures));
        }
    }
    let host = host::describe(
        "limiter-core",
        profile.name,
        &["limitador"],
        include_str!("../../Cargo.lock"),
    );
    println!(
        "# Several limits in one call\n\n\
         Printed by `cargo xtask bench several`.\n\n{host}\n\
         ns a call that charges one permit of each limit, or none, by fixed windows of an hour, for {} string keys. \
         Ours is `check` for one limit and `decide` for three. limitador evaluates an expression for each limit, whose \
         values are in a context that a caller makes for each request. The last column has contexts that were made \
         before. Rounds and turns as in [the page of checks](../../BENCHMARKS.md).\n\n\
         ## Admitted and refused\n\n{table}",
        thousands(KEYS),
    );
    Ok(())
}

fn measure(effort: &Effort, limits: usize, quota: Quota, threads: usize) -> Result<Vec<Measured>> {
    let keys: Vec<String> = visits(KEYS, Pattern::Uniform);
    let ours = ours(quota)?;
    let peer = limitador(&SUBJECTS[..limits], quota)?;
    let namespace = Namespace::from(NAMESPACE);
    let contexts: HashMap<&str, Context<'_>> =
        keys.iter().map(|key| (key.as_str(), context(&SUBJECTS[..limits], key))).collect();
    let is_admitted_by_peer = |context: &Context<'_>| {
        let result = peer.check_rate_limited_and_update(&namespace, context, 1);
        !black_box(result).expect("the limits are in memory").limited
    };
    for (key, context) in &contexts {
        // Takes the one permit of a key whose calls are to be refused.
        ensure!(
            is_admitted(&ours, limits, key) && is_admitted_by_peer(context),
            "{key} is refused"
        );
    }
    let runners = vec![
        runner("Limiter", &keys, threads, |key| is_admitted(&ours, limits, key)),
        runner("limitador", &keys, threads, |key| {
            is_admitted_by_peer(&context(&SUBJECTS[..limits], key))
        }),
        runner("limitador, context at hand", &keys, threads, |key| {
            is_admitted_by_peer(&contexts[key])
        }),
    ];
    let measured = measure::rounds(effort, runners);
    for it in &measured {
        let expected = if quota.permits > 1 { 1.0 } else { 0.0 };
        let is_expected = (it.admitted - expected).abs() < 1e-6;
        ensure!(
            is_expected,
            "{}: {} of the calls are admitted, not {expected}",
            it.name,
            it.admitted
        );
    }
    Ok(measured)
}

/// Returns ours for all subjects, which share one table.
fn ours(quota: Quota) -> Result<[MemoryLimiter; SUBJECTS.len()]> {
    let policy = Policy::parse(NAMESPACE, &format!("{}/h by fixed-window", quota.permits))?;
    let first = MemoryLimiter::new(policy);
    Ok(array::from_fn(|index| match index {
        0 => first.clone(),
        _ => first.sibling(first.policy()),
    }))
}

fn is_admitted(limiters: &[MemoryLimiter; SUBJECTS.len()], limits: usize, key: &str) -> bool {
    if limits == 1 {
        return black_box(&limiters[0].check(key)).is_admitted();
    }
    let demands = limiters.each_ref().map(|limiter| Demand::new(limiter, key, Cost::ONE));
    let joint = decide(&demands).take_ready().expect("it is in memory");
    black_box(joint.expect("the list is valid")).is_admitted()
}

/// Returns limitador with a limit for each subject.
fn limitador(subjects: &[&str], quota: Quota) -> Result<RateLimiter> {
    let limiter = RateLimiter::new(4 * (KEYS * SUBJECTS.len()) as u64);
    for subject in subjects {
        let limit = Limit::new(NAMESPACE, quota.permits, 3_600, [], [(*subject).try_into()?]);
        ensure!(limiter.add_limit(limit), "limitador has a limit of {subject} already");
    }
    Ok(limiter)
}

/// Returns what limitador reads of a request whose subjects all have the same key.
fn context(subjects: &[&str], key: &str) -> Context<'static> {
    let values: HashMap<String, String> =
        subjects.iter().map(|subject| ((*subject).to_owned(), key.to_owned())).collect();
    values.into()
}

fn runner<'a>(
    name: &'static str,
    visits: &'a [String],
    threads: usize,
    run: impl Fn(&str) -> bool + Sync + 'a,
) -> Runner<'a> {
    let run = move |calls| {
        on_threads(threads, calls, |thread| {
            let start = thread * visits.len() / threads;
            let visits = visits[start..].iter().chain(visits.iter().cycle());
            visits.take(calls).filter(|key| run(key)).count()
        })
    };
    Runner { name, run: Box::new(run) }
}
