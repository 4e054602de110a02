//! `top` lists who is closest to a limit.

use limiter_core::Key;
use limiter_rig::server::{Cluster, Server};

use crate::{Printed, TempFile, clustered, doctor, limiter, now, run, take};

/// Returns the keys in a list.
fn keys(printed: &Printed) -> Vec<&str> {
    let words = printed.out.lines().filter_map(|line| line.split_once("  limiter:"));
    words.map(|(_, key)| key.split(' ').next().unwrap()).collect()
}

/// Returns how many keys were read.
fn keys_read(printed: &Printed) -> u64 {
    let line = printed.after("Read ").remove(0);
    line.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn subjects_are_sorted_by_the_part_that_is_in_use() {
    let server = Server::start();
    let api = limiter(&server, "api", "10/d").await;
    take(&api, "alice", 6).await;
    take(&api, Key::tuple(["bob".into(), 7.into()]), 8).await;
    let (now, day) = (now(&server), 86_400_000_000_u64);
    let carol = ["limiter:{scarol}:mail", "limiter:{scarol}:mail:ten/sliding-log.864000s"];
    server
        .command(&["HSET", carol[0], "one/gcra.86400s", &(now + 59 * day / 100).to_string()])
        .unwrap();
    server
        .command(&["HSET", carol[0], "two/fixed-window.86400s", &format!("{} 9", now + day / 2)])
        .unwrap();
    server.command(&["RPUSH", carol[1], &format!("{now} 4 4")]).unwrap();
    server.command(&["HSET", "limiter:{sfake}:api", "gcra.86400s", "nonsense"]).unwrap();
    server.command(&["SET", "other", "nonsense"]).unwrap();

    let printed = doctor(&server, &["top"]);
    let lines: Vec<_> = printed.out.lines().collect();
    assert_eq!(printed.code, 0, "{printed:?}");
    assert_eq!(lines[0], "          in use  all free in  key and limit");
    for (line, (used, rest)) in lines[1..].iter().zip([
        ("80 % of 24 h ", "limiter:{t4:sbob2:i7}:api  gcra.86400s"),
        ("60 % of 24 h ", "limiter:{salice}:api  gcra.86400s"),
        ("59 % of 24 h ", "limiter:{scarol}:mail  one/gcra.86400s"),
        ("9 permits ", "limiter:{scarol}:mail  two/fixed-window.86400s"),
        ("4 permits ", carol[1]),
    ]) {
        assert!(
            line.trim_start().starts_with(used) && line.ends_with(rest),
            "{used} {rest}: {printed:?}"
        );
    }
    let foot = [
        "Read 5 keys, sorted by the part in use, and then those without one by their number; with --limits all limits \
         have a part.",
        "Skipped 1 value that is written by no limiter, such as in limiter:{sfake}:api: explain prints more.",
    ];
    assert_eq!(lines[lines.len() - 2..], foot);

    let printed = doctor(&server, &["top", "--name", "api", "--limit", "1"]);
    assert_eq!(
        (keys(&printed), keys_read(&printed)),
        (vec!["{t4:sbob2:i7}:api"], 3),
        "{printed:?}"
    );
    // No other policy whose name begins so.
    let printed = doctor(&server, &["top", "--name", "ap"]);
    assert_eq!(keys_read(&printed), 0, "{printed:?}");
}

#[tokio::test]
async fn the_limits_of_the_service_rank_all_algorithms() {
    let server = Server::start();
    take(&limiter(&server, "api", "10/d").await, "alice", 6).await;
    take(&limiter(&server, "mail", "10/d by sliding-log").await, "bob", 9).await;
    take(&limiter(&server, "mail", "100/d by sliding-log").await, "carol", 20).await;
    take(&limiter(&server, "files", "40/d by fixed-window").await, "dave", 30).await;
    take(&limiter(&server, "other", "40/d").await, "eve", 39).await;
    let file = TempFile::new(
        "top",
        "
        api = '10/d'
        files = '40/d by fixed-window'
        [mail]
        limit = '10/d by sliding-log'
        tiers = { premium = '100/d' }
        ",
    );
    let printed = doctor(&server, &["top", "--limits", &file.0]);
    let lines: Vec<_> = printed.out.lines().map(str::trim_start).collect();
    for (line, (used, key, end)) in lines[1..].iter().zip([
        (
            "20 of 10 permits ",
            "{scarol}:mail:sliding-log.86400s",
            " (20 of 100 permits by tier premium)",
        ),
        (
            "9 of 10 permits ",
            "{sbob}:mail:sliding-log.86400s",
            " (9 of 100 permits by tier premium)",
        ),
        ("30 of 40 permits ", "{sdave}:files", "  fixed-window.86400s"),
        ("6 of 10 permits ", "{salice}:api", "  gcra.86400s"),
    ]) {
        assert!(line.starts_with(used) && line.ends_with(&format!("{key}{end}")), "{printed:?}");
    }
    assert_eq!(keys(&printed).len(), 4, "{printed:?}");
    let text = "Read 5 keys, sorted by the part of the limit that is in use.\n\
                Skipped 1 limit that is not in the file, such as in limiter:{seve}:other: explain prints more.\n";
    assert!(printed.out.ends_with(text), "{printed:?}");
    let printed = doctor(&server, &["top", "--limits", &file.0, "--name", "files"]);
    assert_eq!((keys(&printed), keys_read(&printed)), (vec!["{sdave}:files"], 1), "{printed:?}");
}

/// Bytes that are replaced where a reply is read would be one subject.
#[tokio::test]
async fn subjects_that_are_not_utf_8_are_apart() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "10/d").await;
    for last in 0xf0_u8..=0xf9 {
        let subject = [b'a', last];
        take(&limiter, Key::from(&subject[..]), if last == 0xf4 { 10 } else { 4 }).await;
    }
    let file = TempFile::new("bytes", "api = '10/d'");
    let printed = doctor(&server, &["top", "--limits", &file.0]);
    let found = keys(&printed);
    assert_eq!((found.len(), found[0]), (10, "{ba\\xf4}:api"), "{printed:?}");
    assert!(printed.out.lines().nth(1).unwrap().starts_with("10 of 10 permits "), "{printed:?}");
    assert_eq!(printed.out.matches("\n 4 of 10 permits ").count(), 9, "{printed:?}");
}

#[tokio::test]
async fn nothing_is_written_and_the_work_is_bounded() {
    let server = Server::start();
    for number in 0..1_000 {
        let key = format!("limiter:{{i{number}}}:api");
        server.command(&["HSET", &key, "gcra.31622400s", "1700000000000000"]).unwrap();
    }
    server.command(&["CONFIG", "RESETSTAT"]).unwrap();
    let printed = doctor(&server, &["top", "--max-keys", "250"]);
    assert!(printed.out.contains("Not all keys were read"), "{printed:?}");
    let read = keys_read(&printed);
    assert!((250..=500).contains(&read), "{read}");
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    for command in ["set", "hset", "pexpire", "del", "unlink", "keys"] {
        assert!(!stats.contains(&format!("cmdstat_{command}:")), "{stats}");
    }
    let printed = doctor(&server, &["top", "--max-seconds", "0"]);
    assert!(printed.out.contains("Not all keys were read"), "{printed:?}");
}

#[tokio::test]
async fn all_nodes_of_a_cluster_are_read() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let limiter = clustered(&cluster, "api", "10/d by fixed-window").await;
    for number in 1..=9 {
        take(&limiter, number, u32::from(number == 5) + 1).await;
    }
    let printed = run(&["top", "--url", &url], &[], "");
    assert_eq!(keys(&printed).len(), 9, "{printed:?}");
    let key = "limiter:{i5}:api";
    let first = printed.out.lines().nth(1).unwrap();
    assert!(first.contains(" 2 permits ") && first.contains(key), "{printed:?}");

    let printed = run(&["explain", "--url", &url, key], &[], "");
    assert!(printed.out.contains("\n  2 permits in use; "), "{printed:?}");
    let printed = run(&["reset", "--url", &url, key], &[], "");
    assert!(printed.out.starts_with("Deleted"), "{printed:?}");
    let printed = run(&["report", "--url", &url], &[], "");
    assert!(printed.out.matches("\nok ").count() > 9, "{printed:?}");
}

#[tokio::test]
async fn a_node_that_does_not_reply_is_named_and_the_others_are_read() {
    let mut cluster = Cluster::start();
    let limiter = clustered(&cluster, "api", "10/d").await;
    let key = |number: &i32| format!("limiter:{{i{number}}}:api");
    let mut read = Vec::new();
    for number in 0..9 {
        take(&limiter, number, 1).await;
        if cluster.owner(cluster.slot_of(&key(&number))) != 2 {
            read.push(key(&number));
        }
    }
    assert!((1..9).contains(&read.len()), "{read:?}");
    let url = cluster.url();
    let name = format!("127.0.0.1:{}", cluster.node(2).port());
    cluster.node(2).pause();
    for is_dead in [false, true] {
        if is_dead {
            cluster.node_mut(2).kill();
        }
        // The node stays paused, so the command ends only if it gives that one up.
        let printed = run(&["top", "--url", &url], &[], "");
        let listed = keys(&printed).into_iter().map(|key| format!("limiter:{key}"));
        let mut listed: Vec<_> = listed.collect();
        listed.sort_unstable();
        assert_eq!((printed.code, &listed), (1, &read), "{printed:?}");
        let text = format!("\nPROBLEM: {name} was not read, so its subjects are missing: ");
        assert!(printed.out.contains(&text), "{printed:?}");
        assert!(!printed.out.contains("raise --max-keys"), "{printed:?}");
    }
    // None at all is an error.
    for node in 0..2 {
        cluster.node(node).pause();
    }
    let printed = run(&["top", "--url", &url], &[], "");
    assert_eq!((printed.code, printed.out.as_str()), (3, ""), "{printed:?}");
}

/// Subjects are what clients send: they must not write to the operator's terminal, nor forge lines.
#[tokio::test]
async fn control_characters_of_a_subject_are_printed_escaped() {
    const SUBJECT: &str = "a\u{1b}]0;owned\u{7}\u{9b}2J\nDeleted x";
    let server = Server::start();
    take(&limiter(&server, "login", "3/d").await, SUBJECT, 3).await;
    let shown = r"limiter:{sa\x1b]0;owned\x07\xc2\x9b2J\x0aDeleted x}:login";
    for command in ["top", "explain", "reset"] {
        let target: &[_] = if command == "top" { &[] } else { &[SUBJECT, "--name", "login"] };
        let printed = doctor(&server, &[&[command], target].concat());
        printed.has(0, [shown, "!\u{1b}", "!\u{7}", "!\u{9b}"]);
        let deleted = if command == "reset" { vec![shown.to_owned()] } else { vec![] };
        assert_eq!(printed.deleted(), deleted, "{printed:?}");
    }
    for command in ["explain", "reset"] {
        let printed = doctor(&server, &[command, shown]);
        printed.has(1, ["give the bytes themselves", "!no permits are in use"]);
    }
}

/// Other programs write fields and members, too.
#[tokio::test]
async fn control_characters_of_foreign_values_are_printed_escaped() {
    let server = Server::start();
    let (key, deadline) = ("limiter:{salice}:api", now(&server) + 1_000_000_000);
    for name in ["\u{1b}[2J/gcra.86400s", "\u{1b}[2J/fixed-window.86400s"] {
        let state =
            if name.contains("fixed") { format!("{deadline} 1") } else { deadline.to_string() };
        server.command(&["HSET", key, name, &state]).unwrap();
    }
    let set = format!("{key}:inflight");
    server.command(&["ZADD", &set, &deadline.to_string(), "\u{1b}[2J"]).unwrap();
    for arguments in [&["top"][..], &["explain", key], &["reset", key]] {
        let printed = doctor(&server, arguments);
        assert!(!printed.out.contains('\u{1b}'), "{printed:?}");
    }
}

/// A limit has no such span, whose end is later than any time.
#[tokio::test]
async fn no_foreign_field_ends_the_command() {
    let server = Server::start();
    take(&limiter(&server, "api", "3/d").await, "alice", 3).await;
    let time = "1700000000000000";
    let (fixed, gcra) = ("fixed-window.18446744073709551615s", "gcra.18446744073709551615s");
    let (state, leases) = (format!("{time} 1"), format!("{gcra}:leases"));
    server
        .command(&["HSET", "limiter:{sbob}:api", fixed, &state, gcra, time, &leases, time])
        .unwrap();
    doctor(&server, &["top"])
        .has(0, ["{salice}", "Skipped 3 values that are written by no limiter"]);
    doctor(&server, &["explain", "limiter:{sbob}:api"])
        .has(1, ["No limit of this version has such a field"]);
    doctor(&server, &["reset", "limiter:{sbob}:api"]).has(0, ["Deleted limiter:{sbob}:api\n"]);
}
