//! Blocks of two processes that share a server: each has a limiter on a connection of its own.

use std::time::Duration;

use futures::future::join_all;
use limiter_core::{Block, Blocks, Cost, Demand, Key, decide};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;

use crate::{builder, key_of};

const MINUTE: Duration = Duration::from_secs(60);

const NONE: [Duration; 0] = [];

/// A process's limiter, and its blocks.
struct Process {
    limiter: RedisLimiter,
    blocks: Blocks,
}

/// Returns two processes whose checks are seen by each other at once.
async fn processes(server: &Server, block: &Block, lease: bool) -> [Process; 2] {
    let process = async || {
        let builder = builder(1_000).deadline(Duration::from_secs(10)).denial_cache(0).lease(lease);
        let limiter = builder.connect(&server.url()).await.unwrap();
        let blocks = Blocks::new(&limiter, block).unwrap();
        Process { limiter, blocks }
    };
    [process().await, process().await]
}

/// Strikes a key from both processes at the same time, and returns the lengths of the blocks that started.
async fn strike(processes: &[Process; 2], key: &Key<'_>, number: usize) -> Vec<Duration> {
    let strikes: Vec<_> = processes.iter().cycle().take(number).collect();
    let strikes = strikes.into_iter().map(|process| tokio::spawn(process.blocks.strike(key)));
    let struck = join_all(strikes).await.into_iter().map(|it| it.unwrap().unwrap());
    struck.flatten().collect()
}

/// Asks for a permit of the limiter and whether the key is blocked, and returns the wait.
async fn wait(Process { limiter, blocks }: &Process, key: &Key<'_>) -> Duration {
    let [strikes, block] = blocks.demands(key);
    let decision = decide(&[Demand::new(limiter, key, Cost::ONE), strikes, block]).await.unwrap();
    assert_eq!(decision.is_admitted(), decision.retry_after() == Some(Duration::ZERO));
    decision.retry_after().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_the_strikes_of_two_processes_starts_a_block() {
    let server = Server::start();
    let block = Block::after(20).within(5 * MINUTE).lasting(MINUTE).doubling(3 * MINUTE);
    let both = processes(&server, &block, false).await;
    let key = Key::from("alice");
    let stored = key_of(&both[0].limiter, "alice") + "-block";
    for length in [1, 2, 3, 3] {
        assert_eq!(strike(&both, &key, 19).await, NONE);
        for process in &both {
            assert_eq!(wait(process, &key).await, Duration::ZERO);
        }

        // 40 strikes, of which the first one starts the block, and the others do not count.
        assert_eq!(strike(&both, &key, 40).await, [length * MINUTE]);
        for process in &both {
            let used = process.limiter.peek("alice").await.unwrap().used();
            for wait in [wait(process, &key).await, process.blocks.blocked_for(&key).await.unwrap()]
            {
                assert!(wait <= length * MINUTE && wait > (length - 1) * MINUTE, "{wait:?}");
            }
            assert_eq!(process.limiter.peek("alice").await.unwrap().used(), used);
        }

        // The end of the block.
        assert_eq!(server.command(&["DEL", &stored]).unwrap().trim(), ":1", "{stored}");
    }

    assert_eq!(strike(&both, &key, 20).await, [3 * MINUTE]);
    both[0].blocks.reset(&key).await.unwrap();
    assert_eq!(wait(&both[1], &key).await, Duration::ZERO);
    assert_eq!(strike(&both, &key, 20).await, [MINUTE]);
}

/// A store leases permits of windows and GCRA in bulk, so that the last one may not be spent at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strikes_are_never_leased() {
    let server = Server::start();
    let block = Block::after(2_000).within(MINUTE).lasting(MINUTE);
    let both = processes(&server, &block, true).await;
    let key = Key::from("alice");
    for _ in 0..19 {
        assert_eq!(strike(&both, &key, 100).await, NONE);
    }
    assert_eq!(strike(&both, &key, 99).await, NONE);
    assert_eq!(strike(&both, &key, 100).await, [MINUTE]);
    assert!(wait(&both[1], &key).await > Duration::ZERO);
}

/// One call for each strike, and three more for a block with levels.
#[tokio::test]
async fn a_strike_is_one_call() {
    let server = Server::start();
    let block = Block::after(3).lasting(MINUTE).doubling(2 * MINUTE);
    let [Process { blocks, .. }, _] = processes(&server, &block, false).await;
    let key = Key::from("alice");
    let calls = || {
        let stats = server.command(&["INFO", "commandstats"]).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.unwrap().split(',').next().unwrap().parse::<u64>().unwrap()
    };
    // The server gets the scripts.
    for _ in 0..3 {
        blocks.strike(&key).await.unwrap();
    }
    blocks.reset(&key).await.unwrap();
    for (started, expected) in [(None, 1), (None, 1), (Some(MINUTE), 4)] {
        let before = calls();
        assert_eq!(blocks.strike(&key).await.unwrap(), started);
        assert_eq!(calls() - before, expected);
    }
}

#[tokio::test]
async fn no_block_starts_without_the_server() {
    let mut server = Server::start();
    let key = Key::from("alice");
    let limiter = builder(1_000).connect(&server.url()).await.unwrap();
    let blocks = Blocks::new(&limiter, &Block::after(1)).unwrap();
    server.kill();
    assert!(blocks.strike(&key).await.is_err());
}
