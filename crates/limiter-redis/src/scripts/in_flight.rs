//! The scripts `enter`, `renew` and `leave`, and `reset` for permits of requests in flight.

use std::{slice, time::Duration};

use bytes::Bytes;

use super::{Scripts, argument};
use crate::client::{ScriptCall, ScriptReply, faults::CallError};

/// Whether a permit was taken or could be, and how many are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnterReply {
    pub(crate) is_admitted: bool,
    pub(crate) held: u32,
}

/// A permit to take, or with an empty id none.
#[derive(Clone, Debug)]
pub(crate) struct Entering {
    pub(crate) key: Bytes,
    pub(crate) id: Bytes,
    pub(crate) limit: u32,
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
    pub(crate) id: Bytes,
    pub(crate) limit: u32,
}

impl Scripts {
    /// Returns the call that takes permits.
    pub(crate) fn enter(
        &self,
        entering: impl IntoIterator<Item = Entering>,
        expiry: Duration,
    ) -> ScriptCall {
        let (mut keys, mut arguments) = (Vec::new(), vec![micros(expiry)]);
        for Entering { key, id, limit } in entering {
            keys.push(key);
            arguments.extend([number(limit), id]);
        }
        ScriptCall { keys, ..ScriptCall::of(&self.enter, arguments) }
    }

    /// Returns the call that renews permits of keys.
    pub(crate) fn renew<'a>(
        &self,
        permits: impl IntoIterator<Item = (&'a Bytes, &'a [PermitId])>,
        expiry: Duration,
    ) -> ScriptCall {
        let (mut keys, mut arguments) = (Vec::new(), vec![micros(expiry)]);
        for (key, permits) in permits {
            keys.push(key.clone());
            arguments.push(number(permits.len()));
            arguments.extend(permits.iter().map(|permit| permit.id.clone()));
            arguments.extend(permits.iter().map(|permit| number(permit.limit)));
        }
        ScriptCall { keys, ..ScriptCall::of(&self.renew, arguments) }
    }

    /// Returns the call that gives back permits of keys, by their ids.
    pub(crate) fn leave<'a>(
        &self,
        permits: impl IntoIterator<Item = (&'a Bytes, &'a [Bytes])>,
    ) -> ScriptCall {
        let (mut keys, mut arguments) = (Vec::new(), Vec::new());
        for (key, ids) in permits {
            keys.push(key.clone());
            arguments.push(number(ids.len()));
            arguments.extend(ids.iter().cloned());
        }
        ScriptCall { keys, ..ScriptCall::of(&self.leave, arguments) }
    }

    /// Returns the call that deletes a key.
    pub(crate) fn delete(&self, key: Bytes) -> ScriptCall {
        ScriptCall { keys: vec![key], ..ScriptCall::of(&self.reset, Vec::new()) }
    }
}

impl EnterReply {
    /// Returns the replies for so many keys of a call. For one, that is the reply itself.
    pub(crate) fn read_all(
        reply: &ScriptReply,
        keys: usize,
    ) -> Result<Vec<Result<Self, CallError>>, CallError> {
        let replies = match reply {
            reply if keys == 1 => slice::from_ref(reply),
            ScriptReply::Array(replies) if replies.len() == keys => replies,
            _ => return Err(CallError::invalid_reply(reply)),
        };
        let read = |reply: &ScriptReply| match reply {
            ScriptReply::Text(words) => Ok(Err(CallError::of_command("Redis", words))),
            reply => Self::read(reply).map(Ok),
        };
        replies.iter().map(read).collect()
    }

    pub(crate) fn read(reply: &ScriptReply) -> Result<Self, CallError> {
        let numbers = reply.integers();
        let read = match numbers.as_deref() {
            Some(&[decided @ 0..=1, held]) => {
                u32::try_from(held).ok().map(|held| Self { is_admitted: decided == 1, held })
            }
            _ => None,
        };
        read.ok_or_else(|| CallError::invalid_reply(reply))
    }
}

impl Renewed {
    /// Returns what became of each of so many permits of a call.
    pub(crate) fn read(
        reply: &ScriptReply,
        permits: usize,
    ) -> Result<Vec<Result<Self, CallError>>, CallError> {
        each(reply, permits, |number| match number {
            0 => Some(Self::Lost),
            1 => Some(Self::Kept),
            2 => Some(Self::Restored),
            _ => None,
        })
    }
}

/// Returns the error of the first of so many keys whose permits could not be given back.
pub(crate) fn read_leave(reply: &ScriptReply, keys: usize) -> Result<(), CallError> {
    let removed = each(reply, keys, |number| u64::try_from(number).ok())?;
    removed.into_iter().try_for_each(|removed| removed.map(drop))
}

/// Returns what each element of an array means, which is a number, or a text: the error of a command.
fn each<T>(
    reply: &ScriptReply,
    number: usize,
    meaning: impl Fn(i64) -> Option<T>,
) -> Result<Vec<Result<T, CallError>>, CallError> {
    let invalid = || CallError::invalid_reply(reply);
    let ScriptReply::Array(elements) = reply else { return Err(invalid()) };
    if elements.len() != number {
        return Err(invalid());
    }
    let read = |element: &ScriptReply| match element {
        ScriptReply::Integer(number) => meaning(*number).map(Ok).ok_or_else(invalid),
        ScriptReply::Text(words) => Ok(Err(CallError::of_command("Redis", words))),
        _ => Err(invalid()),
    };
    elements.iter().map(read).collect()
}

fn number(number: impl ToString) -> Bytes {
    number.to_string().into()
}

fn micros(time: Duration) -> Bytes {
    number(argument::micros(time))
}
