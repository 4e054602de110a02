//! A permit of a request in flight, as its caller has it.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::Arc,
};

use limiter_core::{HeldPermit, InFlightPermit};

use super::{permit_state::PermitState, shared::Shared};
use crate::{call::deadline::timeout, client::ScriptClient};

/// A permit that the store has counted. Dropping it gives it back.
pub(crate) struct Permit<C: ScriptClient> {
    shared: Arc<Shared<C>>,
    held: Arc<PermitState>,
    /// Whether a caller has it. One that no caller got can't be lost.
    is_used: bool,
}

impl<C: ScriptClient> Permit<C> {
    pub(crate) fn new(shared: &Arc<Shared<C>>, held: Arc<PermitState>) -> Self {
        Self { shared: Arc::clone(shared), held, is_used: false }
    }

    /// Returns the permit for its caller, or `None` if the reply came so late that it is lost.
    pub(super) fn used(mut self) -> Option<InFlightPermit> {
        self.is_used = !self.held.is_over(self.shared.sender.now()) && self.held.becomes_held();
        self.is_used.then(|| InFlightPermit::new(self))
    }
}

impl<C: ScriptClient> HeldPermit for Permit<C> {
    fn is_lost(&self) -> bool {
        self.shared.is_lost(&self.held)
    }

    fn can_be_lost(&self) -> bool {
        true
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (shared, held) = (Arc::clone(&self.shared), Arc::clone(&self.held));
        Box::pin(async move {
            loop {
                let changed = held.changed();
                if shared.is_lost(&held) {
                    return;
                }
                if held.is_left() {
                    pending::<()>().await;
                }
                let left = held.ends().saturating_since(shared.sender.now());
                let _ = timeout(&shared.sender.client, left, changed).await;
            }
        })
    }
}

impl<C: ScriptClient> Drop for Permit<C> {
    fn drop(&mut self) {
        if self.is_used {
            // Work that ended after its permit's time has overrun.
            self.shared.is_lost(&self.held);
        }
        self.held.becomes_left();
        self.shared.give_back(&self.held);
    }
}
