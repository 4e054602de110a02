//! The callers that wait for a reply of the store, and who gets what it brings.

use std::{mem, sync::Arc};

use limiter_core::{Cost, Decision, Timestamp};
use tokio::sync::oneshot;

use super::{demand::Ask, grant::Grant};
use crate::{
    call::{operation::Progress, queue::Operating, reply::Charged},
    client::faults::{CallError, Outcome},
};

/// Callers that wait, in the order in which they came, and those that don't any more.
#[derive(Default)]
pub(super) struct Callers {
    waiting: Vec<Caller>,
    gone: Gone,
}

/// Callers with their answers, if they have not left. They are woken when this is sent, so not under a lock.
#[derive(Default)]
pub(super) struct Gone(Vec<(Caller, Option<Outcome<Answered>>)>);

struct Caller {
    cost: Cost,
    since: Timestamp,
    answer: oneshot::Sender<Outcome<Answered>>,
    progress: Arc<Progress>,
    /// Counts it among the operations under way.
    _operating: Operating,
}

/// What there is for a caller.
pub(crate) enum Found {
    Answered(Answered),
    /// The reply to a request that is under way, or that the caller has to start.
    Awaited {
        awaited: Awaited,
        must_ask: bool,
    },
    /// The store has to decide.
    Store,
}

/// The answer that a caller waits for.
pub(crate) struct Awaited {
    pub(crate) answer: oneshot::Receiver<Outcome<Answered>>,
    progress: Arc<Progress>,
}

/// What a caller gets.
pub(crate) enum Answered {
    Admitted(Decision, Permits),
    Refused(Decision),
}

/// Where permits come from, for their refund.
pub(crate) enum Permits {
    Lease(Arc<Grant>),
    Store(Charged),
}

impl Awaited {
    /// Ends the wait. Returns whether the permits may have been charged; if not, the store is not asked for them any more.
    pub(crate) fn leave(self) -> bool {
        self.progress.ends() != Progress::WAITS
    }
}

impl Callers {
    pub(super) fn add(&mut self, cost: Cost, since: Timestamp, operating: Operating) -> Awaited {
        let (send, answer) = oneshot::channel();
        let progress = Arc::<Progress>::default();
        self.waiting.push(Caller {
            cost,
            since,
            answer: send,
            progress: Arc::clone(&progress),
            _operating: operating,
        });
        Awaited { answer, progress }
    }

    /// Notes that a call requests permits for all, and removes those that have left. Returns the smallest cost, and the sum of them.
    pub(super) fn are_asked_for(&mut self) -> (Option<Cost>, u64) {
        let left = |it: &mut Caller| it.answer.is_closed() || !it.progress.begins();
        self.gone.0.extend(self.waiting.extract_if(.., left).map(|it| (it, None)));
        let costs = || self.waiting.iter().map(|caller| caller.cost);
        (costs().min(), costs().fold(0, |sum, cost| sum.saturating_add(cost.get())))
    }

    pub(super) const fn are_none(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Answers each caller for which `find` returns an answer, by its cost and the time since which it waits. Removes callers
    /// that have left.
    pub(super) fn answer(&mut self, mut find: impl FnMut(Cost, Timestamp) -> Option<Answered>) {
        for caller in mem::take(&mut self.waiting) {
            if caller.answer.is_closed() {
                self.gone.0.push((caller, None));
                continue;
            }
            match find(caller.cost, caller.since) {
                Some(answered) => self.gone.0.push((caller, Some(Ok(answered)))),
                None => self.waiting.push(caller),
            }
        }
    }

    /// Gives a charge without a lease to the first caller of the same cost that waited when the request was sent. Returns the
    /// charge if there is none.
    pub(super) fn give(
        &mut self,
        ask: Ask,
        (decision, charged): (Decision, Charged),
    ) -> Option<Charged> {
        let mut left = Some(charged);
        self.answer(|cost, since| {
            let is_for = cost == ask.cost && since <= ask.at;
            let charged = is_for.then(|| left.take()).flatten()?;
            Some(Answered::Admitted(decision, Permits::Store(charged)))
        });
        left
    }

    /// Answers all with an error.
    pub(super) fn fail(&mut self, error: &Arc<CallError>) {
        let failed = self.waiting.drain(..).map(|it| (it, Some(Err(Arc::clone(error)))));
        self.gone.0.extend(failed);
    }

    /// Forgets all, who learn that the runtime was shut down.
    pub(super) fn clear(&mut self) {
        self.gone.0.extend(self.waiting.drain(..).map(|it| (it, None)));
    }

    /// Takes those that don't wait any more.
    pub(super) fn take_gone(&mut self) -> Gone {
        mem::take(&mut self.gone)
    }
}

impl Gone {
    /// Sends the answers.
    pub(super) fn send(self) {
        for (caller, answer) in self.0 {
            if let Some(answer) = answer {
                drop(caller.answer.send(answer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::queue::UnderWay;

    /// A caller that has left has received the error `Unavailable`, after which nothing may be charged for it.
    #[test]
    fn the_store_is_not_asked_for_a_caller_that_has_left() {
        let under_way = Arc::new(UnderWay::default());
        let mut callers = Callers::default();
        let since = Timestamp::from_nanos(0);
        let mut add = |cost| callers.add(Cost::of(cost), since, under_way.begin().unwrap());
        let [left, stays, dropped] = [3, 5, 7].map(&mut add);
        assert!(!left.leave());
        drop(dropped);
        assert_eq!(callers.are_asked_for(), (Some(Cost::of(5)), 5));
        // The next request has it again.
        assert_eq!(callers.are_asked_for(), (Some(Cost::of(5)), 5));
        assert!(stays.leave(), "its permits may be charged");
        assert_eq!(callers.are_asked_for(), (None, 0));
    }
}
