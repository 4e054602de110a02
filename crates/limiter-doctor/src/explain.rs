//! `explain`: what is stored at a key, and what it means.

use std::time::Duration;

use limiter_core::Limit;
use limiter_redis::{Connection, LEASES, ScriptCall, ScriptClient as _, ScriptReply};
use serde_json::{Value as Json, json};

use crate::{
    Failure, Outcome,
    arguments::{Server, Target},
    block::BlockState,
    read::{READ, Stored, WITHIN, invalid, time},
    state::{Field, State, Value, decode, span_of},
    stored::{Family, UnknownFamily, parse_leases},
    target::{self, Found, REPLACED, Targets},
    words,
};

/// Reads one key.
const EXPLAIN: &str = "return { time[1], time[2], read(KEYS[1], ARGV[1], ARGV[2]) }";

/// What was read of a limit.
struct Explained {
    found: Found,
    /// The server's time, in microseconds.
    now: u64,
    stored: Stored,
    /// What is stored beside a key of GCRA.
    leases: Option<Stored>,
}

pub(crate) async fn run(server: &Server, target: &Target) -> Result<Outcome, Failure> {
    let connection = server.connect().await?;
    let Targets { keys, searched, note, may_be_replaced } =
        target::find(server, &connection, target).await?;
    let mut read = Vec::new();
    for found in keys {
        let (now, stored) = read_key(&connection, found.key.clone(), found.limit.as_ref()).await?;
        // In a cluster, a call of two keys fails while their slot is migrated.
        let leases = match found.parts.family() {
            Ok(Family::Gcra) => {
                let key = [&found.key, LEASES.as_bytes()].concat();
                Some(read_key(&connection, key, None).await?.1).filter(Stored::exists)
            }
            _ => None,
        };
        read.push(Explained { found, now, stored, leases });
    }
    read.retain(|it| it.exists() || !it.found.is_of_block);
    // Of the address and the network of an IPv6 client, only one may be stored.
    if read.iter().any(Explained::exists) {
        read.retain(Explained::exists);
    } else if may_be_replaced {
        let text = format!("PROBLEM: {REPLACED}");
        return Ok(Outcome {
            text,
            json: json!({ "keys": [], "problem": REPLACED }),
            has_problem: true,
        });
    }
    let explained: Vec<_> = read.iter().map(Explained::outcome).collect();
    let mut texts: Vec<_> = explained.iter().map(|key| key.text.as_str()).collect();
    let nothing = format!("No key begins with {}\n\n{NOTHING_STORED}", searched.join(" or "));
    if texts.is_empty() {
        texts.push(&nothing);
    }
    if !note.is_empty() {
        texts.insert(0, &note);
    }
    let text = texts.join("\n");
    let has_problem = explained.iter().any(|key| key.has_problem);
    let json = explained.into_iter().map(|key| key.json).collect::<Vec<_>>();
    Ok(Outcome { text, json: json!({ "keys": json }), has_problem })
}

/// Returns the server's time, and what is stored at a key. The entries of a list are read as a limit counts them.
async fn read_key(
    connection: &Connection,
    key: Vec<u8>,
    limit: Option<&Limit>,
) -> Result<(u64, Stored), Failure> {
    let mut call = ScriptCall::new(&[READ, EXPLAIN].concat(), vec![key.into()]);
    if let Some((slot, span)) = limit.and_then(span_of) {
        call.arguments = [slot, span].map(|time| time.to_string().into()).into();
    }
    let reply = connection.run(&call, WITHIN).await?;
    let read = || {
        let ScriptReply::Array(items) = &reply else { return None };
        let [seconds, micros, stored] = items.as_slice() else { return None };
        time(seconds, micros).zip(Stored::of(stored))
    };
    Ok(read().ok_or_else(|| invalid(&reply))?)
}

impl Explained {
    fn exists(&self) -> bool {
        self.stored.exists() || self.leases.is_some()
    }

    /// Returns the state, and what is wrong with the key.
    fn state(&self) -> (Option<State>, Option<&'static str>) {
        let Self { found, now, stored, .. } = self;
        match found.parts.family() {
            Err(why) => (None, Some(undecodable(why))),
            Ok(_) if !stored.exists() => (None, None),
            Ok(family) if !stored.is_of(family) => (None, Some(WRONG_TYPE)),
            Ok(family) => {
                let state = decode(family, &stored.value, found.limit.as_ref(), *now);
                (Some(state), stored.expires_in.is_none().then_some(NO_EXPIRY))
            }
        }
    }

    /// Returns how long the latest lease lasts, and what is wrong with the key of the leases.
    fn leases(&self) -> (Option<Duration>, Option<&'static str>) {
        let Some(leases) = &self.leases else { return (None, None) };
        let end = match &leases.value {
            Value::Text(text) => parse_leases(text),
            _ => None,
        };
        let problem = if end.is_none() {
            Some(NO_LEASES)
        } else {
            leases.expires_in.is_none().then_some(LEASES_WITHOUT_EXPIRY)
        };
        (end.map(|end| Duration::from_micros(end.saturating_sub(self.now))), problem)
    }

    fn outcome(&self) -> Outcome {
        let Found { key, parts, limit, .. } = &self.found;
        let (exists, expires_in) = (self.stored.exists(), self.stored.expires_in);
        let permits = limit.as_ref().map(|limit| limit.quota().burst());
        let ((state, problem), (leases_end, problem_of_leases)) = (self.state(), self.leases());
        let problems = [problem, problem_of_leases].into_iter().flatten();
        let problem = problems.clone().collect::<Vec<_>>().join(" ");
        let block = BlockState::of(parts);

        let key = words::text(key);
        let mut text = format!("{key}\n");
        let mut line = |name: &str, value: &str| text += &format!("  {name:10} {value}\n");
        line("subject", &format!("{} ({})", parts.subject, parts.subject.kind()));
        line("policy", &parts.policy);
        if let Some(limit) = &parts.limit {
            line("limit", limit);
        }
        line("algorithm", parts.algorithm());
        if let (Some(block), Some(state)) =
            (block, state.as_ref().filter(|it| it.problem.is_none()))
        {
            line("block", &block.words(state, permits));
        }
        if let Some(expires_in) = expires_in {
            line("expires", &format!("in {}", words::time(expires_in)));
        }
        match leases_end {
            Some(Duration::ZERO) => line("leases", "all have ended"),
            Some(end) => line("leases", &format!("the latest ends in {}", words::time(end))),
            None => {}
        }
        if !exists {
            text += &format!("\n{NOTHING_STORED}");
        }
        if let Some(state) = &state {
            text += &format!("\n{}", words_of(parts.algorithm(), state, permits));
        }
        for problem in problems {
            text += &format!("\nPROBLEM: {problem}\n");
        }
        let json = json!({
            "key": key,
            "subject": parts.subject.json(),
            "policy": parts.policy,
            "limit": parts.limit,
            "algorithm": parts.algorithm(),
            "block": block.map(BlockState::name),
            "exists": exists,
            "expires_in_ms": expires_in.map(millis),
            "leases_end_in_ms": leases_end.map(millis),
            "state": state.as_ref().map(|state| json_of(state, permits)),
            "problem": Some(&problem).filter(|problem| !problem.is_empty()),
        });
        let has_problem = !problem.is_empty() || state.is_some_and(|it| it.problem.is_some());
        Outcome { text, json, has_problem }
    }
}

const NOTHING_STORED: &str = "Nothing is stored: the subject is fresh. If it should not be, check the \
                              subject, the --kind, the --prefix, the policy's name and, with --quota, its \
                              algorithm. IPv6 clients are stored as their network: if that \
                              is not a /64, give it, such as 2001:db8:1::/56.\n";

const NO_EXPIRY: &str = "The key has no expiry. Only PERSIST, RESTORE or another program can cause this. The next \
                         admission of the subject sets one; refusals and peeks don't. If the subject is not in \
                         use any more, reset it.";

const LEASES_WITHOUT_EXPIRY: &str = "The key of its leases has no expiry. Only PERSIST, RESTORE or another program \
                                     can cause this. The next lease sets one. If the subject is not in use any \
                                     more, reset it.";

const NO_LEASES: &str = "The key of its leases has a value that no limiter writes. Find out which program wrote it, \
                         then reset the subject.";

const WRONG_TYPE: &str = "The key has a type that this algorithm never writes, so checks of the subject \
                          fail with WRONGTYPE. Find out which program wrote it, then reset the subject.";

/// Returns why a key can't be decoded, and what to do.
const fn undecodable(why: UnknownFamily) -> &'static str {
    match why {
        UnknownFamily::Older => {
            "The key has a form of an older version of limiter-redis. Limiters of this version have keys of \
             another name, and don't read it. It expires by itself."
        }
        UnknownFamily::Newer => {
            "The key has a form of a newer version of limiter-redis. Use limiter-doctor of that version."
        }
        UnknownFamily::NoAlgorithm => {
            "No algorithm has such keys. Find out which program wrote it, and use a prefix that nothing \
             else uses."
        }
    }
}

fn words_of(algorithm: &str, state: &State, limit: Option<u64>) -> String {
    let State { text, fields, used, is_exact, fresh_in, problem, .. } = state;
    if let Some(problem) = problem {
        return format!("{algorithm}: {text:?}\nPROBLEM: {problem}\n") + &words_of_fields(fields);
    }
    if let Some(words) = state.words_of_in_flight() {
        return format!("{algorithm}: {words}{}", words_of_fields(fields));
    }
    let (most, least) = if *is_exact { ("", "") } else { ("at most ", "at least ") };
    let mut out = format!("{algorithm}: {most}");
    match limit {
        Some(limit) => {
            let left = limit.saturating_sub(*used);
            out += &format!("{used} of {} in use, and {least}{left} left", words::permits(limit));
        }
        None => out += &format!("{} in use", words::permits(*used)),
    }
    out += &match fresh_in.is_zero() {
        true => ": the limit is fresh.\n".to_owned(),
        false => format!(". The limit is fresh in {}.\n", words::time(*fresh_in)),
    };
    out + &format!("  stored     {text:?}\n") + &words_of_fields(fields)
}

fn words_of_fields(fields: &[Field]) -> String {
    let width = fields.iter().map(|field| field.value.len()).max().unwrap_or(0);
    let line =
        |field: &Field| format!("  {:10} {:width$}  {}\n", field.name, field.value, field.meaning);
    fields.iter().map(line).collect()
}

fn json_of(state: &State, limit: Option<u64>) -> Json {
    let fields = state
        .fields
        .iter()
        .map(|field| json!({ "name": field.name, "value": field.value, "meaning": field.meaning }));
    json!({
        "permits_in_use": state.used,
        "is_exact": state.is_exact,
        "permits": limit,
        "fresh_in_ms": millis(state.fresh_in),
        "stored": state.text,
        "fields": fields.collect::<Vec<_>>(),
        "problem": state.problem,
    })
}

/// Returns a time in milliseconds, rounded up.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
