//! A request, and what is known of it.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use http::StatusCode;
use limiter_core::Cost;

use crate::{
    sync::lock,
    vocabulary::{KEYS, Micros, Moment},
};

/// The status of a response, once there is one.
pub(crate) type Answer = Pin<Box<dyn Future<Output = StatusCode> + Send>>;

/// What a request is: in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// The indices of its keys.
    pub(crate) user: usize,
    pub(crate) tenant: usize,
    /// What it costs its tenant.
    pub(crate) cost: Cost,
    /// Whether the response is a failure.
    pub(crate) fails: bool,
    /// How long the service takes.
    pub(crate) work: Micros,
    pub(crate) ticket: Arc<Ticket>,
}

/// What is known of a request.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) asked: Moment,
    /// Whether the client's own key had no permits left when the request was made.
    pub(crate) is_over: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether it is known what was charged.
    is_known: bool,
    is_blocked: bool,
    /// Whether the service has received it.
    is_admitted: bool,
    /// Whether it waits for permits, and whether it has begun to.
    is_waiting: bool,
    has_waited: bool,
    /// The rules whose store has failed: a bit for each.
    failed: u32,
}

impl Ticket {
    pub(crate) fn new(asked: Moment, is_over: bool) -> Self {
        Self { asked, is_over, state: Mutex::default() }
    }

    pub(super) fn has_failed(&self, rule: usize) {
        lock(&self.state).failed |= 1 << rule;
    }

    pub(super) fn is_blocked(&self) {
        lock(&self.state).is_blocked = true;
    }

    pub(crate) fn is_known(&self) {
        lock(&self.state).is_known = true;
    }

    /// Returns whether it is known what was charged.
    pub(crate) fn is_settled(&self) -> bool {
        lock(&self.state).is_known
    }

    pub(crate) fn was_blocked(&self) -> bool {
        lock(&self.state).is_blocked
    }

    pub(crate) fn is_admitted(&self) {
        lock(&self.state).is_admitted = true;
    }

    pub(crate) fn was_admitted(&self) -> bool {
        lock(&self.state).is_admitted
    }

    pub(super) fn begins_to_wait(&self) {
        let mut state = lock(&self.state);
        (state.is_waiting, state.has_waited) = (true, true);
    }

    pub(super) fn ends_to_wait(&self) {
        lock(&self.state).is_waiting = false;
    }

    /// Returns whether the request waits for permits, or did until it was dropped.
    pub(crate) fn is_waiting(&self) -> bool {
        lock(&self.state).is_waiting
    }

    pub(crate) fn has_waited(&self) -> bool {
        lock(&self.state).has_waited
    }

    /// Returns the rules whose store has failed: a bit for each.
    pub(crate) fn failed(&self) -> u32 {
        lock(&self.state).failed
    }
}

impl Client {
    pub(crate) fn user_name(&self) -> &'static str {
        KEYS.get(self.user).copied().unwrap_or_default()
    }

    pub(crate) fn tenant_name(&self) -> &'static str {
        KEYS.get(self.tenant).copied().unwrap_or_default()
    }
}

thread_local! {
    /// The ticket of the request that is polled.
    static CURRENT: RefCell<Option<Arc<Ticket>>> = const { RefCell::new(None) };
}

/// Returns the ticket of the request that is polled.
pub(super) fn current() -> Option<Arc<Ticket>> {
    CURRENT.with_borrow(Clone::clone)
}

/// An answer, whose ticket is known to what is polled for it.
pub(crate) struct Ticketed {
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) answer: Answer,
}

impl Future for Ticketed {
    type Output = StatusCode;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<StatusCode> {
        let before = CURRENT.replace(Some(Arc::clone(&self.ticket)));
        let polled = self.answer.as_mut().poll(cx);
        CURRENT.set(before);
        polled
    }
}
