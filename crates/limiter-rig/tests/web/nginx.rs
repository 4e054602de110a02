//! The client behind two hops of a real nginx.
//!
//! The client is 127.0.0.4. It connects to 127.0.0.2, which connects to 127.0.0.3, which connects to
//! the program.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener as StdListener},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use axum::{Router, extract::Request, routing::get};
use http::HeaderName;
use limiter_rig::server::Folder;
use limiter_tower::ClientIp;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    time::sleep,
};

use crate::binary;

const PROXIES: [&str; 2] = ["127.0.0.2/32", "127.0.0.3/32"];
const CLIENT: &str = "127.0.0.4";
const READY_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_client_of_two_hops_of_nginx_is_the_one_that_connects_to_the_first() {
    let app = Router::new().route("/", get(respond));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let app_address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, service).await });
    let (nginx, first_hop) = Nginx::start(app_address).await;

    for fields in [
        "",
        "X-Forwarded-For: 198.51.100.1\r\nForwarded: for=198.51.100.1\r\nX-Real-IP: 198.51.100.1\r\n",
        "X-Forwarded-For: 127.0.0.2\r\nForwarded: for=127.0.0.2\r\nX-Real-IP: 127.0.0.2\r\n",
        "X-Forwarded-For: a\r\nX-Forwarded-For: 1.1.1.1\r\nX-Real-IP: a\r\nX-Real-IP: 1.1.1.1\r\n",
        "X-Forwarded-For: unknown, ,\r\nForwarded: for=unknown, ,\r\n",
        "Forwarded: for=\"\r\n",
        "Forwarded: for=\"\\\r\n",
    ] {
        let expected = "peer 127.0.0.3, behind 127.0.0.4, hops 127.0.0.4, forwarded 127.0.0.4, \
                        header 127.0.0.4";
        assert_eq!(send(connect(first_hop).await, fields).await, expected, "{fields:?}");

        let direct = "peer 127.0.0.4, behind 127.0.0.4, hops 127.0.0.4, forwarded 127.0.0.4, \
                      header 127.0.0.4";
        assert_eq!(send(connect(app_address).await, fields).await, direct, "{fields:?}");
    }
    drop(nginx);
    server.abort();
}

/// Responds with the client's address by each source.
async fn respond(request: Request) -> String {
    let real_ip = HeaderName::from_static("x-real-ip");
    let sources = [
        ("peer", Ok(ClientIp::peer())),
        ("behind", ClientIp::behind(PROXIES)),
        ("hops", ClientIp::hops(2, PROXIES)),
        ("forwarded", ClientIp::forwarded(PROXIES)),
        ("header", ClientIp::header(real_ip, PROXIES)),
    ];
    sources
        .map(|(name, source)| format!("{name} {}", source.unwrap().address(&request).unwrap()))
        .join(", ")
}

/// Sends a request with `fields`, and returns the response's body.
async fn send(mut stream: TcpStream, fields: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{response}");
    body.to_owned()
}

async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(CLIENT.parse().unwrap(), 0)).unwrap();
    socket.connect(address).await.unwrap()
}

/// A process of nginx with its folder. Both end when it is dropped.
struct Nginx {
    process: Child,
    folder: Folder,
}

impl Nginx {
    /// Starts both hops, and returns the address of the first one.
    async fn start(app: SocketAddr) -> (Self, SocketAddr) {
        let folder = Folder::create().unwrap();
        let (first, second) = (free("127.0.0.2"), free("127.0.0.3"));
        fs::write(folder.path().join("nginx.conf"), configuration(first, second, app)).unwrap();

        let process = Command::new(binary("LIMITER_NGINX", &["nginx"]))
            .args(["-e", "stderr", "-c", "nginx.conf", "-p"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut nginx = Self { process, folder };
        let deadline = Instant::now() + READY_WITHIN;
        while TcpStream::connect(first).await.is_err() {
            let ended = nginx.process.try_wait().unwrap();
            if ended.is_some() || Instant::now() > deadline {
                panic!("nginx: {ended:?}\n{}", nginx.log());
            }
            sleep(Duration::from_millis(10)).await;
        }
        (nginx, first)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log"))
            .unwrap_or_else(|error: io::Error| error.to_string())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // One process, because of `master_process off`.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn configuration(first: SocketAddr, second: SocketAddr, app: SocketAddr) -> String {
    let hop = |listen: SocketAddr, upstream: SocketAddr, further: &str| {
        let own = listen.ip();
        format!(
            "server {{
                listen {listen};
                location / {{
                    proxy_bind {own};
                    proxy_pass http://{upstream};
                    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                    proxy_set_header Forwarded '$http_forwarded, for=\"$remote_addr:$remote_port\"';
                    {further}
                }}
            }}\n"
        )
    };
    let first = hop(first, second, "proxy_set_header X-Real-IP $remote_addr;");
    let second = hop(second, app, "");
    format!(
        "daemon off;
        master_process off;
        pid nginx.pid;
        events {{}}
        http {{
            access_log off;
            client_body_temp_path body;
            proxy_temp_path proxy;
            fastcgi_temp_path fastcgi;
            uwsgi_temp_path uwsgi;
            scgi_temp_path scgi;
            {first}{second}
        }}\n"
    )
}

/// Returns a port of `address` that is free now.
fn free(address: &str) -> SocketAddr {
    StdListener::bind((address, 0)).unwrap().local_addr().unwrap()
}
