//! What a response says about its host: whether it was refused, and what follows.

use std::time::Duration;

use http::{StatusCode, response::Parts};

use crate::{
    announcement::{Allowance, Announcement},
    pace::Pace,
    settings::Settings,
    times::{age, retry_after, server_time},
};

/// The least pause after a refusal that names no time.
const SHORTEST_UNTIMED: Duration = Duration::from_secs(1);

/// The same, by a server that announces limits in fields with one value each. GitHub asks for at least a minute
/// after a refusal by one of its secondary limits.
const MINUTE: Duration = Duration::from_secs(60);

/// The name of the secondary limit that GitHub refused a request by. GitHub does not document it.
const GITHUB_LIMITED_BY: &str = "gh-limited-by";

/// What a response says about its host.
#[derive(Debug)]
pub(crate) struct Advice {
    pub(crate) status: StatusCode,
    pub(crate) is_refused: bool,
    /// For how long no request may be sent, by the response itself.
    pub(crate) pause: Option<Duration>,
    /// The least pause if that is not known, and the response is a refusal.
    pub(crate) untimed: Duration,
    pub(crate) pace: Option<Pace>,
    pub(crate) allowance: Option<Allowance>,
}

impl Advice {
    /// Returns `None` for a response from a cache, which reports what was true when it was stored, and maybe
    /// for another client.
    ///
    /// An age of zero seconds does not count, because some caches send it with each response that they have
    /// just fetched, and because advice of less than a second ago is as good as new.
    pub(crate) fn read(head: &Parts, settings: &Settings) -> Option<Self> {
        let headers = &head.headers;
        if age(headers) > 0 {
            return None;
        }
        let now = server_time(headers);
        let (retry_after, announcement) =
            (retry_after(headers, now), Announcement::read(headers, now));
        let by_default = || match head.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => true,
            // Any other 403 is about rights.
            StatusCode::FORBIDDEN => {
                let is_limited = headers.contains_key(GITHUB_LIMITED_BY);
                is_limited || retry_after.is_some() || announcement.is_used_up()
            }
            _ => false,
        };
        let classify = settings.classify.as_ref();
        let is_refused = classify.and_then(|it| it(head)).unwrap_or_else(by_default);
        let asks_a_minute = announcement.has_single_fields || head.status == StatusCode::FORBIDDEN;
        Some(Self {
            status: head.status,
            is_refused,
            pause: retry_after.filter(|_| is_refused).max(announcement.pause(is_refused)),
            untimed: if asks_a_minute { MINUTE } else { SHORTEST_UNTIMED },
            pace: announcement.pace(settings.spend),
            allowance: announcement.allowance(settings.spend),
        })
    }
}
