//! Commands that a user may not call, or that a server has disabled: nothing is stored without an
//! expiry, nothing is admitted beyond the quota, and the error names the command.

use std::time::Duration;

use limiter_core::{ErrorKind, Policy};
use limiter_redis::{RedisLimiter, connect, scripts::SCRIPT_COMMANDS};
use limiter_rig::server::Server;

pub(crate) const PERMITS: u64 = 2;

pub(crate) const POLICIES: [&str; 7] = [
    "2/d",
    "2/d by fixed-window",
    "2/d by sliding-counter",
    "2/d by sliding-log",
    "2/d by sub-windows 10 slots",
    "2/d, 3/2d",
    "2/d, 3/2d by sliding-log",
];

/// Returns a policy of some limits.
pub(crate) fn policy(text: &str) -> Policy {
    let limits = text.split(", ").map(|limit| Policy::parse(limit, limit).unwrap());
    match limits.clone().count() {
        1 => Policy::parse("test", text).unwrap(),
        _ => Policy::all_of("test", limits).unwrap(),
    }
}

/// Makes checks of some keys while a command can't be called.
async fn check_all(server: &Server, url: &str, command: &str) {
    let connection = connect(url).await.unwrap();
    for text in POLICIES {
        let builder = RedisLimiter::builder(policy(text));
        // The circuit breaker would hide what follows.
        let builder = builder.denial_cache(0);
        // One that a slow machine does not miss.
        let limiter =
            builder.deadline(Duration::from_secs(5)).build_on(connection.clone()).unwrap();
        let what = format!("{text} without {command}");
        let mut admitted = 0;
        for _ in 0..PERMITS + 2 {
            match limiter.check("key").await {
                Ok(decision) => admitted += u64::from(decision.is_admitted()),
                Err(error) => {
                    // The script may have written before.
                    assert_eq!(error.kind(), ErrorKind::Unexpected, "{what}: {error}");
                    assert!(error.to_string().contains(command), "{what}: {error}");
                }
            }
        }
        assert!(admitted <= PERMITS, "{what}: {admitted}");
        for key in limiter.stored_keys("key").unwrap() {
            let key = String::from_utf8(key).unwrap();
            let ttl = server.command(&["PTTL", &key]).unwrap_or_else(|_| "unknown".to_owned());
            assert!(!ttl.contains("-1\r") && ttl.trim() != ":-1", "{what}: {ttl}");
        }
    }
}

#[tokio::test]
async fn a_denied_command_is_named() {
    for command in SCRIPT_COMMANDS {
        let server = Server::start();
        let denied = format!("-{}", command.to_lowercase());
        let user = ["ACL", "SETUSER", "alice", "on", ">secret", "~*", "+@all", &denied];
        server.command(&user).unwrap();
        let url = format!("redis://alice:secret@127.0.0.1:{}", server.port());
        check_all(&server, &url, command).await;
    }
}

#[tokio::test]
async fn a_disabled_command_is_named() {
    for command in SCRIPT_COMMANDS {
        let server = Server::start_with(&["--rename-command", command, ""]);
        check_all(&server, &server.url(), command).await;
    }
}
