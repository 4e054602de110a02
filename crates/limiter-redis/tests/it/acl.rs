//! Users with few permissions, and users that are none.

use limiter_core::ErrorKind;
use limiter_rig::server::Server;

use crate::{faults::recover, limiter, patient};

#[tokio::test]
async fn a_user_who_may_not_load_scripts_is_served() {
    let server = Server::start();
    let user = ["ACL", "SETUSER", "alice", "on", ">s:e/c@ret", "~limiter:*", "+@all", "-script"];
    server.command(&user).unwrap();
    let url = format!("redis://alice:s%3Ae%2Fc%40ret@127.0.0.1:{}", server.port());
    let limiter = patient(&url, 2).await;
    assert_eq!(recover(&limiter).await.0.remaining(), 1);
    // Nor does it have to: the cache of scripts is refilled by the checks.
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    assert_eq!(recover(&limiter).await.0.remaining(), 0);
}

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_reported() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all", "-evalsha"]).unwrap();
    let url = format!("redis://bob:secret@127.0.0.1:{}", server.port());
    let error = limiter(&url, 1).await.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("NOPERM"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_shown() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "alice", "on", ">right", "~*", "+@all"]).unwrap();
    let url = format!("redis://alice:wrong-secret@127.0.0.1:{}", server.port());
    let limiter = patient(&url, 1).await;
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let message = error.to_string();
    assert!(message.contains("not connected") && message.contains("WRONGPASS"), "{message}");
    for shown in [message, format!("{error:?}"), format!("{limiter:?}")] {
        assert!(!shown.contains("wrong-secret"), "{shown}");
    }
}
