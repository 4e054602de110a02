//! `top` lists who uses most.

use std::time::Duration;

use limiter_core::Key;
use limiter_rig::server::{Cluster, Server};
use serde_json::Value;

use crate::{doctor, limiter, now, run, take};

/// Returns the keys in a list, and whether it is complete.
fn keys(json: &Value) -> (Vec<&str>, bool) {
    let subjects = json["subjects"].as_array().unwrap();
    let keys = subjects.iter().map(|subject| subject["key"].as_str().unwrap());
    (keys.collect(), json["is_complete"].as_bool().unwrap())
}

#[tokio::test]
async fn subjects_are_sorted_by_permits_or_by_the_share_of_their_limit() {
    let server = Server::start();
    let api = limiter(&server, "api", "10/d").await;
    take(&api, "alice", 6).await;
    take(&api, Key::tuple(["bob".into(), 7.into()]), 8).await;
    let now = now(&server);
    let day = 86_400_000_000_u64;
    let carol = ["limiter:{scarol}:mail/ten:sliding-log.3", "limiter:{scarol}:mail/one:gcra"];
    let head = format!("{now} 4 4 100 1 {} {}", 10 * day, 10 * day);
    server.command(&["RPUSH", carol[0], &head]).unwrap();
    let gcra = format!("{} {} {}", now + 3 * day / 5, day / 5, 2 * day);
    server.command(&["SET", carol[1], &gcra]).unwrap();
    server.command(&["SET", "limiter:{sfake}:api:gcra", "nonsense"]).unwrap();
    server.command(&["SET", "other", "nonsense"]).unwrap();

    let printed = doctor(&server, &["top"]);
    let lines: Vec<_> = printed.out.lines().collect();
    assert_eq!(printed.code, 0, "{printed:?}");
    assert_eq!(lines[0], "    permits in use    fresh in  key");
    for (line, (used, key)) in lines[1..].iter().zip([
        ("8", "limiter:{t4:sbob2:i7}:api:gcra"),
        ("6", "limiter:{salice}:api:gcra"),
        ("4", carol[0]),
        ("3", carol[1]),
    ]) {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!((words[0], words[words.len() - 1]), (used, key), "{printed:?}");
    }
    let foot = [
        "Read 5 keys, sorted by permits in use; --name and --quota sort by the share of the limit.",
        "Skipped 1 of them, with values that no limiter writes, such as limiter:{sfake}:api:gcra: \
         explain prints more.",
    ];
    assert_eq!(lines[lines.len() - 2..], foot);

    let limits = ["--quota", "ten=100/10d by sliding-log", "--quota", "one=5/d"];
    let printed = doctor(&server, &[&["top", "--name", "mail"], &limits[..]].concat());
    let lines: Vec<_> = printed.out.lines().map(str::trim_start).collect();
    assert!(lines[1].starts_with("3 of 5 ") && lines[1].ends_with(carol[1]), "{printed:?}");
    assert!(lines[2].starts_with("4 of 100 ") && lines[2].ends_with(carol[0]), "{printed:?}");
    for (one, key) in [("ten=100/10d by sliding-log", carol[0]), ("one=5/d", carol[1])] {
        let json = doctor(&server, &["top", "--json", "--name", "mail", "--quota", one]).json();
        assert_eq!(keys(&json), (vec![key], true));
        assert_eq!(json["subjects"][0]["limit"], one.split_once('=').unwrap().0);
        assert_eq!(json["keys_read"], 1);
    }
    let printed = doctor(&server, &["top", "--json", "--name", "api", "--limit", "1"]);
    let json = printed.json();
    assert_eq!(keys(&json), (vec!["limiter:{t4:sbob2:i7}:api:gcra"], true));
    let first = &json["subjects"][0];
    assert_eq!(first["permits_in_use"], 8);
    assert_eq!(first["subject"]["value"][1]["value"], "7");
    assert_eq!((&first["limit"], &first["permits"]), (&Value::Null, &Value::Null));
    assert_eq!((&json["keys_read"], &json["keys_skipped"]), (&3.into(), &1.into()));
}

#[tokio::test]
async fn nothing_is_written_and_the_work_is_bounded() {
    let server = Server::start();
    let state = "9999999999000000 1000000 360000000000000";
    for number in 0..1_000 {
        server.command(&["SET", &format!("limiter:{{i{number}}}:api:gcra"), state]).unwrap();
    }
    server.command(&["CONFIG", "RESETSTAT"]).unwrap();
    let printed = doctor(&server, &["top", "--max-keys", "250", "--json"]);
    let json = printed.json();
    assert!(!keys(&json).1, "{printed:?}");
    let read = json["keys_read"].as_u64().unwrap();
    assert!((250..=500).contains(&read), "{read}");
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    for command in ["set", "pexpire", "del", "keys"] {
        assert!(!stats.contains(&format!("cmdstat_{command}:")), "{stats}");
    }
    let printed = doctor(&server, &["top", "--max-seconds", "0"]);
    assert!(printed.out.contains("Not all keys were read"), "{printed:?}");
}

#[tokio::test]
async fn all_nodes_of_a_cluster_are_read() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let connection = limiter_redis::connect(&url).await.unwrap();
    let policy = limiter_core::Policy::parse("api", "10/d by fixed-window").unwrap();
    let limiter = limiter_redis::RedisLimiter::builder(policy);
    let limiter = limiter.deadline(Duration::from_secs(5)).build_on(connection).unwrap();
    for number in 1..=9 {
        take(&limiter, number, u32::from(number == 5) + 1).await;
    }
    let printed = run(&["top", "--url", &url, "--json"], &[], "");
    let json = printed.json();
    let (keys, is_complete) = keys(&json);
    assert_eq!((keys.len(), keys[0], is_complete), (9, "limiter:{i5}:api:fixed-window.2", true));

    let printed = run(&["explain", "--url", &url, keys[0], "--json"], &[], "");
    assert_eq!(printed.json()["keys"][0]["state"]["permits_in_use"], 2, "{printed:?}");
    let printed = run(&["reset", "--url", &url, keys[0]], &[], "");
    assert!(printed.out.starts_with("Deleted"), "{printed:?}");
    let printed = run(&["report", "--url", &url, "--json"], &[], "");
    assert!(printed.json()["findings"].as_array().unwrap().len() > 9, "{printed:?}");
}

#[tokio::test]
async fn a_node_that_does_not_reply_is_named_and_the_others_are_read() {
    let mut cluster = Cluster::start();
    let policy = limiter_core::Policy::parse("api", "10/d").unwrap();
    let connection = limiter_redis::connect(&cluster.url()).await.unwrap();
    let limiter = limiter_redis::RedisLimiter::builder(policy);
    let limiter = limiter.deadline(Duration::from_secs(5)).build_on(connection).unwrap();
    let key = |number: &i32| format!("limiter:{{i{number}}}:api:gcra");
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
        let printed = run(&["top", "--url", &url, "--json"], &[], "");
        let json = printed.json();
        let (mut listed, is_complete) = keys(&json);
        listed.sort_unstable();
        assert_eq!(
            (printed.code, is_complete, listed),
            (1, false, read.iter().map(String::as_str).collect())
        );
        assert_eq!(json["nodes_not_read"][0]["node"], name.as_str(), "{json}");
        let printed = run(&["top", "--url", &url], &[], "");
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
