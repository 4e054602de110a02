//! `explain` on states that are written here, in the forms of the scripts.

use limiter_rig::server::Server;
use serde_json::Value;

use crate::{doctor, now};

#[test]
fn a_long_log_is_counted_without_its_entries_that_have_ended() {
    let server = Server::start();
    let now = now(&server);
    for (older, used, words) in [
        // 3,000 entries of 2 permits, of a log of a minute, the older half of which no longer counts.
        (3_000, 3_002, "sliding-log: 3002 permits in use. "),
        // 10,000 entries are read, or a few more.
        (30_000, 40_000, "sliding-log: at most 40000 permits in use. "),
    ] {
        let key = format!("limiter:{{i{older}}}:api:sliding-log.3");
        let head = format!("{now} 2 {} 9000 1 60000000 60000000", 2 * older);
        let mut elements = vec!["RPUSH".to_owned(), key.clone(), head.clone()];
        for number in 1..older {
            let ago = older - number;
            let at = if number < older / 2 { now - 90_000_000 - ago } else { now - ago };
            elements.push(format!("{at} 2"));
        }
        server.command(&elements.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        server.command(&["PEXPIRE", &key, "60000"]).unwrap();
        let json = &doctor(&server, &["explain", "--json", &key]).json()["keys"][0];
        let state = &json["state"];
        assert_eq!(
            (&state["permits_in_use"], &state["is_exact"], &json["algorithm"]),
            (&used.into(), &(older == 3_000).into(), &"sliding-log".into())
        );
        let printed = doctor(&server, &["explain", &key]);
        assert!(printed.out.contains(words), "{printed:?}");
        assert!(printed.out.contains(&format!("  stored     \"{head}\"\n")), "{printed:?}");
        let oldest = printed.out.contains("the time of the oldest entry that counts, ");
        assert_eq!(oldest, older == 3_000, "{printed:?}");
    }
    let printed = doctor(&server, &["top"]);
    assert!(printed.out.contains(" at most "), "{printed:?}");
}

#[test]
fn a_log_of_several_quotas_is_counted_by_the_one_that_is_given() {
    let server = Server::start();
    let now = now(&server);
    let ago = |seconds: u64| now - seconds * 1_000_000;
    let head =
        format!("{0} 1 9 9, 1 60000000 60000000 {1}, 1 20000000 60000000 {0}", ago(5), ago(30));
    let (second, first) = (format!("{} 3", ago(30)), format!("{} 5", ago(50)));
    let key = "limiter:{salice}:api:sliding-log.3";
    server.command(&["RPUSH", key, &head, &first, &second]).unwrap();
    server.command(&["PEXPIRE", key, "60000"]).unwrap();
    for (quota, words) in [
        (&[][..], "sliding-log: 9 permits in use. "),
        (&["--quota", "10/min by sliding-log"], "sliding-log: 9 of 10 permits in use, and 1 left."),
        (&["--quota", "5/20s by sliding-log"], "sliding-log: 1 of 5 permits in use, and 4 left."),
    ] {
        let printed = doctor(&server, &[&["explain", key], quota].concat());
        assert!(printed.code == 0 && printed.out.contains(words), "{printed:?}");
    }
}

#[test]
fn each_limit_of_a_policy_has_a_key() {
    let server = Server::start();
    let now = now(&server);
    let gcra = format!("{} 6000000 120000000", now + 6_000_000);
    let window = format!("{now} 3600000000 7200000000 7");
    let keys = ["limiter:{salice}:api/per%2Fhour:fixed-window.2", "limiter:{salice}:api:gcra"];
    server.command(&["SET", keys[0], &window, "PX", "60000"]).unwrap();
    server.command(&["SET", keys[1], &gcra, "PX", "60000"]).unwrap();
    server.command(&["SET", "limiter:{salice}:api2:gcra", &gcra, "PX", "60000"]).unwrap();
    let quotas = ["--quota", "api=10/min", "--quota", "per/hour=100/h by fixed-window"];
    for quotas in [&[][..], &quotas] {
        let explain = [&["explain", "alice", "--name", "api", "--json"], quotas].concat();
        let json = doctor(&server, &explain).json();
        let found = json["keys"].as_array().unwrap();
        assert_eq!(found.len(), 2, "{json}");
        // In the order of the limits, or without them of the keys.
        let (hour, minute) =
            if quotas.is_empty() { (&found[0], &found[1]) } else { (&found[1], &found[0]) };
        assert_eq!((&hour["key"], &minute["key"]), (&keys[0].into(), &keys[1].into()));
        assert_eq!((&hour["limit"], &minute["limit"]), (&"per/hour".into(), &Value::Null));
        let used = [hour, minute].map(|key| key["state"]["permits_in_use"].as_u64().unwrap());
        assert_eq!((used[0], used[1].min(1)), (7, 1), "{json}");
        let permits = if quotas.is_empty() { Value::Null } else { 100.into() };
        assert_eq!(hour["state"]["permits"], permits);
    }
    // A stored key takes the limit of its name, or the only one without a name.
    for (quotas, words) in [
        (&quotas[..], "fixed-window: 7 of 100 permits in use"),
        (&["--quota", "9/h by fixed-window"], "fixed-window: 7 of 9 permits in use"),
        (&quotas[..2], "fixed-window: 7 permits in use"),
    ] {
        let printed = doctor(&server, &[&["explain", keys[0]], quotas].concat());
        assert!(printed.out.contains(words), "{printed:?}");
        assert!(printed.out.contains("  policy     api\n  limit      per/hour\n"), "{printed:?}");
    }
    let printed = doctor(&server, &["explain", "alice", "--name", "api", quotas[2], quotas[3]]);
    assert!(printed.out.starts_with(keys[0]) && !printed.out.contains(keys[1]), "{printed:?}");
}

#[test]
fn windows_of_two_lengths_are_explained() {
    let server = Server::start();
    let now = now(&server);
    let state = format!("{now} 60000000 120000000 3, {now} 3600000000 7200000000 8");
    let key = "limiter:{salice}:api:fixed-window.2";
    server.command(&["SET", key, &state, "PX", "60000"]).unwrap();
    for (quota, words) in [
        (&[][..], "fixed-window: 8 permits in use. "),
        (
            &["--quota", "10/min by fixed-window"],
            "fixed-window: 3 of 10 permits in use, and 7 left. ",
        ),
        (
            &["--quota", "99/h by fixed-window"],
            "fixed-window: 8 of 99 permits in use, and 91 left. ",
        ),
    ] {
        let printed = doctor(&server, &[&["explain", key], quota].concat());
        assert!(printed.code == 0 && printed.out.contains(words), "{printed:?}");
        assert_eq!(printed.out.matches("the time since which the window counts").count(), 2);
    }
}

#[test]
fn leases_are_explained_with_the_key_beside_them() {
    let server = Server::start();
    let now = now(&server);
    let key = "limiter:{salice}:api:gcra";
    let leases = "limiter:{salice}:api:gcra:leases";
    let state = format!("{} 6000000 120000000", now + 6_000_000);
    server.command(&["SET", key, &state, "PX", "60000"]).unwrap();
    let ends = |end: &str| server.command(&["SET", leases, end, "PX", "60000"]).unwrap();
    ends(&(now + 3_600_000_000).to_string());
    for target in
        [&["explain", "alice", "--name", "api"][..], &["explain", key], &["explain", leases]]
    {
        let printed = doctor(&server, target);
        assert!(printed.code == 0 && printed.out.contains(": 1 permit in use. "), "{printed:?}");
        assert!(printed.out.contains("\n  leases     the latest ends in "), "{printed:?}");
        let note = format!("This is the key of the leases beside {key}.\n");
        assert_eq!(printed.out.starts_with(&note), target[1] == leases, "{printed:?}");
        assert_eq!(printed.out.matches("subject  ").count(), 1, "{printed:?}");
    }
    let json = doctor(&server, &["explain", key, "--json"]).json();
    assert!(json["keys"][0]["leases_end_in_ms"].as_u64().unwrap() > 3_000_000, "{json}");
    assert!(doctor(&server, &["top"]).out.contains("\nRead 1 keys, "));
    ends("1700000000000000");
    let printed = doctor(&server, &["explain", key]);
    assert!(printed.code == 0 && printed.out.contains("leases     all have ended"), "{printed:?}");
    for (end, message) in [
        ("nonsense", "The key of its leases has a value that no limiter writes."),
        ("1700000000000000", "The key of its leases has no expiry."),
    ] {
        server.command(&["SET", leases, end]).unwrap();
        let printed = doctor(&server, &["explain", key]);
        assert!(printed.code == 1 && printed.out.contains(message), "{printed:?}");
    }
}

#[test]
fn a_key_in_a_form_of_another_version_is_named_as_such() {
    let server = Server::start();
    for (family, message) in [
        ("sliding-log.2", "a form of an older version of limiter-redis"),
        ("gcra+sub-windows.2", "a form of an older version of limiter-redis"),
        ("fixed-window", "a form of an older version of limiter-redis"),
        ("sliding-log.4", "a form of a newer version of limiter-redis"),
        ("gcra.2", "a form of a newer version of limiter-redis"),
        ("nonsense", "No algorithm has such keys."),
    ] {
        let key = format!("limiter:{{salice}}:api:{family}");
        server.command(&["RPUSH", &key, "1767225630000000 1 3 1 60000000 60000000"]).unwrap();
        let printed = doctor(&server, &["explain", &key]);
        assert_eq!(printed.code, 1, "{printed:?}");
        assert!(printed.out.contains(message), "{printed:?}");
        assert!(!printed.out.contains("WRONGTYPE"), "{printed:?}");
    }
    let printed = doctor(&server, &["top"]);
    let text = "Skipped 5 of them, in a form of another version of limiter-redis, such as limiter:{salice}:";
    assert!(printed.out.contains(text), "{printed:?}");
    assert!(
        printed.out.contains("Skipped 1 of them, with values that no limiter writes"),
        "{printed:?}"
    );
}
