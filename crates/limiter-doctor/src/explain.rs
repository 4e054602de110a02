//! `explain`: what is stored at a key, and what it means.

use limiter_core::Policy;
use limiter_redis::{ScriptCall, ScriptClient as _, ScriptReply, state::UnknownFamily};
use serde_json::{Value as Json, json};

use crate::{
    Failure, Outcome,
    arguments::{Server, Target},
    read::{READ, Stored, WITHIN, invalid, time},
    state::{Field, State, decode},
    target::{self, Found, REPLACED, Targets},
    words,
};

/// Reads one key.
const EXPLAIN: &str = "return { time[1], time[2], read(KEYS[1]) }";

pub(crate) async fn run(server: &Server, target: &Target) -> Result<Outcome, Failure> {
    let connection = server.connect().await?;
    let Targets { keys, searched, note, may_be_replaced } =
        target::find(server, &connection, target).await?;
    let mut read = Vec::new();
    for found in keys {
        let call = ScriptCall::new(&[READ, EXPLAIN].concat(), vec![found.key.clone()]);
        let reply = connection.run(&call, WITHIN).await?;
        let (now, stored) = read_of(&reply).ok_or_else(|| invalid(&reply))?;
        read.push((found, stored, now));
    }
    // Of the address and the network of an IPv6 client, only one may be stored.
    let is_found = read.iter().any(|(_, stored, _)| stored.exists());
    if is_found {
        read.retain(|(_, stored, _)| stored.exists());
    } else if may_be_replaced {
        let text = format!("PROBLEM: {REPLACED}");
        return Ok(Outcome {
            text,
            json: json!({ "keys": [], "problem": REPLACED }),
            has_problem: true,
        });
    }
    let explained: Vec<_> =
        read.iter().map(|(found, stored, now)| explained(found, stored, *now)).collect();
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

/// Returns the server's time, and what is stored at a key.
fn read_of(reply: &ScriptReply) -> Option<(u64, Stored)> {
    let ScriptReply::Array(items) = reply else { return None };
    let [seconds, micros, stored] = items.as_slice() else { return None };
    time(seconds, micros).zip(Stored::of(stored))
}

fn explained(found: &Found, stored: &Stored, now: u64) -> Outcome {
    let Found { key, parts, policy } = found;
    let exists = stored.exists();
    let (states, problem) = match parts.families() {
        Err(why) => (Vec::new(), Some(undecodable(why))),
        Ok(_) if !exists => (Vec::new(), None),
        Ok(families) if !stored.is_of(&families) => (Vec::new(), Some(WRONG_TYPE)),
        Ok(families) => {
            let states = decode(&families, &stored.value, now);
            (states, stored.expires_in.is_none().then_some(NO_EXPIRY))
        }
    };
    let has_problem = problem.is_some() || states.iter().any(|state| state.problem.is_some());

    let key = words::text(key);
    let mut text = format!("{key}\n");
    let mut line = |name: &str, value: &str| text += &format!("  {name:10} {value}\n");
    line("subject", &format!("{} ({})", parts.subject, parts.subject.kind()));
    line("policy", &parts.name);
    line("algorithm", &parts.algorithms());
    if let Some(expires_in) = stored.expires_in {
        line("expires", &format!("in {}", words::time(expires_in)));
    }
    if !exists {
        text += &format!("\n{NOTHING_STORED}");
    }
    for (index, state) in states.iter().enumerate() {
        text += &format!("\n{}", words_of(state, limit_of(policy.as_ref(), index)));
    }
    if let Some(problem) = &problem {
        text += &format!("\nPROBLEM: {problem}\n");
    }
    let limits = states.iter().enumerate();
    let limits = limits.map(|(index, state)| json_of(state, limit_of(policy.as_ref(), index)));
    let json = json!({
        "key": key,
        "subject": parts.subject.json(),
        "policy": parts.name,
        "algorithms": parts.algorithms(),
        "exists": exists,
        "expires_in_ms": stored.expires_in.map(millis),
        "limits": limits.collect::<Vec<_>>(),
        "problem": problem,
    });
    Outcome { text, json, has_problem }
}

const NOTHING_STORED: &str = "Nothing is stored: the subject is fresh. If it should not be, check the \
                              subject, the --kind, the --prefix, the policy's name and, with --quota, its \
                              algorithm. IPv6 clients are stored as their network: if that \
                              is not a /64, give it, such as 2001:db8:1::/56.\n";

const NO_EXPIRY: &str = "The key has no expiry. The next check or peek of the subject sets one. If the \
                         subject is not in use any more, reset it.";

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

/// Returns how many permits a limit admits at once.
pub(crate) fn limit_of(policy: Option<&Policy>, index: usize) -> Option<u64> {
    Some(policy?.limits().get(index)?.quota().burst())
}

fn words_of(state: &State, limit: Option<u64>) -> String {
    let State { family, text, fields, used, fresh_in, problem } = state;
    if let Some(problem) = problem {
        return format!("{family}: {text:?}\nPROBLEM: {problem}\n") + &words_of_fields(fields);
    }
    let mut out = format!("{family}: ");
    match limit {
        Some(limit) => {
            let left = limit.saturating_sub(*used);
            out += &format!("{used} of {} in use, and {left} left", words::permits(limit));
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
        "algorithm": state.family,
        "permits_in_use": state.used,
        "limit": limit,
        "fresh_in_ms": millis(state.fresh_in),
        "stored": state.text,
        "fields": fields.collect::<Vec<_>>(),
        "problem": state.problem,
    })
}

/// Returns a time in milliseconds, rounded up.
pub(crate) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
