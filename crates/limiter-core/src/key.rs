//! Whose permits are counted.

use alloc::{borrow::Cow, string::String, vec::Vec};
use core::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Whose permits are counted: a string, bytes, an integer, an address, or several of these.
///
/// Keys of different kinds never collide (`7` is not `"7"`), nor do different tuples: `("a", "bc")`
/// is not `("ab", "c")`. An IPv4 address mapped into IPv6 is the IPv4 address. Equal integers are
/// equal keys, whatever their types. Borrowed values stay borrowed, so that only a tuple allocates.
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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key<'a>(Repr<'a>);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr<'a> {
    Str(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Integer(i128),
    /// Canonical: never an IPv4 address mapped into IPv6.
    Address(IpAddr),
    Tuple(Vec<Key<'a>>),
}

impl<'a> Key<'a> {
    /// Returns the key of several parts, in their order.
    #[must_use]
    pub fn tuple(parts: impl Into<Vec<Self>>) -> Self {
        Self(Repr::Tuple(parts.into()))
    }

    /// Appends the key's encoding to `out`: a tag and the value, readable where the value is.
    ///
    /// Different keys have different encodings. The encoding is stable, so that a store shared by
    /// several versions of a program finds the same key.
    ///
    /// ```
    /// use limiter_core::Key;
    ///
    /// let mut out = Vec::new();
    /// Key::tuple([Key::from("/search"), Key::from(42)]).encode(&mut out);
    /// assert_eq!(out, b"t8:s/search3:i42");
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Str(text) => {
                out.push(b's');
                out.extend_from_slice(text.as_bytes());
            }
            Repr::Bytes(bytes) => {
                out.push(b'b');
                out.extend_from_slice(bytes);
            }
            Repr::Integer(integer) => append(out, format_args!("i{integer}")),
            Repr::Address(address) => append(out, format_args!("a{address}")),
            Repr::Tuple(parts) => {
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

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Str(text) => text.fmt(f),
            Repr::Bytes(bytes) => bytes.fmt(f),
            Repr::Integer(integer) => integer.fmt(f),
            Repr::Address(address) => address.fmt(f),
            Repr::Tuple(parts) => parts.fmt(f),
        }
    }
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(text: &'a str) -> Self {
        Self(Repr::Str(Cow::Borrowed(text)))
    }
}

impl<'a> From<&'a String> for Key<'a> {
    fn from(text: &'a String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for Key<'_> {
    fn from(text: String) -> Self {
        Self(Repr::Str(Cow::Owned(text)))
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Repr::Bytes(Cow::Borrowed(bytes)))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::from(bytes.as_slice())
    }
}

impl From<Vec<u8>> for Key<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Repr::Bytes(Cow::Owned(bytes)))
    }
}

impl<'a> From<Cow<'a, str>> for Key<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self(Repr::Str(text))
    }
}

impl From<IpAddr> for Key<'_> {
    fn from(address: IpAddr) -> Self {
        Self(Repr::Address(address.to_canonical()))
    }
}

impl From<Ipv4Addr> for Key<'_> {
    fn from(address: Ipv4Addr) -> Self {
        IpAddr::V4(address).into()
    }
}

impl From<Ipv6Addr> for Key<'_> {
    fn from(address: Ipv6Addr) -> Self {
        IpAddr::V6(address).into()
    }
}

macro_rules! from_integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for Key<'_> {
            fn from(integer: $integer) -> Self {
                Self(Repr::Integer(integer.into()))
            }
        }
    )*};
}
from_integers!(u8 u16 u32 u64 i8 i16 i32 i64);

fn append(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // Neither integers, addresses nor the vector can fail to be written.
    let _ = fmt::write(&mut Bytes(out), text);
}
