//! The sessions in `docs/states.md` print what a server prints.

pub(crate) mod document;

use std::{env, fs, sync::Arc};

use limiter_core::{Error, LimiterFuture, Timestamp};
use limiter_double::Reply;

use self::document::{Terminal, integer, repeated, text, texts};
use super::{client::Client, store::Store};
use crate::{Builder, RedisLimiter};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/states.md");

impl Terminal for Arc<Store> {
    type Client = Client;

    fn set(&self, now: Timestamp) {
        self.client.set_time(now);
    }

    fn limiter(&self, builder: Builder) -> RedisLimiter<Client> {
        builder.clock(self.client.clock()).build_on(self.client.clone()).unwrap()
    }

    fn wait_for<T>(&self, future: LimiterFuture<T>) -> Result<T, Error> {
        self.block_on(future)
    }

    fn print(&self, words: &[&str]) -> String {
        if let ["TTL", key] = words {
            let Reply::Integer(millis) = self.client.execute(&["PTTL", key]) else {
                panic!("no expiry of {key}");
            };
            return integer((millis + 500) / 1_000);
        }
        let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        match self.client.execute(words) {
            Reply::Integer(number) => integer(number),
            Reply::Bulk(bytes) => text(&utf8(&bytes)),
            Reply::Array(replies) => {
                let all = replies.iter().map(|reply| match reply {
                    Reply::Bulk(bytes) => utf8(bytes),
                    other => panic!("{other:?}"),
                });
                let all: Vec<_> = all.collect();
                texts(&all.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Reply::Status(_) => String::new(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn sessions_in_the_documents_are_real() {
    let written = fs::read_to_string(DOCUMENT).unwrap();
    let printed = repeated(&written, &Store::new());
    if env::var_os("LIMITER_WRITE_DOCS").is_some() {
        fs::write(DOCUMENT, &printed).unwrap();
        return;
    }
    let hint = "run this test with LIMITER_WRITE_DOCS=1 to write the sessions anew";
    assert!(written == printed, "{DOCUMENT} is out of date: {hint}\n{printed}");
}
