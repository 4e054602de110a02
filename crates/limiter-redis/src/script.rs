//! A script's source and digest, made once a process.

use std::sync::{Arc, LazyLock};

use crate::client::ScriptName;

/// A script: a prelude that sets the local `now`, in microseconds, and a body.
#[derive(Debug)]
pub(crate) struct Script {
    source: Arc<str>,
    digest: Arc<str>,
}

/// Sets `now` from the server's clock.
const PRELUDE: &str = include_str!("scripts/prelude.lua");

pub(crate) static GCRA: LazyLock<Script> =
    LazyLock::new(|| Script::new(PRELUDE, include_str!("scripts/gcra.lua")));

impl Script {
    pub(crate) fn new(prelude: &str, body: &str) -> Self {
        let source = format!("{prelude}\n{body}");
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
