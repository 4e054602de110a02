//! `reset` deletes one subject's state.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Key, Policy, Source};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::server::{Cluster, Server};

use crate::{SECRET, TempFile, clustered, doctor, limiter, run, take};

#[tokio::test]
async fn a_subject_is_fresh_after_a_reset_and_no_other_is() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "3/d").await;
    for subject in ["alice", "bob"] {
        take(&limiter, subject, 3).await;
    }
    let printed = doctor(&server, &["reset", "alice", "--name", "api"]);
    let text = "Deleted limiter:{salice}:api\nAll permits of the subject are free. A process that has cached a denial \
                refuses it for at most one more second.\n";
    assert_eq!((printed.code, printed.out.as_str()), (0, text), "{printed:?}");
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 3);
    assert_eq!(limiter.peek("bob").await.unwrap().remaining(), 0);

    let printed = doctor(&server, &["reset", "limiter:{salice}:api"]);
    let text = "No key begins with limiter:{salice}:api, so nothing was deleted. Check the subject, the --kind, the \
                --prefix and the policy's name, or give the key as `top` prints it.\n";
    assert_eq!((printed.code, printed.out.as_str()), (1, text), "{printed:?}");

    for (code, deleted) in [(0, vec!["limiter:{sbob}:api".to_owned()]), (1, vec![])] {
        let printed = doctor(&server, &["reset", "limiter:{sbob}:api"]);
        assert_eq!((printed.code, printed.deleted()), (code, deleted));
    }
}

/// Policies by all algorithms, and one of several limits.
fn all_limits() -> impl Iterator<Item = String> {
    let several = "log[i]n*:=3/d, long/lasting=20/10d by sliding-log".to_owned();
    Algorithm::one_of_each().map(|by| format!("3/d by {by}")).chain([several])
}

#[tokio::test]
async fn a_subject_is_reset_by_every_algorithm_without_a_quota() {
    let server = Server::start();
    for limits in all_limits() {
        let limits = limits.as_str();
        let locked = limiter(&server, "log[i]n*:", limits).await;
        // Keys that a pattern without escapes would match.
        let others =
            [limiter(&server, "login", limits).await, limiter(&server, "log[i]n*:x", limits).await];
        for limiter in others.iter().chain([&locked]) {
            take(limiter, "alice?", 3).await;
        }
        take(&locked, "alice!", 3).await;
        let printed = doctor(&server, &["reset", "alice?", "--name", "log[i]n*:"]);
        assert_eq!(printed.code, 0, "{printed:?}");
        let rest = printed.out.split_once("All permits of the subject are free.").unwrap().1;
        assert!(rest.starts_with(" A process"), "{printed:?}");
        let keys = locked.stored_keys("alice?").unwrap().into_iter();
        let keys: Vec<_> = keys.map(|key| String::from_utf8(key).unwrap()).collect();
        assert_eq!(printed.deleted(), keys);
        assert_eq!(locked.peek("alice?").await.unwrap().remaining(), 3, "{limits}");
        assert_eq!(locked.peek("alice!").await.unwrap().remaining(), 0, "{limits}");
        for limiter in &others {
            assert_eq!(limiter.peek("alice?").await.unwrap().remaining(), 0, "{limits}");
        }
        server.command(&["FLUSHALL"]).unwrap();
    }
}

#[tokio::test]
async fn all_keys_of_a_subject_are_reset_and_named() {
    let server = Server::start();
    for limits in ["3/d", "3/d by fixed-window"] {
        take(&limiter(&server, "login", limits).await, "alice", 3).await;
    }
    take(&limiter(&server, "login", "3/d by sliding-log").await, "alice", 3).await;
    let log = "limiter:{salice}:login:sliding-log.86400s";
    let printed = doctor(&server, &["explain", "alice", "--name", "login"]);
    for words in ["\n  100 % of 24 h is used up", "fixed-window.86400s\n  3 permits in use", log] {
        assert!(printed.out.contains(words), "{printed:?}");
    }
    let printed = doctor(&server, &["reset", "alice", "--name", "login"]);
    assert_eq!(printed.deleted(), ["limiter:{salice}:login", log]);

    let printed = doctor(&server, &["reset", "alice", "--name", "login"]);
    let text = "No key begins with limiter:{salice}:login, so nothing was deleted. Check the subject, the --kind, the \
                --prefix and the policy's name, or give the key as `top` prints it.\n";
    assert_eq!((printed.code, printed.out.as_str()), (1, text), "{printed:?}");
}

/// Processes that lease permits spend what they hold after a reset, of any algorithm of which permits are leased.
#[tokio::test]
async fn leases_that_processes_hold_are_named() {
    let server = Server::start();
    let if_any = ["If processes lease permits of ", ", they may still spend what they hold, for "];
    for (limits, [begin, end]) in [
        ("1000/10s", ["Processes may still spend what they leased of ", ", for at most "]),
        ("1000/10s by fixed-window", if_any),
        ("1000/10s by aligned-window", if_any),
        ("1000/10s by sliding-counter", if_any),
    ] {
        let connection = connect(&server.url()).await.unwrap();
        let builder = RedisLimiter::builder(Policy::parse("api", limits).unwrap());
        let limiter = builder.deadline(Duration::from_secs(5)).lease(true);
        let limiter = limiter.build_on(connection).unwrap();
        let key = String::from_utf8(limiter.stored_keys("alice").unwrap().remove(0)).unwrap();
        let identity = &limiter.policy().identities()[0];
        // A lease lasts for a second, which may pass on a busy machine.
        for attempt in 1.. {
            while limiter.check("alice").await.unwrap().source() != Source::Lease {}
            let printed = doctor(&server, &["reset", &key]).out;
            if printed.contains(&format!("{begin}{identity}{end}")) {
                break;
            }
            assert!(attempt < 10, "{printed}");
        }
    }
    let logged = limiter(&server, "api", "1000/10s by sliding-log").await;
    take(&logged, "alice", 3).await;
    let key = String::from_utf8(logged.stored_keys("alice").unwrap().remove(0)).unwrap();
    let printed = doctor(&server, &["reset", &key]);
    assert!(printed.out.ends_with("one more second.\n"), "{printed:?}");
}

#[tokio::test]
async fn a_subject_of_a_cluster_is_found_on_its_own_node_alone() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let limiter = clustered(&cluster, "login", "3/d by sliding-counter").await;
    for number in 0..9 {
        take(&limiter, number, 3).await;
    }
    // Not the node of the address.
    let key = |number: &i32| format!("limiter:{{i{number}}}:login");
    let owner = |number: &i32| cluster.owner(cluster.slot_of(&key(number)));
    let (dead, alive) =
        ((0..9).find(|n| owner(n) == 2).unwrap(), (0..9).find(|n| owner(n) == 1).unwrap());
    cluster.node(2).pause();
    let reset = |number: i32| {
        let number = number.to_string();
        run(&["--url", &url, "reset", &number, "--kind", "integer", "--name", "login"], &[], "")
    };
    let printed = reset(alive);
    assert!(printed.out.starts_with(&format!("Deleted {}\n", key(&alive))), "{printed:?}");
    let printed = reset(dead);
    assert_eq!((printed.code, printed.out.as_str()), (3, ""), "{printed:?}");
    cluster.node(2).resume();
    // A slot that no node serves. Its owner deletes it first, so that it does not claim it again.
    let slot = cluster.slot_of(&key(&alive)).to_string();
    for node in [1, 0, 2] {
        cluster.node(node).command(&["CLUSTER", "DELSLOTS", &slot]).unwrap();
    }
    let printed = reset(alive);
    assert_eq!(printed.code, 3, "{printed:?}");
    assert!(printed.err.contains("no known node of the cluster serves the slot"), "{printed:?}");
}

#[tokio::test]
async fn each_kind_of_subject_is_found() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "3/d by sliding-log").await;
    let address: std::net::IpAddr = "2001:db8::1".parse().unwrap();
    let TempFile(file) = &TempFile::new("secret", &format!("{SECRET}\n"));
    let keys: [(Key<'_>, &[&str], &str); 6] = [
        (Key::from("x"), &["x"], ""),
        (Key::from(b"x"), &["x", "--kind", "bytes"], ""),
        (Key::from(-7), &["--kind", "integer", "--", "-7"], ""),
        (Key::from(address), &["2001:db8::1", "--kind", "address"], ""),
        (Key::secret("sk-1"), &["-", "--secret", "--key-secret-file", file], "sk-1\n"),
        (Key::from("{long}"), &["{long}"], ""),
    ];
    for (key, arguments, stdin) in keys {
        let _ = limiter.check_n(&key, Cost::ONE).await.unwrap();
        let url = server.url();
        let command = ["--url", &url, "reset", "--name", "api"];
        let printed = run(&[&command, arguments].concat(), &[], stdin);
        assert!(printed.out.contains("Deleted limiter:{"), "{key:?}: {printed:?}");
        assert!(!printed.out.contains("sk-1"));
        assert_eq!(limiter.peek(&key).await.unwrap().remaining(), 3, "{key:?}");
    }
}

#[tokio::test]
async fn an_ipv6_client_is_found_by_its_address_or_its_network() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "3/d by fixed-window").await;
    let address = |text: &str| Key::from(text.parse::<std::net::IpAddr>().unwrap());
    let both = "2001:db8:1:2::5 is read as this address, and as its network 2001:db8:1:2::/64, by which \
                limiters count IPv6 clients.\n";
    let network = "2001:db8:1:2::5/64 is read as 2001:db8:1:2::, which is how limiters store \
                   it.\n";
    let wide = "2001:db8:1:2::5/56 is read as 2001:db8:1::, which is how limiters store it.\n";
    for (stored, given, note) in [
        ("2001:db8:1:2::", "2001:db8:1:2::5", both),
        ("2001:db8:1:2::5", "2001:db8:1:2::5", both),
        ("2001:db8:1:2::", "2001:db8:1:2::", ""),
        ("2001:db8:1:2::", "2001:db8:1:2::5/64", network),
        ("2001:db8:1::", "2001:db8:1:2::5/56", wide),
        ("192.0.2.1", "::ffff:192.0.2.1", ""),
    ] {
        let limiter_key = address(stored);
        let _ = limiter.check_n(&limiter_key, Cost::ONE).await.unwrap();
        let target = [given, "--kind", "address", "--name", "api"];
        let printed = doctor(&server, &[&["explain"][..], &target].concat());
        let key = format!("limiter:{{a{stored}}}:api\n");
        let text = if note.is_empty() { key.clone() } else { format!("{note}\n{key}") };
        assert!(printed.out.starts_with(&text), "{printed:?}");
        assert!(!printed.out.contains("Nothing"), "{printed:?}");
        let printed = doctor(&server, &[&["reset"][..], &target].concat());
        let text = format!("{note}Deleted {key}All permits of the subject are free.");
        assert!(printed.out.starts_with(&text), "{printed:?}");
        assert_eq!(limiter.peek(&limiter_key).await.unwrap().remaining(), 3, "{given}");
    }
}

#[tokio::test]
async fn a_key_of_another_program_is_left_unless_it_is_given() {
    let server = Server::start();
    let (key, foreign) = ("limiter:{salice}:api", "limiter:{salice}:api:cart");
    let api = limiter(&server, "api", "3/d").await;
    server.command(&["SET", foreign, "precious"]).unwrap();
    let left = "Left limiter:{salice}:api:cart: ";
    for target in [&["alice", "--name", "api"][..], &[key]] {
        take(&api, "alice", 3).await;
        let printed = doctor(&server, &[&["reset"], target].concat());
        assert_eq!((printed.code, printed.deleted()), (0, vec![key.to_owned()]), "{printed:?}");
        assert!(printed.out.contains(left), "{printed:?}");
    }
    doctor(&server, &["reset", key]).begins(1, left);
    let printed = doctor(&server, &["reset", foreign]);
    assert_eq!(printed.deleted(), [foreign], "{printed:?}");
}
