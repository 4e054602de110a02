//! The scripts `enter`, `renew` and `leave`.

use std::time::Duration;

use bytes::Bytes;

use super::{Scripts, argument};
use crate::client::{ScriptCall, ScriptReply};

/// Whether a permit was taken or could be, and how many are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnterReply {
    pub(crate) is_admitted: bool,
    pub(crate) held: u32,
}

/// What became of a permit that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Kept,
    Restored,
    Lost,
}

/// A permit as the scripts know it.
#[derive(Clone, Debug)]
pub(crate) struct PermitId {
    pub(crate) key: Bytes,
    pub(crate) id: Bytes,
    pub(crate) limit: u32,
}

impl Scripts {
    /// Returns a call of the script `enter` for permits that last so long, to which they are added.
    pub(crate) fn begin_enter(&self, expiry: Duration) -> ScriptCall {
        ScriptCall::of(&self.enter, vec![micros(expiry)])
    }

    /// Adds a permit to take, or with an empty id none.
    pub(crate) fn add_entering(call: &mut ScriptCall, PermitId { key, id, limit }: PermitId) {
        call.keys.push(key);
        call.arguments.extend([number(limit), id]);
    }

    /// Returns the call that gives back permits, sorted by their keys, or lets them last so long from now.
    pub(crate) fn of_permits(&self, expiry: Option<Duration>, permits: &[PermitId]) -> ScriptCall {
        let script = if expiry.is_some() { &self.renew } else { &self.leave };
        let mut call = ScriptCall::of(script, expiry.map(micros).into_iter().collect());
        for of_key in permits.chunk_by(|one, other| one.key == other.key) {
            call.keys.extend(of_key.first().map(|permit| permit.key.clone()));
            call.arguments.push(number(of_key.len()));
            call.arguments.extend(of_key.iter().map(|permit| permit.id.clone()));
            if expiry.is_some() {
                call.arguments.extend(of_key.iter().map(|permit| number(permit.limit)));
            }
        }
        call
    }
}

impl EnterReply {
    pub(crate) fn read(reply: &ScriptReply) -> Option<Self> {
        let &[decided @ 0..=1, held] = &*reply.integers()? else { return None };
        Some(Self { is_admitted: decided == 1, held: u32::try_from(held).ok()? })
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

fn number(number: impl ToString) -> Bytes {
    number.to_string().into()
}

fn micros(time: Duration) -> Bytes {
    number(argument::micros(time))
}
