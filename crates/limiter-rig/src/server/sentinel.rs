//! A primary, a replica, and three sentinels that watch them.

use std::{fs, io};

use super::{Folder, Server, binary, wait_until};

/// Two of them have to agree.
const SENTINELS: usize = 3;

/// A primary and a replica, and the sentinels that have the replica take the primary's place.
///
/// ```no_run
/// let mut set = limiter_rig::server::Sentinels::start();
/// let (old, new) = (set.server(0).port(), set.server(1).port());
/// assert_eq!(set.primary(), Some(old));
/// set.server_mut(0).kill();
/// // Half a second until they miss it, and a second or two until they have agreed.
/// while set.primary() != Some(new) {}
/// ```
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// The name under which the primary is watched.
    pub const NAME: &str = "main";

    /// Starts all, and returns once the sentinels know each other and the replica.
    ///
    /// # Panics
    ///
    /// When they don't start.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts all, the primary and the replica with further arguments.
    ///
    /// # Panics
    ///
    /// When they don't start.
    #[must_use]
    #[track_caller]
    pub fn start_with(extra: &[&str]) -> Self {
        Self::of(|options| Server::start_with(&[extra, options].concat()), sentinel)
    }

    /// Starts the servers by `start`, with what makes one a replica, and the sentinels by
    /// `sentinel`, with settings that are made of the port.
    #[track_caller]
    pub(super) fn of(
        start: impl Fn(&[&str]) -> Server,
        sentinel: impl Fn(&dyn Fn(u16) -> String) -> Server,
    ) -> Self {
        let primary = start(&[]);
        let watched = primary.public_port();
        let replica = start(&["--replicaof", "127.0.0.1", &watched.to_string()]);
        wait_until("the replica has caught up", || {
            let info = replica.command(&["INFO", "replication"]);
            info.is_ok_and(|info| info.contains("master_link_status:up"))
        });
        let settings = |port| settings(port, watched);
        let sentinels: Vec<Server> = (0..SENTINELS).map(|_| sentinel(&settings)).collect();
        let all = Self { servers: vec![primary, replica], sentinels };
        for sentinel in &all.sentinels {
            wait_until("a sentinel knows the others", || {
                let state = sentinel.command(&["SENTINEL", "MASTER", Self::NAME]);
                state.is_ok_and(|state| {
                    field(&state, "num-slaves") == Some("1")
                        && field(&state, "num-other-sentinels") == Some("2")
                })
            });
        }
        all
    }

    /// The address in the form that clients take, with all sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let first = self.sentinel(0);
        let (encrypted, port) = (first.encrypted(), first.public_port());
        let mut url = format!("redis{encrypted}-sentinel://127.0.0.1:{port}");
        url = format!("{url}?sentinelServiceName={}", Self::NAME);
        for sentinel in self.sentinels.iter().skip(1) {
            url = format!("{url}&node=127.0.0.1:{}", sentinel.public_port());
        }
        url
    }

    /// The port of the primary, as the last sentinel tells.
    #[must_use]
    pub fn primary(&self) -> Option<u16> {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME];
        let reply = self.sentinel(SENTINELS - 1).command(&words).ok()?;
        // `*2`, the length of the host, the host, the length of the port, the port.
        reply.lines().nth(4)?.parse().ok()
    }

    /// A server: 0 is the primary to begin with, 1 its replica.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    #[must_use]
    pub fn server(&self, index: usize) -> &Server {
        self.servers.get(index).expect("there are two servers")
    }

    /// A server, to kill it or to start it again.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    pub fn server_mut(&mut self, index: usize) -> &mut Server {
        self.servers.get_mut(index).expect("there are two servers")
    }

    /// A sentinel, 0 to 2.
    ///
    /// # Panics
    ///
    /// When there is no such sentinel.
    #[must_use]
    pub fn sentinel(&self, index: usize) -> &Server {
        self.sentinels.get(index).expect("there are three sentinels")
    }
}

/// Starts a sentinel with settings that are made of the port.
#[track_caller]
fn sentinel(settings: &dyn Fn(u16) -> String) -> Server {
    let started = binary().and_then(|binary| {
        Server::spawn_as(&binary, |port, folder| arguments(folder, &settings(port)))
    });
    match started {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the settings of a sentinel that watches the primary at the port `watched`.
fn settings(port: u16, watched: u16) -> String {
    let name = Sentinels::NAME;
    format!(
        "port {port}\nbind 127.0.0.1\n\
         sentinel monitor {name} 127.0.0.1 {watched} 2\n\
         sentinel down-after-milliseconds {name} 500\n\
         sentinel failover-timeout {name} 2000\n"
    )
}

/// Writes the file in which a sentinel finds its settings and keeps its state, and returns the
/// arguments with which it does.
pub(super) fn arguments(folder: &Folder, settings: &str) -> io::Result<Vec<String>> {
    fs::write(folder.path().join("sentinel.conf"), settings)?;
    Ok(["sentinel.conf", "--sentinel"].map(str::to_owned).to_vec())
}

/// Returns a field of a reply that is a list of names and values.
fn field<'a>(reply: &'a str, name: &str) -> Option<&'a str> {
    // Between the two is the length of the value.
    reply.lines().skip_while(|line| *line != name).nth(2)
}
