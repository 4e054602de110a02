//! Breadth-first search over the states of a model.

use std::{
    collections::HashSet,
    fmt::{Debug, Display},
    hash::Hash,
    sync::Arc,
};

/// A rule whose reachable states are few enough to visit all of them.
pub(crate) trait Model {
    /// Equal states have equal futures, so times are relative to now.
    type State: Clone + Eq + Hash;
    type Step: Copy + Display;

    fn start(&self) -> Self::State;

    /// Returns what can happen in a state, and the state that follows.
    fn steps(&self, state: &Self::State) -> Vec<(Self::Step, Self::State)>;

    /// Returns whether more was admitted than the bound allows.
    fn exceeds(&self, state: &Self::State) -> bool;
}

/// The states that a model reaches.
pub(crate) struct Explored<S> {
    pub(crate) states: Vec<Arc<S>>,
    /// The steps of a shortest schedule that exceeds the bound, where the search ends.
    pub(crate) counterexample: Option<String>,
}

/// Visits the states of a model, those that take the fewest steps first, until one exceeds the bound or none is left.
///
/// # Panics
///
/// If there are more than `most` states.
pub(crate) fn explore<M: Model>(model: &M, most: usize) -> Explored<M::State> {
    let mut states = vec![Arc::new(model.start())];
    // The state before each, and the step from there.
    let mut origins: Vec<Option<(usize, M::Step)>> = vec![None];
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
fn schedule<S: Copy + Display>(origins: &[Option<(usize, S)>], mut state: usize) -> String {
    let mut steps = Vec::new();
    while let Some((before, step)) = origins[state] {
        steps.push(step.to_string());
        state = before;
    }
    steps.reverse();
    steps.join("; ")
}

/// Returns the shortest schedule by which each model exceeds the bound, `None` if no schedule does.
pub(crate) fn counterexamples<M: Model + Debug>(
    models: impl IntoIterator<Item = M>,
    most: usize,
) -> Vec<Option<String>> {
    let find = |model: M| {
        let Explored { states, counterexample } = explore(&model, most);
        println!("{model:?}: {} states", states.len());
        counterexample
    };
    models.into_iter().map(find).collect()
}
