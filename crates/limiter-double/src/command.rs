//! The one table of commands.

use crate::{
    commands::{admin, hashes, keys, lists, sorted_sets, strings},
    keyspace::Keyspace,
    reply::Reply,
    server::Server,
};

/// A command: what a server's `COMMAND INFO` says about it, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its name, in lower case.
    pub name: &'static str,
    /// How many words it has, its name included, or if it is negative how many at least.
    pub arity: i32,
    /// Those flags that decide whether it runs: `write`, `denyoom`, `noscript`, `loading` and `stale`.
    pub flags: &'static [&'static str],
    /// The places of its first and its last key, which may count from the end.
    pub keys: (i32, i32),
    pub(crate) run: Run,
}

/// What a command acts on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// The keys, also in a script.
    Keys(fn(&mut Keyspace, &[&[u8]]) -> Reply),
    /// The server: never in a script.
    Server(fn(&mut Server, &[&[u8]]) -> Reply),
}

use Run::{Keys, Server as OfServer};

const READS: &[&str] = &[];
const WRITES: &[&str] = &["write"];
const GROWS: &[&str] = &["write", "denyoom"];

const NONE: (i32, i32) = (0, 0);
const ONE: (i32, i32) = (1, 1);
const ALL: (i32, i32) = (1, -1);

const fn command(
    name: &'static str,
    arity: i32,
    flags: &'static [&'static str],
    keys: (i32, i32),
    run: Run,
) -> Command {
    Command { name, arity, flags, keys, run }
}

/// Returns all commands, by name.
#[must_use]
pub const fn commands() -> &'static [Command] {
    COMMANDS
}

const COMMANDS: &[Command] = &[
    command("asking", 1, READS, NONE, OfServer(admin::asking)),
    command("cluster", -2, &["stale"], NONE, OfServer(admin::cluster)),
    command("del", -2, WRITES, ALL, Keys(keys::del)),
    command("eval", -3, &["noscript", "stale"], NONE, OfServer(admin::eval)),
    command("evalsha", -3, &["noscript", "stale"], NONE, OfServer(admin::evalsha)),
    command("exists", -2, READS, ALL, Keys(keys::exists)),
    command("flushall", -1, WRITES, NONE, Keys(keys::flushall)),
    command("get", 2, READS, ONE, Keys(strings::get)),
    command("hdel", -3, WRITES, ONE, Keys(hashes::hdel)),
    command("hget", 3, READS, ONE, Keys(hashes::hget)),
    command("hgetall", 2, READS, ONE, Keys(hashes::hgetall)),
    command("hlen", 2, READS, ONE, Keys(hashes::hlen)),
    command("hmget", -3, READS, ONE, Keys(hashes::hmget)),
    command("hset", -4, GROWS, ONE, Keys(hashes::hset)),
    command("lindex", 3, READS, ONE, Keys(lists::lindex)),
    command("llen", 2, READS, ONE, Keys(lists::llen)),
    command("lrange", 4, READS, ONE, Keys(lists::lrange)),
    command("lrem", 4, WRITES, ONE, Keys(lists::lrem)),
    command("lset", 4, GROWS, ONE, Keys(lists::lset)),
    command("ltrim", 4, WRITES, ONE, Keys(lists::ltrim)),
    command("persist", 2, WRITES, ONE, Keys(keys::persist)),
    // Redis 7.0 has options for it, which 6.2 lacks.
    command("pexpire", 3, WRITES, ONE, Keys(keys::pexpire)),
    command("ping", -1, READS, NONE, Keys(keys::ping)),
    command("pttl", 2, READS, ONE, Keys(keys::pttl)),
    command("role", 1, &["noscript", "loading", "stale"], NONE, OfServer(admin::role)),
    command("rpush", -3, GROWS, ONE, Keys(lists::rpush)),
    command("script", -2, &["noscript"], NONE, OfServer(admin::script)),
    command("set", -3, GROWS, ONE, Keys(strings::set)),
    command("time", 1, &["loading", "stale"], NONE, Keys(keys::time)),
    command("type", 2, READS, ONE, Keys(keys::type_of)),
    command("unlink", -2, WRITES, ALL, Keys(keys::del)),
    command("zadd", -4, GROWS, ONE, Keys(sorted_sets::zadd)),
    command("zcard", 2, READS, ONE, Keys(sorted_sets::zcard)),
    command("zcount", 4, READS, ONE, Keys(sorted_sets::zcount)),
    command("zmscore", -3, READS, ONE, Keys(sorted_sets::zmscore)),
    command("zrange", -4, READS, ONE, Keys(sorted_sets::zrange)),
    command("zrem", -3, WRITES, ONE, Keys(sorted_sets::zrem)),
    command("zremrangebyscore", 4, WRITES, ONE, Keys(sorted_sets::zremrangebyscore)),
    command("zscore", 3, READS, ONE, Keys(sorted_sets::zscore)),
];

impl Command {
    /// Returns the command of a name, in letters of either case.
    pub(crate) fn named(name: &[u8]) -> Option<&'static Self> {
        let name = name.to_ascii_lowercase();
        let found = COMMANDS.binary_search_by(|it| it.name.as_bytes().cmp(&name));
        found.ok().and_then(|index| COMMANDS.get(index))
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// Returns whether so many words, the name included, are what it takes.
    pub(crate) fn takes(&self, words: usize) -> bool {
        let least = usize::try_from(self.arity.unsigned_abs()).unwrap_or(usize::MAX);
        if self.arity < 0 { words >= least } else { words == least }
    }

    pub(crate) fn is_script_call(&self) -> bool {
        matches!(self.name, "eval" | "evalsha")
    }

    pub(crate) fn has_subcommands(&self) -> bool {
        matches!(self.name, "cluster" | "script")
    }

    /// Returns the keys among its arguments.
    pub(crate) fn keys_of<'a>(&self, arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
        if self.is_script_call() {
            return script_keys(arguments).map_or_else(Vec::new, <[_]>::to_vec);
        }
        match self.keys {
            (1, -1) => arguments.to_vec(),
            (1, _) => arguments.iter().copied().take(1).collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns the keys among the arguments of a script call, if their number is right.
pub(crate) fn script_keys<'a, 'b>(arguments: &'b [&'a [u8]]) -> Option<&'b [&'a [u8]]> {
    let [_, number, rest @ ..] = arguments else { return None };
    let number = usize::try_from(crate::number::integer(number)?).ok()?;
    rest.get(..number)
}
