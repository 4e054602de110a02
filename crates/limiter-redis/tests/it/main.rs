//! What the crate promises without a real server: settings, addresses and what is logged of them. What it promises on one is
//! tested in limiter-rig, by `cargo xtask test`.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod file;
mod redaction;
mod same_names;

use std::io;

use limiter_redis::{ConnectOptions, Connection, connect_with};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    runtime::Handle,
};

/// Returns the address of a server that answers each command with `OK`, so that connections are ready at once.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    format!("redis://{address}")
}

/// A command is an array, and no text in it begins with an asterisk.
async fn answer(stream: TcpStream) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        if line.starts_with('*') {
            writer.write_all(b"+OK\r\n").await?;
        }
    }
    Ok(())
}

/// Returns a connection on the test's own runtime, so that the test's log has its lines.
async fn connect_here(url: &str) -> Connection {
    let options = ConnectOptions::new().with_runtime(Handle::current());
    connect_with(url, &options).await.unwrap()
}
