//! Where a key's state lies.

use limiter_core::Key;

use crate::keys::Keys;

fn key(prefix: &str, policy: &str, key: &Key<'_>) -> String {
    String::from_utf8(Keys::new(prefix, policy).unwrap().of(key)).unwrap()
}

#[test]
fn names_stay_as_they_are() {
    // A changed name would give every key of a running store a new allowance.
    assert_eq!(key("limiter", "api", &"alice".into()), "limiter:api:salice");
    assert_eq!(key("limiter", "api", &7.into()), "limiter:api:i7");
    let long = "x".repeat(64);
    assert_eq!(
        key("limiter", "api", &Key::from(&long)),
        "limiter:api:#851c5c841af9326d3a6ede3c0fb095fa"
    );
}

#[test]
fn policies_and_keys_do_not_run_into_each_other() {
    let one = key("limiter", "api", &"foo:sbar".into());
    let other = key("limiter", "api:sfoo", &"bar".into());
    assert_eq!(
        (one.as_str(), other.as_str()),
        ("limiter:api:sfoo:sbar", "limiter:api%3Asfoo:sbar")
    );
}

#[test]
fn a_policy_does_not_pin_its_keys_to_one_slot() {
    assert_eq!(key("{a}", "{b}%", &"c".into()), "%7Ba%7D:%7Bb%7D%25:sc");
}

#[test]
fn a_key_does_not_choose_its_slot() {
    let keys = [Key::from("{a}b"), Key::tuple([Key::from("/users/{id}"), Key::from("b")])];
    for one in keys {
        let one = key("limiter", "api", &one);
        assert!(one.starts_with("limiter:api:#") && !one.contains('{'), "{one}");
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
        assert!(one.len() <= "limiter:a:#".len() + 32);
        assert!(keys.iter().skip(index + 1).all(|other| other != one), "{one}");
    }
}

#[test]
fn an_empty_or_long_prefix_is_refused() {
    let error = Keys::new("", "api").unwrap_err();
    assert_eq!(error.to_string(), "the key prefix \"\": use 1 to 64 bytes");
    assert!(Keys::new(&"x".repeat(65), "api").is_err());
}
