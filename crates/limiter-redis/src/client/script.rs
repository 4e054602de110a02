//! A script, as clients send it.

use bytes::Bytes;

/// Returns the digest by which servers know a script: SHA-1 in hexadecimal digits.
#[must_use]
pub fn digest(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

/// A script, as it is called and as it is sent. A clone shares its texts.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) digest: Bytes,
    pub(crate) source: Bytes,
}

impl Script {
    pub(crate) fn new(source: String) -> Self {
        Self { digest: digest(&source).into(), source: source.into() }
    }

    /// Returns the command that the script calls in a line, counted from 1.
    pub(crate) fn command_at(&self, line: usize) -> Option<&str> {
        let source = str::from_utf8(&self.source).ok()?;
        let (_, call) = source.lines().nth(line.checked_sub(1)?)?.split_once("call('")?;
        call.split_once('\'').map(|(command, _)| command)
    }
}
