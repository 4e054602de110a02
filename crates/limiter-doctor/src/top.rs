//! `top`: the keys with the most permits in use, or closest to their limit.

use std::time::{Duration, Instant};

use limiter_core::Limit;
use limiter_redis::{CallError, Connection, Fault, ScriptReply, Server as Node, stored_family};
use serde_json::json;

use crate::{
    Failure, Outcome,
    arguments::{Server, Top},
    block::BlockState,
    explain::millis,
    read::{READ, Stored, WITHIN, invalid, text, time},
    state::{State, decode},
    stored::UnknownFamily,
    subject::{StoredKey, suffix},
    words,
};

/// How many keys are asked for at once.
const PAGE: &str = "100";

/// The time between two pages, for other clients of the server.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads a page of keys, without those of leases.
const SCAN: &str = "
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local found = { time[1], time[2], page[1] }
for _, key in ipairs(page[2]) do
  if string.sub(key, -7) ~= ':leases' then
    found[#found + 1] = key
    found[#found + 1] = read(key)
  end
end
return found
";

/// A limit of a subject.
struct Entry {
    key: String,
    parts: StoredKey,
    state: State,
    /// How many permits the limit admits at once.
    permits: Option<u64>,
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

/// A limit, and its name in keys.
type NamedLimit = (Option<String>, Limit);

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
    let limits = match &top.policy.name {
        Some(name) => top.policy.limits(name)?,
        None if top.policy.has_quotas() => {
            return Err(Failure::Usage("--quota needs --name, the name of its policy".to_owned()));
        }
        None => Vec::new(),
    };
    let connection = server.connect().await?;
    let pattern = pattern(server, &connection, top.policy.name.as_deref(), &limits)?;
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
        if let Err(error) = ranking.read(node, &pattern, &limits, top, deadline).await {
            if ranking.not_read.len() + 1 == count {
                return Err(error.into());
            }
            ranking.not_read.push((node.name().to_owned(), error));
        }
    }
    Ok(ranking.outcome(!limits.is_empty()))
}

impl Ranking {
    /// Reads the keys of one server.
    async fn read(
        &mut self,
        node: &Node,
        pattern: &str,
        limits: &[NamedLimit],
        top: &Top,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let script = [READ, SCAN].concat();
        let (mut cursor, mut keys) = ("0".to_owned(), 0);
        loop {
            let arguments = [&script, "0", &cursor, pattern, PAGE];
            let reply = node.send("EVAL", &arguments, WITHIN).await?;
            let (next, found) = self.add(&reply, limits).ok_or_else(|| invalid(&reply))?;
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
    fn add(&mut self, reply: &ScriptReply, limits: &[NamedLimit]) -> Option<(String, u64)> {
        let ScriptReply::Array(items) = reply else { return None };
        let [seconds, micros, cursor, pairs @ ..] = items.as_slice() else { return None };
        let now = time(seconds, micros)?;
        let (pairs, _) = pairs.as_chunks::<2>();
        for [key, stored] in pairs {
            let (key, stored) = (text(key)?, Stored::of(stored)?);
            // SCAN may return a key twice.
            self.entries.retain(|entry| entry.key != key);
            match Entry::of(&key, &stored, limits, now) {
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
        for Entry { key, parts, state, permits } in &self.entries {
            let most = if state.is_exact { "" } else { "at most " };
            let used = match permits {
                Some(permits) => format!("{most}{} of {permits}", state.used),
                None => format!("{most}{}", state.used),
            };
            let block = BlockState::of(parts).map(|block| block.words(state, *permits));
            let block = block.map(|words| format!(" ({words})")).unwrap_or_default();
            let in_flight = if state.in_flight.is_some() { " (requests in flight)" } else { "" };
            let fresh_in = words::time(state.fresh_in);
            text += &format!("{used:>18}  {fresh_in:>10}  {key}{block}{in_flight}\n");
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
                "policy": entry.parts.policy,
                "limit": entry.parts.limit,
                "algorithm": entry.parts.algorithm(),
                "block": BlockState::of(&entry.parts).map(BlockState::name),
                "permits_in_use": entry.state.used,
                "is_exact": entry.state.is_exact,
                "permits": entry.permits,
                "fresh_in_ms": millis(entry.state.fresh_in),
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
    /// Returns the entry of a key. Returns `None` if the limit is fresh, or if it is not among the given limits.
    fn of(
        key: &str,
        stored: &Stored,
        limits: &[NamedLimit],
        now: u64,
    ) -> Result<Option<Self>, Skipped> {
        // It expired between two commands of the script.
        if !stored.exists() {
            return Ok(None);
        }
        let parts = StoredKey::parse(key.as_bytes()).ok_or(Skipped::NotAState)?;
        let family = parts.family().map_err(|why| match why {
            UnknownFamily::Older | UnknownFamily::Newer => Skipped::OtherVersion,
            UnknownFamily::NoAlgorithm => Skipped::NotAState,
        })?;
        if !stored.is_of(family) {
            return Err(Skipped::NotAState);
        }
        let is_own = |(name, limit): &&NamedLimit| {
            *name == parts.limit && stored_family(limit.algorithm()) == family.stored()
        };
        let limit = limits.iter().find(is_own).map(|(_, limit)| limit);
        let state = decode(family, &stored.value, limit, now);
        if state.problem.is_some() {
            return Err(Skipped::NotAState);
        }
        let is_listed = state.used > 0 && (limits.is_empty() || limit.is_some());
        let (key, permits) = (key.to_owned(), limit.map(|limit| limit.quota().burst()));
        Ok(is_listed.then_some(Self { key, parts, state, permits }))
    }

    fn rank(&self) -> f64 {
        rank(self.state.used, self.permits)
    }
}

/// Returns the share of the limit that is in use, or the permits where the limit is not known.
#[expect(clippy::cast_precision_loss, reason = "it only sorts")]
fn rank(used: u64, permits: Option<u64>) -> f64 {
    used as f64 / permits.unwrap_or(1) as f64
}

/// Returns the pattern of the keys with the prefix, of those with a policy's name, or of those of a single limit.
pub(crate) fn pattern(
    server: &Server,
    connection: &Connection,
    name: Option<&str>,
    limits: &[NamedLimit],
) -> Result<String, Failure> {
    let begin = server.key_begin(connection, name.unwrap_or("any"), "x")?;
    let begin = String::from_utf8_lossy(&begin);
    let (before, policy) = begin.split_once("{sx}").unwrap_or((&begin, ""));
    Ok(match (name, limits) {
        (None, _) => escaped(before) + "*",
        (_, [(name, limit)]) => {
            let suffix = suffix(name.as_deref(), stored_family(limit.algorithm()));
            escaped(before) + "{*}" + &escaped(policy) + &escaped(&suffix)
        }
        _ => escaped(before) + "{*}" + &escaped(policy) + "[:/]*",
    })
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
