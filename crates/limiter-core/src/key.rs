//! Keys, by which permits are counted.

use alloc::{borrow::Cow, format, string::String, sync::Arc, vec::Vec};
use core::{
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// What permits are counted by: a text, bytes, an integer, an address, or a tuple of keys.
///
/// Keys of different kinds are different (`7` is not `"7"`), and so are different tuples: `("a",
/// "bc")` is not `("ab", "c")`. An IPv4 address mapped into IPv6 is the IPv4 address. Equal integers
/// are equal keys, whatever their types.
///
/// A key borrows a text or bytes that are given by reference, and takes over a `String` or a `Vec<u8>`. A tuple
/// allocates once for its parts, and an `Arc<str>` that is given by value is copied.
///
/// ```
/// use limiter_core::Key;
///
/// assert_ne!(Key::from("7"), Key::from(7_u64));
/// assert_eq!(Key::from(7_u64), Key::from(7_i32));
///
/// let resource_and_client = Key::from(("/search", "alice"));
/// assert_ne!(resource_and_client, Key::from(("/searcha", "lice")));
/// assert_ne!(resource_and_client, Key::from(("/search", "alice", 1)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Key<'a> {
    value: Value<'a>,
    /// Whether `Debug` and stores that others can read must hide it.
    is_secret: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Value<'a> {
    Str(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Integer(i128),
    /// Never one that an `i128` can be.
    LargeInteger(u128),
    /// Never an IPv4 address mapped into IPv6.
    Address(IpAddr),
    Tuple(Arc<[Key<'a>]>),
}

impl<'a> Key<'a> {
    /// Returns the key of several parts, in their order.
    #[must_use]
    pub fn tuple(parts: impl Into<Arc<[Self]>>) -> Self {
        Value::Tuple(parts.into()).into()
    }

    /// Returns `key` marked as a secret, such as a token or a password.
    ///
    /// [`Debug`](fmt::Debug) prints `[secret]` instead of it. A store that others can read has to
    /// store a digest of it: see [`Key::is_secret`].
    ///
    /// ```
    /// use limiter_core::Key;
    ///
    /// let key = Key::tuple(["/search".into(), Key::secret("sk-1234")]);
    /// assert_eq!(format!("{key:?}"), r#"["/search", [secret]]"#);
    /// assert!(key.is_secret());
    /// ```
    #[must_use]
    pub fn secret(key: impl Into<Self>) -> Self {
        Self { is_secret: true, ..key.into() }
    }

    /// Returns the key with a copy of what it borrows.
    #[must_use]
    pub fn into_owned(self) -> Key<'static> {
        let value = match self.value {
            Value::Str(text) => Value::Str(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Integer(integer) => Value::Integer(integer),
            Value::LargeInteger(integer) => Value::LargeInteger(integer),
            Value::Address(address) => Value::Address(address),
            Value::Tuple(parts) => {
                Value::Tuple(parts.iter().cloned().map(Key::into_owned).collect())
            }
        };
        Key { value, is_secret: self.is_secret }
    }

    /// Returns whether the key is a secret, or a tuple that contains one.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        match &self.value {
            Value::Tuple(parts) => self.is_secret || parts.iter().any(Key::is_secret),
            _ => self.is_secret,
        }
    }

    /// Appends the key's encoding to `out`: a tag and the value, readable where the value is. The
    /// tuple of `"/search"` and `42` is `t8:s/search3:i42`.
    ///
    /// Different keys have different encodings. The encoding is stable, so that several versions of
    /// a program that share a store use the same keys. A secret is encoded in full.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if self.is_secret {
            out.push(b'x');
        }
        match &self.value {
            Value::Str(text) => {
                out.push(b's');
                out.extend_from_slice(text.as_bytes());
            }
            Value::Bytes(bytes) => {
                out.push(b'b');
                out.extend_from_slice(bytes);
            }
            Value::Integer(integer) => out.extend_from_slice(format!("i{integer}").as_bytes()),
            Value::LargeInteger(integer) => {
                out.extend_from_slice(format!("i{integer}").as_bytes());
            }
            Value::Address(address) => out.extend_from_slice(format!("a{address}").as_bytes()),
            Value::Tuple(parts) => {
                out.push(b't');
                for part in parts.iter() {
                    let mut encoded = Vec::new();
                    part.encode(&mut encoded);
                    out.extend_from_slice(format!("{}:", encoded.len()).as_bytes());
                    out.append(&mut encoded);
                }
            }
        }
    }
}

/// Writes each part as its value and then its tag. The tag is a write of 128 bits, because foldhash reads those in their
/// order among writes of bytes, which it does not with shorter integers. It has the value's length, so that different
/// keys are different bytes for hashers that read all writes as one.
impl Hash for Key<'_> {
    /// Inlined: a check takes 26 ns instead of 42 (`cargo xtask bench memory`).
    #[inline(always)]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.value {
            Value::Str(text) => {
                state.write(text.as_bytes());
                write_tag(state, b's', text.len() as u64);
            }
            // One write for almost all integers.
            Value::Integer(integer) => match u64::try_from(*integer) {
                Ok(integer) => write_tag(state, b'i', integer),
                Err(_) => {
                    state.write_i128(*integer);
                    write_tag(state, b'I', 0);
                }
            },
            Value::LargeInteger(integer) => {
                state.write_u128(*integer);
                write_tag(state, b'L', 0);
            }
            Value::Address(IpAddr::V4(address)) => write_tag(state, b'4', address.to_bits().into()),
            Value::Address(IpAddr::V6(address)) => {
                state.write_u128(address.to_bits());
                write_tag(state, b'6', 0);
            }
            Value::Bytes(bytes) => {
                state.write(bytes);
                write_tag(state, b'b', bytes.len() as u64);
            }
            Value::Tuple(parts) => {
                Key::hash_slice(parts, state);
                write_tag(state, b't', parts.len() as u64);
            }
        }
        if self.is_secret {
            write_tag(state, b'x', 0);
        }
    }
}

/// Writes a tag, and a short value or the length of one that was written.
#[inline(always)]
fn write_tag(state: &mut impl Hasher, tag: u8, value: u64) {
    state.write_u128(u128::from(tag) << 64 | u128::from(value));
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            _ if self.is_secret => f.write_str("[secret]"),
            Value::Str(text) => text.fmt(f),
            Value::Bytes(bytes) => bytes.fmt(f),
            Value::Integer(integer) => integer.fmt(f),
            Value::LargeInteger(integer) => integer.fmt(f),
            Value::Address(address) => address.fmt(f),
            Value::Tuple(parts) => parts.fmt(f),
        }
    }
}

impl<'a> From<Value<'a>> for Key<'a> {
    #[inline]
    fn from(value: Value<'a>) -> Self {
        Self { value, is_secret: false }
    }
}

macro_rules! from {
    ($($($type:ty),+: $value:ident => $key:expr;)*) => {$($(
        impl<'a> From<$type> for Key<'a> {
            #[inline]
            fn from($value: $type) -> Self {
                $key.into()
            }
        }
    )+)*};
}

from! {
    &'a str, &'a String, String: text => Value::Str(text.into());
    Cow<'a, str>: text => Value::Str(text);
    &'a Cow<'_, str>: text => &**text;
    &'a Arc<str>: text => &**text;
    Arc<str>: text => String::from(&*text);
    &'a [u8], Vec<u8>: bytes => Value::Bytes(bytes.into());
    IpAddr: address => Value::Address(address.to_canonical());
    Ipv4Addr, Ipv6Addr: address => IpAddr::from(address);
    u8, u16, u32, u64, i8, i16, i32, i64: integer => Value::Integer(integer.into());
    i128: integer => Value::Integer(integer);
    usize: integer => integer as u64;
    isize: integer => integer as i64;
    u128: integer => i128::try_from(integer)
        .map_or(Value::LargeInteger(integer), Value::Integer);
}

impl<'a, A: Into<Self>, B: Into<Self>> From<(A, B)> for Key<'a> {
    fn from((first, second): (A, B)) -> Self {
        Self::tuple([first.into(), second.into()])
    }
}

impl<'a, A: Into<Self>, B: Into<Self>, C: Into<Self>> From<(A, B, C)> for Key<'a> {
    fn from((first, second, third): (A, B, C)) -> Self {
        Self::tuple([first.into(), second.into(), third.into()])
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::from(bytes.as_slice())
    }
}

/// Borrows the text or the bytes that the key owns.
impl<'a> From<&'a Key<'_>> for Key<'a> {
    fn from(key: &'a Key<'_>) -> Self {
        let value = match &key.value {
            Value::Str(text) => Value::Str(Cow::Borrowed(text)),
            Value::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            other => other.clone(),
        };
        Self { value, is_secret: key.is_secret }
    }
}
