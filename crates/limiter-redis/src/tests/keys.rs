//! Where a key's state lies.

use limiter_core::{ErrorKind, Key, Policy};

use crate::{keys::Keys, scripts::Plan};

fn key(prefix: &str, policy: &str, key: &Key<'_>) -> String {
    let key = Keys::new(prefix, policy, None).unwrap().of(key).unwrap();
    String::from_utf8(key.into()).unwrap()
}

const SECRET: &[u8] = b"0123456789abcdef";

fn secret_key(secret: &[u8], key: &Key<'_>) -> String {
    let keys = Keys::new("limiter", "api", Some(secret)).unwrap();
    String::from_utf8(keys.of(key).unwrap().into()).unwrap()
}

#[test]
fn keys_do_not_change_between_versions() {
    let long = "x".repeat(64);
    // A changed key would give every subject of a running store a new allowance.
    for (prefix, policy, subject, expected) in [
        ("limiter", "api", Key::from("alice"), "limiter:{salice}:api"),
        ("limiter", "api", 7.into(), "limiter:{i7}:api"),
        ("limiter", "api", (&long).into(), "limiter:{#902312c15475ee2d58bbdeb4c5ebd38c}:api"),
        // A prefix or a name does not put all keys into one slot.
        ("{a}", "{b}%", "c".into(), "%7Ba%7D:{sc}:%7Bb%7D%25"),
    ] {
        assert_eq!(key(prefix, policy, &subject), expected);
    }
    let secret = secret_key(SECRET, &Key::secret("sk-1"));
    assert_eq!(secret, "limiter:{@c3b14175c73cb25258c9341b94326431}:api");
}

/// Returns the keys of a policy's states.
fn keys(policy: &Policy) -> Vec<String> {
    let hash = Keys::new("limiter", policy.name(), None).unwrap().of(&"alice".into()).unwrap();
    let mut all = Vec::new();
    Plan::new(policy, policy.name(), false).add_keys(&hash, &mut all);
    all.into_iter().map(|key| String::from_utf8(key.into()).unwrap()).collect()
}

#[test]
fn a_subject_has_a_hash_and_a_list_for_each_log() {
    let limits = ["10/s", "100/h by sliding-log", "1000/day by fixed-window"];
    let limits = limits.map(|limit| Policy::parse(limit, limit).unwrap());
    let several = Policy::all_of("api", limits).unwrap();
    let list = "limiter:{salice}:api:100/h by sliding-log/sliding-log.3600s";
    assert_eq!(keys(&several), ["limiter:{salice}:api", list]);
    let log = Policy::parse("api", "60/min by sub-windows 6 slots").unwrap();
    assert_eq!(keys(&log), ["limiter:{salice}:api:sub-windows.70s.10s"]);
}

#[test]
fn policies_and_keys_do_not_run_into_each_other() {
    let one = key("limiter", "api", &"foo:sbar".into());
    let other = key("limiter", "sbar:api", &"foo".into());
    assert_eq!(
        (one.as_str(), other.as_str()),
        ("limiter:{sfoo:sbar}:api", "limiter:{sfoo}:sbar%3Aapi")
    );
}

#[test]
fn a_subject_does_not_choose_its_slot() {
    let keys = [
        Key::from("{a}b"),
        Key::from("a}b"),
        Key::tuple([Key::from("/users/{id}"), Key::from("b")]),
    ];
    for one in keys {
        let one = key("limiter", "api", &one);
        assert!(one.starts_with("limiter:{#"), "{one}");
        assert_eq!((one.matches('{').count(), one.matches('}').count()), (1, 1), "{one}");
    }
}

#[test]
fn long_keys_are_digested_and_stay_apart() {
    let keys: Vec<String> = ["a", "b"]
        .iter()
        .flat_map(|policy| {
            ["x".repeat(64), "x".repeat(65), "x".repeat(100_000)]
                .map(|text| key("limiter", policy, &Key::from(&text)))
        })
        .collect();
    for (index, one) in keys.iter().enumerate() {
        assert!(one.len() <= "limiter:{#}:a".len() + 32);
        assert!(keys.iter().skip(index + 1).all(|other| other != one), "{one}");
    }
}

#[test]
fn an_empty_or_long_prefix_is_refused() {
    let error = Keys::new("", "api", None).err().unwrap();
    assert_eq!(error.to_string(), "invalid key prefix \"\": use 1 to 64 bytes");
    assert!(Keys::new(&"x".repeat(65), "api", None).is_err());
}

#[test]
fn a_secret_is_a_digest_by_the_shared_secret() {
    let token = Key::secret("sk-1");
    let own = secret_key(SECRET, &token);
    assert_eq!(secret_key(SECRET, &token), own);
    assert_ne!(secret_key(b"0123456789abcdeF", &token), own);
    let others = [
        Key::secret("sk-2"),
        Key::secret(b"sk-1"),
        Key::tuple([Key::secret("sk-1")]),
        Key::tuple(["/search".into(), Key::secret("sk-1")]),
    ];
    for other in others {
        let other = secret_key(SECRET, &other);
        assert!(other.starts_with("limiter:{@") && !other.contains("sk-"), "{other}");
        assert_ne!(other, own);
    }
    // A shared secret changes no other key.
    assert_eq!(secret_key(SECRET, &"alice".into()), key("limiter", "api", &"alice".into()));
    let long = Key::from("x".repeat(100));
    assert_eq!(secret_key(SECRET, &long), key("limiter", "api", &long));
}

#[test]
fn a_secret_without_a_shared_secret_is_refused() {
    let keys = Keys::new("limiter", "api", None).unwrap();
    let error = keys.of(&Key::tuple(["/search".into(), Key::secret("sk-1")])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    let message = "the key is a secret, which is stored as a keyed digest only: set \
                   Builder::key_secret to the same value in all processes";
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_short_or_long_shared_secret_is_refused() {
    for secret in [&SECRET[1..], &[b'x'; 1_025]] {
        let error = Keys::new("limiter", "api", Some(secret)).err().unwrap().to_string();
        let bytes = secret.len();
        assert!(error.starts_with(&format!("invalid key secret of {bytes} bytes: use 16 to")));
    }
}
