//! The commands of the server.

use crate::{Reply, Server, Stored, Value};

use crate::tests::world::{START, World};

fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

#[test]
fn keys_expire_by_the_time_of_the_commands() {
    let mut server = Server::new([]);
    server.execute(&["SET", "a", "1", "PX", "10"], START);
    server.execute(&["SET", "b", "2"], START);
    assert_eq!(server.execute(&["PTTL", "a"], START + 4_000), Reply::Integer(6));
    assert_eq!(server.execute(&["PTTL", "b"], START), Reply::Integer(-1));
    assert_eq!(server.execute(&["PTTL", "c"], START), Reply::Integer(-2));
    let stored = Stored { value: Value::Text(b"1".to_vec()), expires_at: Some(START / 1_000 + 10) };
    assert_eq!(server.stored(b"a"), Some(&stored));
    assert_eq!(server.execute(&["GET", "b"], START + 10_000), text("2"));
    assert_eq!(server.keys().map(|(key, _)| key).collect::<Vec<_>>(), [b"b"]);
    assert_eq!(server.execute(&["GET", "a"], START + 10_000), Reply::Nil);
    // It was deleted.
    assert_eq!(server.execute(&["GET", "a"], START), Reply::Nil);
}

#[test]
fn lists_keep_their_expiry_and_have_other_commands_than_strings() {
    let mut server = Server::new([]);
    assert_eq!(server.execute(&["RPUSH", "list", "1", "2"], START), Reply::Integer(2));
    assert_eq!(server.execute(&["RPUSH", "list", "3"], START), Reply::Integer(3));
    let range =
        |server: &mut Server, start, stop| server.execute(&["LRANGE", "list", start, stop], START);
    assert_eq!(range(&mut server, "0", "-1"), Reply::Array(["1", "2", "3"].map(text).into()));
    assert_eq!(range(&mut server, "-2", "9"), Reply::Array(["2", "3"].map(text).into()));
    assert_eq!(range(&mut server, "3", "9"), Reply::Array(vec![]));
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(server.execute(&["GET", "list"], START), Reply::Error(wrong.into()));
    server.execute(&["SET", "text", "1"], START);
    assert_eq!(server.execute(&["RPUSH", "text", "1"], START), Reply::Error(wrong.into()));
    assert_eq!(server.execute(&["DEL", "text", "list", "none"], START), Reply::Integer(2));
    assert_eq!(server.keys().count(), 0);
}

#[test]
fn sorted_sets_have_members_once() {
    let mut server = Server::new([]);
    let mut run = |words: &[&str]| server.execute(words, START);
    assert_eq!(run(&["ZADD", "set", "5", "a"]), Reply::Integer(1));
    assert_eq!(run(&["ZADD", "set", "7", "a"]), Reply::Integer(0));
    assert_eq!(run(&["ZADD", "set", "1", "b"]), Reply::Integer(1));
    assert_eq!(run(&["ZCARD", "set"]), Reply::Integer(2));
    assert_eq!(run(&["ZCARD", "none"]), Reply::Integer(0));
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(run(&["GET", "set"]), Reply::Error(wrong.into()));
    assert_eq!(run(&["LRANGE", "set", "0", "1"]), Reply::Error(wrong.into()));
    run(&["SET", "text", "1"]);
    assert_eq!(run(&["ZADD", "text", "1", "a"]), Reply::Error(wrong.into()));
    let members = [(b"a".to_vec(), 7), (b"b".to_vec(), 1)].into();
    let stored = Stored { value: Value::SortedSet(members), expires_at: None };
    assert_eq!(server.stored(b"set"), Some(&stored));
    assert!(server.stored(b"none").is_none());
}

#[test]
fn a_script_runs_once_it_is_loaded() {
    let text_of = "return redis.call('DEL', KEYS[1])";
    let mut server = Server::new([("reset", text_of)]);
    let digest = "3b2b8b1ef4e8a1d84a8cd1ae6e2a7ee3b7a4dd0f";
    let unknown = Reply::Error("NOSCRIPT No matching script. Please use EVAL.".into());
    assert_eq!(server.execute(&["EVALSHA", digest, "1", "a"], START), unknown);
    let Reply::Text(digest) = server.execute(&["SCRIPT", "LOAD", text_of], START) else {
        panic!("no digest")
    };
    let digest = String::from_utf8(digest).unwrap();
    assert_eq!(server.execute(&["EVALSHA", &digest, "1", "a"], START), Reply::Integer(0));
    server.execute(&["SCRIPT", "FLUSH"], START);
    assert_eq!(server.execute(&["EVALSHA", &digest, "1", "a"], START), unknown);
    assert_eq!(server.execute(&["EVAL", text_of, "1", "a"], START), Reply::Integer(0));
    assert_eq!(server.execute(&["EVALSHA", &digest, "1", "a"], START), Reply::Integer(0));
    assert!(matches!(server.execute(&["EVAL", "return 1", "0"], START), Reply::Error(_)));
    assert!(matches!(server.execute(&["EVAL", text_of, "2", "a"], START), Reply::Error(_)));
    assert!(matches!(server.execute(&["INFO"], START), Reply::Error(_)));
}

#[test]
fn a_clock_before_2020_is_an_error() {
    let mut world = World::new();
    let rest = || [" 1000 5000", "5", "1000"].map(str::to_owned).to_vec();
    let reply = world.call(1_577_836_799_999_999, "gcra", &["key"], rest());
    assert_eq!(reply, Reply::Error("ERR the server's clock is before 2020: set it".into()));
    let reply = world.call(1_577_836_800_000_000, "gcra", &["key"], rest());
    assert_eq!(reply, Reply::Integer(1_000));
}
