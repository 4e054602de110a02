//! Calls that renew permits, or give them back.

use std::sync::Arc;

use bytes::Bytes;
use limiter_core::Timestamp;

use super::{shared::Shared, table::Renewed};
use crate::{
    call::{deadline::Deadline, operation::Operation},
    client::{
        ScriptCall, ScriptClient, ScriptReply,
        faults::{CallError, Outcome},
    },
    context::Settings,
    events::Events,
    scripts::{Scripts, duration},
};

/// Renews permits, or gives them back, which nobody waits for.
///
/// Renewals are sent while the circuit breaker is open, because a permit that is not renewed is lost.
struct PermitsCall<C: ScriptClient, const RENEWS: bool> {
    shared: Arc<Shared<C>>,
    key: Bytes,
    /// Sorted by their keys.
    permits: Vec<PermitId>,
}

/// A permit as the scripts know it.
#[derive(Debug)]
struct PermitId {
    key: Bytes,
    id: Bytes,
    limit: u32,
}

impl<C: ScriptClient, const RENEWS: bool> Operation for PermitsCall<C, RENEWS> {
    type Output = Vec<Result<Renewed, String>>;

    const OUTLIVES_CALLER: bool = true;

    const PASSES_BREAKER: bool = RENEWS;

    fn key(&self) -> &Bytes {
        &self.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        self.shared.events()
    }

    fn deadline(&self, _: &Settings, now: Timestamp) -> Deadline {
        Deadline::after(self.shared.expiry.call(), now)
    }

    fn begin(&self) -> ScriptCall {
        let Scripts { renew, leave, .. } = Scripts::shared();
        match RENEWS {
            true => ScriptCall::of(renew, vec![duration(self.shared.expiry.0)]),
            false => ScriptCall::of(leave, Vec::new()),
        }
    }

    fn add(&self, call: &mut ScriptCall) {
        for of_key in self.permits.chunk_by(|one, other| one.key == other.key) {
            call.keys.extend(of_key.first().map(|permit| permit.key.clone()));
            call.arguments.push(of_key.len().to_string().into());
            call.arguments.extend(of_key.iter().map(|permit| permit.id.clone()));
            if RENEWS {
                let limits = of_key.iter().map(|permit| permit.limit.to_string().into());
                call.arguments.extend(limits);
            }
        }
    }

    fn is_of_caller(&self) -> bool {
        false
    }

    fn read(&self, reply: &ScriptReply, _: Timestamp) -> Option<Self::Output> {
        read_permits(reply, self.permits.len())
    }
}

/// Returns what became of each of so many permits of a call, a text if that is the error of a command.
pub(crate) fn read_permits(
    reply: &ScriptReply,
    permits: usize,
) -> Option<Vec<Result<Renewed, String>>> {
    let ScriptReply::Array(elements) = reply else { return None };
    let read = |element: &ScriptReply| match element {
        ScriptReply::Integer(0) => Some(Ok(Renewed::Lost)),
        ScriptReply::Integer(1) => Some(Ok(Renewed::Kept)),
        ScriptReply::Integer(2) => Some(Ok(Renewed::Restored)),
        ScriptReply::Text(words) => Some(Err(words.clone())),
        _ => None,
    };
    elements.iter().map(read).collect::<Option<Vec<_>>>().filter(|read| read.len() == permits)
}

impl<C: ScriptClient> Shared<C> {
    /// Renews permits, or gives them back, which are sorted by their keys. Returns what became of each.
    pub(super) async fn call_for<const RENEWS: bool>(
        self: &Arc<Self>,
        permits: impl Iterator<Item = (&Bytes, u64, u32)>,
    ) -> Outcome<Vec<Result<Renewed, Arc<CallError>>>> {
        let id = |(key, number, limit): (&Bytes, _, _)| PermitId {
            key: key.clone(),
            id: self.ids.id(number),
            limit,
        };
        let permits: Vec<_> = permits.map(id).collect();
        let keys: Vec<_> = permits.iter().map(|permit| permit.key.clone()).collect();
        let key = keys.first().cloned().unwrap_or_default();
        let call = PermitsCall::<C, RENEWS> { shared: Arc::clone(self), key, permits };
        let replies = self.sender.operate(self.events().1, call).await?;
        let of_command = |(reply, key): (Result<_, String>, &Bytes)| {
            let server = || self.sender.server_name(key);
            reply.map_err(|words| Arc::new(CallError::of_command(&server(), &words)))
        };
        Ok(replies.into_iter().zip(&keys).map(of_command).collect())
    }
}
