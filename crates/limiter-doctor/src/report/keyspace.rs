//! Keys under the prefix without an expiry. No limiter leaves such keys.

use limiter_redis::{ScriptReply, Server};

use super::Findings;
use crate::{
    read::{WITHIN, text},
    subject::{Content, StoredKey},
};

/// How many keys are asked for at once, and how often.
const PAGE: &str = "200";
const PAGES: usize = 100;

/// Returns the next cursor, the number of keys of a page, and those that never expire.
const EXAMINE: &str = "
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local found = { page[1], tostring(#page[2]) }
for _, key in ipairs(page[2]) do
  if redis.call('PTTL', key) == -1 then
    found[#found + 1] = key
  end
end
return found
";

pub(super) async fn examine(server: &Server, pattern: &str, findings: &mut Findings) {
    let mut cursor = "0".to_owned();
    let (mut seen, mut lasting) = (0_u64, Vec::new());
    for _ in 0..PAGES {
        let arguments = [EXAMINE, "0", &cursor, pattern, PAGE];
        let page = match server.send("EVAL", &arguments, WITHIN).await {
            Ok(ScriptReply::Array(page)) => page,
            Ok(_) => Vec::new(),
            Err(error) => {
                let advice = "allow the user +eval, +scan and +pttl, so that this command can check \
                              the expiries of keys. Limiters don't need +scan";
                findings.advise(server.name(), format!("can't read keys: {error}"), advice);
                return;
            }
        };
        let mut words = page.iter().filter_map(text);
        cursor = words.next().unwrap_or_default();
        seen += words.next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        lasting.extend(words);
        if matches!(cursor.as_str(), "" | "0") {
            break;
        }
    }
    let all = format!("{seen} keys that match {pattern:?}");
    if lasting.is_empty() {
        findings.fine(server.name(), format!("all of {all} have an expiry"));
    }
    let is_limiters = |key: &String| {
        StoredKey::parse(key.as_bytes()).is_some_and(|parts| parts.content != Content::Unknown)
    };
    let (limiters, others): (Vec<_>, Vec<_>) = lasting.into_iter().partition(is_limiters);
    for (keys, advice) in [(limiters, LOST), (others, FOREIGN)] {
        if let Some(first) = keys.first() {
            let number = keys.len();
            let text = format!("{number} of {all} have no expiry, such as {first:?}");
            findings.problem(server.name(), text, advice);
        }
    }
}

/// What to do with limiters' keys.
const LOST: &str = "only PERSIST, RESTORE or another program can cause this: find out which one did. The next \
                    admission sets an expiry. If the subject is not in use any more, reset it";

/// What to do with other keys.
const FOREIGN: &str = "a program other than a limiter wrote them: use a prefix that nothing else uses, and \
                       delete the keys if they are not needed";
