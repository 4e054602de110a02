//! Random settings and schedules.

use proptest::{collection::vec, prelude::*, sample::select};

use crate::rules::Settings;

/// What happens to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Time passes.
    Wait(u64),
    /// Time passes until the block ends, or until just before that.
    WaitToTheEnd {
        less: u64,
    },
    Strike,
    /// A success, which clears the key.
    Success,
    /// The block is lifted.
    Reset,
}

/// Returns settings whose blocks are shorter or longer than the time within which strikes count, and a schedule.
pub(crate) fn schedules() -> impl Strategy<Value = (Settings, Vec<Step>)> {
    let lengths = (select(vec![10, 100, 700]), select(vec![7, 60, 100, 1_000]));
    let forgets = (select(vec![1, 2, 3, 8, 20]), select(vec![(1, 0), (1, 1), (3, 0)]));
    let settings = (select(vec![1, 2, 3, 5]), lengths, forgets);
    let settings = settings.prop_map(|(strikes, (within, lasting), (factor, (times, more)))| {
        let longest = lasting * factor;
        let forget_after = times * longest + more * within;
        Settings { strikes, within, lasting, longest, forget_after }
    });
    settings.prop_flat_map(|settings| (Just(settings), vec(step(settings), 100)))
}

fn step(settings: Settings) -> impl Strategy<Value = Step> {
    let Settings { within, lasting, forget_after, .. } = settings;
    let waits = vec![1, 1, within / 3, within, lasting / 2, forget_after];
    prop_oneof![
        4 => Just(Step::Success),
        1 => Just(Step::Reset),
        8 => select(vec![0, 0, 1]).prop_map(|less| Step::WaitToTheEnd { less }),
        10 => select(waits).prop_map(Step::Wait),
        40 => Just(Step::Strike),
    ]
}
