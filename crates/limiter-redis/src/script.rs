//! A script's source and digest.

use std::sync::Arc;

use crate::client::ScriptName;

/// A script, as it is sent and called.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    source: Arc<str>,
    digest: Arc<str>,
}

impl Script {
    pub(crate) fn new(source: String) -> Self {
        let digest = sha1_smol::Sha1::from(&source).digest().to_string();
        Self { source: source.into(), digest: digest.into() }
    }

    pub(crate) fn by_digest(&self) -> ScriptName {
        ScriptName::Digest(Arc::clone(&self.digest))
    }

    pub(crate) fn by_source(&self) -> ScriptName {
        ScriptName::Source(Arc::clone(&self.source))
    }
}
