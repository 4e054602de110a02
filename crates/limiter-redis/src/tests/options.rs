//! Options with TLS, which need a certificate.

use crate::ConnectOptions;

/// The root certificate of nobody.
const ROOT: &str = "\
-----BEGIN CERTIFICATE-----
MIIBdDCCARugAwIBAgIUI1JQmDTSHm1Wlf922RdRveDxNkwwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjgxOTI3MTdaGA8yMTI2MTEwNDE5Mjcx
N1owDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJIW
zzvl3Y7NKfq6M/qUH9ajgfkH5loY+zGKzrS41ANG3hiq/mYYSHXVrz6XAbkTuwmu
A3yo1j+jfnyXKM/hRNWjUzBRMB0GA1UdDgQWBBTXVYUzQYxPj+Dx9yzfE743Yua2
JjAfBgNVHSMEGDAWgBTXVYUzQYxPj+Dx9yzfE743Yua2JjAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0cAMEQCIB+38Lk17CuUkEjXB9QU/097T0Qw1V2uQGS8
Y9Y9TnD2AiB7VBaP9irUwHuMjx8ZxeYfCK12uaVBVpaXxccEXlUssQ==
-----END CERTIFICATE-----
";

#[test]
fn tls_settings_are_the_same_in_clones_only() {
    let [options, other] =
        [(); 2].map(|()| ConnectOptions::new().with_root_certificates(ROOT.as_bytes()).unwrap());
    assert!(options.is_same(&options.clone()));
    assert!(!options.is_same(&other) && !options.is_same(&ConnectOptions::new()));
}
