//! Settings from a configuration file.

use std::time::Duration;

use limiter_core::{Cost, ErrorKind, Key, Policy, Reservation, Source};
use limiter_redis::{RedisLimiter, RedisSettings};

use crate::server;

fn read(text: &str) -> Result<RedisSettings, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn policy() -> Policy {
    Policy::parse("api", "3/day").unwrap()
}

/// Returns a limiter without the share.
async fn build(settings: &RedisSettings) -> RedisLimiter {
    let connection = settings.connection().await.unwrap();
    settings.builder(policy()).unwrap().build_on(connection).unwrap()
}

#[tokio::test]
async fn settings_of_a_file_are_those_of_the_limiter() {
    let server = server().await;
    let text = r#"
        credentials = { username = "alice", password = "p@ss/word" }
        prefix = "shop"
        deadline_ms = 5_000
        silence_ms = 3_000
        batching = false
        denial_cache = 7
        lease = true
        lease_keys = 9
    "#;
    let settings = read(&format!("url = {server:?}\n{text}")).unwrap();
    let shown = format!("{settings:?}");
    assert!(!shown.contains("p@ss/word") && shown.contains("shop"), "{shown}");
    let shown = format!("{:?}", build(&settings).await);
    for part in [
        "prefix: \"shop\"",
        "deadline: 5s",
        "batching: false",
        "lease: true",
        "lease_keys: 9",
        "silence: 3s",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[tokio::test]
async fn a_file_needs_an_address_alone() {
    let settings = read(&format!("url = {:?}", server().await)).unwrap();
    let shown = format!("{:?}", build(&settings).await);
    assert!(shown.contains("prefix: \"limiter\"") && shown.contains("deadline: 50ms"), "{shown}");
}

/// The server replies `OK` to everything, which decides nothing.
#[tokio::test]
async fn a_share_of_a_file_decides_while_the_store_fails() {
    for (text, share) in [("", None), ("local_share = { processes = 2 }", Some(1))] {
        let settings = read(&format!("url = {:?}\n{text}", server().await)).unwrap();
        let limiter = settings.connect(policy()).await.unwrap();
        for _ in 0..2 {
            let reserved = limiter.acquire(&"alice".into(), Cost::ONE, Some(Duration::ZERO)).await;
            let decided = reserved.as_ref().ok().map(Reservation::decision);
            assert_eq!(decided.map(|it| it.burst()), share, "{reserved:?}");
            assert!(decided.is_none_or(|it| it.source() == Source::Local));
        }
    }
}

/// An error lists all fields.
#[test]
fn the_documentation_of_settings_has_each_of_them() {
    let error = read("unknown = 1").unwrap_err();
    let (_, fields) = error.split_once("expected one of ").unwrap();
    let fields = fields.split('`').skip(1).step_by(2);
    let source = include_str!("../../src/settings.rs");
    let is_documented = |name: &str| {
        let mut text = source.lines().filter(|line| line.starts_with("/// "));
        text.any(|line| line.contains(&format!(" {name} =")) || line.contains(&format!("`{name}`")))
    };
    let missing: Vec<_> = fields.filter(|name| !is_documented(name)).collect();
    assert!(missing.is_empty(), "not in the text of `RedisSettings`: {missing:?}");
}

#[tokio::test]
async fn an_error_of_a_file_says_what_is_wrong() {
    let server = server().await;
    let url = "url = \"redis://127.0.0.1:1\"\n";
    for (text, part) in [
        ("prefix = \"a\"", "missing field `url`"),
        (&*format!("{url}timeout = 5"), "unknown field `timeout`, expected one of `url`, "),
        (&*format!("{url}deadline_ms = \"50ms\""), "invalid type: string \"50ms\""),
        (&*format!("{url}local_share = {{ processes = 0 }}"), "line 2, column 29"),
        (&*format!("{url}local_share = {{ of = 4 }}"), "unknown field `of`"),
        (&*format!("{url}credentials = {{ password = \"a\" }}"), "missing field `username`"),
        ("url = 5", "invalid type: integer `5`, expected a string"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
    let json = r#"{ "url": "redis://a", "batching": 1 }"#;
    let error = serde_json::from_str::<RedisSettings>(json).unwrap_err().to_string();
    assert!(error.contains("invalid type: integer `1`, expected a boolean"), "{error}");

    for (text, message) in [
        ("deadline_ms = 0", "invalid deadline 0ns: use 1ms to 60s"),
        ("deadline_ms = 60001", "invalid deadline 60.001s: use 1ms to 60s"),
        ("denial_cache = 16777217", "invalid denial cache of 16777217: use 0 to 16777216"),
        ("lease_keys = 0", "invalid number of 0 leased keys: use 1 to 16777216"),
        ("prefix = \"\"", "invalid key prefix \"\": use 1 to 64 bytes"),
        (
            "silence_ms = 9",
            &*format!("invalid server address {server:?}: invalid silence of 9ms: use 10ms to 10s"),
        ),
        (
            "sentinel_credentials = { username = \"default\", password = \"a\" }",
            &*format!(
                "invalid server address {server:?}: the options have sentinel credentials; use \
             redis-sentinel:// or remove them"
            ),
        ),
    ] {
        let settings = read(&format!("url = {server:?}\n{text}")).unwrap();
        let error = settings.connect(policy()).await.err().unwrap();
        assert_eq!(error.to_string(), message);
    }

    let settings = read(&format!("{url}required_connection_ms = 20")).unwrap();
    let error = settings.connection().await.unwrap_err();
    let message = "no required connection within 20ms: not connected to redis://127.0.0.1:1";
    assert!(error.to_string().starts_with(message), "{error}");
}

#[tokio::test]
async fn the_secret_for_keys_is_a_text_or_a_file() {
    let server = server().await;
    let file = std::env::temp_dir().join(format!("limiter-secret-{}", std::process::id()));
    let secret = "a secret for keys";
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let mut keys = Vec::new();
    for setting in [format!("key_secret = {secret:?}"), format!("key_secret_file = {file:?}")] {
        let settings = read(&format!("url = {server:?}\n{setting}")).unwrap();
        assert!(!format!("{settings:?}").contains(&format!("key_secret: Some({secret:?})")));
        keys.push(build(&settings).await.stored_keys(Key::secret("sk-1234")).unwrap());
    }
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{keys:?}");
    std::fs::remove_file(&file).unwrap();

    for (setting, message) in [
        (&*format!("key_secret_file = {file:?}"), "No such file"),
        ("key_secret = \"\"", "invalid key secret of 0 bytes"),
        ("key_secret = \"a\"\nkey_secret_file = \"A\"", "use one of them"),
        (
            "root_certificates = \"/nowhere.pem\"",
            "root_certificates \"/nowhere.pem\": No such file",
        ),
    ] {
        let settings = read(&format!("url = {server:?}\n{setting}")).unwrap();
        let error = settings.connect(policy()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert!(error.to_string().contains(message), "{message}: {error}");
    }
}

#[tokio::test]
async fn a_policy_of_other_families_is_refused() {
    let url = server().await;
    let limiter = RedisLimiter::builder(policy()).connect(&url).await.unwrap();
    assert!(
        limiter.with_policy(&Policy::parse("queue", "5/s by leaky-queue depth 3").unwrap()).is_ok()
    );
    for text in ["5/s by fixed-window", "5/s by sliding-log"] {
        let error = limiter.with_policy(&Policy::parse("other", text).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert!(error.to_string().starts_with("invalid policy \"other\": "), "{error}");
    }
}
