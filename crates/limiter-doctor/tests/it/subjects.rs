//! Subjects that `explain` and `reset` once reported as fresh: those that are not UTF-8, and those of another node of
//! a cluster.

use std::{net::IpAddr, time::Duration};

use limiter_core::{Block, Blocks, Key};
use limiter_rig::server::{Cluster, Server};

use crate::{SECRET, TempFile, clustered, doctor, limiter, run, take};

#[cfg(unix)]
#[tokio::test]
async fn a_subject_that_is_not_utf_8_is_found() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    const SUBJECT: &[u8] = b"a\xff*\\b";
    let server = Server::start();
    let limiter = limiter(&server, "api", "3/d").await;
    // By a pattern, or if its bytes were replaced, this one would be found.
    take(&limiter, Key::from(b"a\xfe*\\b"), 1).await;
    take(&limiter, Key::from("a\u{fffd}*\\b".as_bytes()), 1).await;
    let (key, url) = (Key::from(SUBJECT), server.url());
    let stored = limiter.stored_keys(&key).unwrap().remove(0);
    let shown = "limiter:{ba\\xff*\\b}:api\n";
    let by_name: &[&str] = &["--name", "api", "--kind", "bytes"];
    for (target, stdin, rest) in [
        (SUBJECT, &b""[..], by_name),
        (b"-", &[SUBJECT, b"\n"].concat(), by_name),
        (&stored, b"", &[]),
        (b"-", &stored, &[]),
    ] {
        take(&limiter, &key, 2).await;
        let of = |command: &str| {
            let head = ["--url", &url, command].map(OsStr::new);
            let rest: Vec<_> = rest.iter().map(OsStr::new).collect();
            run(&[&head[..], &[OsStr::from_bytes(target)], &rest].concat(), &[], stdin)
        };
        let printed = of("explain");
        printed.begins(0, shown);
        let subject = "  subject  \"a\\\\xff*\\\\b\" (bytes)\n";
        assert!(printed.out.contains(subject), "{printed:?}");
        assert!(printed.out.contains("  67 % of 24 h is used up; "), "{printed:?}");
        assert!(!printed.out.contains("Nothing is stored"), "{printed:?}");
        let printed = of("reset");
        printed.begins(0, &format!("Deleted {shown}All permits"));
        assert_eq!(limiter.peek(&key).await.unwrap().remaining(), 3);
    }
    let text = ["--url", &url, "explain", "--name", "api"].map(OsStr::new);
    let printed = run(&[&text[..], &[OsStr::from_bytes(SUBJECT)]].concat(), &[], "");
    assert_eq!(printed.code, 2, "{printed:?}");
    assert!(printed.err.contains("it is not UTF-8; use --kind bytes"), "{printed:?}");
}

#[tokio::test]
async fn a_key_whose_bytes_were_replaced_where_it_was_shown_is_a_problem() {
    let server = Server::start();
    take(&limiter(&server, "api", "3/d").await, Key::from(b"a\xffb"), 1).await;
    for arguments in [
        &["limiter:{ba\u{fffd}b}:api"][..],
        &["limiter:{ba\\xffb}:api"],
        &["a\u{fffd}b", "--name", "api", "--kind", "bytes"],
    ] {
        for command in ["explain", "reset"] {
            let printed = doctor(&server, &[&[command], arguments].concat());
            printed.has(1, ["give the bytes themselves", "!no permits are in use"]);
        }
    }
    // A text may have such characters.
    take(&limiter(&server, "api", "3/d").await, "a\u{fffd}b", 1).await;
    let printed = doctor(&server, &["explain", "a\u{fffd}b", "--name", "api"]);
    printed.has(0, ["  34 % of 24 h is used up; "]);
}

/// Returns a subject of two parts, as a lockout's.
pub(crate) fn pair() -> Key<'static> {
    ("alice", IpAddr::from([192, 0, 2, 1])).into()
}

#[tokio::test]
async fn a_subject_of_several_parts_is_found_and_reset_by_its_key() {
    // As `.or` and `.or_try` mark the keys of their second extractor.
    let marked = Key::tuple([Key::tuple([]), 1_u32.into(), IpAddr::from([192, 0, 2, 1]).into()]);
    let hour = Duration::from_secs(3_600);
    for subject in [pair(), marked] {
        let server = Server::start();
        let login = async || limiter(&server, "login", "5/d").await;
        // Whose states no process has cached.
        let block = Block::after(1).within(hour).lasting(hour);
        let blocks = async || Blocks::new(&login().await, &block).unwrap();
        take(&login().await, &subject, 2).await;
        for is_blocked in [true, false] {
            if is_blocked {
                blocks().await.strike(&subject).await.unwrap();
            }
            let printed = doctor(&server, &["top", "--name", "login"]);
            let line = printed.out.lines().nth(1).unwrap();
            let key = line.split_whitespace().find(|word| word.starts_with("limiter:{")).unwrap();
            let printed = doctor(&server, &["explain", key]);
            printed.has(0, ["  40 % of 24 h is "]);
            let of_block = format!("{key}-block");
            // Of the key of a block, that key alone is deleted; of the limit's, the block with it.
            let printed = doctor(&server, &["top", "--name", "login-block"]);
            assert_eq!(printed.out.contains(&of_block), is_blocked, "{printed:?}");
            let target = if is_blocked { &of_block } else { key };
            let printed = doctor(&server, &["reset", target]);
            assert_eq!(printed.deleted(), [target], "{printed:?}");
            assert!(blocks().await.blocked_for(&subject).await.unwrap().is_zero());
        }
        assert_eq!(login().await.peek(&subject).await.unwrap().remaining(), 5);
        // The limit's key lifts a block also where nothing is stored there.
        blocks().await.strike(&subject).await.unwrap();
        let key =
            String::from_utf8(login().await.stored_keys(&subject).unwrap().remove(0)).unwrap();
        let printed = doctor(&server, &["reset", &key]);
        assert_eq!(printed.deleted(), [format!("{key}-block")], "{printed:?}");
        assert!(blocks().await.blocked_for(&subject).await.unwrap().is_zero());
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_does_not_say_that_the_subjects_of_others_are_fresh() {
    let cluster = Cluster::start();
    let limiter = clustered(&cluster, "login", "3/d").await;
    take(&limiter, "alice", 3).await;
    let owner = cluster.owner(cluster.slot_of("limiter:{salice}:login"));
    let other = cluster.node((owner + 1) % 3);
    for command in ["explain", "reset"] {
        let printed = doctor(other, &[command, "alice", "--name", "login"]);
        printed.fails(3, "use redis-cluster://");
    }
    let printed = doctor(cluster.node(owner), &["explain", "alice", "--name", "login"]);
    printed.has(0, ["  100 % of 24 h is used up; "]);
}

#[tokio::test]
async fn a_subject_is_found_on_both_nodes_while_its_slot_is_moved() {
    let cluster = Cluster::start();
    let (first, second) = (
        clustered(&cluster, "login", "3/d").await,
        clustered(&cluster, "login", "3/d by sliding-log").await,
    );
    let url = cluster.url();
    let of = |command: &str, more: &[&str]| {
        let words = ["--url", &url, command, "alice", "--name", "login"];
        run(&[&words, more].concat(), &[], "")
    };
    // By a search, and by the keys of these limits.
    let file = TempFile::new("moved", "login = '3/d by sliding-log'");
    let slot = cluster.slot_of("limiter:{salice}:login");
    take(&first, "alice", 3).await;
    let moving = cluster.begin_move(slot, (cluster.owner(slot) + 1) % 3);
    // A new key is on the new node.
    take(&second, "alice", 2).await;
    let keys = ["limiter:{salice}:login", "limiter:{salice}:login:sliding-log.86400s"];
    for has_moved in [false, true] {
        if has_moved {
            moving.move_keys();
        }
        for more in [&[][..], &["--limits", &file.0]] {
            let printed = of("explain", more);
            let found = printed.out.lines().filter(|line| line.starts_with("limiter:"));
            assert_eq!((printed.code, found.collect()), (0, keys.to_vec()), "{printed:?}");
        }
    }
    let printed = of("reset", &[]);
    assert_eq!(printed.deleted(), keys, "{printed:?}");
    moving.finish();
    assert_eq!(first.peek("alice").await.unwrap().remaining(), 3);
}

#[tokio::test]
async fn a_secret_is_never_printed() {
    let server = Server::start();
    let url = server.url();
    let variables = [("LIMITER_KEY_SECRET", SECRET)];
    for (kind, secret, code) in [
        ("integer", &b"sk-live-12345\n"[..], 2),
        ("address", b"sk-live-12345\n", 2),
        ("text", b"sk-live-12345\xff\n", 2),
        ("address", b"2001:db8:1:2::5\n", 0),
        ("address", b"2001:db8:1:2::5/64\n", 0),
    ] {
        let arguments =
            ["--url", &url, "explain", "-", "--secret", "--kind", kind, "--name", "api"];
        let printed = run(&arguments, &variables, secret);
        let text = format!("{}{}", printed.out, printed.err);
        assert!(!text.contains("sk-live") && !text.contains("2001:db8:1:2"), "{printed:?}");
        assert_eq!(printed.code, code, "{printed:?}");
    }
}
