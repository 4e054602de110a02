//! No error, log line, event or `Debug` output shows a password that a server refuses, and no command a secret key.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{Cost, Key, Limiter as _};
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::{
    log::Log,
    secrets::{assert_hidden, texts},
    server::Server,
};
use tokio::{runtime::Handle, time::sleep};

use crate::{PATIENT, daily, shared};

/// What a connection and a limiter show and log.
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
                .key_secret("tr0ub4dor tr0ub4dor")
                .observer(move |event| *of_observer.lock().unwrap() += &format!("{event:?}"));
            let mut shown = format!("{options:?} {connection:?} {builder:?}");
            let limiter = builder.build_on(connection.clone()).unwrap();
            let strict = RedisLimiter::builder(daily(5)).build_on(connection.clone()).unwrap();
            for _ in 0..20 {
                shown += &format!("{:?}", shared(&limiter, 1).check(&"key".into()).await);
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

const TOKEN: &str = "sk-live-4eC39Hq";

#[tokio::test]
async fn a_secret_is_nowhere_on_the_server() {
    let server = Server::start();
    let limiter = RedisLimiter::builder(daily(3)).deadline(PATIENT).key_secret("0123456789abcdef");
    let limiter = limiter.connect(&server.url()).await.unwrap();
    let mut monitor = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    monitor.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    monitor.write_all(b"MONITOR\r\n").unwrap();
    monitor.read_exact(&mut [0; 5]).unwrap();
    let path = Key::tuple(["/search".into(), Key::secret(TOKEN)]);
    for key in [Key::secret(TOKEN), path] {
        let _ = limiter.check(&key).await.unwrap();
        limiter.peek(&key).await.unwrap();
        let reserved = limiter.reserve(&key, Cost::ONE, Duration::ZERO).await.unwrap();
        assert_eq!(limiter.refund(reserved.into_receipt().unwrap()).await.unwrap(), 1);
    }
    server.command(&["ECHO", "the end"]).unwrap();
    let lines = BufReader::new(monitor).lines().map(Result::unwrap);
    let seen: String = lines.take_while(|line| !line.contains("the end")).collect();
    let keys = server.command(&["SCAN", "0", "COUNT", "1000"]).unwrap();
    assert!(seen.contains("limiter:{@") && keys.contains("limiter:{@"), "{keys}\n{seen}");
    for text in [seen, keys] {
        assert!(!text.contains(TOKEN) && !text.contains("0123456789abcdef"), "{text}");
    }
}
