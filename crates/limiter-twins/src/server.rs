//! A server: its keys, and the scripts that it knows.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    call::Call,
    commands,
    keyspace::{Keyspace, Stored},
    reply::Reply,
    twins::Twin,
};

/// A Redis in memory. A clone is another server in the same state.
#[derive(Clone, Debug)]
pub struct Server {
    /// The twins of the scripts, by the digests of these.
    twins: BTreeMap<String, Twin>,
    /// The digests of the scripts that were loaded.
    loaded: BTreeSet<String>,
    space: Keyspace,
}

impl Server {
    /// Returns a server without keys, on which no script is loaded. `scripts` are the names and the texts of those
    /// that have a twin.
    ///
    /// # Panics
    ///
    /// If no twin has one of the names.
    #[must_use]
    #[expect(clippy::panic, reason = "documented: a script without a twin")]
    pub fn new<'a>(scripts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let twins = scripts.into_iter().map(|(name, text)| {
            let twin = Twin::of(name).unwrap_or_else(|| panic!("no twin of the script {name:?}"));
            (digest(text.as_bytes()), twin)
        });
        let (twins, loaded) = (twins.collect(), BTreeSet::new());
        Self { twins, loaded, space: Keyspace::default() }
    }

    /// Runs a command at a time in microseconds of Unix time, which may be earlier than that of the one before.
    pub fn execute(&mut self, words: &[impl AsRef<[u8]>], now_micros: i64) -> Reply {
        self.space.set_time(now_micros);
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let Some((name, arguments)) = words.split_first() else {
            return Reply::error("ERR no command");
        };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        let reply = match (name.as_str(), arguments) {
            ("EVALSHA", [digest, rest @ ..]) => Some(self.run(digest, rest, now_micros)),
            ("EVAL", [text, rest @ ..]) => match self.load(text) {
                Ok(digest) => Some(self.run(digest.as_bytes(), rest, now_micros)),
                Err(error) => Some(error),
            },
            ("SCRIPT", [verb, text]) if verb.eq_ignore_ascii_case(b"LOAD") => {
                Some(self.load(text).map_or_else(|error| error, |it| Reply::Text(it.into())))
            }
            ("SCRIPT", [verb]) if verb.eq_ignore_ascii_case(b"FLUSH") => {
                self.loaded.clear();
                Some(Reply::ok())
            }
            _ => commands::run(&mut self.space, &name, arguments),
        };
        reply.unwrap_or_else(|| {
            Reply::error(format!("ERR unknown command or wrong arguments for '{name}'"))
        })
    }

    /// Returns the keys that have not expired by the time of the last command, in their order.
    pub fn keys(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        self.space.iter()
    }

    /// Returns what is stored at a key, if it has not expired by the time of the last command.
    #[must_use]
    pub fn stored(&self, key: &[u8]) -> Option<&Stored> {
        self.space.peek(key)
    }

    /// Loads a script, and returns its digest.
    fn load(&mut self, text: &[u8]) -> Result<String, Reply> {
        let digest = digest(text);
        if !self.twins.contains_key(&digest) {
            return Err(Reply::error(format!("ERR no twin has the script {digest}")));
        }
        self.loaded.insert(digest.clone());
        Ok(digest)
    }

    fn run(&mut self, digest: &[u8], rest: &[&[u8]], now: i64) -> Reply {
        let digest = String::from_utf8_lossy(digest).to_ascii_lowercase();
        let twin = self.twins.get(&digest).filter(|_| self.loaded.contains(&digest));
        let Some(twin) = twin else {
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        };
        match Call::new(&mut self.space, rest, now) {
            Ok(mut call) => twin.run(&mut call).unwrap_or_else(|error| error),
            Err(error) => error,
        }
    }
}

/// Returns SHA-1 in hexadecimal digits.
fn digest(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}
