//! A server: its keys, the scripts that it knows, and the rules for its callers.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    cluster::Member,
    command::{Run, script_keys},
    engine::Engine,
    keyspace::Stored,
    number,
    reply::Reply,
    store::{Refusal, Store},
    version::Version,
};

/// A Redis in the process. A clone is another server in the same state.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) store: Store,
    /// The texts of the scripts that were loaded, by their digests.
    scripts: BTreeMap<String, Arc<[u8]>>,
    engine: Arc<Mutex<Engine>>,
    /// Whether the last command was `ASKING`.
    is_asking: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self::new(Version::default())
    }
}

impl Server {
    /// Returns a server without keys and scripts, which speaks as one of a version does.
    ///
    /// # Panics
    ///
    /// If the system has no memory for an interpreter.
    #[must_use]
    #[expect(clippy::expect_used, reason = "documented: no memory")]
    pub fn new(version: Version) -> Self {
        let engine = Engine::new().expect("the system has memory for an interpreter");
        let mut store = Store::default();
        store.space.version = version;
        Self {
            store,
            scripts: BTreeMap::new(),
            engine: Arc::new(Mutex::new(engine)),
            is_asking: false,
        }
    }

    /// Refuses commands from now on, or none.
    pub const fn refuse(&mut self, refusal: Option<Refusal>) {
        self.store.refusal = refusal;
    }

    /// Sets the commands that callers may not call, directly and in scripts.
    pub fn deny(&mut self, commands: &[&str]) {
        self.store.denied =
            commands.iter().map(|name| name.to_ascii_lowercase()).collect::<BTreeSet<_>>();
    }

    /// Sets how many bytes keys may use, by an estimate, before commands that need memory are refused. Nothing is evicted.
    pub const fn set_max_memory(&mut self, bytes: Option<usize>) {
        self.store.max_memory = bytes;
    }

    /// Returns an estimate of the memory of the keys in bytes.
    pub fn used_memory(&mut self) -> usize {
        self.store.space.used_memory()
    }

    /// Returns the keys that have not expired by the time of the last command, in their order.
    pub fn keys(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        self.store.space.iter()
    }

    /// Returns what is stored at a key, if it has not expired by the time of the last command.
    #[must_use]
    pub fn stored(&self, key: &[u8]) -> Option<&Stored> {
        self.store.space.get(key)
    }

    /// Runs a command at a time in microseconds of Unix time, which may be earlier than that of the one before.
    pub fn execute(&mut self, words: &[impl AsRef<[u8]>], now_micros: i64) -> Reply {
        self.store.space.set_time(now_micros);
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let Some((name, arguments)) = words.split_first() else {
            return Reply::error("ERR no command");
        };
        let is_asking = mem::take(&mut self.is_asking);
        let command = match self.store.command(name, arguments, is_asking) {
            Ok(command) => command,
            Err(error) => return Reply::Error(error),
        };
        match command.run {
            Run::Keys(run) => run(&mut self.store.space, arguments),
            Run::Server(run) => {
                self.is_asking = is_asking;
                let reply = run(self, arguments);
                self.is_asking &= command.name == "asking";
                reply
            }
        }
    }

    pub(crate) const fn ask(&mut self) {
        self.is_asking = true;
    }

    pub(crate) const fn member(&self) -> Option<&Member> {
        self.store.member.as_ref()
    }

    pub(crate) const fn is_replica(&self) -> bool {
        matches!(self.store.refusal, Some(Refusal::ReadOnly | Refusal::MasterDown))
    }

    /// Loads a script, and returns its digest.
    pub(crate) fn load(&mut self, text: &[u8]) -> Result<String, Reply> {
        let digest = sha1_smol::Sha1::from(text).digest().to_string();
        if !self.scripts.contains_key(&digest) {
            self.engine().compile(text).map_err(|error| {
                Reply::error(format!("ERR Error compiling script (new function): {error}"))
            })?;
            self.scripts.insert(digest.clone(), text.into());
        }
        Ok(digest)
    }

    pub(crate) fn knows(&self, digest: &[u8]) -> bool {
        self.scripts.contains_key(&String::from_utf8_lossy(digest).to_ascii_lowercase())
    }

    pub(crate) fn flush_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Runs a script by what it is called by: its text, or its digest. Behind it in `words` are the number of keys, the
    /// keys, and the arguments.
    pub(crate) fn run(&mut self, words: &[&[u8]], is_text: bool) -> Reply {
        let [script, number, rest @ ..] = words else { return Reply::Nil };
        let no_script = Reply::error(self.store.version().no_script());
        if !is_text && script.len() != 40 {
            return no_script;
        }
        let Some(keys) = script_keys(words) else {
            return Reply::error(match number::integer(number) {
                None => "ERR value is not an integer or out of range",
                Some(..0) => "ERR Number of keys can't be negative",
                Some(_) => "ERR Number of keys can't be greater than number of args",
            });
        };
        let digest = if is_text {
            match self.load(script) {
                Ok(digest) => digest,
                Err(error) => return error,
            }
        } else {
            String::from_utf8_lossy(script).to_ascii_lowercase()
        };
        let Some(text) = self.scripts.get(&digest).cloned() else { return no_script };
        if let Some(error) = self.store.refuses_scripts() {
            return Reply::error(error);
        }
        let arguments = rest.get(keys.len()..).unwrap_or_default();
        let store = (mem::take(&mut self.store), self.is_asking);
        let (reply, store) = self.engine().run((&text, &digest), (keys, arguments), store);
        self.store = store;
        reply
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
