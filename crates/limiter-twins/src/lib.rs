//! A deterministic Redis in memory, for tests and simulations. It runs no Lua: a script that it knows by its text
//! is run by its *twin*, the same decision in Rust.
//!
//! The twins of windows and logs decode a state, let `limiter_core`'s own algorithm decide, and encode the state
//! again, so a script that agrees with its twin agrees with the core. GCRA's twin counts in the ticks of the
//! scripts, which differ from the core's.
//!
//! The clock is an argument of each command, so a schedule has the same outcome each time.
//!
//! ```
//! use limiter_twins::{Reply, Server};
//!
//! let mut server = Server::new([("reset", "return redis.call('DEL', KEYS[1])")]);
//! let now = 1_700_000_000_000_000;
//! let nothing = server.execute(&["EVAL", "return redis.call('DEL', KEYS[1])", "1", "key"], now);
//! assert_eq!(nothing, Reply::Integer(0));
//! server.execute(&["SET", "key", "value", "PX", "5"], now);
//! assert_eq!(server.execute(&["GET", "key"], now + 4_999), Reply::Text(b"value".to_vec()));
//! assert_eq!(server.execute(&["GET", "key"], now + 5_000), Reply::Nil);
//! ```

mod call;
mod commands;
mod keyspace;
mod limit;
mod limits;
mod reply;
mod server;
#[cfg(test)]
mod tests;
mod text;
mod twins;
mod units;

pub use keyspace::{Stored, Value};
pub use reply::Reply;
pub use server::Server;
