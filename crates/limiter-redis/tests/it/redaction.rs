//! No error, log line or `Debug` output of an address shows a password, however it is written.

use std::{pin::pin, task::Poll};

use futures::poll;
use limiter_redis::{ConnectOptions, connect_with};
use limiter_rig::{
    log::Log,
    secrets::{assert_hidden, texts},
};
use tokio::runtime::Handle;

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
        let mut connecting = pin!(connect_with(url, &options));
        if let Poll::Ready(Err(error)) = poll!(&mut connecting) {
            assert_hidden(&texts(&error), url);
            assert!(error.to_string().starts_with("invalid server address \""), "{error}");
        }
    }
}
