//! Servers that are wrong on purpose.

mod in_flight;

use limiter_double::{Reply, Server as Redis};

use crate::{vocabulary::ProcessId, wrong::Wrong};

/// How a server executes its calls, wrongly if it is a variant of the server.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) wrong: Option<Wrong>,
    /// How many calls of decisions were executed.
    decisions: u64,
    expiries: in_flight::Expiries,
}

impl Execution {
    pub(super) fn new(wrong: Option<Wrong>) -> Self {
        Self { wrong, decisions: 0, expiries: Default::default() }
    }

    /// Executes a call of a process at a time of the server's clock.
    pub(super) fn run(
        &mut self,
        redis: &mut Redis,
        (process, words): (ProcessId, &[Vec<u8>]),
        script: &str,
        now: i64,
    ) -> Reply {
        let is_decision = !matches!(script, "refund" | "reset" | "");
        self.decisions += u64::from(is_decision);
        let is_each = |number: u64| is_decision && self.decisions.is_multiple_of(number);
        let Some(wrong) = self.wrong else { return redis.execute(words, now) };
        if let Some((words, now)) = in_flight::changed(wrong, process, words, script, now) {
            return redis.execute(&words, now);
        }
        match wrong {
            Wrong::RenewalsForgetExpiry => {
                return self.expiries.run(redis, words, script, now);
            }
            Wrong::ExecutesTwice if is_decision => {
                redis.execute(words, now);
            }
            Wrong::RefundsTwice if script == "refund" => {
                redis.execute(words, now);
            }
            Wrong::DecidesWrongly if is_each(20) => {
                let mut fresh = redis.clone();
                fresh.execute(&["FLUSHALL"], now);
                return fresh.execute(words, now);
            }
            Wrong::LosesWrites if is_each(10) => return redis.clone().execute(words, now),
            Wrong::FailsAfterExecution if is_each(20) => {
                redis.execute(words, now);
                return Reply::Error("OOM command not allowed".to_owned());
            }
            Wrong::LosesKeys if self.decisions.is_multiple_of(200) => {
                redis.execute(&["FLUSHALL"], now);
            }
            Wrong::ChargesLeasesForTheirStart if script == "lease" => {
                return redis.execute(&with_length(words, |_| 1), now);
            }
            Wrong::LeasesEndLate if script == "lease" => {
                return redis.execute(&with_length(words, |length| length / 2), now);
            }
            Wrong::LeasesBeginEarly if script == "lease" => {
                return without_delays(redis.execute(words, now));
            }
            Wrong::IgnoresResets if script == "reset" => {
                return redis.clone().execute(words, now);
            }
            Wrong::RefundsBehindReservations if script == "refund" => {
                return redis.execute(&with_refund(words, |terms| terms.mark = i64::MAX / 2), now);
            }
            Wrong::RefundsWhatHasDrained if script == "refund" => {
                let charged_now = |terms: &mut Refund| terms.at = terms.at.max(now);
                return redis.execute(&with_refund(words, charged_now), now);
            }
            Wrong::NamesNoWaits => {
                return with_wait(script, redis.execute(words, now), |_| 1);
            }
            Wrong::NamesLongWaits => {
                return with_wait(script, redis.execute(words, now), |wait| 4 * wait);
            }
            _ => {}
        }
        redis.execute(words, now)
    }
}

/// Returns where the arguments of a script call begin, behind its keys.
fn first_argument(words: &[Vec<u8>]) -> usize {
    3 + super::keys(words).len()
}

fn number(word: &[u8]) -> Option<i64> {
    str::from_utf8(word).ok()?.parse().ok()
}

/// Changes the length of each lease by GCRA, which is the last of a key's nine arguments.
fn with_length(words: &[Vec<u8>], change: impl Fn(i64) -> i64) -> Vec<Vec<u8>> {
    let (mut words, first) = (words.to_vec(), first_argument(words));
    for arguments in words.get_mut(first..).unwrap_or_default().chunks_mut(9) {
        if let [kind, .., length] = arguments
            && kind == b"gcra"
            && let Some(number) = number(length)
        {
            *length = change(number).max(1).to_string().into();
        }
    }
    words
}

/// What a refund by GCRA is about.
struct Refund {
    /// The moment that the charge was made for.
    at: i64,
    /// The debt with the charge.
    mark: i64,
}

/// Changes what a refund by GCRA is about. The moment is the fourth argument, and the mark the seventh of its limit.
fn with_refund(words: &[Vec<u8>], change: impl FnOnce(&mut Refund)) -> Vec<Vec<u8>> {
    let (mut words, first) = (words.to_vec(), first_argument(words));
    if let Some([_, _, _, at, _, kind, _, _, _, _, _, mark, _]) = words.get_mut(first..)
        && kind == b"gcra"
        && let (Some(old_at), Some(old_mark)) = (number(at), number(mark))
    {
        let mut refund = Refund { at: old_at, mark: old_mark };
        change(&mut refund);
        (*at, *mark) = (refund.at.to_string().into(), refund.mark.to_string().into());
    }
    words
}

/// Changes the waits of refusals, which begin with `{ 0, reset, left, wait }`.
fn with_wait(script: &str, reply: Reply, change: fn(i64) -> i64) -> Reply {
    if !matches!(script, "window" | "log" | "lease") {
        return reply;
    }
    with_numbers(reply, &|numbers| {
        if let [Reply::Integer(0), _, _, Reply::Integer(wait), ..] = numbers
            && *wait > 0
        {
            *wait = change(*wait);
        }
    })
}

/// Lets each lease that begins later, which is the end of a reply, begin after a microsecond.
fn without_delays(reply: Reply) -> Reply {
    with_numbers(reply, &|numbers| {
        if let [Reply::Integer(0), _, _, _, _, _, _, begins]
        | [Reply::Integer(1), _, _, _, _, _, _, _, _, begins] = numbers
        {
            *begins = Reply::Integer(1);
        }
    })
}

/// Changes the reply for each key.
fn with_numbers(mut reply: Reply, change: &impl Fn(&mut [Reply])) -> Reply {
    if let Reply::Array(replies) = &mut reply {
        if replies.iter().any(|reply| matches!(reply, Reply::Array(_))) {
            for reply in replies {
                *reply = with_numbers(reply.clone(), change);
            }
        } else {
            change(replies);
        }
    }
    reply
}
