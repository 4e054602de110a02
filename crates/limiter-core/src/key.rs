//! Keys, by which permits are counted.

use alloc::{borrow::Cow, boxed::Box, string::String, vec::Vec};
use core::{
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// What permits are counted by: a text, bytes, an integer, an address, or a tuple of keys.
///
/// Keys of different kinds are different (`7` is not `"7"`), and so are different tuples: `("a",
/// "bc")` is not `("ab", "c")`. An IPv4 address mapped into IPv6 is the IPv4 address. Equal integers
/// are equal keys, whatever their types. Only an owned text, owned bytes and a tuple allocate.
///
/// ```
/// use limiter_core::Key;
///
/// assert_ne!(Key::from("7"), Key::from(7_u64));
/// assert_eq!(Key::from(7_u64), Key::from(7_i32));
///
/// let resource_and_client = Key::tuple(["/search".into(), "alice".into()]);
/// assert_ne!(resource_and_client, Key::tuple(["/searcha".into(), "lice".into()]));
/// ```
#[derive(Clone)]
pub struct Key<'a> {
    repr: Repr<'a>,
    /// Whether `Debug` and stores that others can read must hide it.
    is_secret: bool,
}

/// Owned values are boxed, so that dropping a borrowed key is one comparison.
#[derive(Clone)]
enum Repr<'a> {
    /// Never an IPv4 address mapped into IPv6.
    Plain(View<'a>),
    Owned(Box<Owned<'a>>),
}

#[derive(Clone)]
enum Owned<'a> {
    Str(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Key<'a>>),
}

/// A key's value, borrowed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View<'a> {
    Str(&'a str),
    Bytes(&'a [u8]),
    Integer(i128),
    Address(IpAddr),
    Tuple(&'a [Key<'a>]),
}

impl<'a> Key<'a> {
    /// Returns the key of several parts, in their order.
    #[must_use]
    pub fn tuple(parts: impl Into<Vec<Self>>) -> Self {
        Owned::Tuple(parts.into()).into()
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

    /// Returns whether the key is a secret, or a tuple that contains one.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        match self.view() {
            View::Tuple(parts) => self.is_secret || parts.iter().any(Key::is_secret),
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
        match self.view() {
            View::Str(text) => {
                out.push(b's');
                out.extend_from_slice(text.as_bytes());
            }
            View::Bytes(bytes) => {
                out.push(b'b');
                out.extend_from_slice(bytes);
            }
            View::Integer(integer) => append(out, format_args!("i{integer}")),
            View::Address(address) => append(out, format_args!("a{address}")),
            View::Tuple(parts) => {
                out.push(b't');
                for part in parts {
                    let mut encoded = Vec::new();
                    part.encode(&mut encoded);
                    append(out, format_args!("{}:", encoded.len()));
                    out.append(&mut encoded);
                }
            }
        }
    }
}

impl Key<'_> {
    #[inline]
    fn view(&self) -> View<'_> {
        match &self.repr {
            Repr::Plain(view) => *view,
            Repr::Owned(owned) => match &**owned {
                Owned::Str(text) => View::Str(text),
                Owned::Bytes(bytes) => View::Bytes(bytes),
                Owned::Tuple(parts) => View::Tuple(parts),
            },
        }
    }

    #[inline(never)]
    fn hash_rest<H: Hasher>(&self, state: &mut H) {
        match self.view() {
            View::Bytes(bytes) => {
                state.write(bytes);
                state.write_u8(b'b');
            }
            View::Tuple(parts) => {
                parts.hash(state);
                state.write_u8(b't');
            }
            view => Key::from(view).hash(state),
        }
        if self.is_secret {
            state.write_u8(b'x');
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.is_secret == other.is_secret && self.view() == other.view()
    }
}

impl Eq for Key<'_> {}

/// Writes the value and a tag, so that a hasher gets as few writes as can be.
impl Hash for Key<'_> {
    /// Inlined for texts, integers and addresses: a check takes 26 ns instead of 42
    /// (`cargo xtask bench memory`).
    #[inline(always)]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.repr {
            _ if self.is_secret => self.hash_rest(state),
            Repr::Plain(View::Str(text)) => {
                state.write(text.as_bytes());
                state.write_u8(b's');
            }
            Repr::Plain(View::Integer(integer)) => state.write_i128(*integer),
            Repr::Plain(View::Address(IpAddr::V4(address))) => {
                state.write_u32(address.to_bits());
                state.write_u8(b'4');
            }
            Repr::Plain(View::Address(IpAddr::V6(address))) => {
                state.write_u128(address.to_bits());
                state.write_u8(b'6');
            }
            _ => self.hash_rest(state),
        }
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view() {
            _ if self.is_secret => f.write_str("[secret]"),
            View::Str(text) => text.fmt(f),
            View::Bytes(bytes) => bytes.fmt(f),
            View::Integer(integer) => integer.fmt(f),
            View::Address(address) => address.fmt(f),
            View::Tuple(parts) => parts.fmt(f),
        }
    }
}

impl<'a> From<View<'a>> for Key<'a> {
    #[inline]
    fn from(view: View<'a>) -> Self {
        Self { repr: Repr::Plain(view), is_secret: false }
    }
}

impl<'a> From<Owned<'a>> for Key<'a> {
    fn from(owned: Owned<'a>) -> Self {
        Self { repr: Repr::Owned(Box::new(owned)), is_secret: false }
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
    &'a str: text => View::Str(text);
    &'a String: text => text.as_str();
    &'a Cow<'_, str>: text => &**text;
    String: text => Owned::Str(text);
    Cow<'a, str>: text => match text {
        Cow::Borrowed(text) => Self::from(text),
        Cow::Owned(text) => text.into(),
    };
    &'a [u8]: bytes => View::Bytes(bytes);
    Vec<u8>: bytes => Owned::Bytes(bytes);
    IpAddr: address => View::Address(address.to_canonical());
    Ipv4Addr, Ipv6Addr: address => IpAddr::from(address);
    u8, u16, u32, u64, i8, i16, i32, i64: integer => View::Integer(integer.into());
}

/// Borrows what the key owns.
impl<'a> From<&'a Key<'_>> for Key<'a> {
    fn from(key: &'a Key<'_>) -> Self {
        Self { repr: Repr::Plain(key.view()), is_secret: key.is_secret }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::from(bytes.as_slice())
    }
}

fn append(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // Writing to a vector can't fail.
    let _ = fmt::write(&mut Bytes(out), text);
}
