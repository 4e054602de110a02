//! Breadth-first search over the states of a model.

use std::{collections::HashSet, sync::Arc};

use super::{
    Leases, Server,
    state::{State, Step},
};
use crate::admissions::Admissions;

/// The states that a model reaches. Equal states have equal futures, so times are relative to now.
pub(super) struct Explored {
    pub(super) states: Vec<Arc<State>>,
    /// The steps of a shortest schedule that exceeds the bound, where the search ends.
    pub(super) counterexample: Option<String>,
}

/// Visits the states of a model, those that take the fewest steps first, until one exceeds the bound or none is left.
///
/// # Panics
///
/// If there are more than `most` states.
pub(super) fn explore(model: &Leases, most: usize) -> Explored {
    let (server, leases) = (Server::default(), Vec::new());
    let start = State { server, leases, admissions: Admissions::new() };
    let mut states = vec![Arc::new(start)];
    // The state before each, and the step from there.
    let mut origins: Vec<Option<(usize, Step)>> = vec![None];
    let mut known: HashSet<_> = states.iter().cloned().collect();
    let mut next = 0;
    while next < states.len() {
        for (step, state) in model.steps(&states[next]) {
            if known.contains(&state) {
                continue;
            }
            let exceeds = model.exceeds(&state);
            // A clone has no spare capacity.
            let state = Arc::new(state.clone());
            known.insert(Arc::clone(&state));
            states.push(state);
            origins.push(Some((next, step)));
            if exceeds {
                let counterexample = Some(schedule(&origins, states.len() - 1));
                return Explored { states, counterexample };
            }
        }
        next += 1;
        assert!(states.len() <= most, "more than {most} states");
    }
    Explored { states, counterexample: None }
}

/// Returns the steps from the start to a state.
fn schedule(origins: &[Option<(usize, Step)>], mut state: usize) -> String {
    let mut steps = Vec::new();
    while let Some((before, step)) = origins[state] {
        steps.push(step.to_string());
        state = before;
    }
    steps.reverse();
    steps.join("; ")
}

/// Returns the shortest schedule by which each model exceeds the bound, `None` if no schedule does.
pub(super) fn counterexamples(
    models: impl IntoIterator<Item = Leases>,
    most: usize,
) -> Vec<Option<String>> {
    let find = |model: Leases| {
        let Explored { states, counterexample } = explore(&model, most);
        println!("{model:?}: {} states", states.len());
        counterexample
    };
    models.into_iter().map(find).collect()
}
