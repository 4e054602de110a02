//! No error, log line, event or `Debug` output shows a password, however an address is written.

use std::{
    error::Error,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::{log::Log, server::Server};
use tokio::{runtime::Handle, time::sleep};

use crate::daily;

/// The secrets that are planted. No text must contain one of them, also not in part.
const SECRETS: [&str; 3] = ["hunter2", "s3cr3t", "tr0ub4dor"];

fn assert_hidden(shown: &str, what: &str) {
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{what} is shown as {shown}");
    }
}

/// Returns all that an error shows.
fn texts(error: &dyn Error) -> String {
    let mut texts = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(error) = source {
        texts += &format!(" {error} {error:?}");
        source = error.source();
    }
    texts
}

#[tokio::test]
async fn addresses_show_no_value_that_may_be_secret() {
    let log = Log::start();
    for begin in ["redis", "rediss", "valkey", "redis-sentinel", "redis-cluster", "redis+unix"] {
        for rest in [
            "alice:hunter2@host:1",
            "hunter2:s3cr3t@host:1/0",
            "alice:hunter2/s3cr3t@host:1",
            "alice:p@hunter2/s3cr3t@host:1",
            "alice:p@hunter2?s3cr3t@host:1",
            "alice:12/s3cr3t@host",
            "alice:12?x=s3cr3t@host",
            "alice:hunter2?s3cr3t@host:1",
            "alice:hunter2#s3cr3t@host:1",
            "alice:hunter2",
            "alice:hunter2/0",
            ":hunter2",
            "hunter2@",
            "alice@host/hunter2",
            "host:1/hunter2",
            "host:1#hunter2",
            "host:1?hunter2",
            "host:1?=hunter2",
            "host:1?password=hunter2",
            "host:1?pasword=hunter2",
            "host:1?password=a&hunter2=s3cr3t",
            "host:1?password=a%26hunter2",
            "host:1?Password=hunter2&node=host2:2",
            "host:1?db=hunter2",
            "host:1?node=hunter2:s3cr3t@host2:2",
            "host:1?node=host2:hunter2",
            "host:1?node=u:hunter2@s3cr3t@host2:1",
            "host:1?sentinelServiceName=main&sentinelPassword=hunter2",
            "host:1?sentinelServiceName=main&sentinelPassword=a&hunter2",
            "host:1?sentinelServiceName=main&sentinelPassword=a&hunter2=s3cr3t",
            "host:1?sentinelServiceName=main&sentinelPasword=hunter2",
            "host:1?sentinelServiceName=main&sentinelUsername=hunter2",
            "host:1?sentinelServiceName=main&%73entinelPassword=hunter2",
            "/run/redis.sock?password=hunter2",
            "/run/redis.sock?db=hunter2",
            "/run/redis.sock?hunter2",
            "/run/redis.sock#hunter2",
            ":hunter2@/run/redis.sock",
            "alice:hunter2@host/run/redis.sock?db=1",
            "[::1:hunter2",
            "a b:hunter2@h ost:s3cr3t",
            "alice:hunter2@ho%st",
        ] {
            shows_nothing(&format!("{begin}://{rest}")).await;
        }
    }
    for url in [
        "hunter2",
        "alice:hunter2@host",
        "alice:hunter2",
        "redis:/alice:hunter2@host",
        "redis:alice:hunter2@host",
        "redis//:hunter2@host",
        "reddis://:hunter2@host",
        "http://alice:hunter2@host",
        "hunter2://s3cr3t",
        "alice:hunter2://s3cr3t@host",
        " redis://alice:hunter2@host",
    ] {
        shows_nothing(url).await;
    }
    assert_hidden(&log.lines().join("\n"), "the log");
}

/// Shows that neither the error of an address nor what is made of it shows a secret.
async fn shows_nothing(url: &str) {
    let base = ConnectOptions::new().with_runtime(Handle::current());
    let credentials = base.clone().with_credentials("tr0ub4dor", "tr0ub4dor");
    let sentinel = base.clone().with_sentinel_credentials("tr0ub4dor", "tr0ub4dor");
    for options in [base, credentials, sentinel] {
        assert_hidden(&format!("{options:?}"), url);
        // One that is valid is not awaited, because nothing is there to connect to.
        let connecting = tokio::spawn({
            let (url, options) = (url.to_owned(), options.clone());
            async move { connect_with(&url, &options).await }
        });
        sleep(Duration::from_millis(1)).await;
        if connecting.is_finished() {
            if let Err(error) = connecting.await.unwrap() {
                assert_hidden(&texts(&error), url);
                assert!(error.to_string().starts_with("invalid server address \""), "{error}");
            }
        } else {
            connecting.abort();
        }
    }
}

/// What a connection and a limiter show and log, on a server that refuses the password.
#[tokio::test]
async fn connections_and_limiters_show_no_password() {
    let log = Log::start();
    let events = Arc::new(Mutex::new(String::new()));
    // A server quotes the arguments of a command that it does not know.
    for (arguments, has_password) in [
        (&[][..], false),
        (&[][..], true),
        (&["--rename-command", "AUTH", ""], false),
        (&["--rename-command", "AUTH", ""], true),
    ] {
        let server = Server::start_with(arguments);
        if has_password {
            server.command(&["CONFIG", "SET", "requirepass", "another"]).unwrap();
        }
        let port = server.port();
        let options = || ConnectOptions::new().with_runtime(Handle::current());
        let provided = options().with_credential_provider(Duration::from_millis(100), || async {
            Ok(("hunter2".to_owned(), "s3cr3t".to_owned()))
        });
        for (url, options) in [
            (format!("redis://hunter2:s3cr3t@127.0.0.1:{port}"), options()),
            (format!("redis://127.0.0.1:{port}"), options().with_credentials("hunter2", "s3cr3t")),
            (format!("redis://127.0.0.1:{port}"), provided),
            (format!("redis-cluster://hunter2:s3cr3t@127.0.0.1:{port}"), options()),
            (
                format!(
                    "redis-sentinel://hunter2:s3cr3t@127.0.0.1:{port}?sentinelServiceName=main"
                ),
                options().with_sentinel_credentials("hunter2", "tr0ub4dor"),
            ),
        ] {
            let connection = connect_with(&url, &options).await.unwrap();
            let of_observer = Arc::clone(&events);
            let builder = RedisLimiter::builder(daily(5))
                .local_share(NonZeroU32::MIN)
                .key_secret("tr0ub4dor tr0ub4dor")
                .observer(move |event| *of_observer.lock().unwrap() += &format!("{event:?}"));
            let mut shown = format!("{options:?} {connection:?} {builder:?}");
            let limiter = builder.build_on(connection.clone()).unwrap();
            let strict = RedisLimiter::builder(daily(5)).build_on(connection.clone()).unwrap();
            for _ in 0..20 {
                shown += &format!("{:?}", limiter.check("key").await);
                if let Err(error) = strict.check("key").await {
                    shown += &texts(&error);
                }
                sleep(Duration::from_millis(10)).await;
            }
            if let Err(error) = connection.ping(Duration::from_millis(50)).await {
                shown += &texts(&error);
            }
            shown += &format!("{limiter:?} {connection:?} {:?}", connection.servers());
            assert_hidden(&shown, &url);
        }
    }
    assert_hidden(&events.lock().unwrap(), "an event");
    let lines = log.lines();
    assert!(lines.iter().any(|line| line.contains("AUTH")), "{lines:?}");
    assert_hidden(&lines.join("\n"), "the log");
}
