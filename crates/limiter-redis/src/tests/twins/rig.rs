//! Many calls of scripts in one round trip, each at a time of its own.

use std::fmt::Write as _;

use fred::types::Value as Answer;
use limiter_twins::{Reply, Stored, Value};

use crate::{
    ScriptCall,
    tests::store::{Store, unique},
};

/// Scripts to be run one after another on a real server.
pub(super) struct Rig {
    keys: Vec<String>,
    sources: Vec<String>,
    arguments: Vec<Answer>,
}

/// What a step did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) reply: Reply,
    /// How many commands wrote.
    pub(super) writes: i64,
    /// What is stored at each of its keys.
    pub(super) stored: Vec<Option<Stored>>,
}

impl Rig {
    /// Returns a rig with so many keys.
    pub(super) fn new(keys: usize) -> Self {
        let name = unique();
        let keys = (0..keys).map(|number| format!("twin:{{{name}}}:{number}")).collect();
        Self { keys, sources: Vec::new(), arguments: Vec::new() }
    }

    /// Returns the name of a key.
    pub(super) fn key(&self, number: usize) -> &str {
        &self.keys[number]
    }

    /// Adds a call at a time of the server's clock, in microseconds, with keys of these numbers.
    pub(super) fn call(&mut self, now: i64, call: &ScriptCall, keys: &[usize]) {
        let source = str::from_utf8(&call.script.source).unwrap();
        let known = self.sources.iter().position(|known| **known == *source);
        let index = known.unwrap_or_else(|| {
            self.sources.push(source.to_string());
            self.sources.len() - 1
        });
        let words = call.args();
        let arguments = words[3 + call.keys.len()..].iter().map(|word| word.to_vec());
        self.add(index + 1, now, keys, arguments.collect());
    }

    /// Adds a command, whose key is the first of its arguments.
    pub(super) fn command(&mut self, now: i64, name: &str, key: usize, rest: &[&str]) {
        let key_name = self.keys[key].clone();
        let words = [name, &key_name].into_iter().chain(rest.iter().copied());
        self.add(0, now, &[key], words.map(|word| word.as_bytes().to_vec()).collect());
    }

    fn add(&mut self, script: usize, now: i64, keys: &[usize], arguments: Vec<Vec<u8>>) {
        let keys = [keys.len()].into_iter().chain(keys.iter().map(|number| number + 1));
        let keys: Vec<_> = keys.map(|number| number.to_string().into_bytes()).collect();
        let count = arguments.len().to_string().into_bytes();
        let head = [script.to_string().into_bytes(), now.to_string().into_bytes()];
        let words = head.into_iter().chain(keys).chain([count]).chain(arguments);
        self.arguments.extend(words.map(|word| Answer::Bytes(word.into())));
    }

    /// Runs all steps that were added, and deletes the keys.
    pub(super) fn run(&mut self, store: &Store) -> Vec<Done> {
        let mut scripts = String::new();
        for source in &self.sources {
            let _ = writeln!(scripts, "function(KEYS, ARGV)\n{source}\nend,");
        }
        let source = include_str!("rig.lua").replace("--SCRIPTS", &scripts);
        let count = i64::try_from(self.keys.len()).unwrap();
        let mut arguments = vec![source.into(), count.into()];
        arguments.extend(self.keys.iter().map(|key| key.as_str().into()));
        arguments.append(&mut self.arguments);
        let replies = store.command("EVAL", arguments).into_array();
        replies.into_iter().map(Done::of).collect()
    }
}

impl Done {
    fn of(answer: Answer) -> Self {
        let mut parts = answer.into_array().into_iter();
        let (kind, reply, writes) = (parts.next(), parts.next().unwrap(), parts.next().unwrap());
        let reply = match (kind.unwrap().as_str().as_deref(), read(reply)) {
            (Some("error"), Reply::Text(text)) => Reply::Error(String::from_utf8(text).unwrap()),
            (_, reply) => reply,
        };
        let mut stored = Vec::new();
        while let (Some(value), Some(expires)) = (parts.next(), parts.next()) {
            let expires_at = expires.as_string().filter(|text| !text.is_empty());
            let expires_at = expires_at.map(|text| text.parse().unwrap());
            let value = match read(value) {
                Reply::Text(text) => Some(Value::Text(text)),
                Reply::Array(mut elements) if matches!(elements[..], [Reply::Array(_)]) => {
                    elements.pop().map(members)
                }
                Reply::Array(elements) => {
                    Some(Value::List(elements.into_iter().map(bytes).collect()))
                }
                _ => None,
            };
            stored.push(value.map(|value| Stored { value, expires_at }));
        }
        Self { reply, writes: writes.as_i64().unwrap(), stored }
    }
}

/// Returns a sorted set of members, each with its score behind it.
fn members(reply: Reply) -> Value {
    let Reply::Array(elements) = reply else { panic!("a sorted set is {reply:?}") };
    let words: Vec<_> = elements.into_iter().map(bytes).collect();
    let score = |word: &Vec<u8>| str::from_utf8(word).unwrap().parse().unwrap();
    Value::SortedSet(words.chunks(2).map(|pair| (pair[0].clone(), score(&pair[1]))).collect())
}

fn bytes(reply: Reply) -> Vec<u8> {
    match reply {
        Reply::Text(text) => text,
        other => panic!("an element is {other:?}"),
    }
}

fn read(answer: Answer) -> Reply {
    match answer {
        Answer::Integer(number) => Reply::Integer(number),
        Answer::String(text) => Reply::Text(text.as_bytes().to_vec()),
        Answer::Bytes(bytes) => Reply::Text(bytes.to_vec()),
        Answer::Null => Reply::Nil,
        Answer::Array(answers) => Reply::Array(answers.into_iter().map(read).collect()),
        other => panic!("a script replied {other:?}"),
    }
}
