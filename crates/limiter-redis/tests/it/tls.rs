//! Encrypted connections, to a server behind one that encrypts: most servers at hand can't.

use std::sync::Arc;

use limiter_core::{Cost, ErrorKind, Limiter, Policy, Quota};
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_test::server::Server;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use crate::faults::recover;

/// Encrypts what goes to and from a server.
struct Encrypted {
    port: u16,
    /// The certificate of whoever signed the server's, as PEM.
    root: String,
}

impl Encrypted {
    /// Stands before the server at `port`, with a certificate for 127.0.0.1.
    async fn start(server: u16) -> Self {
        let mut root = CertificateParams::new(vec![]).unwrap();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let own: CertificateDer = own.signed_by(&key, &root).unwrap().into();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not trust it goes away.
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { port, root: root.as_ref().pem() }
    }

    fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }
}

fn policy() -> Policy {
    Policy::gcra("test", Quota::per_day(2).unwrap()).unwrap()
}

#[tokio::test]
async fn a_server_with_a_certificate_that_is_trusted_is_served() {
    let server = Server::start();
    let encrypted = Encrypted::start(server.port()).await;
    let options = ConnectOptions::new().with_root_certificates(encrypted.root.as_bytes()).unwrap();
    let client = connect_with(&encrypted.url(), &options).await.unwrap();
    let limiter = RedisLimiter::new(client, policy()).unwrap();
    assert_eq!(recover(&limiter).await.0.remaining(), 1);
    assert_eq!(recover(&limiter).await.0.remaining(), 0);
    assert!(!recover(&limiter).await.0.is_admitted());
}

#[tokio::test]
async fn a_server_with_a_certificate_that_is_not_trusted_is_not_connected_to() {
    let server = Server::start();
    let encrypted = Encrypted::start(server.port()).await;
    let other = Encrypted::start(server.port()).await;
    let options = ConnectOptions::new().with_root_certificates(other.root.as_bytes()).unwrap();
    let client = connect_with(&encrypted.url(), &options).await.unwrap();
    let limiter = RedisLimiter::new(client, policy()).unwrap();
    let error = limiter.check(&"key".into(), Cost::ONE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("InvalidCertificate"), "{error}");
}

#[tokio::test]
async fn certificates_that_would_not_be_used_are_refused() {
    let encrypted = Encrypted::start(1).await;
    let options = ConnectOptions::new().with_root_certificates(encrypted.root.as_bytes()).unwrap();
    let error = connect_with("redis://127.0.0.1:1", &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert!(error.to_string().ends_with("it does not begin with rediss"), "{error}");

    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for pem in ["", "nonsense", broken] {
        let error = ConnectOptions::new().with_root_certificates(pem.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting, "{pem}");
    }
}
