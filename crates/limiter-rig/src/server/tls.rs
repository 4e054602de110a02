//! Certificates of one's own, and servers that encrypt by themselves.

use std::{
    cell::Cell, collections::hash_map::RandomState, env, fs, hash::BuildHasher, path::PathBuf,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::{Cluster, Folder, Sentinels, Server, free_port};

/// One who signs certificates, whom no one trusts but those who are told to.
#[derive(Debug)]
pub struct Issuer(CertifiedIssuer<'static, KeyPair>);

/// Servers with a port for encrypted connections beside the plain one, by which tests command
/// them. Encrypted, they talk to each other too.
///
/// ```no_run
/// use limiter_rig::server::Tls;
///
/// let tls = Tls::new();
/// let server = tls.start();
/// assert!(server.url().starts_with("rediss://"));
/// ```
#[derive(Debug)]
pub struct Tls {
    binary: PathBuf,
    issuer: Issuer,
    /// With the files that servers read.
    folder: Folder,
}

impl Issuer {
    /// Makes the certificate by which those that it signs are known.
    ///
    /// # Panics
    ///
    /// When it can't be made.
    #[must_use]
    pub fn new() -> Self {
        let mut own = CertificateParams::default();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A name that no one else has, above all not those that it signs: signatures are looked up
        // by names.
        let name = RandomState::new().hash_one("issuer");
        own.distinguished_name.push(DnType::CommonName, format!("issuer {name}"));
        let key = KeyPair::generate().expect("a key is made");
        Self(CertifiedIssuer::self_signed(own, key).expect("a certificate is made"))
    }

    /// Its own certificate, as PEM.
    #[must_use]
    pub fn root(&self) -> String {
        self.0.as_ref().pem()
    }

    /// Returns its own certificate and its key, both as PEM: for a server that takes one for the other.
    #[must_use]
    pub fn own(&self) -> (String, String) {
        (self.root(), self.0.key().serialize_pem())
    }

    /// Makes a certificate for 127.0.0.1, and returns it and its key, both as PEM.
    ///
    /// # Panics
    ///
    /// When it can't be made.
    #[must_use]
    pub fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().expect("a key is made");
        let names = vec!["127.0.0.1".to_owned()];
        let signed = CertificateParams::new(names).and_then(|own| own.signed_by(&key, &self.0));
        (signed.expect("a certificate is made").pem(), key.serialize_pem())
    }
}

impl Default for Issuer {
    fn default() -> Self {
        Self::new()
    }
}

impl Tls {
    /// Returns what is needed to start servers that encrypt, with the binary that `LIMITER_TLS_SERVER` names.
    ///
    /// # Panics
    ///
    /// If the variable is not set, or the certificates can't be written. `cargo xtask test` sets it, because most binaries
    /// can't encrypt.
    #[expect(clippy::new_without_default, reason = "it panics without a variable")]
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        let binary = env::var_os("LIMITER_TLS_SERVER");
        let binary = binary.expect("LIMITER_TLS_SERVER names a server that encrypts");
        let binary = PathBuf::from(binary);
        let (issuer, folder) = (Issuer::new(), Folder::create().expect("there is a folder"));
        let (certificate, key) = issuer.sign();
        for (name, text) in [("ca.pem", issuer.root()), ("own.pem", certificate), ("key.pem", key)]
        {
            fs::write(folder.path().join(name), text).expect("a file is written");
        }
        Self { binary, issuer, folder }
    }

    /// Who has signed the servers' certificates, and signs for clients.
    #[must_use]
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Starts a server that asks clients for no certificate.
    ///
    /// # Panics
    ///
    /// When it does not start.
    #[must_use]
    #[track_caller]
    pub fn start(&self) -> Server {
        self.start_with(&[])
    }

    /// Starts a server with further arguments, such as `["--tls-auth-clients", "yes"]`.
    ///
    /// # Panics
    ///
    /// When it does not start.
    #[must_use]
    #[track_caller]
    pub fn start_with(&self, extra: &[&str]) -> Server {
        self.run(|port, tls_port, _| {
            let plain = [("port", port.to_string()), ("bind", "127.0.0.1".to_owned())];
            let memory_only = [("save", String::new()), ("appendonly", "no".to_owned())];
            let settings = plain.into_iter().chain(memory_only).chain(self.settings(tls_port));
            let arguments = settings.flat_map(|(name, value)| [format!("--{name}"), value]);
            arguments.chain(extra.iter().map(ToString::to_string)).collect()
        })
    }

    /// Starts three primaries that encrypt what they say to each other.
    ///
    /// # Panics
    ///
    /// When they don't start.
    #[must_use]
    #[track_caller]
    pub fn start_cluster(&self) -> Cluster {
        Cluster::of(super::cluster::PRIMARIES, |options| {
            self.start_with(&[options, &["--tls-cluster", "yes"]].concat())
        })
    }

    /// Starts a primary, a replica and the sentinels, all of which encrypt.
    ///
    /// # Panics
    ///
    /// When they don't start.
    #[must_use]
    #[track_caller]
    pub fn start_sentinels(&self) -> Sentinels {
        let replication = ["--tls-replication", "yes"];
        Sentinels::of(
            |options| self.start_with(&[options, &replication].concat()),
            |settings| {
                self.run(|port, tls_port, folder| {
                    let own =
                        self.settings(tls_port).map(|(name, value)| format!("{name} {value}\n"));
                    let own: String = own.collect();
                    let settings = format!("{}{own}tls-replication yes\n", settings(port));
                    super::sentinel::arguments(folder, &settings).expect("a file is written")
                })
            },
        )
    }

    fn settings(&self, port: u16) -> impl Iterator<Item = (&'static str, String)> {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        [
            ("tls-port", port.to_string()),
            ("tls-ca-cert-file", file("ca.pem")),
            ("tls-cert-file", file("own.pem")),
            ("tls-key-file", file("key.pem")),
            ("tls-auth-clients", "no".to_owned()),
        ]
        .into_iter()
    }

    /// Starts the binary with arguments that are made of two free ports and its folder.
    #[track_caller]
    fn run(&self, arguments: impl Fn(u16, u16, &Folder) -> Vec<String>) -> Server {
        let tls_port = Cell::new(0);
        let server = Server::spawn_as(&self.binary, |port, folder| {
            tls_port.set(free_port()?);
            Ok(arguments(port, tls_port.get(), folder))
        });
        match server {
            Ok(server) => Server { tls_port: Some(tls_port.get()), ..server },
            Err(error) => panic!("{error}"),
        }
    }
}
