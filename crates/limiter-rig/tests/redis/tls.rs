//! Encrypted connections.

use std::{sync::Arc, time::Duration};

use limiter_core::{Error, ErrorKind, Policy, Quota};
use limiter_redis::{
    ConnectOptions, RedisLimiter, connect_with,
    rustls::{ClientConfig, RootCertStore},
};
use limiter_rig::server::{Issuer, Server, Tls};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::{
    daily,
    evidence::{loses_what_is_under_way, protects},
    recover,
    sentinel::follows,
};

/// Starts a proxy before the server at a port, which encrypts with a certificate and its key, and returns its address.
async fn encrypted(server: u16, (own, key): (String, String)) -> String {
    let own = CertificateDer::from_pem_slice(own.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust it disconnects.
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    url
}

fn trusting(issuer: &Issuer) -> ConnectOptions {
    ConnectOptions::new().with_root_certificates(issuer.root().as_bytes()).unwrap()
}

/// Returns a limiter of `limit` permits a day, with so long a deadline that only what fails is
/// an error, and not what is slow.
async fn patient(url: &str, limit: u64, options: &ConnectOptions) -> RedisLimiter {
    let policy = Policy::gcra("test", Quota::per_day(limit));
    let client = connect_with(url, options).await.unwrap();
    RedisLimiter::builder(policy).deadline(Duration::from_secs(5)).build_on(client).unwrap()
}

/// Shows that a limiter of two permits is served.
async fn served(limiter: &RedisLimiter) {
    assert_eq!(recover(limiter).await.0.remaining(), 1);
    assert_eq!(recover(limiter).await.0.remaining(), 0);
    assert!(!recover(limiter).await.0.is_admitted());
}

/// Returns why a server is not connected to.
async fn refusal(url: &str, options: &ConnectOptions) -> Error {
    let limiter = patient(url, 2, options).await;
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    error
}

#[tokio::test]
async fn a_certificate_that_is_its_own_authority_is_explained() {
    let server = Server::start();
    let issuer = Issuer::new();
    let url = encrypted(server.port(), issuer.own()).await;
    let error = refusal(&url, &trusting(&issuer)).await.to_string();
    assert!(error.contains("the server's certificate is self-signed"), "{error}");
    assert!(!error.contains("OtherError"), "{error}");
}

#[tokio::test]
async fn a_port_that_does_not_encrypt_is_named_as_such() {
    let server = Server::start();
    let url = server.url().replace("redis://", "rediss://");
    let error = refusal(&url, &trusting(&Issuer::new())).await.to_string();
    assert!(
        error.ends_with("If the port has no TLS, use redis:// instead of rediss://"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_encrypts_is_served() {
    let tls = Tls::new();
    let server = tls.start();
    served(&patient(&server.url(), 2, &trusting(tls.issuer())).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_a_server_that_encrypts_is_one_of_any_server() {
    let tls = Tls::new();
    let server = tls.start();
    let client = connect_with(&server.url(), &trusting(tls.issuer())).await.unwrap();
    let limiter = |deadline| {
        let builder = RedisLimiter::builder(daily(1_000_000));
        builder.deadline(Duration::from_millis(deadline)).build_on(client.clone()).unwrap()
    };
    // Longer than the machine may be busy with other tests.
    loses_what_is_under_way(&server, &limiter(1_000)).await;
    protects(&limiter(50), 16, async { server.pause() }, async { server.resume() }).await;
}

#[tokio::test]
async fn a_server_by_another_issuer_or_name_is_not_connected_to() {
    let tls = Tls::new();
    let server = tls.start();
    let error = refusal(&server.url(), &trusting(&Issuer::new())).await;
    assert!(error.to_string().contains("InvalidCertificate(UnknownIssuer)"), "{error}");
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let error = refusal(&by_name, &trusting(tls.issuer())).await;
    assert!(error.to_string().contains("NotValidForName"), "{error}");
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), ":0");
}

#[tokio::test]
async fn a_server_that_demands_a_certificate_is_shown_one() {
    let tls = Tls::new();
    let server = tls.start_with(&["--tls-auth-clients", "yes"]);
    let error = refusal(&server.url(), &trusting(tls.issuer())).await;
    assert!(error.to_string().contains("CertificateRequired"), "{error}");

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(tls.issuer().root().as_bytes()).unwrap()).unwrap();
    let (own, key) = tls.issuer().sign();
    let own = CertificateDer::from_pem_slice(own.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own], key)
        .unwrap();
    let options = ConnectOptions::new().with_tls(config);
    served(&patient(&server.url(), 2, &options).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_encrypts_is_followed_from_node_to_node() {
    let tls = Tls::new();
    let cluster = tls.start_cluster();
    let limiter = patient(&cluster.url(), 100, &trusting(tls.issuer())).await;
    for number in 0..50 {
        let decision = limiter.check(format!("key{number}")).await.unwrap();
        assert_eq!(decision.remaining(), 99);
    }
    let sizes = (0..3).map(|node| cluster.node(node).command(&["DBSIZE"]).unwrap());
    assert!(sizes.clone().all(|size| size != ":0"), "{:?}", sizes.collect::<Vec<_>>());

    // Asked where the slot was, and redirected by ASK, then by MOVED, to a port that encrypts.
    let slot = cluster.slot_of("limiter:{skey0}:test");
    let moving = cluster.begin_move(slot, (cluster.owner(slot) + 1) % 3);
    moving.move_keys();
    assert_eq!(limiter.check("key0").await.unwrap().remaining(), 98);
    moving.finish();
    assert_eq!(limiter.check("key0").await.unwrap().remaining(), 97);

    let error = refusal(&cluster.url(), &trusting(&Issuer::new())).await;
    assert!(error.to_string().contains("InvalidCertificate(UnknownIssuer)"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_encrypt_lead_to_the_next_primary() {
    let tls = Tls::new();
    let mut set = tls.start_sentinels();
    let client = connect_with(&set.url(), &trusting(tls.issuer())).await.unwrap();
    let limiter = RedisLimiter::builder(daily(1_000)).build_on(client).unwrap();
    assert!(recover(&limiter).await.0.is_admitted());
    let old = set.server(0).public_port();
    set.server_mut(0).kill();
    follows(&set, &limiter, old).await;
}

#[tokio::test]
async fn certificates_that_would_not_be_used_are_refused() {
    let options = trusting(&Issuer::new());
    let error = connect_with("redis://127.0.0.1:1", &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert!(
        error.to_string().ends_with("the options have TLS settings; use rediss:// or remove them"),
        "{error}"
    );

    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for pem in ["", "nonsense", broken] {
        let error = ConnectOptions::new().with_root_certificates(pem.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting, "{pem}");
    }
}
