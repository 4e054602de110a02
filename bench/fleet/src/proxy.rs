//! A proxy before a server that makes each round trip longer.
//!
//! It uses threads because Tokio's timers round up to a millisecond, which is the whole of the shortest trip.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use limiter_rig::server::Server;

/// Starts a proxy that delays what it passes on by half of `trip` each way, until this process ends. Returns its URL.
pub(crate) fn start(server: &Server, trip: Duration) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("redis://{}", listener.local_addr()?);
    let port = server.port();
    thread::spawn(move || {
        for client in listener.incoming() {
            if let Err(error) =
                client.map_err(Into::into).and_then(|client| join(client, port, trip / 2))
            {
                eprintln!("the proxy failed: {error}");
            }
        }
    });
    Ok(url)
}

fn join(client: TcpStream, port: u16, delay: Duration) -> Result<()> {
    let server = TcpStream::connect(("127.0.0.1", port))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    pass_on(client.try_clone()?, server.try_clone()?, delay);
    pass_on(server, client, delay);
    Ok(())
}

/// Passes chunks on in order, each `delay` after it was read, by threads that end with either connection. Chunks
/// wait in a queue, so that the delay does not limit the bandwidth.
fn pass_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (chunks, queue) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let chunk = buffer.get(..length).unwrap_or_default().to_vec();
            if chunks.send((Instant::now() + delay, chunk)).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, chunk) in queue {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&chunk).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    });
}
