//! The members of `RateLimit-Policy` and `RateLimit`.
//!
//! Both are structured fields (RFC 9651), as draft-ietf-httpapi-ratelimit-headers-11 defines them. [`Names`] has what
//! differs between the drafts.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use itoa::Buffer;
use limiter_core::{Algorithm, Cost, Decision, Policy, Source, Usage};

/// The largest integer of a structured field: RFC 9651, section 3.3.1.
pub(crate) const MAX_INTEGER: u64 = 999_999_999_999_999;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

const EMPTY: HeaderValue = HeaderValue::from_static("");

/// The parameters' names between `;` and `=`, as a member has them before each value.
const QUOTA: &str = ";q=";
const WINDOW: &str = ";w=";
/// Not in the draft: the burst, where it differs from the quota.
const BURST: &str = ";limiter-burst=";

/// Not a time: how many requests are in flight at once (`qu` is the quota's unit).
const IN_FLIGHT: &str = ";qu=\"concurrent-requests\"";

/// The parameters' names in a member of `RateLimit`, in the same form.
pub(crate) struct Names {
    /// What is available.
    remaining: &'static str,
    /// For how many seconds that has to last.
    time: &'static str,
    /// What the request cost, if members have that.
    cost: Option<&'static str>,
}

/// The names of draft 11.
pub(crate) static DRAFT_11: Names = Names { remaining: ";r=", time: ";t=", cost: None };

/// The names that are proposed for the next draft.
pub(crate) static NEXT_DRAFT: Names = Names { remaining: ";a=", time: ";w=", cost: Some(";c=") };

/// One policy's fields, as far as they can be written in advance.
pub(crate) struct Fields {
    /// `RateLimit-Policy`.
    policy: HeaderValue,
    limits: Box<[LimitFields]>,
}

/// The fields of one of the policy's limits.
struct LimitFields {
    /// As a structured field's string.
    name: Box<str>,
    permits: u64,
    window: Duration,
    /// The most permits that a key can take at once, so that what is available starts there.
    burst: u64,
    /// Whether permits recover one by one, at the quota's rate.
    is_continuous: bool,
    /// Whether all permits recover at the end of a window that the first charge opens.
    is_fixed: bool,
    /// The longest time until a charge does not count any more, where permits don't recover one by one.
    reset: Duration,
}

impl Fields {
    pub(crate) fn new(policy: &Policy) -> Self {
        let limits: Box<[_]> = policy.limits().iter().map(LimitFields::new).collect();
        let members: Vec<_> = limits.iter().map(|limit| limit.policy(None)).collect();
        Self { policy: header_value(members.join(", ")), limits }
    }

    /// Returns the policy's members of `RateLimit-Policy`.
    pub(crate) fn policy(&self, decision: &Decision) -> HeaderValue {
        match (decision.source(), self.limits.get(decision.limit_index())) {
            // The local fallback enforces a share of the quota, so the field announces the share.
            (Source::Local, Some(limit)) => header_value(limit.policy(Some(decision.burst()))),
            _ => self.policy.clone(),
        }
    }

    /// Adds the decision's member of `RateLimit`, if the policy has such a limit.
    pub(crate) fn add_member(
        &self,
        list: &mut List,
        decision: &Decision,
        cost: Cost,
        charged: u64,
        names: &Names,
    ) {
        let Some(limit) = self.limits.get(decision.limit_index()) else { return };
        let (mut remaining, mut seconds, mut costs) = (Buffer::new(), Buffer::new(), Buffer::new());
        let remaining = remaining.format(decision.remaining().min(MAX_INTEGER));
        let (time, seconds) = match limit.effective_window(decision, cost.get()) {
            Some(wait) => (names.time, seconds.format(wait)),
            // No time will help.
            None => ("", ""),
        };
        let (cost, costs) = match names.cost {
            Some(name) => (name, costs.format(charged.min(MAX_INTEGER))),
            None => ("", ""),
        };
        list.add(&[&limit.name, names.remaining, remaining, time, seconds, cost, costs]);
    }

    /// Returns an admission that has charged `charged` permits, after the charge was set to `kept`.
    pub(crate) fn settled(&self, decision: &Decision, charged: u64, kept: u64) -> Decision {
        let usage = decision.usage();
        let remaining = usage.remaining().saturating_add(charged).saturating_sub(kept);
        let remaining = remaining.min(usage.burst());
        let reset_after = match self.limits.get(usage.limit_index()) {
            _ if remaining == usage.burst() => Duration::ZERO,
            Some(limit) if limit.is_continuous => {
                let nanos = |permits, up| Duration::from_nanos(limit.nanos_of(permits, up));
                let back = nanos(charged.saturating_sub(kept), false);
                let more = nanos(kept.saturating_sub(charged), true);
                usage.reset_after().saturating_sub(back).saturating_add(more)
            }
            // A window that was open ends when it did before.
            Some(limit) if limit.is_fixed && !usage.reset_after().is_zero() => usage.reset_after(),
            Some(limit) if kept > charged => usage.reset_after().max(limit.reset),
            _ => usage.reset_after(),
        };
        let usage =
            Usage::new(usage.burst(), remaining, reset_after).with_limit_index(usage.limit_index());
        Decision::admitted(usage).with_source(decision.source())
    }
}

impl LimitFields {
    fn new(limit: &limiter_core::Limit) -> Self {
        let quota = limit.quota();
        let burst = match limit.algorithm() {
            // The highest ceiling of a slot.
            Algorithm::SubWindows(slots) if slots.is_paced() => {
                quota.permits().div_ceil(slots.number().into())
            }
            _ => quota.burst(),
        };
        let reset = match limit.algorithm() {
            Algorithm::SlidingCounter => 2 * quota.window(),
            Algorithm::SubWindows(slots) => quota.window() + quota.window() / slots.number(),
            _ => quota.window(),
        };
        let is_fixed =
            matches!(limit.algorithm(), Algorithm::FixedWindow | Algorithm::AlignedWindow);
        Self {
            is_fixed,
            reset,
            name: string(limit.name()).into_boxed_str(),
            permits: quota.permits(),
            window: quota.window(),
            burst,
            is_continuous: limit.algorithm().is_continuous(),
        }
    }

    /// Returns the limit as a member of `RateLimit-Policy`; of a share of it, if `share` is the
    /// share's burst.
    fn policy(&self, share: Option<u64>) -> String {
        let burst = share.unwrap_or(self.burst);
        // The field's window is in whole seconds, so the quota is that of as many seconds.
        let seconds = whole_seconds(self.window);
        let quota = u128::from(self.permits) * u128::from(seconds) * NANOS_PER_SECOND
            / self.window.as_nanos().max(1);
        let quota = quota * u128::from(burst) / u128::from(self.burst.max(1));
        let quota = saturated(quota.max(1)).min(MAX_INTEGER);
        let mut member = format!("{}{QUOTA}{quota}{WINDOW}{seconds}", self.name);
        if burst != quota {
            member += &format!("{BURST}{}", burst.min(MAX_INTEGER));
        }
        member
    }

    /// Returns the time of a member in seconds, or `None` if the cost can never be admitted.
    ///
    /// If the same cost would be refused now, it is the wait until it is admitted. Otherwise, where
    /// permits recover one by one, it is the time in which the quota recovers the number that remains;
    /// else it is the time until all have recovered.
    fn effective_window(&self, decision: &Decision, cost: u64) -> Option<u64> {
        if !decision.is_admitted() {
            return decision.retry_after().map(whole_seconds);
        }
        if !self.is_continuous {
            return Some(whole_seconds(decision.reset_after()));
        }
        let (limit, remaining) = (decision.burst(), decision.remaining());
        let time = if remaining < cost {
            // Rounded down, and at the quota's rate, because a share recovers no faster: so that the
            // wait is never too short.
            let fits_at = self.nanos_of(limit.saturating_sub(cost), false);
            decision.reset_after().saturating_sub(Duration::from_nanos(fits_at))
        } else if decision.source() == Source::Local {
            // A share recovers as many permits as the quota recovers of its own, in proportion.
            let whole = u128::from(remaining) * u128::from(self.burst) / u128::from(limit.max(1));
            Duration::from_nanos(self.nanos_of(saturated(whole), true))
        } else {
            Duration::from_nanos(self.nanos_of(remaining, true))
        };
        Some(whole_seconds(time))
    }

    /// Returns the time in which the quota recovers `permits`, in nanoseconds.
    fn nanos_of(&self, permits: u64, round_up: bool) -> u64 {
        let nanos = u128::from(permits) * self.window.as_nanos();
        let divisor = u128::from(self.permits.max(1));
        saturated(if round_up { nanos.div_ceil(divisor) } else { nanos / divisor })
    }
}

/// The room for further members that a list with a second one gets, so that most lists grow once.
const ROOM: usize = 128;

/// A list of structured fields, written member by member.
#[derive(Default)]
pub(crate) struct List(String);

impl List {
    /// Adds a member in pieces, because `format!` takes several hundred instructions more (`cargo xtask bench layer`).
    pub(crate) fn add(&mut self, pieces: &[&str]) {
        if self.0.is_empty() {
            // A text without spare room, as this one, becomes a value without another allocation.
            self.0 = pieces.concat();
            return;
        }
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if self.0.capacity() - self.0.len() < length + 2 {
            self.0.reserve(length + ROOM);
        }
        self.0.push_str(", ");
        self.0.extend(pieces.iter().copied());
    }

    /// Adds the member of `RateLimit-Policy` of a limit on requests in flight.
    pub(crate) fn add_in_flight_policy(&mut self, name: &str, limit: u32) {
        self.add(&[&string(name), QUOTA, Buffer::new().format(limit), IN_FLIGHT]);
    }

    /// Adds the member of `RateLimit` of a limit on requests in flight. It has no time, because none is known after which
    /// there is room, and no cost, because each request takes one permit.
    pub(crate) fn add_in_flight_member(&mut self, name: &str, remaining: u32, names: &Names) {
        self.add(&[&string(name), names.remaining, Buffer::new().format(remaining)]);
    }

    /// Returns the list, `None` if it has no member.
    pub(crate) fn into_value(self) -> Option<HeaderValue> {
        (!self.0.is_empty()).then(|| header_value(self.0))
    }
}

/// Returns printable ASCII as a structured field's string.
fn string(text: &str) -> String {
    let mut string = String::with_capacity(text.len() + 2);
    string.push('"');
    for character in text.chars() {
        if matches!(character, '\\' | '"') {
            string.push('\\');
        }
        string.push(character);
    }
    string.push('"');
    string
}

/// Rounds up, to one second at least, so that a client that waits this long has waited enough.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Returns the value of a field. Policy names are printable ASCII, and so is all the rest.
pub(crate) fn header_value(value: String) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(value)).unwrap_or(EMPTY)
}

/// Returns the value of a field that is an integer, with one allocation; `HeaderValue::from` takes two.
pub(crate) fn integer(number: u64) -> HeaderValue {
    header_value(Buffer::new().format(number).to_owned())
}
