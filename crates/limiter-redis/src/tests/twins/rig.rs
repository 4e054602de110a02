//! Many calls of scripts in one round trip, each at a moment of its own.

use std::fmt::Write as _;

use fred::types::Value as Reply;

use crate::{
    ScriptCall,
    tests::store::{Store, unique},
};

/// Scripts to be run one after another on one key.
pub(super) struct Rig {
    key: String,
    sources: Vec<String>,
    arguments: Vec<Reply>,
}

/// What a call did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// The integers, or the error.
    pub(super) reply: Result<Vec<i128>, String>,
    /// The expiry that was set, in milliseconds.
    pub(super) life: Option<i128>,
    /// How many commands wrote.
    pub(super) writes: i64,
    /// What is at the key now; the elements of a list are joined by commas.
    pub(super) value: Option<Vec<u8>>,
    /// Whether the key has no expiry.
    pub(super) stays: bool,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self { key: format!("twin:{}", unique()), sources: Vec::new(), arguments: Vec::new() }
    }

    /// Stores a text at the key without an expiry, as if someone else had.
    pub(super) fn put(&self, store: &Store, text: &[u8]) {
        store.command("SET", vec![self.key.as_str().into(), text.into()]);
    }

    /// Stores a list at the key.
    pub(super) fn push(&self, store: &Store, elements: &[String]) {
        let elements = elements.iter().map(|element| element.as_str().into());
        store.command("RPUSH", [self.key.as_str().into()].into_iter().chain(elements).collect());
    }

    /// Adds a call at a moment of the server's clock, in microseconds.
    pub(super) fn add(&mut self, now: i128, call: &ScriptCall) {
        let ScriptCall { script, quotas, arguments, .. } = call;
        let source = str::from_utf8(&script.source).unwrap();
        let known = self.sources.iter().position(|known| **known == *source);
        let index = known.unwrap_or_else(|| {
            self.sources.push(source.to_string());
            self.sources.len() - 1
        });
        let texts = quotas.iter().map(|quota| String::from_utf8(quota.to_vec()).unwrap());
        let texts: Vec<_> = texts.chain(arguments.iter().map(ToString::to_string)).collect();
        let head = [(index + 1).to_string(), now.to_string(), texts.len().to_string()];
        self.arguments.extend(head.into_iter().chain(texts).map(Reply::from));
    }

    /// Runs all calls that were added.
    pub(super) fn run(&mut self, store: &Store) -> Vec<Done> {
        let mut scripts = String::new();
        for source in &self.sources {
            let _ = writeln!(scripts, "function(KEYS, ARGV)\n{source}\nend,");
        }
        let source = include_str!("rig.lua").replace("--SCRIPTS", &scripts);
        let mut arguments = vec![source.into(), 1.into(), self.key.as_str().into()];
        arguments.append(&mut self.arguments);
        let replies = store.command("EVAL", arguments).into_array();
        replies.into_iter().map(Done::of).collect()
    }
}

impl Done {
    fn of(reply: Reply) -> Self {
        let [reply, life, writes, value, left] =
            reply.into_array().try_into().expect("five of each");
        let reply = match reply {
            Reply::String(error) => Err(error.to_string()),
            Reply::Array(numbers) => {
                Ok(numbers.iter().map(|number| number.as_i64().unwrap().into()).collect())
            }
            number => Ok(vec![number.as_i64().unwrap().into()]),
        };
        let life = life.as_string().filter(|life| !life.is_empty());
        Self {
            reply,
            life: life.map(|life| life.parse().expect("whole milliseconds")),
            writes: writes.as_i64().unwrap(),
            value: value.as_bytes().filter(|value| !value.is_empty()).map(<[u8]>::to_vec),
            stays: left.as_i64() == Some(-1),
        }
    }
}
