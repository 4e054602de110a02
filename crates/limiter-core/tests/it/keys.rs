//! Different keys have different, stable encodings.

use std::{net::IpAddr, sync::Arc};

use limiter_core::Key;
use proptest::{collection::vec, prelude::*};

pub(crate) fn encoded(key: &Key<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode(&mut out);
    out
}

pub(crate) fn keys() -> impl Strategy<Value = Key<'static>> {
    let leaf = prop_oneof![
        // Few characters, mostly tags and separators of the encoding, so that collisions are likely.
        "[abstx1:]{0,4}".prop_map(Key::from),
        vec(prop_oneof![Just(b's'), Just(b'1'), Just(b':')], 0..4).prop_map(Key::from),
        (-12..12_i64).prop_map(Key::from),
        (u128::MAX - 2..=u128::MAX).prop_map(Key::from),
        prop_oneof![Just("1.1.1.1"), Just("::1"), Just("::ffff:1.1.1.1")]
            .prop_map(|text| Key::from(text.parse::<IpAddr>().unwrap())),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Key::tuple), inner.prop_map(Key::secret)]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn encodings_are_equal_only_if_keys_are(one in keys(), other in keys()) {
        prop_assert_eq!(encoded(&one) == encoded(&other), one == other);
    }

    #[test]
    fn a_borrowed_key_is_the_same_key(key in keys()) {
        let borrowed = Key::from(&key);
        prop_assert_eq!(encoded(&borrowed), encoded(&key));
        prop_assert_eq!(&borrowed, &key);
    }
}

#[test]
fn encodings_stay_as_they_are() {
    // A changed encoding would give every key of a running store a new allowance.
    let rows: [(Key<'_>, &[u8]); 12] = [
        ("alice".into(), b"salice"),
        ((&[0, 255]).into(), b"b\x00\xff"),
        (42_u64.into(), b"i42"),
        ((-7).into(), b"i-7"),
        ("203.0.113.9".parse::<IpAddr>().unwrap().into(), b"a203.0.113.9"),
        ("2001:db8::".parse::<IpAddr>().unwrap().into(), b"a2001:db8::"),
        (Key::tuple(["a".into(), Key::tuple([1.into()])]), b"t2:sa5:t2:i1"),
        (Key::secret("alice"), b"xsalice"),
        (Key::secret(String::from("alice")), b"xsalice"),
        (Key::secret(&[0, 255]), b"xb\x00\xff"),
        (Key::secret(42), b"xi42"),
        (Key::tuple(["a".into(), Key::secret("b")]), b"t2:sa3:xsb"),
    ];
    for (key, want) in rows {
        assert_eq!(encoded(&key), want, "{key:?}");
    }
}

#[test]
fn integers_and_texts_of_every_type_are_equal_keys() {
    for key in [7_u8.into(), 7_usize.into(), 7_isize.into(), 7_i128.into(), 7_u128.into()] {
        assert_eq!(Key::from(7), key);
    }
    let largest = i128::MAX.unsigned_abs();
    assert_eq!(Key::from(largest), Key::from(i128::MAX));
    assert_eq!(encoded(&Key::from(largest + 1)), format!("i{}", largest + 1).into_bytes());
    let text: Arc<str> = "alice".into();
    assert_eq!((Key::from(&text), Key::from(Arc::clone(&text))), ("alice".into(), "alice".into()));
}

#[test]
fn tuples_are_keys() {
    let key = Key::tuple(["/search".into(), "alice".into()]);
    assert_eq!(Key::from(("/search", "alice")), key);
    let key = Key::tuple(["/search".into(), "alice".into(), 7.into()]);
    assert_eq!(Key::from(("/search", "alice", 7)), key);
}

#[test]
fn an_address_mapped_into_ipv6_is_the_ipv4_address() {
    let mapped: IpAddr = "::ffff:203.0.113.9".parse().unwrap();
    let plain: IpAddr = "203.0.113.9".parse().unwrap();
    assert_eq!(Key::from(mapped), Key::from(plain));
}

#[test]
fn a_secret_is_not_printed() {
    let secret = Key::secret("sk-1234");
    let rows = [
        (secret.clone(), "[secret]", true),
        (Key::secret(&secret), "[secret]", true),
        (Key::secret(b"sk-1234"), "[secret]", true),
        (Key::secret(7), "[secret]", true),
        (Key::secret(Key::tuple(["a".into()])), "[secret]", true),
        (Key::tuple(["a".into(), Key::tuple([secret.clone()])]), "[\"a\", [[secret]]]", true),
        (Key::tuple(["a".into(), 7.into()]), "[\"a\", 7]", false),
        ("sk-1234".into(), "\"sk-1234\"", false),
    ];
    for (key, printed, is_secret) in rows {
        assert_eq!((format!("{key:?}").as_str(), key.is_secret()), (printed, is_secret));
    }
    assert_ne!(Key::secret("sk-1234"), Key::from("sk-1234"));
    assert_ne!(Key::secret("7"), Key::secret(7));
    assert_ne!(Key::secret("7"), Key::secret(b"7"));
}

/// Only tuples, and texts that are copied from an `Arc`.
#[test]
fn keys_allocate_as_documented() {
    let (text, bytes) = (String::from("alice"), vec![0, 255]);
    let shared: Arc<str> = "alice".into();
    let address: IpAddr = "203.0.113.9".parse().unwrap();
    let allocations = |make: &mut dyn FnMut()| allocation_counter::measure(make).count_total;
    let none = allocations(&mut || {
        let keys = [Key::from("alice"), (&text).into(), (&shared).into(), bytes.as_slice().into()];
        let others = [Key::from(7), address.into(), Key::secret("alice")];
        drop((keys, others));
    });
    assert_eq!(none, 0);
    let (mut text, mut bytes) = (Some(text), Some(bytes));
    let taken = allocations(&mut || {
        drop((Key::from(text.take().unwrap()), Key::from(bytes.take().unwrap())));
    });
    assert_eq!(taken, 0);
    assert_eq!(allocations(&mut || drop(Key::from(Arc::clone(&shared)))), 1);
    assert_eq!(allocations(&mut || drop(Key::from(("a", 7)))), 1);
    assert_eq!(allocations(&mut || drop(Key::from(("a", 7, ("b", 8))))), 2);
    assert_eq!(allocations(&mut || drop(Key::tuple(["a".into(), 7.into()]))), 1);
}
