//! `top`: the subjects that are closest to their limits.

use std::time::{Duration, Instant};

use limiter_redis::{CallError, Connection, Fault, LEASES, ScriptReply, Server as Node};

use crate::{
    Failure, Outcome,
    arguments::{Server, Top},
    block::BlockState,
    identity::Identity,
    limits::Limits,
    read::{READ, Stored, Value, WITHIN, arguments, bytes, invalid, text, time},
    state::{InFlight, State, Used},
    subject::{Content, StoredKey},
    words,
};

/// How many keys are asked for at once.
const PAGE: &str = "100";

/// The time between two pages, for other clients of the server.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the next cursor and a page of keys.
const SCAN: &str = "
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local found = { page[1] }
for _, key in ipairs(page[2]) do
  found[#found + 1] = hex(key)
end
return found
";

/// Reads keys, each given with its slot and span.
const READ_ALL: &str = "
local found = { time[1], time[2] }
for n = 1, #ARGV, 3 do
  found[#found + 1] = read(ARGV[n], ARGV[n + 1], ARGV[n + 2])
end
return found
";

/// A limit of a subject.
struct Entry {
    key: Vec<u8>,
    /// Whether it has a part of a limit in use, and that part; or the permits or requests, where the limit is not known.
    rank: (bool, f64),
    /// How much is in use, and the time until nothing is.
    amount: String,
    free_in: Duration,
    /// What follows the key: the field, and what it means.
    rest: String,
}

/// What was read so far.
#[derive(Default)]
struct Ranking {
    limits: Limits,
    /// Only the limits of the policy of this name are listed.
    name: Option<String>,
    entries: Vec<Entry>,
    keys: u64,
    /// Limits that are not in the file, and keys or fields that no limiter writes.
    not_in_file: Skipped,
    foreign: Skipped,
    /// Whether the limits of the work were reached before all keys were read.
    has_stopped: bool,
    /// The nodes of a cluster that did not reply, and why.
    not_read: Vec<(String, CallError)>,
}

/// What is not in the list: how many, and the key of the first.
#[derive(Default)]
struct Skipped {
    number: u64,
    first: Option<String>,
}

pub(crate) async fn run(server: &Server, top: &Top) -> Result<Outcome, Failure> {
    let limits = top.limits.read()?;
    let connection = server.connect().await?;
    let pattern = pattern(server, &connection, top.name.as_deref())?;
    let deadline = Instant::now() + Duration::from_secs(top.max_seconds);
    let mut ranking = Ranking { limits, name: top.name.clone(), ..Ranking::default() };
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
        if let Err(error) = ranking.read(node, &pattern, top, deadline).await {
            if ranking.not_read.len() + 1 == count {
                return Err(error.into());
            }
            ranking.not_read.push((node.name().to_owned(), error));
        }
    }
    Ok(ranking.outcome())
}

impl Ranking {
    /// Reads the keys of one server.
    async fn read(
        &mut self,
        node: &Node,
        pattern: &str,
        top: &Top,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let (scan, read) = ([READ, SCAN].concat(), [READ, READ_ALL].concat());
        let (mut cursor, mut keys) = ("0".to_owned(), 0);
        loop {
            let reply = node.send("EVAL", &[&scan, "0", &cursor, pattern, PAGE], WITHIN).await?;
            let (next, found) = page(&reply).ok_or_else(|| invalid(&reply))?;
            keys += found.len() as u64;
            let found = self.listed(found);
            if !found.is_empty() {
                let mut words = vec![read.clone().into_bytes(), b"0".to_vec()];
                for (key, parts) in &found {
                    let [slot, span] = arguments(&parts.content).map(String::into_bytes);
                    words.extend([key.clone(), slot, span]);
                }
                let reply = node.send("EVAL", &words, WITHIN).await?;
                self.add(found, &reply).ok_or_else(|| invalid(&reply))?;
                self.sort(usize::from(top.limit));
            }
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

    /// Returns those of a page's keys that may have a limit that is listed.
    fn listed(&mut self, keys: Vec<Vec<u8>>) -> Vec<(Vec<u8>, StoredKey)> {
        let mut listed = Vec::new();
        for key in keys {
            let parts = StoredKey::parse(&key);
            if let (Some(name), Some(parts)) = (&self.name, &parts)
                && parts.policy != *name
            {
                continue;
            }
            self.keys += 1;
            // SCAN may return a key twice.
            self.entries.retain(|entry| entry.key != key);
            match parts.filter(|parts| parts.content != Content::Unknown) {
                Some(parts) => listed.push((key, parts)),
                None => self.foreign.add(&key),
            }
        }
        listed
    }

    /// Adds the entries of keys that were read.
    fn add(&mut self, keys: Vec<(Vec<u8>, StoredKey)>, reply: &ScriptReply) -> Option<()> {
        let ScriptReply::Array(items) = reply else { return None };
        let [seconds, micros, stored @ ..] = items.as_slice() else { return None };
        let now = time(seconds, micros)?;
        for ((key, parts), stored) in keys.into_iter().zip(stored) {
            match (&parts.content, Stored::of(stored)?.value) {
                // It expired after it was found.
                (_, Value::Absent) => {}
                (Content::Hash, Value::Hash(fields)) => {
                    for (field, text) in &fields {
                        self.add_field(&key, &parts, field, text, now);
                    }
                }
                (Content::Log(identity), Value::List(log)) => {
                    self.add_state(&key, &parts, identity, &State::of_log(identity, &log, now));
                }
                (Content::InFlight, Value::Set(permits)) => {
                    self.add_in_flight(key, &InFlight::of(&permits, now));
                }
                _ => self.foreign.add(&key),
            }
        }
        Some(())
    }

    fn add_field(&mut self, key: &[u8], parts: &StoredKey, field: &str, text: &str, now: u64) {
        match Identity::parse(field).filter(|identity| !identity.family.is_log()) {
            Some(identity) => {
                self.add_state(key, parts, &identity, &State::of_field(&identity, text, now));
            }
            None if field.strip_suffix(LEASES).and_then(Identity::parse).is_some() => {}
            None => self.foreign.add(key),
        }
    }

    fn add_state(&mut self, key: &[u8], parts: &StoredKey, identity: &Identity, state: &State) {
        if state.problem.is_some() {
            return self.foreign.add(key);
        }
        if state.free_in.is_zero() {
            return;
        }
        let counted = self.limits.of(&parts.policy, identity);
        let mut counted = counted.iter();
        let first = counted.next();
        let limit = first.map(|it| it.limit);
        if limit.is_none() && self.limits.are_given() {
            return self.not_in_file.add(key);
        }
        let mut notes = Vec::new();
        if let Some(tier) = first.and_then(|it| it.tier) {
            notes.push(format!("by tier {tier}"));
        }
        notes.extend(counted.map(|it| {
            format!("{} by tier {}", state.amount(Some(it.limit)), it.tier.unwrap_or_default())
        }));
        notes.extend(BlockState::of(parts).and_then(|block| block.words(state)));
        let mut rest = match identity.family.is_log() {
            true => String::new(),
            false => format!("  {}", identity.text),
        };
        if !notes.is_empty() {
            rest += &format!(" ({})", notes.join(", "));
        }
        let has_part = limit.is_some() || !matches!(state.used, Used::Permits(_));
        let rank = (has_part, state.part(limit));
        let (amount, free_in) = (state.amount(limit), state.free_in);
        self.entries.push(Entry { key: key.to_owned(), rank, amount, free_in, rest });
    }

    fn add_in_flight(&mut self, key: Vec<u8>, set: &InFlight) {
        if set.problem.is_some() {
            return self.foreign.add(&key);
        }
        if set.held > 0 {
            let s = if set.held == 1 { "" } else { "s" };
            self.entries.push(Entry {
                key,
                #[expect(clippy::cast_precision_loss, reason = "it only sorts")]
                rank: (false, set.held as f64),
                amount: format!("{} request{s}", set.held),
                free_in: set.expires_in,
                rest: " (in flight)".to_owned(),
            });
        }
    }

    /// Sorts the entries, and keeps the first of either kind.
    fn sort(&mut self, limit: usize) {
        let (mut parts, mut numbers): (Vec<_>, Vec<_>) =
            self.entries.drain(..).partition(|entry| entry.rank.0);
        for entries in [&mut parts, &mut numbers] {
            entries.sort_by(|one, other| other.rank.1.total_cmp(&one.rank.1));
            entries.truncate(limit);
        }
        self.entries.extend(parts.into_iter().chain(numbers));
    }

    fn outcome(&self) -> Outcome {
        let width = self.entries.iter().map(|entry| entry.amount.len()).max().unwrap_or(0).max(16);
        let mut text = format!("{:>width$}  {:>11}  key and limit\n", "in use", "all free in");
        for Entry { key, amount, free_in, rest, .. } in &self.entries {
            let (key, free_in) = (words::text(key), words::time(*free_in));
            text += &format!("{amount:>width$}  {free_in:>11}  {key}{rest}\n");
        }
        let Self { keys, foreign, not_in_file, has_stopped, not_read, .. } = self;
        let order = match self.limits.are_given() {
            true => "by the part of the limit that is in use",
            false => {
                "by the part in use, and then those without one by their number; with --limits all limits have a part"
            }
        };
        text += &format!("\nRead {keys} keys, sorted {order}.\n");
        for (Skipped { number, first }, what, why) in
            [(not_in_file, "limit", "not in the file"), (foreign, "value", "written by no limiter")]
        {
            if let Some(key) = first {
                let (s, are) = if *number == 1 { ("", "is") } else { ("s", "are") };
                text += &format!(
                    "Skipped {number} {what}{s} that {are} {why}, such as in {key}: explain prints more.\n"
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
        Outcome { text, has_problem: !not_read.is_empty() }
    }
}

impl Skipped {
    fn add(&mut self, key: &[u8]) {
        self.number += 1;
        self.first.get_or_insert_with(|| words::text(key));
    }
}

/// Returns the next cursor and the keys in a reply to [`SCAN`].
fn page(reply: &ScriptReply) -> Option<(String, Vec<Vec<u8>>)> {
    let ScriptReply::Array(items) = reply else { return None };
    let (cursor, keys) = items.split_first()?;
    Some((text(cursor)?, keys.iter().map(bytes).collect::<Option<_>>()?))
}

/// Returns the pattern of the keys with the prefix, or of those with a policy's name.
pub(crate) fn pattern(
    server: &Server,
    connection: &Connection,
    name: Option<&str>,
) -> Result<String, Failure> {
    let hash = server.hash_key(connection, name.unwrap_or("any"), "x")?;
    let hash = String::from_utf8_lossy(&hash);
    let (before, policy) = hash.split_once("{sx}").unwrap_or((&hash, ""));
    Ok(match name {
        None => escaped(before) + "*",
        Some(_) => escaped(before) + "{*}" + &escaped(policy) + "*",
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
