//! TLS to servers that demand a certificate of their clients.

use std::{fmt::Display, fs, path::Path, sync::Arc};

use limiter_redis::{
    ConnectOptions,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};
use rustls_native_certs::load_native_certs;

use crate::Failure;

/// Returns options with a client certificate and its key, from PEM files. They trust the system's
/// certificates, as connections without these options do.
pub(crate) fn options(certificate: &Path, key: &Path) -> Result<ConnectOptions, Failure> {
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| invalid(certificate, error))?;
    if chain.is_empty() {
        return Err(invalid(certificate, "it contains no certificate"));
    }
    let private =
        PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| invalid(key, error))?;
    let mut roots = RootCertStore::empty();
    let found = load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let message = format!(
            "the system has no root certificates ({:?}); name a file by SSL_CERT_FILE",
            found.errors
        );
        return Err(Failure::Usage(message));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(certificate, error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, private)
        .map_err(|error| invalid(key, error))?;
    Ok(ConnectOptions::new().with_tls(config))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file)
        .map_err(|error| Failure::Usage(format!("can't read {}: {error}", file.display())))
}

fn invalid(file: &Path, why: impl Display) -> Failure {
    let file = file.display();
    Failure::Usage(format!("invalid client certificate or key in {file}: {why}; give PEM files"))
}
