//! What a response says about its host: whether it was refused, and what follows.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::{
    announcement::{Allowance, Announcement},
    pace::Pace,
    spend::Spend,
    times::{age, retry_after, server_time},
};

/// How long a server of `X-RateLimit-*` is left alone after a refusal that names no time. GitHub asks for
/// at least a minute after a refusal by one of its secondary limits.
const UNTIMED_PAUSE: Duration = Duration::from_secs(60);

/// What a response says about its host.
#[derive(Debug)]
pub(crate) struct Advice {
    pub(crate) status: StatusCode,
    pub(crate) is_refused: bool,
    /// For how long no request may be sent.
    pub(crate) pause: Option<Duration>,
    /// Whether the response itself names a time to come.
    pub(crate) is_timed: bool,
    pub(crate) pace: Option<Pace>,
    pub(crate) allowance: Option<Allowance>,
}

impl Advice {
    /// Returns `None` for a response from a cache, which reports what was true when it was stored, and maybe
    /// for another client.
    ///
    /// An age of zero seconds does not count, because some caches send it with each response that they have
    /// just fetched, and because advice of less than a second ago is as good as new.
    pub(crate) fn read(status: StatusCode, headers: &HeaderMap, spend: Spend) -> Option<Self> {
        if age(headers) > 0 {
            return None;
        }
        let now = server_time(headers);
        let (retry_after, announcement) =
            (retry_after(headers, now), Announcement::read(headers, now));
        let is_refused = match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE => retry_after.is_some(),
            // Any other 403 is about rights.
            StatusCode::FORBIDDEN => retry_after.is_some() || announcement.is_used_up(),
            _ => false,
        };
        let timed = retry_after.filter(|_| is_refused).max(announcement.pause());
        let untimed = (is_refused && announcement.has_x_fields).then_some(UNTIMED_PAUSE);
        Some(Self {
            status,
            is_refused,
            pause: timed.or(untimed),
            is_timed: timed.is_some_and(|time| !time.is_zero()),
            pace: announcement.pace(spend),
            allowance: announcement.allowance(spend),
        })
    }
}
