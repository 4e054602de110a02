//! When servers refuse commands: full memory, users' rights, replicas, and what keeps a server from serving.

use limiter_double::{Refusal, Reply};
use limiter_rig::server::{Folder, wait_until};

use crate::{
    pair::{Pair, now},
    wire::{Connection, encoded, words},
};

/// Scripts of a key that call commands which write, and which don't, before and after the first write.
const SCRIPTS: [&str; 16] = [
    "return 1",
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], '1')",
    "return redis.pcall('SET', KEYS[1], '1')",
    "return redis.pcall('SET', KEYS[1], '1').err",
    "\nlocal x = 1\nreturn redis.call('SET', KEYS[1], '1')",
    "local ok, e = pcall(redis.call, 'SET', KEYS[1], '1') return { ok, e }",
    "redis.pcall('SET', KEYS[1], '1') return redis.pcall('DEL', KEYS[1])",
    "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], '1')",
    "redis.call('PEXPIRE', 'none', '5') return redis.call('SET', KEYS[1], '1')",
    "redis.pcall('PEXPIRE', 'none', 'abc') return redis.call('SET', KEYS[1], '1')",
    "redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[1], '1')",
    "redis.pcall('SET', KEYS[1]) return redis.call('SET', KEYS[1], '1')",
    "return { redis.pcall('ZADD', KEYS[1], '1'), redis.pcall('NONE'), redis.pcall('EVAL', 'return 1', '0') }",
    "return #redis.call('TIME')",
];

const COMMANDS: [&str; 16] = [
    "GET s",
    "SET s v",
    "SET s",
    "NONE",
    "DEL s",
    "HSET h a 1",
    "PEXPIRE s 10000000",
    "LSET l 0 b",
    "ZADD z 1 a",
    "ZADD z x a",
    "TYPE s",
    "EXISTS s",
    "SCRIPT EXISTS abc",
    "EVAL x abc",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
    "EVALSHA abc 0",
];

/// Checks that commands and scripts are refused by both, with the same errors.
fn check(pair: &mut Pair) {
    for command in COMMANDS {
        // See `MASTERDOWN`.
        if !is_masterless(pair) || !command.starts_with("SCRIPT") {
            pair.same_text(command);
        }
    }
    for script in SCRIPTS {
        pair.script(script, &["key"], &[]);
    }
}

fn is_masterless(pair: &mut Pair) -> bool {
    matches!(pair.connection.call(&["GET", "s"]), Reply::Error(error) if error.starts_with("MASTERDOWN"))
}

fn fill(pair: &mut Pair) {
    for command in ["SET s v", "SET t v", "RPUSH l a b", "ZADD z 1 a", "HSET h a 1"] {
        pair.same_text(command);
    }
}

fn path(folder: &Folder) -> &str {
    folder.path().to_str().unwrap()
}

#[test]
fn memory_is_full() {
    let mut pair = Pair::start();
    fill(&mut pair);
    pair.configure("CONFIG SET maxmemory 1");
    pair.double.set_max_memory(Some(1));
    check(&mut pair);
    pair.configure("CONFIG SET maxmemory 0");
    pair.double.set_max_memory(None);
    check(&mut pair);
}

#[test]
fn users_may_not_call_commands() {
    let mut pair = Pair::start();
    fill(&mut pair);
    for denied in [
        &["set"][..],
        &["get", "del"],
        &["eval"],
        &["evalsha", "time"],
        &["script", "cluster", "zadd"],
    ] {
        pair.configure("ACL SETUSER default +@all");
        let rights: Vec<_> = denied.iter().map(|name| format!("-{name}")).collect();
        pair.configure(&format!("ACL SETUSER default {}", rights.join(" ")));
        pair.double.deny(denied);
        check(&mut pair);
        pair.same_text("CLUSTER SLOTS");
    }
}

#[test]
fn too_few_replicas_are_connected() {
    let mut pair = Pair::start();
    fill(&mut pair);
    pair.configure("CONFIG SET min-replicas-to-write 1");
    pair.double.refuse(Some(Refusal::NoReplicas));
    check(&mut pair);
}

#[test]
fn a_replica_is_read_only() {
    let mut pair = Pair::start();
    fill(&mut pair);
    pair.configure("REPLICAOF 127.0.0.1 1");
    pair.double.refuse(Some(Refusal::ReadOnly));
    check(&mut pair);
    pair.same_text("PING");

    // Of a replica without its primary no test asks for `SCRIPT`, whose subcommands differ by version, and `PING`.
    pair.configure("CONFIG SET replica-serve-stale-data no");
    pair.double.refuse(Some(Refusal::MasterDown));
    check(&mut pair);
    let role = |reply| match reply {
        Reply::Array(mut parts) => parts.swap_remove(0),
        other => panic!("{other:?} is no role"),
    };
    let now = now();
    assert_eq!(role(pair.double.execute(&["ROLE"], now)), role(pair.connection.call(&["ROLE"])),);
}

#[test]
fn a_server_that_cannot_save_refuses_writes() {
    let folder = Folder::create().unwrap();
    let mut pair = Pair::start_with(&["--dir", path(&folder)]);
    fill(&mut pair);
    drop(folder);
    assert!(matches!(pair.connection.call(&["SAVE"]), Reply::Error(_)));
    // Only one that saves by itself minds.
    pair.connection.call(&["CONFIG", "SET", "save", "900 1"]);
    pair.connection.call(&["BGSAVE"]);
    let has_failed = |reply| matches!(reply, Reply::Bulk(text) if text.windows(14).any(|it| it == b"gsave_status:e"));
    let info = ["INFO", "persistence"];
    wait_until("saving has failed", || has_failed(pair.connection.call(&info)));
    pair.double.refuse(Some(Refusal::Misconf));
    check(&mut pair);
    pair.same_text("PING");
}

#[test]
fn a_server_that_runs_a_script_is_busy() {
    let mut pair = Pair::start_with(&["--lua-time-limit", "1"]);
    fill(&mut pair);
    let mut other = Connection::open(pair.server.port());
    other.send(&encoded(&["EVAL", "while true do end", "0"]));
    let is_busy = |reply| matches!(reply, Reply::Error(error) if error.starts_with("BUSY"));
    wait_until("the server is busy", || is_busy(pair.connection.call(&["GET", "s"])));
    pair.double.refuse(Some(Refusal::Busy));
    for command in COMMANDS.iter().chain(&["TIME", "PING", "ROLE", "CLUSTER SLOTS"]) {
        let command = words(command);
        let (real, double) = (pair.connection.call(&command), pair.double.execute(&command, 0));
        assert_eq!(double, real, "{command:?}");
    }
    pair.configure("SCRIPT KILL");
    assert!(matches!(other.read(), Reply::Error(_)));
}

#[test]
fn a_server_that_reads_its_data_refuses_commands() {
    let folder = Folder::create().unwrap();
    let values = 60;
    {
        let mut pair = Pair::start_with(&["--dir", path(&folder), "--rdbcompression", "no"]);
        let value = "v".repeat(1 << 20);
        for number in 0..values {
            pair.connection.call(&["SET", &format!("key{number}"), &value]);
        }
        pair.configure("SAVE");
    }
    // A value each 100 ms, so that it takes six seconds. Some versions serve clients only once in two megabytes.
    let mut pair = Pair::start_with(&["--dir", path(&folder), "--key-load-delay", "100000"]);
    pair.double.refuse(Some(Refusal::Loading));
    let mut commands: Vec<_> = COMMANDS.iter().map(|command| words(command)).collect();
    commands.push(words("INFO persistence"));
    let real = pair.connection.call_all(&commands);
    let is_loading = |reply: &Reply| matches!(reply, Reply::Bulk(text) if text.windows(9).any(|it| it == b"loading:1"));
    assert!(
        real.last().is_some_and(is_loading),
        "the server has read its data before it was asked"
    );
    for (command, real) in commands.iter().zip(&real).take(COMMANDS.len()) {
        let double = pair.double.execute(command, 0);
        assert_eq!(double, *real, "{:?}: {command:?}", pair.version);
    }
}
