//! Secret subjects, such as API keys, on a real server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use limiter_core::{Cost, ErrorKind, Key, Limiter};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;

use crate::{builder, patient, shared};

const TOKEN: &str = "sk-live-4eC39Hq";

/// Returns a limiter with a connection of its own, as another process has.
async fn with_secret(url: &str, secret: &str) -> RedisLimiter {
    let builder = builder(3).deadline(Duration::from_secs(5));
    builder.key_secret(secret).connect(url).await.unwrap()
}

#[tokio::test]
async fn processes_with_one_secret_share_states() {
    let server = Server::start();
    let one = with_secret(&server.url(), "0123456789abcdef").await;
    let same = with_secret(&server.url(), "0123456789abcdef").await;
    let other = with_secret(&server.url(), "another secret of 32 characters.").await;
    assert_eq!(one.check(Key::secret(TOKEN)).await.unwrap().remaining(), 2);
    assert_eq!(same.check(Key::secret(TOKEN)).await.unwrap().remaining(), 1);
    assert_eq!(other.check(Key::secret(TOKEN)).await.unwrap().remaining(), 2);
    same.reset(Key::secret(TOKEN)).await.unwrap();
    assert_eq!(one.peek(Key::secret(TOKEN)).await.unwrap().remaining(), 3);
}

#[tokio::test]
async fn a_secret_is_nowhere_on_the_server() {
    let server = Server::start();
    let limiter = with_secret(&server.url(), "0123456789abcdef").await;
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

#[tokio::test]
async fn a_limiter_without_a_secret_refuses_secrets_also_with_a_share() {
    let server = Server::start();
    let strict = patient(&server.url(), 1).await;
    let with_share = shared(&strict, 1);
    for limiter in [&strict as &dyn Limiter, &with_share] {
        let token = &Key::secret(TOKEN);
        let errors = [
            limiter.check(token).await.unwrap_err(),
            limiter.peek(token).await.unwrap_err(),
            limiter.reserve(token, Cost::ONE, Duration::ZERO).await.unwrap_err(),
            strict.acquire(token.clone(), Cost::ONE, None).await.unwrap_err(),
            limiter.reset(token).await.unwrap_err(),
            strict.stored_keys(token.clone()).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::InvalidSetting, "{error}");
            assert!(error.to_string().contains("set Builder::key_secret"), "{error}");
        }
    }
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), ":0");
}
