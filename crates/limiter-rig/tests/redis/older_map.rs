//! Nodes of a cluster that return different maps of the slots, such as one that was partitioned. The nodes are
//! programs of the test, because a real one can't be kept from the news of the others.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use limiter_redis::{Connection, Fault, ScriptCall, ScriptClient, connect};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::scripted::command;

/// What a node says about the two primaries of the cluster, which have half of the slots each: their ports and
/// their configuration epochs.
type View = [(u16, u64); 2];

struct Node {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    view: View,
    /// The reply to scripts.
    reply: String,
    /// How often it was asked for its map.
    maps: u64,
}

impl Node {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State { reply: ":1".to_owned(), ..State::default() }));
        let of_node = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(tokio::spawn(serve(stream, Arc::clone(&of_node))));
            }
        });
        Self { port, state }
    }

    fn says(&self, view: View) {
        self.state.lock().unwrap().view = view;
    }

    fn replies(&self, reply: String) {
        self.state.lock().unwrap().reply = reply;
    }

    fn maps(&self) -> u64 {
        self.state.lock().unwrap().maps
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) -> Option<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let words = command(&mut reader).await?;
        let State { view, reply, .. } = state.lock().unwrap().clone();
        let bulk = |text: String| format!("${}\r\n{text}", text.len());
        let text = match [&*words[0], words.get(1).map_or("", |word| word)] {
            ["CLUSTER", "SLOTS"] => {
                state.lock().unwrap().maps += 1;
                let half = |(first, last, port): (u16, u16, u16)| {
                    let node = format!("*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n{}", bulk(id(port)));
                    format!("\r\n*3\r\n:{first}\r\n:{last}\r\n{node}")
                };
                let [first, second] = view.map(|(port, _)| port);
                format!("*2{}{}", half((0, 8_191, first)), half((8_192, 16_383, second)))
            }
            ["CLUSTER", "NODES"] => bulk(view.map(line).concat()),
            ["EVAL" | "EVALSHA", _] => reply,
            ["INFO", _] => bulk("redis_version:7.0.0".to_owned()),
            _ => "+OK".to_owned(),
        };
        writer.write_all(format!("{text}\r\n").as_bytes()).await.ok()?;
    }
}

fn id(port: u16) -> String {
    format!("{port:040}")
}

fn line((port, epoch): (u16, u64)) -> String {
    format!("{} 127.0.0.1:{port}@1{port} master - 0 0 {epoch} connected 0-1\n", id(port))
}

/// Three nodes, and a connection to the first, by which both primaries are the first and the second.
async fn connected() -> ([Node; 3], Connection) {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    let view = [(nodes[0].port, 1), (nodes[1].port, 2)];
    nodes.iter().for_each(|node| node.says(view));
    let url = format!("redis-cluster://127.0.0.1:{}", nodes[0].port);
    let connection = connect(&url).await.unwrap();
    (nodes, connection)
}

/// Returns keys of two slots of the first or the second primary.
fn keys_of(connection: &Connection, node: &Node) -> [Vec<u8>; 2] {
    let keys = (0..).map(|number: u64| number.to_string().into_bytes());
    let mut keys = keys.filter(|key| port_of(connection, key) == node.port);
    [(); 2].map(|()| keys.next().unwrap())
}

fn port_of(connection: &Connection, key: &[u8]) -> u16 {
    let (_, name) = connection.server_of(key).unwrap();
    name.rsplit_once(':').unwrap().1.parse().unwrap()
}

async fn run(connection: &Connection, key: &[u8]) -> Result<(), Fault> {
    let call = ScriptCall::new("return 1", vec![key.to_vec().into()]);
    let result = connection.run(&call, Duration::from_secs(5)).await;
    result.map(drop).map_err(|error| error.fault())
}

/// Has the slots refreshed until the second primary's slots are at a node.
async fn until_at(connection: &Connection, [first, second]: [&[u8]; 2], node: &Node) {
    let start = Instant::now();
    while port_of(connection, second) != node.port {
        assert!(start.elapsed() < crate::GIVE_UP_AFTER, "the slots are not learned");
        let _ = run(connection, first).await;
        sleep(Duration::from_millis(10)).await;
    }
}

/// Once the older map of a node replaced the newer one, each time that the node was the next to be asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_map_of_a_partitioned_node_replaces_no_newer_one() {
    let ([partitioned, old, new], connection) = connected().await;
    let [first, _] = keys_of(&connection, &partitioned);
    let [redirected, second] = keys_of(&connection, &old);
    // The third node takes the place of the second, which the first does not learn.
    let view = [(partitioned.port, 1), (new.port, 3)];
    old.says(view);
    new.says(view);
    old.replies(format!("-MOVED 1 127.0.0.1:{}", new.port));
    // After such a reply, the slots are refreshed.
    partitioned.replies("-MASTERDOWN Link with MASTER is down".to_owned());
    assert_eq!(run(&connection, &redirected).await, Ok(()));
    // A redirection moves its slot alone, and the map all.
    until_at(&connection, [&first, &second], &new).await;

    let (start, before) = (Instant::now(), partitioned.maps());
    while partitioned.maps() < before + 4 {
        assert!(start.elapsed() < crate::GIVE_UP_AFTER, "the map is not asked for");
        assert_eq!(run(&connection, &first).await, Err(Fault::NotPrimary));
        assert_eq!(port_of(&connection, &second), new.port, "after {:?}", start.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
}

/// The epochs of a cluster that is created again begin anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_map_counts_if_no_node_has_a_newer_one() {
    let (nodes, connection) = connected().await;
    let [[first, _], [second, _]] = [&nodes[0], &nodes[1]].map(|node| keys_of(&connection, node));
    let view = [(nodes[0].port, 0), (nodes[2].port, 1)];
    nodes.iter().for_each(|node| node.says(view));
    nodes[0].replies("-MASTERDOWN Link with MASTER is down".to_owned());
    until_at(&connection, [&first, &second], &nodes[2]).await;
}
