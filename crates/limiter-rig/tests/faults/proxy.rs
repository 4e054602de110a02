//! A proxy before a server, that loses replies or keeps them back.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// What the proxy does with replies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// Hands them on.
    Pass,
    /// Closes the connection in place of the first reply after a script call.
    Cut,
    /// So, of one connection; then it is [`Mode::Pass`] again.
    CutOnce,
    /// Hands them on so much later.
    Delay(Duration),
    /// Hands on nothing in either direction until it is over. Connections that are made meanwhile
    /// are never answered.
    Hole,
}

/// Takes connections on loopback and forwards what it receives, until it is dropped.
pub(crate) struct Proxy {
    port: u16,
    mode: Arc<Mutex<Mode>>,
    over: Arc<AtomicBool>,
}

impl Proxy {
    /// Returns a proxy before the server at a port.
    pub(crate) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(Mutex::new(Mode::Pass));
        let over = Arc::new(AtomicBool::new(false));
        thread::spawn({
            let (mode, over) = (Arc::clone(&mode), Arc::clone(&over));
            move || {
                let mut unanswered = Vec::new();
                for client in listener.incoming() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    if matches!(*lock(&mode), Mode::Hole) {
                        unanswered.push(client);
                    } else if let (Ok(client), Ok(server)) =
                        (client, TcpStream::connect(("127.0.0.1", server)))
                    {
                        serve(client, server, &mode);
                    }
                }
            }
        });
        Self { port, mode, over }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn set(&self, mode: Mode) {
        *lock(&self.mode) = mode;
    }

    /// Whether it is [`Mode::Pass`].
    pub(crate) fn passes(&self) -> bool {
        matches!(*lock(&self.mode), Mode::Pass)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes it.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

/// Serves one connection, by threads that end when it is closed on either side.
fn serve(client: TcpStream, server: TcpStream, mode: &Arc<Mutex<Mode>>) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let cut = Arc::new(AtomicBool::new(false));
    let (replies, to_write) = mpsc::channel::<(Instant, Vec<u8>)>();

    thread::spawn({
        let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (mode, cut) = (Arc::clone(mode), Arc::clone(&cut));
        move || {
            hand_on(from, &to, |words| {
                wait_while_cut_off(&mode);
                let is_call = words.windows(4).any(|word| word == b"EVAL");
                if is_call && is_to_be_cut(&mode) {
                    cut.store(true, Ordering::Release);
                }
                (&to).write_all(words).is_ok()
            });
        }
    });
    thread::spawn({
        let (from, to) = (server, client.try_clone().unwrap());
        let mode = Arc::clone(mode);
        move || {
            hand_on(from, &to, |words| {
                wait_while_cut_off(&mode);
                let delay = match *lock(&mode) {
                    Mode::Delay(delay) => delay,
                    Mode::Pass | Mode::Cut | Mode::CutOnce | Mode::Hole => Duration::ZERO,
                };
                let due = Instant::now() + delay;
                !cut.load(Ordering::Acquire) && replies.send((due, words.to_vec())).is_ok()
            });
        }
    });
    thread::spawn(move || {
        for (due, words) in to_write {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if (&client).write_all(&words).is_err() {
                break;
            }
        }
    });
}

/// Reads until the connection is closed or `take` wants no more, and then closes both.
fn hand_on(mut from: TcpStream, to: &TcpStream, mut take: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !take(buffer.get(..length).unwrap_or_default()) {
            break;
        }
    }
    for stream in [&from, to] {
        drop(stream.shutdown(Shutdown::Both));
    }
}

fn wait_while_cut_off(mode: &Mutex<Mode>) {
    while matches!(*lock(mode), Mode::Hole) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_to_be_cut(mode: &Mutex<Mode>) -> bool {
    let mut mode = lock(mode);
    if matches!(*mode, Mode::CutOnce) {
        *mode = Mode::Pass;
        return true;
    }
    matches!(*mode, Mode::Cut)
}

fn lock(mode: &Mutex<Mode>) -> MutexGuard<'_, Mode> {
    mode.lock().unwrap_or_else(PoisonError::into_inner)
}
