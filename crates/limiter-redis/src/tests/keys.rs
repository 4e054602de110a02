//! Where a key's state lies.

use limiter_core::{Key, Policy, Quota};

use crate::keys::Keys;

fn key(prefix: &str, policy: &str, key: &Key<'_>) -> String {
    let policy = Policy::gcra(policy, Quota::per_second(1));
    String::from_utf8(Keys::new(prefix, &policy).unwrap().of(key)).unwrap()
}

#[test]
fn keys_do_not_change_between_versions() {
    // A changed key would give every subject of a running store a new allowance.
    assert_eq!(key("limiter", "api", &"alice".into()), "limiter:{salice}:api:gcra");
    assert_eq!(key("limiter", "api", &7.into()), "limiter:{i7}:api:gcra");
    let long = "x".repeat(64);
    let digest = sha1_smol::Sha1::from(format!("s{long}")).digest().to_string();
    assert_eq!(
        key("limiter", "api", &Key::from(&long)),
        format!("limiter:{{#{}}}:api:gcra", &digest[..32])
    );
}

#[test]
fn the_families_of_the_algorithms_are_part_of_the_key() {
    let hourly = || Policy::sliding_log("hourly", Quota::per_hour(100));
    let several = [Policy::gcra("burst", Quota::per_second(1)), hourly()];
    let several = Policy::several("api", several).unwrap();
    let key = Keys::new("limiter", &several).unwrap().of(&"alice".into());
    assert_eq!(String::from_utf8(key).unwrap(), "limiter:{salice}:api:gcra+sliding-log");
}

#[test]
fn policies_and_keys_do_not_run_into_each_other() {
    let one = key("limiter", "api", &"foo:sbar".into());
    let other = key("limiter", "sbar:api", &"foo".into());
    assert_eq!(
        (one.as_str(), other.as_str()),
        ("limiter:{sfoo:sbar}:api:gcra", "limiter:{sfoo}:sbar%3Aapi:gcra")
    );
}

#[test]
fn a_prefix_or_a_name_does_not_put_all_keys_into_one_slot() {
    assert_eq!(key("{a}", "{b}%", &"c".into()), "%7Ba%7D:{sc}:%7Bb%7D%25:gcra");
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
        assert!(one.len() <= "limiter:{#}:a:gcra".len() + 32);
        assert!(keys.iter().skip(index + 1).all(|other| other != one), "{one}");
    }
}

#[test]
fn an_empty_or_long_prefix_is_refused() {
    let policy = Policy::gcra("api", Quota::per_second(1));
    let error = Keys::new("", &policy).unwrap_err();
    assert_eq!(error.to_string(), "invalid key prefix \"\": use 1 to 64 bytes");
    assert!(Keys::new(&"x".repeat(65), &policy).is_err());
}
