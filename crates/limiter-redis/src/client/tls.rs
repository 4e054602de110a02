//! The options of encrypted connections, and the certificates that these trust.

use std::sync::Arc;

use fred::{rustls_native_certs, types::config::TlsConnector};
use limiter_core::{Error, ErrorKind};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::options::ConnectOptions;

impl ConnectOptions {
    /// Trusts the certificates in `pem`, and those that they signed, instead of the system's.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if `pem` contains no certificate, or an invalid one.
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, Error> {
        self.tls = Some(trusting(pem)?);
        Ok(self)
    }

    /// Sets the whole TLS configuration, for example with a client certificate.
    #[must_use]
    pub fn with_tls(mut self, config: ClientConfig) -> Self {
        self.tls = Some(config.into());
        self
    }
}

/// Returns the settings that trust the system's certificates.
pub(crate) fn trusting_the_system() -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    settings(roots, format!("the system has none ({:?}); pass some", found.errors))
}

/// Returns the settings that trust the certificates in `pem`.
fn trusting(pem: &[u8]) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
    }
    settings(roots, "the PEM text contains none".to_owned())
}

fn settings(roots: RootCertStore, why_empty: String) -> Result<TlsConnector, Error> {
    if roots.is_empty() {
        return Err(invalid(why_empty));
    }
    // Explicit, because there is no default if a program links several providers.
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth().into())
}

fn invalid(why: String) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("invalid root certificates for TLS: {why}"))
}
