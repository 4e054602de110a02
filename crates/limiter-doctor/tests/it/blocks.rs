//! The keys of blocks, which are beside those of a limiter, say what they mean, and are reset with them.

use std::time::Duration;

use limiter_core::{Block, Blocks};
use limiter_rig::server::Server;
use serde_json::{Value, json};

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

fn blocks_of(json: &Value) -> Vec<&str> {
    let keys = json.as_array().unwrap().iter();
    keys.filter_map(|key| key["block"].as_str()).collect()
}

#[tokio::test]
async fn a_block_is_explained_beside_the_limit() {
    let server = Server::start();
    take(&limiter(&server, "login", "3/d").await, "alice", 1).await;
    strike(&server, "alice", 3).await;
    strike(&server, "bob", 2).await;
    for target in [&["alice", "--name", "login"][..], &["limiter:{salice}:login:gcra"]] {
        let printed = doctor(&server, &[&["explain"], target].concat());
        assert_eq!(printed.code, 0, "{printed:?}");
        for text in [
            "gcra: 1 permit in use.",
            "limiter:{salice}:login-levels:gcra\n",
            "  block      1 block is not forgotten\n",
            "limiter:{salice}:login-block:gcra\n",
        ] {
            assert!(printed.out.contains(text), "{text}: {printed:?}");
        }
        let (_, left) = printed.out.split_once("  block      blocked for ").unwrap();
        assert!(left.starts_with("4.9 min more\n") || left.starts_with("5 min more\n"), "{left}");
        assert!(!printed.out.contains("login-strikes"), "a block begins without strikes");
        let json = doctor(&server, &[&["--json", "explain"], target].concat()).json();
        assert_eq!(blocks_of(&json["keys"]), ["levels", "block"]);
    }
    // The strikes alone are found, and a key of a block has nothing beside it.
    let strikes = "limiter:{sbob}:login-strikes:sliding-log.3";
    for target in [&["bob", "--name", "login"][..], &[strikes]] {
        let printed = doctor(&server, &[&["explain"], target].concat());
        assert!(printed.out.starts_with(&format!("{strikes}\n")), "{printed:?}");
        assert!(printed.out.contains("  block      2 of 3 strikes\n"), "{printed:?}");
    }
    // Who has no block has no keys of one.
    let printed = doctor(&server, &["explain", "carol", "--name", "login", "--quota", "3/d"]);
    assert!(!printed.out.contains("login-"), "{printed:?}");
}

#[tokio::test]
async fn the_list_says_who_is_blocked() {
    let server = Server::start();
    strike(&server, "alice", 3).await;
    strike(&server, "bob", 2).await;
    let printed = doctor(&server, &["top", "--name", "login-block"]);
    let lines: Vec<_> = printed.out.lines().collect();
    assert!(lines[1].contains(" limiter:{salice}:login-block:gcra (blocked for "), "{printed:?}");
    assert_eq!((lines[2], lines.len()), ("", 4), "{printed:?}");
    let printed = doctor(&server, &["top", "--name", "login-strikes"]);
    let end = "limiter:{sbob}:login-strikes:sliding-log.3 (2 of 3 strikes)";
    assert!(printed.out.lines().nth(1).unwrap().ends_with(end), "{printed:?}");
    let json = doctor(&server, &["--json", "top"]).json();
    let mut found = blocks_of(&json["subjects"]);
    found.sort_unstable();
    assert_eq!(found, ["block", "levels", "strikes"]);
}

#[tokio::test]
async fn a_reset_lifts_the_block() {
    let server = Server::start();
    for subject in ["alice", "bob"] {
        take(&limiter(&server, "login", "3/d").await, subject, 1).await;
        strike(&server, subject, 4).await;
        assert!(blocks(&server).await.blocked_for(&subject.into()).await.unwrap() > 4 * MINUTE);
    }
    let printed = doctor(&server, &["reset", "alice", "--name", "login", "--quota", "3/d"]);
    let text = "Deleted limiter:{salice}:login:gcra\nDeleted limiter:{salice}:login-levels:gcra\n\
                Deleted limiter:{salice}:login-block:gcra\nThe subject is fresh.";
    assert!(printed.code == 0 && printed.out.starts_with(text), "{printed:?}");
    assert_eq!(blocks(&server).await.blocked_for(&"alice".into()).await.unwrap(), Duration::ZERO);
    assert!(blocks(&server).await.blocked_for(&"bob".into()).await.unwrap() > 4 * MINUTE);

    // The permits are back before the block ends, so it is found without the limit's key.
    server.command(&["DEL", "limiter:{sbob}:login:gcra"]).unwrap();
    let printed = doctor(&server, &["--json", "reset", "bob", "--name", "login"]);
    let deleted = json!(["limiter:{sbob}:login-levels:gcra", "limiter:{sbob}:login-block:gcra"]);
    assert_eq!((printed.code, &printed.json()["deleted"]), (0, &deleted), "{printed:?}");
    let printed = doctor(&server, &["reset", "bob", "--name", "login"]);
    assert!(printed.code == 1 && printed.out.starts_with("No key begins with "), "{printed:?}");
}
