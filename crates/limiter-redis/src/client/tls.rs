//! The certificates that an encrypted connection trusts.

use std::sync::Arc;

use fred::{rustls_native_certs, types::config::TlsConnector};
use limiter_core::{Error, ErrorKind};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Returns the settings that trust the system's certificates.
pub(crate) fn trusting_the_system() -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(invalid(format!("the system has none ({:?}); pass some", found.errors)));
    }
    settings(roots)
}

/// Returns the settings that trust the certificates in `pem`.
pub(crate) fn trusting(pem: &[u8]) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(invalid("the PEM text contains none".to_owned()));
    }
    settings(roots)
}

fn settings(roots: RootCertStore) -> Result<TlsConnector, Error> {
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
