//! Options with TLS, which need a certificate.

use crate::ConnectOptions;

#[test]
fn tls_settings_are_the_same_in_clones_only() {
    let pem = limiter_rig::server::Issuer::new().root();
    let [options, other] =
        [(); 2].map(|()| ConnectOptions::new().with_root_certificates(pem.as_bytes()).unwrap());
    assert!(options.is_same(&options.clone()));
    assert!(!options.is_same(&other) && !options.is_same(&ConnectOptions::new()));
}
