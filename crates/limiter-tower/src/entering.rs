//! The decision on one request by rates and by limits on requests in flight.
//!
//! The order is fixed:
//!
//! 1. The keys of all rules are read. A request without a key is rejected before anything is charged.
//! 2. If there are rates, the limits on requests in flight are asked whether they have room. If one has none, the request
//!    is refused and charged nowhere.
//! 3. The rates [decide](crate::decide). If they refuse, no permit is taken.
//! 4. A permit of each limit in flight is taken. If another request was faster and one is full by now, the others are
//!    given back, and the rates refund what they have charged.
//! 5. Shadows are asked once the request is admitted.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use crate::{
    decide::{Ask, Pending, Question, refund},
    decisions::InFlightDecision,
    in_flight::{InFlightAsk, InFlightRule, Permits, admitted, refused},
    key::{Head, MissingKey},
    observe::Outcome,
    report::Observer,
    respond::Refused,
};

/// What one request asks of all rules.
pub(crate) struct Entering<'k> {
    rates: Question<'k>,
    in_flight: Vec<InFlightAsk<'k>>,
}

/// The answers, which are awaited. What was charged stays if it is dropped, and permits are given back.
pub(crate) struct PendingEntering {
    answers: Pin<Box<dyn Future<Output = Entering<'static>> + Send>>,
    is_waiting: Arc<AtomicBool>,
}

/// What follows for a request that all rules have admitted.
pub(crate) struct Entered<'k> {
    pub(crate) rates: Vec<Ask<'k>>,
    /// `None` if no permit was taken: all limits are shadows or failed.
    pub(crate) permits: Option<Arc<Permits>>,
    pub(crate) in_flight: Vec<InFlightDecision>,
}

impl<'k> Entering<'k> {
    /// Returns what the rules are asked about a request, beside its rates.
    ///
    /// # Errors
    ///
    /// The first rule without a key for the request.
    pub(crate) fn of<'r>(
        rates: Question<'k>,
        rules: &'r [InFlightRule],
        head: Head<'k>,
    ) -> Result<Self, (&'r InFlightRule, MissingKey)> {
        let mut in_flight = Vec::with_capacity(rules.len());
        for rule in rules {
            match rule.asked(head) {
                Ok(Some(ask)) => in_flight.push(ask),
                Ok(None) => rule.report_not_asked(Outcome::Bypassed),
                Err(missing) => return Err((rule, missing)),
            }
        }
        Ok(Self { rates, in_flight })
    }

    /// Asks the rules. Returns the answers if all of them are known at once.
    pub(crate) fn ask(self) -> Result<Entering<'static>, PendingEntering> {
        let rates = self.rates.into_owned();
        let in_flight = self.in_flight.into_iter().map(InFlightAsk::into_owned).collect();
        let is_waiting = Arc::new(AtomicBool::new(false));
        let answers = Entering { rates, in_flight }.answers(Arc::clone(&is_waiting));
        let mut pending = PendingEntering { answers: Box::pin(answers), is_waiting };
        // What is not ready is polled again at once, with the task's own waker.
        match pending.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(entering) => Ok(entering),
            Poll::Pending => Err(pending),
        }
    }
}

impl Entering<'static> {
    /// Returns the answers, once they are known. Sets `is_waiting` before the request waits for permits of a rate.
    async fn answers(mut self, is_waiting: Arc<AtomicBool>) -> Self {
        if !self.rates.asks.is_empty() {
            self.peek().await;
            if self.is_full() {
                return self;
            }
            self.rates = match self.rates.ask() {
                Ok(rates) => rates,
                Err(pending) => wait_for(pending, &is_waiting).await,
            };
            if self.rates.asks.iter().any(Ask::is_refused) {
                return self;
            }
        }
        self.enter(|ask| !ask.is_shadow).await;
        if self.is_full() {
            self.in_flight.iter_mut().for_each(InFlightAsk::give_back);
            return self;
        }
        self.enter(|ask| ask.is_shadow).await;
        self
    }

    /// Asks the enforced limits whether they have room, until one has none.
    async fn peek(&mut self) {
        for ask in self.in_flight.iter_mut().filter(|ask| !ask.is_shadow) {
            ask.peek().await;
            if ask.is_refused() {
                return;
            }
        }
    }

    /// Takes the permits of the limits that `has` selects, until one has none.
    async fn enter(&mut self, has: impl Fn(&InFlightAsk<'_>) -> bool) {
        for ask in self.in_flight.iter_mut().filter(|ask| has(ask)) {
            ask.enter().await;
            if ask.is_refused() {
                return;
            }
        }
    }
}

impl<'k> Entering<'k> {
    /// Returns whether a limit on requests in flight refuses the request.
    fn is_full(&self) -> bool {
        self.in_flight.iter().any(InFlightAsk::is_refused)
    }

    /// Returns what follows for an admitted request, and reports it. A rule that would have fitted reports nothing if
    /// another one refuses.
    pub(crate) fn conclude(
        mut self,
        observer: &Observer,
        head: Head<'_>,
    ) -> Result<Entered<'k>, Refused> {
        if let Some(refused) = refused(&self.in_flight) {
            refund(&mut self.rates.asks);
            return Err(refused);
        }
        let rates = self.rates.conclude(observer, head)?;
        let (permits, in_flight) = admitted(self.in_flight);
        Ok(Entered { rates, permits, in_flight })
    }
}

/// Waits for the rates' decision.
async fn wait_for(mut pending: Pending, is_waiting: &AtomicBool) -> Question<'static> {
    poll_fn(|cx| {
        let answers = pending.poll(cx);
        is_waiting.store(pending.is_waiting(), Ordering::Relaxed);
        answers
    })
    .await
}

impl PendingEntering {
    /// Returns whether the request waits for permits of a rate, and not for a decision.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Entering<'static>> {
        self.answers.as_mut().poll(cx)
    }
}
