//! The decision on one request by rates and by limits on requests in flight.
//!
//! The order is fixed:
//!
//! 1. The keys of all rules are read. A request without a key is rejected before anything is charged.
//! 2. If there are rates, the limits on requests in flight in memory are asked whether they have room. If one has none, the
//!    request is refused and charged nowhere.
//! 3. The rates [decide](crate::decide), and those that are shadows are asked. If a rate refuses, no permit is taken.
//! 4. A permit of each limit in flight is taken. If one is full, the others are given back, and the rates refund what they
//!    have charged.
//! 5. Limits in flight that are shadows are asked once the request is admitted.
//!
//! A refusal names each limit that is full: those in memory are all asked for room once one refuses.
//!
//! A store is not asked before the rates have charged: a client that resets its requests would call it without a limit.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use limiter_core::{Decision, Entry, LimiterFuture};

use crate::{
    decide::{Ask, Pending, Question},
    decisions::InFlightDecision,
    in_flight::{InFlightAsk, InFlightRule, Permits, admitted, refused},
    key::{Head, MissingKey},
    observe::Outcome,
    report::Observer,
    respond::Refused,
};

/// What one request asks of all rules, and the answers so far. Permits are given back if it is dropped, and what was
/// charged stays.
pub(crate) struct Entering<'k> {
    rates: Question<'k>,
    rates_have_decided: bool,
    in_flight: Vec<InFlightAsk<'k>>,
}

/// What is to be asked next. Limits on requests in flight are named by their places.
#[derive(Clone, Copy)]
enum Step {
    Rates,
    Enter(usize),
    Conclude,
}

/// A step whose answer is awaited.
enum Awaited {
    Rates(Pending),
    Enter(usize, LimiterFuture<Entry>),
}

/// A request whose next answer is awaited.
pub(crate) struct PendingEntering {
    entering: Entering<'static>,
    awaited: Awaited,
}

/// What follows for a request that all rules have admitted. The default is that of a request that no rule counts.
#[derive(Default)]
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
        let rates_have_decided = rates.asks.is_empty();
        Ok(Self { rates, rates_have_decided, in_flight })
    }

    /// Returns the answers of rates, without limits on requests in flight.
    pub(crate) const fn by_rates(rates: Question<'k>) -> Self {
        Self { rates, rates_have_decided: true, in_flight: Vec::new() }
    }

    /// Asks the rules. Returns the answers if all of them are known at once.
    pub(crate) fn ask(mut self) -> Result<Self, Box<PendingEntering>> {
        // Without rates there is nothing to spare.
        if !self.rates_have_decided {
            self.peek();
        }
        match self.advance() {
            None => Ok(self),
            Some(awaited) => {
                Err(Box::new(PendingEntering { entering: self.into_owned(), awaited }))
            }
        }
    }

    /// Asks the limits in memory that have not answered whether they have room: so that a full one charges no rate, and a
    /// refusal names each full one.
    fn peek(&mut self) {
        let enforced = self.in_flight.iter_mut().filter(|ask| !ask.is_shadow);
        enforced.filter(|ask| ask.is_to_be_entered()).for_each(InFlightAsk::peek);
    }

    /// Returns what is to be asked next: the order of the decision.
    fn next(&self) -> Step {
        let place_of = |has: &dyn Fn(&InFlightAsk<'_>) -> bool| self.in_flight.iter().position(has);
        if self.in_flight.iter().any(InFlightAsk::is_refused) {
            return Step::Conclude;
        }
        if !self.rates_have_decided {
            return Step::Rates;
        }
        if self.rates.asks.iter().any(Ask::is_refused) {
            return Step::Conclude;
        }
        let enforced = place_of(&|ask| ask.is_to_be_entered() && !ask.is_shadow);
        let next = enforced.or_else(|| place_of(&|ask| ask.is_to_be_entered()));
        next.map_or(Step::Conclude, Step::Enter)
    }

    /// Asks what is to be asked, until an answer is not known at once, or all are known.
    fn advance(&mut self) -> Option<Awaited> {
        loop {
            match self.next() {
                Step::Rates => {
                    let rates = mem::take(&mut self.rates);
                    self.rates_have_decided = true;
                    match rates.ask() {
                        Ok(rates) => self.rates = rates,
                        Err(pending) => return Some(Awaited::Rates(pending)),
                    }
                }
                Step::Enter(place) => {
                    let ask = self.in_flight.get_mut(place)?;
                    let mut entered = ask.enter();
                    match entered.take_ready() {
                        Some(answer) => ask.entered(answer),
                        None => return Some(Awaited::Enter(place, entered)),
                    }
                }
                Step::Conclude => {
                    if self.in_flight.iter().any(InFlightAsk::is_refused) {
                        self.peek();
                    }
                    return None;
                }
            }
        }
    }

    /// Returns what follows for an admitted request, and reports it. A rule that would have fitted reports nothing if
    /// another one refuses.
    pub(crate) fn conclude(
        self,
        observer: &Observer,
        head: Head<'_>,
    ) -> Result<Entered<'k>, Refused> {
        if let Some(refused) = refused(&self.in_flight) {
            self.rates.refuse(observer, head);
            return Err(refused);
        }
        let rates = self.rates.conclude(observer, head)?;
        let (permits, in_flight) = admitted(self.in_flight);
        Ok(Entered { rates, permits, in_flight })
    }

    fn into_owned(self) -> Entering<'static> {
        let Self { rates, rates_have_decided, in_flight } = self;
        let in_flight = in_flight.into_iter().map(InFlightAsk::into_owned).collect();
        Entering { rates: rates.into_owned(), rates_have_decided, in_flight }
    }
}

impl PendingEntering {
    /// Returns the question to one rule that was asked alone, and whose answer is awaited.
    pub(crate) fn check(question: Question<'static>, answer: LimiterFuture<Decision>) -> Self {
        let entering = Entering::by_rates(Question::default());
        Self { entering, awaited: Awaited::Rates(Pending::check(question, answer)) }
    }

    /// Returns whether the request waits for permits of a rate, and not for a decision.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(&self.awaited, Awaited::Rates(pending) if pending.is_waiting())
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Entering<'static>> {
        let Self { entering, awaited } = self;
        loop {
            match awaited {
                Awaited::Rates(pending) => entering.rates = ready!(pending.poll(cx)),
                Awaited::Enter(place, entered) => {
                    let answer = ready!(Pin::new(entered).poll(cx));
                    if let Some(ask) = entering.in_flight.get_mut(*place) {
                        ask.entered(answer);
                    }
                }
            }
            match entering.advance() {
                Some(next) => *awaited = next,
                None => {
                    let rates = mem::take(&mut entering.rates);
                    let in_flight = mem::take(&mut entering.in_flight);
                    let entering = Entering { rates, rates_have_decided: true, in_flight };
                    return Poll::Ready(entering);
                }
            }
        }
    }
}
