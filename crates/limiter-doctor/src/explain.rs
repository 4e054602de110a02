//! `explain`: what is stored of a subject, and what it means.

use std::time::Duration;

use limiter_redis::{Connection, LEASES, ScriptCall, ScriptClient as _, ScriptReply};

use crate::{
    Failure, Outcome,
    arguments::{LimitsFile, Server, Target},
    block::BlockState,
    identity::Identity,
    limits::Limits,
    read::{READ, Stored, Value, WITHIN, arguments, invalid, time},
    state::{InFlight, State, number},
    subject::{Content, StoredKey},
    target::{self, Found, REPLACED, Targets},
    words,
};

/// Reads one key.
const EXPLAIN: &str = "return { time[1], time[2], read(KEYS[1], ARGV[1], ARGV[2]) }";

pub(crate) async fn run(
    server: &Server,
    target: &Target,
    limits: &LimitsFile,
) -> Result<Outcome, Failure> {
    let limits = limits.read()?;
    let connection = server.connect().await?;
    let Targets { keys, searched, note, may_be_replaced } =
        target::find(server, &connection, target, &limits).await?;
    let mut explained = Vec::new();
    for Found { key, parts, .. } in keys {
        let (now, stored) = read_key(&connection, key.clone(), &parts).await?;
        // It may have expired since it was found.
        if stored.exists() {
            explained.push(Explained::of(&key, &parts, &stored, &limits, now));
        }
    }
    let has_problem = explained.iter().any(|key| key.has_problem);
    let mut texts: Vec<_> = explained.into_iter().map(|key| key.text).collect();
    if texts.is_empty() && may_be_replaced {
        return Ok(Outcome { text: format!("PROBLEM: {REPLACED}"), has_problem: true });
    }
    if texts.is_empty() {
        texts.push(format!("No key begins with {}\n\n{NOTHING_STORED}", searched.join(" or ")));
    }
    if !note.is_empty() {
        texts.insert(0, note);
    }
    Ok(Outcome { text: texts.join("\n"), has_problem })
}

/// Returns the server's time, and what is stored at a key.
async fn read_key(
    connection: &Connection,
    key: Vec<u8>,
    parts: &StoredKey,
) -> Result<(u64, Stored), Failure> {
    let mut call = ScriptCall::new(&[READ, EXPLAIN].concat(), vec![key.into()]);
    call.arguments = arguments(&parts.content).map(Into::into).into();
    let reply = connection.run(&call, WITHIN).await?;
    let read = || {
        let ScriptReply::Array(items) = &reply else { return None };
        let [seconds, micros, stored] = items.as_slice() else { return None };
        time(seconds, micros).zip(Stored::of(stored))
    };
    Ok(read().ok_or_else(|| invalid(&reply))?)
}

/// What a key means, in words.
struct Explained {
    text: String,
    has_problem: bool,
}

impl Explained {
    fn of(key: &[u8], parts: &StoredKey, stored: &Stored, limits: &Limits, now: u64) -> Self {
        let mut out = Self { text: format!("{}\n", words::text(key)), has_problem: false };
        out.line("subject", &format!("{} ({})", parts.subject, parts.subject.kind()));
        out.line("policy", &parts.policy);
        if let Some(expires_in) = stored.expires_in {
            out.line("expires", &format!("in {}", words::time(expires_in)));
        }
        match (&parts.content, &stored.value) {
            (Content::Hash, Value::Hash(fields)) => {
                for (field, text) in fields {
                    // Leases are explained with their limit.
                    if field.strip_suffix(LEASES).is_none_or(|it| Identity::parse(it).is_none()) {
                        out.field(parts, field, text, fields, limits, now);
                    }
                }
            }
            (Content::Log(identity), Value::List(log)) => {
                let state = State::of_log(identity, log, now);
                out.state(parts, identity, &state, limits);
                out.stored(&log.head);
            }
            (Content::InFlight, Value::Set(permits)) => out.in_flight(&InFlight::of(permits, now)),
            (Content::Unknown, _) => out.problem(UNKNOWN),
            (Content::InFlight, _) => out.problem(WRONG_TYPE_IN_FLIGHT),
            _ => out.problem(WRONG_TYPE),
        }
        if stored.expires_in.is_none() && parts.content != Content::Unknown {
            out.problem(NO_EXPIRY);
        }
        out
    }

    fn line(&mut self, name: &str, value: &str) {
        self.text += &format!("  {name:8} {value}\n");
    }

    fn problem(&mut self, problem: &str) {
        self.text += &format!("\nPROBLEM: {problem}\n");
        self.has_problem = true;
    }

    /// Adds a limit that is a field of the hash.
    fn field(
        &mut self,
        parts: &StoredKey,
        field: &str,
        text: &str,
        fields: &[(String, String)],
        limits: &Limits,
        now: u64,
    ) {
        let identity = Identity::parse(field).filter(|identity| !identity.family.is_log());
        let Some(identity) = identity else {
            self.text += &format!("\n{field:?}\n");
            return self.problem(UNKNOWN_FIELD);
        };
        self.state(parts, &identity, &State::of_field(&identity, text, now), limits);
        let leases = fields.iter().find(|(name, _)| name.strip_suffix(LEASES) == Some(field));
        match leases.map(|(_, end)| lease_left(&identity, end, now)) {
            Some(Some(Duration::ZERO)) => self.line("leases", "all have ended"),
            Some(Some(left)) => {
                self.line("leases", &format!("the latest ends in {}", words::time(left)));
            }
            Some(None) => self.problem(NO_LEASES),
            None => {}
        }
        self.stored(text);
    }

    /// Adds what a limit has in use.
    fn state(&mut self, parts: &StoredKey, identity: &Identity, state: &State, limits: &Limits) {
        self.text += &format!("\n{}\n", identity.text);
        if let Some(problem) = state.problem {
            return self.problem(problem);
        }
        if let Some(words) = BlockState::of(parts).and_then(|block| block.words(state)) {
            self.text += &format!("  {words}\n");
        }
        let counted = limits.of(&parts.policy, identity);
        if counted.is_empty() {
            self.text += &format!("  {}\n", state.sentence(None));
        }
        for it in counted {
            let tier = it.tier.map(|tier| format!("tier {tier}: ")).unwrap_or_default();
            self.text += &format!("  {tier}{}\n", state.sentence(Some(it.limit)));
        }
    }

    fn stored(&mut self, text: &str) {
        self.line("stored", &format!("{text:?}"));
    }

    fn in_flight(&mut self, set: &InFlight) {
        self.text += "\nrequests in flight\n";
        for line in &set.lines {
            self.text += &format!("  {line}\n");
        }
        if let Some(problem) = set.problem {
            self.problem(problem);
        }
    }
}

/// Returns how long the latest lease of a limit lasts, `None` if that is not stored.
pub(crate) fn lease_left(identity: &Identity, end: &str, now: u64) -> Option<Duration> {
    let end = number(end).filter(|_| end.len() == 16)?;
    let left = Duration::from_micros(end.saturating_sub(now));
    // What permits add is rounded up by less than a thousandth.
    (left <= identity.span * 1_001 / 1_000 + identity.horizon()).then_some(left)
}

const NOTHING_STORED: &str = "Nothing is stored: no permits are in use. If there should be some, check the subject, the \
                              --kind, the --prefix and the policy's name, or give the key as `top` prints it. IPv6 \
                              clients are stored as their network: if that is not a /64, give it, such as \
                              2001:db8:1::/56.\n";

const NO_EXPIRY: &str = "The key has no expiry. Only PERSIST, RESTORE or another program can cause this. The next \
                         admission of the subject sets one; refusals and peeks don't. If the subject is not in \
                         use any more, reset it.";

const NO_LEASES: &str = "The end of its leases is a value that no limiter writes, or too far ahead. Refunds ignore it. \
                         Find out which program wrote it, then reset the subject.";

const WRONG_TYPE: &str = "The key has a type that limiters never write, so checks of the subject fail with WRONGTYPE. \
                          Find out which program wrote it, then reset the subject.";

const WRONG_TYPE_IN_FLIGHT: &str = "The key has a type that limiters never write, so requests of the subject fail with \
                                    WRONGTYPE. Find out which program wrote it, then reset the subject.";

const UNKNOWN: &str = "No limiter of this version has such keys. Find out which program wrote it, and use a prefix that \
                       nothing else uses.";

const UNKNOWN_FIELD: &str = "No limit of this version has such a field. Find out which program wrote it, then reset the \
                             subject.";
