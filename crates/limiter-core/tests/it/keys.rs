//! Keys that differ never meet.

use std::net::IpAddr;

use limiter_core::Key;
use proptest::{collection::vec, prelude::*};

fn encoded(key: &Key<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode(&mut out);
    out
}

fn keys() -> impl Strategy<Value = Key<'static>> {
    let leaf = prop_oneof![
        // Few characters, the tags and separators of the encoding among them, so that they meet.
        "[ast1:]{0,4}".prop_map(Key::from),
        vec(prop_oneof![Just(b's'), Just(b'1'), Just(b':')], 0..4).prop_map(Key::from),
        (-12..12_i64).prop_map(Key::from),
        prop_oneof![Just("1.1.1.1"), Just("::1"), Just("::ffff:1.1.1.1")]
            .prop_map(|text| Key::from(text.parse::<IpAddr>().unwrap())),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| vec(inner, 0..4).prop_map(Key::tuple))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn encodings_are_equal_only_if_keys_are(one in keys(), other in keys()) {
        prop_assert_eq!(encoded(&one) == encoded(&other), one == other);
    }
}

#[test]
fn encodings_stay_as_they_are() {
    // A changed encoding would give every key of a running store a new allowance.
    let rows: [(Key<'_>, &[u8]); 7] = [
        ("alice".into(), b"salice"),
        ((&[0, 255]).into(), b"b\x00\xff"),
        (42_u64.into(), b"i42"),
        ((-7).into(), b"i-7"),
        ("203.0.113.9".parse::<IpAddr>().unwrap().into(), b"a203.0.113.9"),
        ("2001:db8::".parse::<IpAddr>().unwrap().into(), b"a2001:db8::"),
        (Key::tuple(["a".into(), Key::tuple([1.into()])]), b"t2:sa5:t2:i1"),
    ];
    for (key, want) in rows {
        assert_eq!(encoded(&key), want, "{key:?}");
    }
}

#[test]
fn an_address_mapped_into_ipv6_is_the_ipv4_address() {
    let mapped: IpAddr = "::ffff:203.0.113.9".parse().unwrap();
    let plain: IpAddr = "203.0.113.9".parse().unwrap();
    assert_eq!(Key::from(mapped), Key::from(plain));
}
