//! Keys under the prefix that never expire: none of ours does that.

use super::{Report, WITHIN};
use crate::{client::connection::Server, keys};

/// How many keys are asked for at once, and how often.
const PAGE: &str = "200";
const PAGES: usize = 100;

/// Returns the keys of a page that never expire, and how many there were.
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

pub(super) async fn examine(server: &Server, prefix: &str, report: &mut Report) {
    let pattern = pattern(prefix);
    let mut cursor = "0".to_owned();
    let (mut seen, mut lasting) = (0_u64, Vec::new());
    for _ in 0..PAGES {
        let arguments = [EXAMINE, "0", &cursor, &pattern, PAGE];
        let page = match server.send("EVAL", &arguments, WITHIN).await {
            Ok(page) => page,
            Err(error) => {
                let advice = "allow the user +scan and +pttl to let the doctor look at keys; limits \
                              don't need it";
                report.advise(&server.name, format!("no look at keys: {error}"), advice);
                return;
            }
        };
        let mut words = page.into_array().into_iter().filter_map(|word| word.as_string());
        cursor = words.next().unwrap_or_default();
        seen += words.next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        lasting.extend(words);
        if matches!(cursor.as_str(), "" | "0") {
            break;
        }
    }
    match lasting.first() {
        None => {
            let text = format!("all keys under {prefix:?} that were looked at expire: {seen}");
            report.fine(&server.name, text);
        }
        Some(key) => {
            let number = lasting.len();
            let text =
                format!("of {seen} keys under {prefix:?}, {number} never expire, such as {key:?}");
            let advice = "they are no limiter's: use a prefix that nothing else uses, and delete them \
                          if no one needs them";
            report.problem(&server.name, text, advice);
        }
    }
}

/// Returns the pattern of the keys with a prefix, in which nothing of that has a meaning.
fn pattern(prefix: &str) -> String {
    let mut pattern = String::new();
    for character in keys::escaped(prefix).chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + ":*"
}
