//! Credentials that change, and names of connections.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::future::join_all;
use limiter_core::{Policy, Quota};
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::{log::Log, server::Server};
use tokio::{runtime::Handle, time::sleep};

use crate::recover;

const RENEWAL: Duration = Duration::from_millis(20);

/// Adds a user to the server.
fn add(server: &Server, user: &str) {
    let password = format!(">of-{user}");
    server.command(&["ACL", "SETUSER", user, "on", &password, "~*", "+@all"]).unwrap();
}

/// Returns options whose provider returns the credentials of the user in `current`.
fn provided(current: &Arc<Mutex<String>>) -> ConnectOptions {
    let current = Arc::clone(current);
    ConnectOptions::new().with_credential_provider(RENEWAL, move || {
        let user = current.lock().unwrap().clone();
        async move {
            if user == "nobody" {
                return Err("the issuer is down".into());
            }
            let password = format!("of-{user}");
            Ok((user, password))
        }
    })
}

async fn limiter(server: &Server, options: &ConnectOptions) -> RedisLimiter {
    let client = connect_with(&server.url(), options).await.unwrap();
    // Hardly anything recovers during a test.
    let policy = Policy::gcra("test", Quota::new(1_000_000, Quota::MAX_WINDOW).unwrap());
    let builder = RedisLimiter::builder(policy);
    builder.deadline(Duration::from_secs(5)).build_on(client).unwrap()
}

/// The server closes the connections of a user that is deleted, so only those that got the next credentials in
/// time stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_change_under_load_lose_no_check() {
    let server = Server::start();
    add(&server, "user-0");
    let current = Arc::new(Mutex::new("user-0".to_owned()));
    let limiter = limiter(&server, &provided(&current)).await;

    let (over, decided) = (AtomicBool::new(false), AtomicU64::new(0));
    let checks = join_all((0..16).map(async |_| {
        while !over.load(Relaxed) {
            assert!(limiter.check("key").await.unwrap().is_admitted());
            decided.fetch_add(1, Relaxed);
        }
    }));
    let rotate = async {
        for number in 1..=10 {
            let (old, new) = (format!("user-{}", number - 1), format!("user-{number}"));
            add(&server, &new);
            new.clone_into(&mut current.lock().unwrap());
            let renewed = format!(" user={new} ");
            while !server.command(&["CLIENT", "LIST"]).unwrap().contains(&renewed) {
                sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(server.command(&["ACL", "DELUSER", &old]).unwrap(), ":1");
        }
        over.store(true, Relaxed);
    };
    tokio::join!(checks, rotate);
    let charged = limiter.peek("key").await.unwrap().used();
    assert!(charged > 100, "{charged}");
    assert_eq!(charged, decided.into_inner());

    // A connection that is made anew has the credentials of that moment.
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    assert!(recover(&limiter).await.0.is_admitted());
}

#[tokio::test]
async fn a_provider_that_fails_keeps_the_connection_and_is_logged() {
    let log = Log::start();
    let server = Server::start();
    add(&server, "alice");
    let current = Arc::new(Mutex::new("alice".to_owned()));
    let options = provided(&current).with_runtime(Handle::current());
    let limiter = limiter(&server, &options).await;
    "nobody".clone_into(&mut current.lock().unwrap());
    sleep(5 * RENEWAL).await;
    assert!(limiter.check("key").await.unwrap().is_admitted());
    let lines = log.lines();
    let told = lines.iter().find(|line| line.contains("the issuer is down"));
    assert!(
        told.is_some_and(|line| line.starts_with("WARN") && !line.contains("of-")),
        "{lines:?}"
    );
}

#[tokio::test]
async fn connections_have_a_name() {
    let server = Server::start();
    let named = |name: &str| format!(" name={name} ");
    let clients = async |limiter: &RedisLimiter| {
        let _ = recover(limiter).await;
        sleep(Duration::from_millis(20)).await;
        server.command(&["CLIENT", "LIST"]).unwrap()
    };
    let first = limiter(&server, &ConnectOptions::new()).await;
    let list = clients(&first).await;
    assert!(list.contains(&named("limiter")), "{list}");
    let second = limiter(&server, &ConnectOptions::new().with_name("orders")).await;
    let list = clients(&second).await;
    assert!(list.contains(&named("limiter")) && list.contains(&named("orders")), "{list}");
    // The next connection has the name, too.
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    let list = clients(&second).await;
    assert!(list.contains(&named("orders")), "{list}");

    // One who may not name a connection is served without.
    server.command(&["ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all", "-client"]).unwrap();
    let options = ConnectOptions::new().with_credentials("bob", "secret").with_name("bobs");
    let third = limiter(&server, &options).await;
    let list = clients(&third).await;
    assert!(list.contains(" user=bob ") && !list.contains(&named("bobs")), "{list}");

    let options = ConnectOptions::new().with_credential_provider(Duration::ZERO, || async {
        Ok(("bob".to_owned(), "secret".to_owned()))
    });
    let error = connect_with(&server.url(), &options).await.unwrap_err().to_string();
    assert!(error.contains("the renewal of credentials in the options is 0ns"), "{error}");
    let options = ConnectOptions::new().with_name("two words");
    let error = connect_with(&server.url(), &options).await.unwrap_err().to_string();
    assert!(
        error.contains("the name \"two words\" in the options is not printable ASCII"),
        "{error}"
    );
}
