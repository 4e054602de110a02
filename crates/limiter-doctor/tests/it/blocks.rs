//! The keys of blocks, which are beside those of a limiter, say what they mean, and are reset with them.

use std::time::Duration;

use limiter_core::{Block, Blocks};
use limiter_rig::server::Server;

use crate::{doctor, limiter, take};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns blocks whose states no process has cached.
async fn blocks(server: &Server) -> Blocks {
    let block = Block::after(3).within(10 * MINUTE).lasting(5 * MINUTE).doubling(60 * MINUTE);
    Blocks::new(&limiter(server, "login", "3/d").await, &block).unwrap()
}

async fn strike(server: &Server, subject: &str, strikes: u32) {
    let blocks = blocks(server).await;
    for _ in 0..strikes {
        blocks.strike(&subject.into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_block_is_explained_beside_the_limit() {
    let server = Server::start();
    take(&limiter(&server, "login", "3/d").await, "alice", 1).await;
    strike(&server, "alice", 3).await;
    strike(&server, "bob", 2).await;
    for target in [&["alice", "--name", "login"][..], &["limiter:{salice}:login"]] {
        let printed = doctor(&server, &[&["explain"], target].concat());
        assert_eq!(printed.code, 0, "{printed:?}");
        for text in [
            "gcra.86400s\n  34 % of 24 h is used up; ",
            "limiter:{salice}:login-levels\n",
            "  earlier blocks are forgotten in ",
            "limiter:{salice}:login-block\n",
        ] {
            assert!(printed.out.contains(text), "{text}: {printed:?}");
        }
        let (_, left) = printed.out.split_once("  blocked for ").unwrap();
        assert!(left.starts_with("4.9 min more\n") || left.starts_with("5 min more\n"), "{left}");
        assert!(!printed.out.contains("login-strikes"), "a block begins without strikes");
    }
    // The strikes alone are found, and a key of a block has nothing beside it.
    let strikes = "limiter:{sbob}:login-strikes:sliding-log.600s";
    for target in [&["bob", "--name", "login"][..], &[strikes]] {
        let printed = doctor(&server, &[&["explain"], target].concat());
        assert!(printed.out.starts_with(&format!("{strikes}\n")), "{printed:?}");
        assert!(printed.out.contains("\nsliding-log.600s\n  2 strikes\n"), "{printed:?}");
    }
    // Who has no block has no keys of one.
    let printed = doctor(&server, &["explain", "carol", "--name", "login"]);
    assert!(!printed.out.contains("login-"), "{printed:?}");
}

#[tokio::test]
async fn the_list_says_who_is_blocked() {
    let server = Server::start();
    strike(&server, "alice", 3).await;
    strike(&server, "bob", 2).await;
    let printed = doctor(&server, &["top", "--name", "login-block"]);
    let lines: Vec<_> = printed.out.lines().collect();
    assert!(lines[1].trim_start().starts_with("blocked  "), "{printed:?}");
    assert!(lines[1].ends_with("  limiter:{salice}:login-block  gcra.block"), "{printed:?}");
    assert_eq!((lines[2], lines.len()), ("", 4), "{printed:?}");
    let printed = doctor(&server, &["top", "--name", "login-strikes"]);
    let end = "limiter:{sbob}:login-strikes:sliding-log.600s (2 strikes)";
    assert!(printed.out.lines().nth(1).unwrap().ends_with(end), "{printed:?}");
    let printed = doctor(&server, &["top"]);
    for words in ["blocked  ", "(earlier blocks are forgotten in ", "(2 strikes)"] {
        assert!(printed.out.contains(words), "{printed:?}");
    }
}

#[tokio::test]
async fn a_reset_lifts_the_block() {
    let server = Server::start();
    for subject in ["alice", "bob"] {
        take(&limiter(&server, "login", "3/d").await, subject, 1).await;
        strike(&server, subject, 4).await;
        assert!(blocks(&server).await.blocked_for(&subject.into()).await.unwrap() > 4 * MINUTE);
    }
    let printed = doctor(&server, &["reset", "alice", "--name", "login"]);
    let text = "Deleted limiter:{salice}:login\nDeleted limiter:{salice}:login-levels\n\
                Deleted limiter:{salice}:login-block\nAll permits of the subject are free.";
    printed.begins(0, text);
    assert_eq!(blocks(&server).await.blocked_for(&"alice".into()).await.unwrap(), Duration::ZERO);
    assert!(blocks(&server).await.blocked_for(&"bob".into()).await.unwrap() > 4 * MINUTE);

    // The permits are back before the block ends, so it is found without the limit's key.
    server.command(&["DEL", "limiter:{sbob}:login"]).unwrap();
    let printed = doctor(&server, &["reset", "bob", "--name", "login"]);
    let deleted = ["limiter:{sbob}:login-levels", "limiter:{sbob}:login-block"];
    assert_eq!((printed.code, printed.deleted()), (0, deleted.map(str::to_owned).to_vec()));
    let printed = doctor(&server, &["reset", "bob", "--name", "login"]);
    printed.begins(1, "No key begins with ");
}

/// The service has limits of these names, which are not states of a block of `login`.
#[tokio::test]
async fn a_reset_deletes_no_limit_whose_name_ends_so() {
    let server = Server::start();
    let mut others = Vec::new();
    for (ending, limits) in [
        ("block", "3/d"),
        ("block", "3/d by sliding-log"),
        ("levels", "3/d by fixed-window"),
        ("levels", "short=3/d, long=30/10d"),
        ("strikes", "3/d"),
        ("strikes", "3/d by sub-windows 6 slots"),
    ] {
        let other = limiter(&server, &format!("login-{ending}"), limits).await;
        take(&other, "alice", 3).await;
        others.push(other);
    }
    take(&limiter(&server, "login", "3/d").await, "alice", 3).await;
    let target = ["reset", "alice", "--name", "login"];
    let printed = doctor(&server, &target);
    assert_eq!(printed.deleted(), ["limiter:{salice}:login"], "{printed:?}");
    for other in &others {
        assert_eq!(other.peek("alice").await.unwrap().remaining(), 0, "{printed:?}");
    }
    let left = ["limiter:{salice}:login-levels", "limiter:{salice}:login-block"];
    printed.has(0, left.map(|key| format!("Left {key}: ")).each_ref().map(String::as_str));
    doctor(&server, &target).begins(1, "Left ");
    let printed = doctor(&server, &["reset", left[1]]);
    assert!(printed.deleted().contains(&left[1].to_owned()), "{printed:?}");
}
