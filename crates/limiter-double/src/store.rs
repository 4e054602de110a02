//! The keys of a server, and the rules by which a command may act on them.

use std::collections::BTreeSet;

use crate::{
    cluster::Member,
    command::{Command, Run},
    keyspace::Keyspace,
    reply::Reply,
    version::{OOM, Version},
};

/// Why a server refuses commands that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It reads its data: `LOADING` for every command.
    Loading,
    /// A script runs for too long: `BUSY` for every command.
    Busy,
    /// It is a replica: `READONLY` for what writes.
    ReadOnly,
    /// It can't save its data: `MISCONF` for what writes, and for `PING`.
    Misconf,
    /// Too few replicas are connected: `NOREPLICAS` for what writes, in Redis 6.2 not in scripts.
    NoReplicas,
    /// It is a replica without its primary: `READONLY` for what writes, and `MASTERDOWN` for every other command.
    MasterDown,
}

impl Refusal {
    /// Returns the error for a command, if it is refused.
    fn of(self, command: &Command, version: Version) -> Option<String> {
        let writes = command.has("write");
        // A replica is read-only as well.
        let refusal = if self == Self::MasterDown && writes { Self::ReadOnly } else { self };
        let name = version.name();
        let (is_refused, text) = match refusal {
            Self::Loading => (
                !command.has("loading"),
                format!("LOADING {name} is loading the dataset in memory"),
            ),
            Self::Busy => (
                true,
                format!(
                    "BUSY {name} is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
                ),
            ),
            Self::ReadOnly => {
                (writes, "READONLY You can't write against a read only replica.".to_owned())
            }
            Self::Misconf => (writes || command.name == "ping", version.cannot_save()),
            Self::NoReplicas => {
                (writes, "NOREPLICAS Not enough good replicas to write.".to_owned())
            }
            Self::MasterDown => (
                !command.has("stale") || command.is_script_call() && version == Version::Redis6_2,
                MASTER_DOWN.to_owned(),
            ),
        };
        is_refused.then_some(text)
    }

    /// Returns the error for a command that a script calls, if it is refused.
    fn of_script(self, command: &Command, version: Version) -> Option<String> {
        let is_asked = self != Self::NoReplicas || version != Version::Redis6_2;
        let error = if is_asked { self.of(command, version) } else { None };
        error.map(|error| version.shared_in_script(error))
    }
}

const MASTER_DOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    pub(crate) space: Keyspace,
    /// The names of commands that callers may not call.
    pub(crate) denied: BTreeSet<String>,
    /// In bytes.
    pub(crate) max_memory: Option<usize>,
    pub(crate) refusal: Option<Refusal>,
    /// Its place in a cluster.
    pub(crate) member: Option<Member>,
}

/// A script while it runs, with what decides about its commands.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) store: Store,
    /// Whether memory was full when the script began. It is not measured again.
    pub(crate) is_full: bool,
    pub(crate) is_asking: bool,
    /// Whether it has called a command that writes, after which memory does not matter.
    has_written: bool,
}

impl Store {
    pub(crate) const fn version(&self) -> Version {
        self.space.version
    }

    /// Returns the error for every script, if there is one.
    pub(crate) fn refuses_scripts(&self) -> Option<&'static str> {
        (self.refusal == Some(Refusal::MasterDown)).then_some(MASTER_DOWN)
    }

    pub(crate) fn is_full(&mut self) -> bool {
        let Some(most) = self.max_memory else { return false };
        self.space.used_memory() > most
    }

    /// Returns the command of these words, if a client may call it now, or the error.
    pub(crate) fn command(
        &mut self,
        name: &[u8],
        arguments: &[&[u8]],
        is_asking: bool,
    ) -> Result<&'static Command, String> {
        let Some(command) = Command::named(name) else {
            return Err(self.version().unknown_command(name, arguments));
        };
        if !command.takes(arguments.len() + 1) {
            return Err(format!("ERR wrong number of arguments for '{}' command", command.name));
        }
        if self.denied.contains(command.name) {
            let subcommand = arguments.first().copied().filter(|_| command.has_subcommands());
            return Err(self.version().denied(command.name, subcommand));
        }
        if let Some(member) = &self.member {
            member.redirect(&self.space, &command.keys_of(arguments), is_asking)?;
        }
        if command.has("denyoom") && self.is_full() {
            return Err(OOM.to_owned());
        }
        match self.refusal.and_then(|refusal| refusal.of(command, self.version())) {
            Some(error) => Err(error),
            None => Ok(command),
        }
    }
}

impl Running {
    pub(crate) fn new(mut store: Store, is_asking: bool) -> Self {
        let is_full = store.is_full();
        Self { store, is_full, is_asking, has_written: false }
    }

    /// Runs a command that a script calls, in a line of it.
    pub(crate) fn call(&mut self, words: &[&[u8]], line: Option<usize>) -> Reply {
        match self.command(words) {
            Ok((run, arguments)) => run(&mut self.store.space, arguments),
            Err(error) => Reply::Error(self.store.version().in_script(&error, line)),
        }
    }

    /// Returns what runs a command that a script calls, and its arguments; or why it may not.
    #[expect(clippy::type_complexity, reason = "a command's function")]
    fn command<'a, 'b>(
        &mut self,
        words: &'b [&'a [u8]],
    ) -> Result<(fn(&mut Keyspace, &[&[u8]]) -> Reply, &'b [&'a [u8]]), String> {
        let Self { store, is_full, is_asking, has_written } = self;
        let version = store.version();
        let Some((name, arguments)) = words.split_first() else {
            return Err(version.no_words_in_script().to_owned());
        };
        let command = Command::named(name).ok_or_else(|| version.unknown_in_script().to_owned())?;
        if !command.takes(words.len()) {
            return Err(version.arity_in_script().to_owned());
        }
        let Run::Keys(run) = command.run else {
            return Err(version.not_in_script().to_owned());
        };
        if store.denied.contains(command.name) {
            return Err(version.denied_in_script(command.name));
        }
        if let Some(error) = store.refusal.and_then(|refusal| refusal.of_script(command, version)) {
            return Err(error);
        }
        if *is_full && !*has_written && command.has("denyoom") {
            return Err(version.shared_in_script(OOM.to_owned()));
        }
        *has_written |= command.has("write");
        if let Some(member) = &store.member {
            let keys = command.keys_of(arguments);
            let redirected = member.redirect(&store.space, &keys, *is_asking);
            redirected.map_err(|_| version.not_local_in_script().to_owned())?;
        }
        Ok((run, arguments))
    }
}
