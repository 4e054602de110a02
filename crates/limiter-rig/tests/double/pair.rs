//! A real server, and the double that is compared with it.

use std::{collections::BTreeMap, time::SystemTime};

use limiter_double::{Reply, Server as Double, Version};
use limiter_rig::server::Server;

use crate::wire::{Connection, Words, words};

pub(crate) struct Pair {
    pub(crate) server: Server,
    pub(crate) connection: Connection,
    pub(crate) double: Double,
    pub(crate) version: Version,
    /// How many calls were compared.
    pub(crate) calls: usize,
    /// How many of these succeeded and failed, by the name of the command.
    pub(crate) outcomes: BTreeMap<String, (usize, usize)>,
}

impl Pair {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let server = Server::start_with(arguments);
        let mut connection = Connection::open(server.port());
        let version = version(&mut connection);
        Self {
            server,
            connection,
            double: Double::new(version),
            version,
            calls: 0,
            outcomes: BTreeMap::new(),
        }
    }

    /// Sends a command to both, and checks that the replies are the same. Returns the reply.
    #[track_caller]
    pub(crate) fn same(&mut self, command: &[impl AsRef<[u8]>]) -> Reply {
        let now = now();
        let real = self.connection.call(command);
        let double = self.double.execute(command, now);
        self.calls += 1;
        assert_eq!(double, real, "{:?}: {:?}", self.version, shown(command));
        real
    }

    /// Sends a command of words without spaces.
    #[track_caller]
    pub(crate) fn same_text(&mut self, command: &str) -> Reply {
        self.same(&words(command))
    }

    /// Runs a script on both, and checks that the replies are the same.
    #[track_caller]
    pub(crate) fn script(&mut self, text: &str, keys: &[&str], arguments: &[&str]) -> Reply {
        let count = keys.len().to_string();
        let command = ["EVAL", text, &count].into_iter().chain(keys.iter().copied());
        self.same(&command.chain(arguments.iter().copied()).collect::<Vec<_>>())
    }

    /// Sends a command to the real server alone, which has to accept it.
    #[track_caller]
    pub(crate) fn configure(&mut self, command: &str) {
        let reply = self.connection.call(&words(command));
        assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
    }

    /// Sends commands to both at once, and checks that the replies are the same.
    #[track_caller]
    pub(crate) fn same_all(&mut self, commands: &[Words]) {
        let now = now();
        let real = self.connection.call_all(commands);
        for (command, real) in commands.iter().zip(real) {
            let double = self.double.execute(command, now);
            self.check(command, &double, &real);
        }
    }

    /// Checks that replies to a command are the same, but for the time that has passed on the real server.
    #[track_caller]
    pub(crate) fn check(&mut self, command: &[Vec<u8>], double: &Reply, real: &Reply) {
        self.calls += 1;
        let name = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
        let (succeeded, failed) = self.outcomes.entry(name).or_default();
        *(if matches!(real, Reply::Error(_)) { failed } else { succeeded }) += 1;
        let is_life = command[0].eq_ignore_ascii_case(b"pttl");
        let is_close = match (double, real) {
            (Reply::Integer(double @ 0..), Reply::Integer(real @ 0..)) if is_life => {
                (double - real).abs() < LATE
            }
            _ => false,
        };
        let is_hash = command[0].eq_ignore_ascii_case(b"hgetall");
        let is_same = match is_hash {
            true => in_order(double.clone()) == in_order(real.clone()),
            false => double == real,
        };
        let version = self.version;
        assert!(is_close || is_same, "{version:?}: {:?}\n{double:?}\n{real:?}", shown(command));
    }
}

/// Returns the fields of a hash and their values in the order of their names. A real server has another order once a value is
/// longer than `hash-max-listpack-value`.
pub(crate) fn in_order(reply: Reply) -> Reply {
    let Reply::Array(replies) = reply else { return reply };
    let (pairs, []) = replies.as_chunks::<2>() else { return Reply::Array(replies) };
    let mut pairs = pairs.to_vec();
    pairs.sort_by_key(|[field, _]| format!("{field:?}"));
    Reply::Array(pairs.into_flattened())
}

/// By how many milliseconds the real server may execute a command later than the double. Lifetimes in tests differ by more.
pub(crate) const LATE: i64 = 600_000;

pub(crate) fn version(connection: &mut Connection) -> Version {
    let Reply::Bulk(info) = connection.call(&["INFO", "server"]) else { panic!("no information") };
    let info = String::from_utf8(info).unwrap();
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
    match (field("valkey_version:"), field("redis_version:")) {
        ("", redis) if redis.starts_with("6.2.") => Version::Redis6_2,
        ("", redis) if redis.starts_with("7.0.") => Version::Redis7_0,
        ("", redis) if redis.starts_with("8.2.") => Version::Redis8_2,
        (valkey, _) if valkey.starts_with("9.1.") => Version::Valkey9_1,
        versions => panic!("the double does not know {versions:?}"),
    }
}

/// Returns the time in microseconds, by the clock of this machine, which the real server reads as well.
pub(crate) fn now() -> i64 {
    i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap()
}

pub(crate) fn number(reply: &Reply) -> i64 {
    match reply {
        Reply::Integer(number) => *number,
        Reply::Bulk(text) => str::from_utf8(text).unwrap().parse().unwrap(),
        other => panic!("{other:?} is not a number"),
    }
}

pub(crate) fn shown(command: &[impl AsRef<[u8]>]) -> Vec<String> {
    command.iter().map(|word| word.as_ref().escape_ascii().to_string()).collect()
}
