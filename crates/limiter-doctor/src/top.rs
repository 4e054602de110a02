//! `top`: the subjects with the most permits in use, or closest to their limit.

use std::time::{Duration, Instant};

use limiter_core::Policy;
use limiter_redis::{
    CallError, Connection, Fault, ScriptReply, Server as Node, state::UnknownFamily,
};
use serde_json::json;

use crate::{
    Failure, Outcome,
    arguments::{Server, Top},
    explain::{limit_of, millis},
    read::{READ, Stored, WITHIN, invalid, text, time},
    state::{State, decode},
    subject::StoredKey,
    words,
};

/// How many keys are asked for at once.
const PAGE: &str = "100";

/// The time between two pages, for other clients of the server.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads a page of keys.
const SCAN: &str = "
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local found = { time[1], time[2], page[1] }
for _, key in ipairs(page[2]) do
  found[#found + 1] = key
  found[#found + 1] = read(key)
end
return found
";

/// A subject in the list.
struct Entry {
    key: String,
    parts: StoredKey,
    used: u64,
    limit: Option<u64>,
    fresh_in: Duration,
}

/// What was read so far.
#[derive(Default)]
struct Ranking {
    entries: Vec<Entry>,
    keys: u64,
    foreign: SkippedKeys,
    other_version: SkippedKeys,
    /// Whether the limits of the work were reached before all keys were read.
    has_stopped: bool,
    /// The nodes of a cluster that did not reply, and why.
    not_read: Vec<(String, CallError)>,
}

/// Why a key is not in the list.
enum Skipped {
    /// No limiter writes its value.
    NotAState,
    /// It has the form of another version of the library.
    OtherVersion,
}

/// Keys that are not in the list: how many, and the first of them.
#[derive(Default)]
struct SkippedKeys {
    keys: u64,
    first: Option<String>,
}

pub(crate) async fn run(server: &Server, top: &Top) -> Result<Outcome, Failure> {
    let policy = match &top.policy.name {
        Some(name) => top.policy.with_quotas(name)?,
        None if top.policy.has_quotas() => {
            return Err(Failure::Usage("--quota needs --name, the name of its policy".to_owned()));
        }
        None => None,
    };
    let connection = server.connect().await?;
    let pattern = pattern(server, &connection, top, policy.as_ref())?;
    let deadline = Instant::now() + Duration::from_secs(top.max_seconds);
    let mut ranking = Ranking::default();
    let nodes = connection.servers();
    if nodes.is_empty() {
        let message = "no node of the cluster replied with its slots: check the address";
        return Err(CallError::new(Fault::NotSent, message).into());
    }
    let count = nodes.len();
    for (index, node) in nodes.iter().enumerate() {
        if index > 0 && Instant::now() >= deadline {
            ranking.has_stopped = true;
            break;
        }
        if let Err(error) = ranking.read(node, &pattern, policy.as_ref(), top, deadline).await {
            if ranking.not_read.len() + 1 == count {
                return Err(error.into());
            }
            ranking.not_read.push((node.name().to_owned(), error));
        }
    }
    Ok(ranking.outcome(policy.is_some()))
}

impl Ranking {
    /// Reads the keys of one server.
    async fn read(
        &mut self,
        node: &Node,
        pattern: &str,
        policy: Option<&Policy>,
        top: &Top,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let script = [READ, SCAN].concat();
        let (mut cursor, mut keys) = ("0".to_owned(), 0);
        loop {
            let arguments = [&script, "0", &cursor, pattern, PAGE];
            let reply = node.send("EVAL", &arguments, WITHIN).await?;
            let (next, found) = self.add(&reply, policy).ok_or_else(|| invalid(&reply))?;
            keys += found;
            self.entries.sort_by(|one, other| other.rank().total_cmp(&one.rank()));
            self.entries.truncate(usize::from(top.limit));
            if next == "0" {
                return Ok(());
            }
            if keys >= top.max_keys || Instant::now() >= deadline {
                self.has_stopped = true;
                return Ok(());
            }
            cursor = next;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Adds a page. Returns the next cursor, and how many keys there were.
    fn add(&mut self, reply: &ScriptReply, policy: Option<&Policy>) -> Option<(String, u64)> {
        let ScriptReply::Array(items) = reply else { return None };
        let [seconds, micros, cursor, pairs @ ..] = items.as_slice() else { return None };
        let now = time(seconds, micros)?;
        let (pairs, _) = pairs.as_chunks::<2>();
        for [key, stored] in pairs {
            let (key, stored) = (text(key)?, Stored::of(stored)?);
            // SCAN may return a key twice.
            self.entries.retain(|entry| entry.key != key);
            match Entry::of(&key, &stored, policy, now) {
                Ok(entry) => self.entries.extend(entry),
                Err(Skipped::NotAState) => self.foreign.add(key),
                Err(Skipped::OtherVersion) => self.other_version.add(key),
            }
        }
        let found = u64::try_from(pairs.len()).unwrap_or(u64::MAX);
        self.keys += found;
        Some((text(cursor)?, found))
    }

    fn outcome(&self, has_quotas: bool) -> Outcome {
        let mut text = format!("{:>18}  {:>10}  key\n", "permits in use", "fresh in");
        for entry in &self.entries {
            let used = match entry.limit {
                Some(limit) => format!("{} of {limit}", entry.used),
                None => entry.used.to_string(),
            };
            text += &format!("{used:>18}  {:>10}  {}\n", words::time(entry.fresh_in), entry.key);
        }
        let Self { keys, foreign, other_version, has_stopped, not_read, .. } = self;
        let order = match has_quotas {
            true => "by the share of the limit",
            false => "by permits in use; --name and --quota sort by the share of the limit",
        };
        text += &format!("\nRead {keys} keys, sorted {order}.\n");
        for (SkippedKeys { keys, first }, what) in [
            (foreign, "with values that no limiter writes"),
            (other_version, "in a form of another version of limiter-redis"),
        ] {
            if let Some(key) = first {
                text += &format!(
                    "Skipped {keys} of them, {what}, such as {key}: explain prints more.\n"
                );
            }
        }
        for (node, error) in not_read {
            text +=
                &format!("PROBLEM: {node} was not read, so its subjects are missing: {error}\n");
        }
        if *has_stopped {
            text += "Not all keys were read: raise --max-keys or --max-seconds.\n";
        }
        let subjects = self.entries.iter().map(|entry| {
            json!({
                "key": entry.key,
                "subject": entry.parts.subject.json(),
                "policy": entry.parts.name,
                "algorithms": entry.parts.algorithms(),
                "permits_in_use": entry.used,
                "limit": entry.limit,
                "fresh_in_ms": millis(entry.fresh_in),
            })
        });
        let subjects: Vec<_> = subjects.collect();
        let nodes = not_read
            .iter()
            .map(|(node, error)| json!({ "node": node, "error": error.to_string() }));
        let json = json!({
            "subjects": subjects,
            "keys_read": keys,
            "keys_skipped": foreign.keys + other_version.keys,
            "is_complete": !has_stopped && not_read.is_empty(),
            "nodes_not_read": nodes.collect::<Vec<_>>(),
        });
        Outcome { text, json, has_problem: !not_read.is_empty() }
    }
}

impl SkippedKeys {
    fn add(&mut self, key: String) {
        self.keys += 1;
        self.first.get_or_insert(key);
    }
}

impl Entry {
    /// Returns the entry of a key, by the limit that it is closest to. Returns `None` if the subject is
    /// fresh.
    fn of(
        key: &str,
        stored: &Stored,
        policy: Option<&Policy>,
        now: u64,
    ) -> Result<Option<Self>, Skipped> {
        // It expired between two commands of the script.
        if !stored.exists() {
            return Ok(None);
        }
        let parts = StoredKey::parse(key.as_bytes()).ok_or(Skipped::NotAState)?;
        let families = parts.families().map_err(|why| match why {
            UnknownFamily::Older | UnknownFamily::Newer => Skipped::OtherVersion,
            UnknownFamily::NoAlgorithm => Skipped::NotAState,
        })?;
        if !stored.is_of(&families) {
            return Err(Skipped::NotAState);
        }
        let states = decode(&families, &stored.value, now);
        if states.iter().any(|state| state.problem.is_some()) {
            return Err(Skipped::NotAState);
        }
        let entries = states.iter().enumerate().map(|(index, state)| {
            let limit = limit_of(policy, index);
            (rank(state.used, limit), state, limit)
        });
        let most = entries.max_by(|one, other| one.0.total_cmp(&other.0));
        let (_, state, limit) = most.ok_or(Skipped::NotAState)?;
        let &State { used, fresh_in, .. } = state;
        let key = key.to_owned();
        Ok((used > 0).then_some(Self { key, parts, used, limit, fresh_in }))
    }

    fn rank(&self) -> f64 {
        rank(self.used, self.limit)
    }
}

/// Returns the share of the limit that is in use, or the permits where the limit is not known.
#[expect(clippy::cast_precision_loss, reason = "it only sorts")]
fn rank(used: u64, limit: Option<u64>) -> f64 {
    used as f64 / limit.unwrap_or(1) as f64
}

/// Returns the pattern of the keys that are listed.
fn pattern(
    server: &Server,
    connection: &Connection,
    top: &Top,
    policy: Option<&Policy>,
) -> Result<String, Failure> {
    let name = top.policy.name.as_deref();
    let any = || Policy::parse(name.unwrap_or("any"), "1/s");
    let stored = server.limiter(connection, policy.cloned().map_or_else(any, Ok)?)?;
    Ok(pattern_of(&stored.stored_key("x")?, name.is_some(), policy.is_some()))
}

/// Returns the pattern of keys like that of the text `x`: with its prefix, and with its name and its
/// algorithms if these are wanted.
pub(crate) fn pattern_of(key: &[u8], with_name: bool, with_algorithms: bool) -> String {
    let key = String::from_utf8_lossy(key);
    let (before, after) = key.split_once("{sx}").unwrap_or((&key, ""));
    let after = match (with_name, with_algorithms) {
        (_, true) => escaped(after),
        (true, false) => escaped(after.rsplit_once(':').map_or(after, |(name, _)| name)) + ":*",
        (false, false) => return escaped(before) + "*",
    };
    escaped(before) + "{*}" + &after
}

/// Returns a text as a pattern that matches only that text.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}
