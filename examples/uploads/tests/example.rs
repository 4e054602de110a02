//! Drives the program by curl: uploads that go on, WebSockets, clients and processes that are killed or stopped.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use limiter_rig::{
    program::{Program, Response},
    server::Server,
};

const EXPIRY: Duration = Duration::from_secs(3);

/// How late things may happen on a machine that is busy with other tests.
const SLACK: Duration = Duration::from_secs(10);

fn start(server: Option<&Server>) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-uploads"));
    command.env_remove("REDIS_URL").env("EXPIRY", EXPIRY.as_secs().to_string());
    Program::start(match server {
        Some(server) => command.env("REDIS_URL", server.url()),
        None => &mut command,
    })
}

/// A curl that uploads in the background. It is killed on drop.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
}

impl Client {
    /// Begins an upload, and waits until the program reads it.
    fn upload(program: &Program, user: &str) -> Self {
        let mut command = Command::new("curl");
        // "." is the standard input, for which curl does not wait: it prints a response that arrives before its end.
        command.args(["-siN", "-T", ".", "-H", "expect:", "-H", &format!("x-user: {user}")]);
        command.arg(format!("http://{}/upload", program.address())).env("no_proxy", "127.0.0.1");
        println!("$ {command:?} &");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take();
        input.as_mut().unwrap().write_all(b"begin\n").unwrap();
        let _ = program.line("an upload has begun");
        Self { child, input }
    }

    /// Returns the first line of the response.
    fn line(&mut self) -> String {
        let output = self.child.stdout.take().unwrap();
        BufReader::new(output).lines().next().unwrap().unwrap()
    }

    /// Ends the upload, and returns the first line of the response.
    fn end(mut self) -> String {
        self.input = None;
        self.line()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens a WebSocket, which is closed on drop.
fn socket(program: &Program, user: &str) -> TcpStream {
    let mut stream = TcpStream::connect(program.address()).unwrap();
    let fields = "host: test\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                  sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    write!(stream, "GET /socket HTTP/1.1\r\n{fields}x-user: {user}\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 101 Switching Protocols\r\n");
    stream
}

/// Makes a short upload.
fn upload(program: &Program, user: &str) -> Response {
    let field = format!("x-user: {user}");
    let response = program.curl(&["-X", "PUT", "-d", "hello", "-H", &field], "/upload");
    if response.status == 200 {
        let _ = program.line("an upload has begun");
    }
    response
}

fn report(program: &Program, user: &str) -> Response {
    program.curl(&["-X", "POST", "-H", &format!("x-user: {user}")], "/report")
}

#[track_caller]
fn is_refused(response: &Response) {
    assert_eq!(response.status, 429, "{response:?}");
    let policy = response.field("ratelimit-policy");
    assert_eq!(policy, Some("\"uploads\";q=3;qu=\"concurrent-requests\""));
    assert_eq!(response.field("ratelimit"), Some("\"uploads\";r=0"));
    // Nobody knows when one of the three ends.
    assert_eq!(response.field("retry-after"), None);
}

/// Repeats short uploads until one is admitted, and returns how long that took.
#[track_caller]
fn admitted_after(program: &Program, user: &str) -> Duration {
    let begun = Instant::now();
    loop {
        let response = upload(program, user);
        if response.status == 200 {
            return begun.elapsed();
        }
        is_refused(&response);
        assert!(begun.elapsed() < EXPIRY + SLACK, "no permit is back");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_user_has_three_uploads_at_once_and_a_client_that_is_killed_gives_its_permit_back() {
    for server in [None, Some(Server::start())] {
        let program = start(server.as_ref());
        let response = upload(&program, "alice");
        assert_eq!((response.status, &*response.body), (200, "5 bytes\n"));
        assert_eq!(response.field("ratelimit"), Some("\"uploads\";r=2"));
        let uploads = [(); 3].map(|()| Client::upload(&program, "alice"));
        is_refused(&upload(&program, "alice"));
        assert_eq!(upload(&program, "bob").status, 200);
        assert_eq!(program.curl(&["-X", "PUT", "-d", "hello"], "/upload").status, 400);

        let [first, second, third] = uploads;
        drop(first);
        let after = admitted_after(&program, "alice");
        println!("a permit was back {after:?} after its client was killed");
        assert_eq!(second.end(), "HTTP/1.1 200 OK");
        // Two permits are back at least.
        let _others = [(); 2].map(|()| Client::upload(&program, "alice"));
        is_refused(&upload(&program, "alice"));
        drop(third);
        admitted_after(&program, "alice");
    }
}

#[test]
fn a_socket_holds_its_permit_until_it_is_closed() {
    let program = start(None);
    let [first, _second, _third] = [(); 3].map(|()| socket(&program, "alice"));
    is_refused(&upload(&program, "alice"));
    drop(first);
    admitted_after(&program, "alice");
}

#[test]
fn work_after_the_response_holds_its_permit() {
    let program = start(None);
    let begun = Instant::now();
    let reports = [(); 3].map(|()| report(&program, "alice"));
    assert_eq!(reports.map(|response| response.status), [202; 3]);
    is_refused(&report(&program, "alice"));
    admitted_after(&program, "alice");
    assert!(begun.elapsed() >= Duration::from_secs(5));
}

#[test]
fn permits_of_a_process_that_is_killed_are_back_within_the_expiry() {
    let server = Server::start();
    let (program, other) = (start(Some(&server)), start(Some(&server)));
    let _uploads = [&program, &program, &other].map(|program| Client::upload(program, "alice"));
    is_refused(&upload(&other, "alice"));
    // The permits are renewed.
    thread::sleep(EXPIRY);
    is_refused(&upload(&other, "alice"));
    drop(program);
    let after = admitted_after(&other, "alice");
    println!("permits were back {after:?} after their process was killed");
    assert!(after > EXPIRY / 3, "{after:?}");
    let _others = [(); 2].map(|()| Client::upload(&other, "alice"));
    is_refused(&upload(&other, "alice"));
}

#[test]
fn a_process_that_was_stopped_ends_uploads_whose_permits_are_lost() {
    let server = Server::start();
    let (program, other) = (start(Some(&server)), start(Some(&server)));
    let uploads = [(); 3].map(|()| Client::upload(&program, "alice"));
    is_refused(&upload(&other, "alice"));
    program.signal("STOP");
    let after = admitted_after(&other, "alice");
    println!("permits were back {after:?} after their process was stopped");
    let _others = [(); 3].map(|()| Client::upload(&other, "alice"));
    is_refused(&upload(&other, "alice"));
    program.signal("CONT");
    // They receive no response that looks like a success.
    let lines = uploads.map(|mut upload| upload.line());
    assert_eq!(lines, [(); 3].map(|()| "HTTP/1.1 503 Service Unavailable"));
    is_refused(&upload(&program, "alice"));
}
