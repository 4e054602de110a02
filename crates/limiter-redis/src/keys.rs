//! Where a key's state lies in the store.

use limiter_core::{Error, ErrorKind, Key};

/// Builds the store's keys of one policy: `prefix:policy:key`.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// With the colon that closes it.
    base: Vec<u8>,
}

/// The longest encoding that stands in a key as it is. A longer one is digested, so that no client
/// can fill the store with long keys; and so is one with a brace, so that none can choose the hash
/// slot in a cluster, nor a route such as `/users/{id}` put all its keys into one.
const MAX_ENCODING: usize = 64;

const MAX_PREFIX: usize = 64;

impl Keys {
    pub(crate) fn new(prefix: &str, policy: &str) -> Result<Self, Error> {
        if prefix.is_empty() || prefix.len() > MAX_PREFIX {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("the key prefix {prefix:?}: use 1 to {MAX_PREFIX} bytes"),
            ));
        }
        let mut base = Vec::new();
        for name in [prefix, policy] {
            escape(name, &mut base);
            base.push(b':');
        }
        Ok(Self { base })
    }

    pub(crate) fn of(&self, key: &Key<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.base.len() + MAX_ENCODING);
        out.extend_from_slice(&self.base);
        key.encode(&mut out);
        let encoding = out.get(self.base.len()..).unwrap_or_default();
        if encoding.len() > MAX_ENCODING || encoding.contains(&b'{') {
            // Keyed with the policy's base, and marked with a tag that no encoding has.
            let digest = sha1_smol::Sha1::from(&out).digest().bytes();
            out.truncate(self.base.len());
            out.push(b'#');
            for byte in digest.iter().take(16) {
                out.extend_from_slice(format!("{byte:02x}").as_bytes());
            }
        }
        out
    }
}

/// Returns a prefix as it stands in keys.
pub(crate) fn escaped(prefix: &str) -> String {
    let mut out = Vec::new();
    escape(prefix, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// A colon would end the name early, and braces would put the whole policy into one hash slot of a
/// cluster.
fn escape(name: &str, out: &mut Vec<u8>) {
    for byte in name.bytes() {
        match byte {
            b':' | b'%' | b'{' | b'}' => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => out.push(byte),
        }
    }
}
