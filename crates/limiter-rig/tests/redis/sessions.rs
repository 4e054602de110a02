//! The sessions in `docs/states.md` print what a real server prints, too.

#[path = "../../../limiter-redis/src/tests/sessions/document.rs"]
mod document;

use std::time::Duration;

use limiter_core::{Error, LimiterFuture, Timestamp};
use limiter_redis::{Builder, Connection, RedisLimiter};
use limiter_rig::server::Server;
use tokio::runtime::Runtime;

use self::document::{Terminal, integer, repeated, text, texts};
use crate::{clocked::Clocked, connect_here};

struct Real {
    runtime: Runtime,
    server: Server,
    client: Clocked<Connection>,
}

impl Terminal for Real {
    type Client = Clocked<Connection>;

    fn set(&self, now: Timestamp) {
        self.client.set(now);
    }

    fn limiter(&self, builder: Builder) -> RedisLimiter<Clocked<Connection>> {
        builder.build_on(self.client.clone()).unwrap()
    }

    fn wait_for<T>(&self, future: LimiterFuture<T>) -> Result<T, Error> {
        self.runtime.block_on(future)
    }

    fn print(&self, words: &[&str]) -> String {
        let reply = self.server.command(words).unwrap();
        let mut lines = reply.lines();
        let first = lines.next().unwrap();
        let all: Vec<_> = lines.filter(|line| !line.starts_with('$')).collect();
        match first.split_at(1) {
            (":", number) => integer(number.parse().unwrap()),
            ("$", _) => text(&all.concat()),
            ("*", _) => texts(&all),
            ("+", _) => String::new(),
            _ => panic!("{reply:?}"),
        }
    }
}

#[test]
fn sessions_in_the_documents_are_those_of_a_real_server() {
    let runtime = Runtime::new().unwrap();
    let server = Server::start();
    let connection = runtime.block_on(connect_here(&server.url()));
    let client = Clocked::new(connection, Duration::ZERO);
    let written = include_str!("../../../limiter-redis/docs/states.md");
    let printed = repeated(written, &Real { runtime, server, client });
    assert!(written == printed, "a server prints:\n{printed}");
}
