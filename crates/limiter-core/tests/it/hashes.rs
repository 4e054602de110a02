//! Different keys have different hashes, also those that somebody has prepared.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState},
    net::{IpAddr, Ipv4Addr},
};

use foldhash::{SharedSeed, quality::SeedableRandomState};
use limiter_core::{Entry, InFlight, Key, MemoryLimiter, Policy, Quota};
use proptest::{collection::vec, prelude::*};

use crate::keys::{encoded, keys};

/// An integer whose bits were those that foldhash read for the address 203.0.113.9, under every seed.
const FORGED: i128 = 0x34 << 32 | 0xCB00_7109;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

fn pairs() -> Vec<(Key<'static>, Key<'static>)> {
    let secret = || Key::secret("a");
    let text = || Key::from("a");
    let of = |parts: &[Key<'static>]| Key::tuple(parts.to_vec());
    vec![
        ((7, ADDRESS).into(), (ADDRESS, 7).into()),
        (("a", 7, ADDRESS).into(), ("a", ADDRESS, 7).into()),
        (of(&[secret(), 7.into()]), of(&[text(), Key::secret(7)])),
        (FORGED.into(), ADDRESS.into()),
    ]
}

/// The hashers that a limiter may have: two seeds of its own, under shared seeds of foldhash that differ, too.
fn hashers() -> [SeedableRandomState; 2] {
    [
        SeedableRandomState::with_seed(1, SharedSeed::global_fixed()),
        SeedableRandomState::with_seed(2, SharedSeed::global_random()),
    ]
}

#[test]
fn a_key_drains_no_other_that_was_prepared_for_it() {
    for (one, other) in pairs() {
        for _ in 0..10 {
            let limiter = MemoryLimiter::new(Policy::gcra("test", Quota::per_hour(1)));
            assert!(limiter.check(&one).is_admitted());
            assert!(limiter.check(&other).is_admitted(), "{one:?} has drained {other:?}");

            let in_flight = InFlight::new("test", 1).unwrap();
            let permits = [&one, &other].map(|key| in_flight.try_enter(key));
            assert!(permits.iter().all(Entry::is_admitted), "{one:?} held {other:?} out");
        }
    }
}

/// All keys of up to three parts of a few values, plain and secret.
fn shapes() -> Vec<Key<'static>> {
    let leaves: Vec<Key<'static>> = vec![
        "".into(),
        "a".into(),
        "aa".into(),
        b"a".into(),
        7.into(),
        (-7).into(),
        FORGED.into(),
        i128::MAX.into(),
        u128::MAX.into(),
        ADDRESS.into(),
        "2001:db8::7".parse::<IpAddr>().unwrap().into(),
        Key::tuple([]),
        Key::tuple(["a".into()]),
    ];
    let leaves: Vec<_> =
        leaves.iter().cloned().chain(leaves.iter().cloned().map(Key::secret)).collect();
    let mut shapes = leaves.clone();
    for first in &leaves {
        for second in &leaves {
            shapes.push(Key::tuple([first.clone(), second.clone()]));
            shapes.extend(
                leaves.iter().map(|it| Key::tuple([first.clone(), second.clone(), it.clone()])),
            );
        }
    }
    shapes.extend(leaves.iter().map(|key| Key::tuple([key.clone()])).skip(1));
    shapes
}

/// 573 pairs of 123 keys had one hash. The bytes that a hasher reads of them differ as well, so no
/// hasher can take two of them for one.
#[test]
fn keys_of_all_shapes_have_different_hashes() {
    for hasher in hashers() {
        are_different(|key| hasher.hash_one(key));
    }
    are_different(written);
}

fn are_different<H: Eq + Hash>(hash: impl Fn(&Key<'_>) -> H) {
    let mut encodings = HashMap::new();
    for key in shapes() {
        let encoding = encoded(&key);
        let other = encodings.insert(hash(&key), encoding.clone());
        assert!(other.is_none_or(|other| other == encoding), "{key:?}");
    }
}

/// A hasher that sees what SipHash does: the bytes of all writes, one after the other.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

fn written(key: &Key<'_>) -> Vec<u8> {
    let mut bytes = BuildHasherDefault::<Bytes>::default().build_hasher();
    key.hash(&mut bytes);
    bytes.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn hashes_are_equal_only_if_encodings_are(one in keys(), other in keys()) {
        have_different_hashes(&one, &other)?;
    }

    #[test]
    fn hashes_depend_on_the_order_of_parts(
        (parts, shuffled) in vec(keys(), 2..4).prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle()))
    ) {
        have_different_hashes(&Key::tuple(parts), &Key::tuple(shuffled))?;
    }
}

fn have_different_hashes(one: &Key<'_>, other: &Key<'_>) -> Result<(), TestCaseError> {
    let are_equal = encoded(one) == encoded(other);
    for hasher in hashers() {
        prop_assert_eq!(hasher.hash_one(one) == hasher.hash_one(other), are_equal);
    }
    prop_assert_eq!(written(one) == written(other), are_equal);
    Ok(())
}

/// A hasher by which all keys are alike.
#[derive(Clone, Default)]
struct Alike;

impl BuildHasher for Alike {
    type Hasher = Bytes;

    fn build_hasher(&self) -> Bytes {
        Bytes::default()
    }
}

#[test]
fn a_limiter_hashes_by_the_hasher_that_it_is_given() {
    let policy = Policy::gcra("test", Quota::per_hour(1));
    let builder = || MemoryLimiter::builder(policy.clone());
    let alike = builder().hasher(Alike).build().unwrap();
    for limiter in [&alike, &alike.sibling(&policy), &alike.with_policy(&policy).unwrap()] {
        limiter.reset("alice");
        assert!(limiter.check("alice").is_admitted());
        assert!(!limiter.check("bob").is_admitted(), "they share one state");
    }
    let sip = builder().hasher(RandomState::new()).build().unwrap();
    assert!(sip.check("alice").is_admitted() && sip.check("bob").is_admitted());
    assert!(!sip.check("alice").is_admitted());

    let alike = InFlight::builder("test", 1).hasher(Alike).build().unwrap();
    let _permit = alike.try_enter("alice");
    assert!(!alike.try_enter("bob").is_admitted());
}
