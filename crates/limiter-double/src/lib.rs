//! A Redis in the process, for tests and simulations. It runs the text of scripts by Lua 5.1, as a server does.
//!
//! A [`Server`] has a server's rules: a command's arity, flags and errors, `denyoom` until a script's first write,
//! users who may not call a command, `NOSCRIPT`, `READONLY`, `LOADING` and `BUSY`. Those of a [`Cluster`] have slots
//! that move, too. The clock is an argument of each command, so a schedule has the same outcome each time.
//!
//! `limiter-rig` compares it with real servers, by the same calls on both.
//!
//! ```
//! use limiter_double::{Reply, Server};
//!
//! let mut server = Server::default();
//! let now = 1_700_000_000_000_000;
//! let script = "return redis.call('HSET', KEYS[1], 'field', ARGV[1] * 2)";
//! assert_eq!(server.execute(&["EVAL", script, "1", "key", "21"], now), Reply::Integer(1));
//! assert_eq!(server.execute(&["PEXPIRE", "key", "5"], now), Reply::Integer(1));
//! let field = ["HGET", "key", "field"];
//! assert_eq!(server.execute(&field, now + 5_999), Reply::Bulk(b"42".to_vec()));
//! assert_eq!(server.execute(&field, now + 6_000), Reply::Nil);
//! ```

mod cluster;
mod command;
mod commands;
mod engine;
mod keyspace;
mod number;
mod reply;
mod server;
mod store;
mod version;

pub use cluster::{Cluster, slot};
pub use command::{Command, commands};
pub use keyspace::{Stored, Value};
pub use reply::Reply;
pub use server::Server;
pub use store::Refusal;
pub use version::Version;
