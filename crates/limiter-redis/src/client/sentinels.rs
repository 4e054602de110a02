//! The primary that sentinels name, which changes at a failover.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{RespVersion, Value, config::Server},
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::fred::{
    command::{self, why_unreachable},
    node::FredNode,
    start::{self, NodeSettings, PATIENCE, RECONNECT_DELAY},
};
use crate::client::node::{Command, Connect, Node};

/// How often to poll a sentinel that reports nothing.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// How often to poll a server whether it is a primary.
const ROLE_INTERVAL: Duration = Duration::from_millis(10);

/// What a sentinel publishes when it names another primary.
const SWITCHED: &str = "+switch-master";

/// What the sentinel that leads a failover publishes when it has made a replica the primary: the replica's kind,
/// name, host and port, `@`, and the name, host and port of the primary.
///
/// It names the replica about a second later, once that has confirmed it. What the old primary is charged
/// meanwhile is lost, so the replica itself is polled for its role. Of 65,000 charges a second, tests lose 74 to 152
/// by this, and 60,000 without it.
const PROMOTED: &str = "+failover-state-wait-promotion";

/// How long that sentinel may take to name the replica.
const CONFIRMATION: Duration = Duration::from_secs(3);

/// The connection to the primary that sentinels name.
///
/// Each sentinel of the address is listened to, because the one that leads a failover, or another one, may be
/// the first to report it. The latest configuration counts, so a sentinel that was partitioned does not lead
/// back to an old primary while one with a later configuration is connected. The old one is left at once,
/// although it takes writes until the sentinels have demoted it: those would be lost.
pub(crate) struct Sentinels<C: Connect> {
    shared: Arc<Shared<C>>,
    /// Aborted when they are dropped.
    _tasks: JoinSet<()>,
}

struct Shared<C: Connect> {
    /// The primary's name for the sentinels.
    name: String,
    connect: C,
    /// What each sentinel that is connected reported last.
    reports: watch::Sender<Vec<Option<Report>>>,
    /// The connection to the primary, once its role was checked.
    primary: watch::Sender<Option<Arc<C::Node>>>,
}

/// What a sentinel says about the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    /// Grows with each failover.
    epoch: u64,
    primary: Server,
}

impl<C: Connect> Sentinels<C> {
    /// Starts to listen to the sentinels at `hosts`, which take settings `of_sentinels` without an address, and watch a
    /// primary of this `name`.
    pub(crate) fn start(
        name: String,
        connect: C,
        hosts: Vec<Server>,
        of_sentinels: &NodeSettings,
    ) -> Self {
        let shared = Arc::new(Shared {
            name,
            connect,
            reports: watch::Sender::new(vec![None; hosts.len()]),
            primary: watch::Sender::default(),
        });
        let runtime = &of_sentinels.runtime;
        let mut tasks = JoinSet::new();
        for (index, server) in hosts.into_iter().enumerate() {
            let mut settings = of_sentinels.at(server.clone());
            // In the third version of the protocol a connection that listens can also ask.
            settings.config.version = RespVersion::RESP3;
            tasks.spawn_on(Arc::clone(&shared).listen(index, server, settings), runtime);
        }
        tasks.spawn_on(Arc::clone(&shared).follow(), runtime);
        Self { shared, _tasks: tasks }
    }

    /// Returns the connection to the primary, if one was found.
    pub(crate) fn primary(&self) -> Option<Arc<C::Node>> {
        self.shared.primary.borrow().clone()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.shared.is_connected()
    }

    /// Waits until the primary is found and connected.
    pub(crate) async fn connected(&self) {
        drop(self.shared.primary.subscribe().wait_for(Option::is_some).await);
    }

    /// Returns why there is no primary.
    pub(crate) fn not_found(&self) -> String {
        self.shared.connect.last_failure().not_connected()
    }
}

impl<C: Connect> Shared<C> {
    /// Notes what a sentinel reports. Its connection is made again for ever.
    async fn listen(self: Arc<Self>, index: usize, sentinel: Server, settings: NodeSettings) {
        loop {
            let started = start::start(&settings);
            let Err(error) = self.reports_of(index, &started.client).await;
            drop(started);
            self.note(index, None);
            if !self.is_connected() {
                let why = why_unreachable(&error, settings.config.uses_tls());
                self.connect.last_failure().set(&format!("sentinel {sentinel}: {why}"));
            }
            sleep(RECONNECT_DELAY).await;
        }
    }

    /// Notes what a sentinel reports until the connection to it fails.
    async fn reports_of(&self, index: usize, client: &Client) -> Result<Infallible, FredError> {
        let connected = async {
            client.wait_for_connect().await?;
            client.subscribe(vec![SWITCHED, PROMOTED]).await
        };
        let silent = |_| FredError::new(ErrorKind::Unknown, "it does not reply");
        timeout(PATIENCE, connected).await.map_err(silent)??;
        let mut messages = client.message_rx();
        loop {
            let report = self.ask(client).await?;
            let epoch = report.epoch;
            self.note(index, Some(report));
            // Whatever ends the wait, the sentinel is polled.
            if let Ok(Ok(message)) = timeout(ASK_INTERVAL, messages.recv()).await
                && message.channel == PROMOTED
                && let Some(primary) = self.promoted(&message.value)
            {
                self.note(index, Some(Report { epoch: epoch.saturating_add(1), primary }));
                drop(timeout(CONFIRMATION, messages.recv()).await);
            }
        }
    }

    /// Asks a sentinel for the primary and its epoch.
    async fn ask(&self, client: &Client) -> Result<Report, FredError> {
        let ask = async |what: &'static str| {
            let arguments = vec![what.into(), self.name.as_str().into()];
            let command = Command::new("SENTINEL", arguments);
            command::send(client, None, command, PATIENCE).await
        };
        // During a failover the sentinel that leads it returns the new primary by this command first.
        let address = ask("GET-MASTER-ADDR-BY-NAME").await?;
        if address.is_null() {
            let why = format!("it watches no primary named {:?}", self.name);
            return Err(FredError::new(ErrorKind::NotFound, why));
        }
        let (host, port): (String, u16) = address.convert()?;
        let fields: HashMap<String, Value> = ask("MASTER").await?.convert()?;
        let epoch = fields.get("config-epoch").and_then(Value::as_u64).unwrap_or_default();
        Ok(Report { epoch, primary: Server::new(host, port) })
    }

    /// Reads which replica was promoted, unless that is another primary's.
    fn promoted(&self, message: &Value) -> Option<Server> {
        let text = message.as_str()?;
        let words: Vec<&str> = text.split(' ').collect();
        let [_, _, host, port, "@", name, ..] = words.as_slice() else { return None };
        (*name == self.name).then_some(Server::new(*host, port.parse().ok()?))
    }

    /// Stores what a sentinel reported last.
    ///
    /// A report ends with the connection to its sentinel, so that a dead one does not keep an old primary.
    fn note(&self, index: usize, report: Option<Report>) {
        self.reports.send_modify(|reports| {
            if let Some(last) = reports.get_mut(index) {
                *last = report;
            }
        });
    }

    /// Connects to the primary that the sentinels name, and to the next one once they name that. Without any report,
    /// the primary that was named last stays.
    async fn follow(self: Arc<Self>) {
        let mut reports = self.reports.subscribe();
        let mut named = None;
        loop {
            let Some(server) = another(&reports.borrow_and_update(), named.as_ref()) else {
                // Does not end, because this holds the sender.
                drop(reports.changed().await);
                continue;
            };
            let node = self.connect.connect(&server, FredNode::ONLY);
            named = Some(server);
            while another(&reports.borrow(), named.as_ref()).is_none() {
                match role(&node).await {
                    Some(role) if role == "master" => {
                        self.primary.send_replace(Some(Arc::new(node)));
                        break;
                    }
                    Some(role) if !self.is_connected() => {
                        self.connect
                            .last_failure()
                            .set(&format!("the sentinels name a server with the role {role}"));
                    }
                    // A replica that is being promoted, or a server that can't be reached.
                    Some(_) | None => {}
                }
                sleep(ROLE_INTERVAL).await;
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.primary.borrow().as_ref().is_some_and(|primary| primary.is_connected())
    }
}

/// Returns the role of a server, such as `master` or `slave`, if it says.
async fn role(node: &impl Node) -> Option<String> {
    let command = Command::new("ROLE", Vec::new());
    let reply = node.run(None, command, PATIENCE, Ok).await.ok()?;
    reply.into_array().first()?.as_string()
}

/// Returns the primary of the latest configuration, unless that is the one that is `named` already.
fn another(reports: &[Option<Report>], named: Option<&Server>) -> Option<Server> {
    let epoch = reports.iter().flatten().map(|report| report.epoch).max()?;
    let mut latest = reports.iter().flatten().filter(|report| report.epoch == epoch);
    let is_named = latest.clone().any(|report| Some(&report.primary) == named);
    latest.next().filter(|_| !is_named).map(|report| report.primary.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(epoch: u64, host: &str) -> Option<Report> {
        Some(Report { epoch, primary: Server::new(host, 6379) })
    }

    #[test]
    fn the_latest_configuration_counts() {
        let named = |reports: &[Option<Report>], named: Option<&str>| {
            let named = named.map(|host| Server::new(host, 6379));
            another(reports, named.as_ref()).map(|server| server.host.to_string())
        };
        assert_eq!(named(&[None, None], Some("a")), None);
        assert_eq!(named(&[None, report(1, "a")], None).as_deref(), Some("a"));
        let partitioned = [report(1, "a"), report(2, "b"), report(1, "a")];
        assert_eq!(named(&partitioned, Some("a")).as_deref(), Some("b"));
        // Sentinels that name one server by its address and by its host name.
        let names = [report(2, "10.0.0.2"), report(2, "b")];
        assert_eq!(named(&names, Some("b")), None);
        assert_eq!(named(&names, Some("a")).as_deref(), Some("10.0.0.2"));
    }
}
