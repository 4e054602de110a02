//! Many calls of scripts in one round trip, each at a moment of its own.

use std::fmt::Write as _;

use fred::types::Value as Reply;
use limiter_core::Timestamp;

use super::value::Value;
use crate::{
    ScriptName,
    scripts::{Call, EPOCH},
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
pub(in crate::tests) struct Done {
    /// The integers, or the error.
    pub(super) reply: Result<Vec<i128>, String>,
    /// The time to live that was asked for, in milliseconds.
    pub(super) life: Option<i128>,
    /// How often something was written.
    pub(super) writes: i64,
    /// How often something was read.
    pub(super) reads: i64,
    /// What is at the key now.
    pub(super) value: Value,
    /// Whether the key stays for ever.
    pub(super) stays: bool,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self { key: format!("twin:{}", unique()), sources: Vec::new(), arguments: Vec::new() }
    }

    /// Puts a value at the key, as if someone else had.
    pub(super) fn put(&self, store: &Store, value: Reply) {
        store.command("SET", vec![self.key.as_str().into(), value]);
    }

    /// Returns how many bytes the value has.
    pub(super) fn bytes(&self, store: &Store) -> u64 {
        store.command("STRLEN", vec![self.key.as_str().into()]).as_u64().unwrap()
    }

    /// Adds a call at a moment of the server's clock.
    pub(super) fn add(&mut self, now: Timestamp, call: &Call<'_>) {
        let Call { script, quotas, arguments } = call;
        let ScriptName::Source(source) = script.by_source() else { unreachable!() };
        let known = self.sources.iter().position(|known| **known == *source);
        let index = known.unwrap_or_else(|| {
            self.sources.push(source.to_string());
            self.sources.len() - 1
        });
        let micros = (now.as_nanos() / 1_000).to_string();
        let head = [(index + 1).to_string(), micros, (arguments.len() + 1).to_string()];
        let arguments = arguments.iter().map(ToString::to_string);
        self.arguments.extend(head.map(Reply::from));
        self.arguments.push(Reply::from(&quotas[..]));
        self.arguments.extend(arguments.map(Reply::from));
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
        let told = store.command("EVAL", arguments).into_array();
        told.into_iter().map(Done::of).collect()
    }
}

impl Done {
    fn of(told: Reply) -> Self {
        let [reply, life, writes, reads, value, left] =
            told.into_array().try_into().expect("six of each");
        let reply = match reply {
            Reply::String(error) => Err(error.to_string()),
            Reply::Array(numbers) => {
                Ok(numbers.iter().map(|number| number.as_i64().unwrap().into()).collect())
            }
            number => Ok(vec![number.as_i64().unwrap().into()]),
        };
        let life = life.as_string().filter(|life| !life.is_empty());
        let value = match value {
            Reply::Array(list) => {
                Value::Tape(list.iter().map(|element| element.as_string().unwrap()).collect())
            }
            text => {
                Value::Text(text.as_bytes().filter(|text| !text.is_empty()).map(<[u8]>::to_vec))
            }
        };
        let life = life.map(|life| life.parse().expect("whole milliseconds"));
        Self {
            reply,
            life,
            writes: writes.as_i64().unwrap(),
            reads: reads.as_i64().unwrap(),
            value,
            stays: left.as_i64() == Some(-1),
        }
    }
}

/// Returns a moment of the server's clock as scripts tell it.
pub(super) fn scripts_time(now: Timestamp) -> i128 {
    i128::from(now.as_nanos() / 1_000) - i128::from(EPOCH)
}
