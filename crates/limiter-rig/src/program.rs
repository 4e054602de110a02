//! A program that serves HTTP, started and driven from outside, as a person would.
//!
//! What the person would see is printed: the commands, their output, and the program's log. `cargo test`
//! hides it unless `--nocapture` is given.
//!
//! ```no_run
//! use std::process::Command;
//! use limiter_rig::program::Program;
//!
//! let program = Program::start(&mut Command::new("target/debug/example-axum"));
//! let response = program.curl(&["-X", "POST"], "/login");
//! assert_eq!(response.status, 429);
//! assert_eq!(response.field("retry-after"), Some("6"));
//! ```

use std::{
    env,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// How long a line of output may take, on a machine that is busy with other tests.
const LINE_WITHIN: Duration = Duration::from_secs(30);

/// A program on a free port of the loopback address. It is killed on drop.
#[derive(Debug)]
pub struct Program {
    process: Child,
    output: Arc<Output>,
    address: String,
}

/// The lines of a program that no test has read yet.
#[derive(Debug, Default)]
struct Output {
    lines: Mutex<Vec<String>>,
    changed: Condvar,
}

impl Program {
    /// Starts a program with `PORT=0`, and waits until it prints `listening on http://ADDRESS`.
    ///
    /// # Panics
    ///
    /// If it can't be started, or does not print the line within 30 seconds.
    #[must_use]
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let command = command.env("PORT", "0").stdin(Stdio::null());
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut process = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = Arc::default();
        collect(process.stdout.take(), &output);
        collect(process.stderr.take(), &output);
        let mut program = Self { process, output, address: String::new() };
        let first = program.line("listening on http://");
        let address = first.split(['/', ',']).nth(2);
        program.address = address.expect("the line contains the address").to_owned();
        program
    }

    /// Returns the host and the port, such as `127.0.0.1:34567`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a signal by its name, such as `STOP`.
    ///
    /// # Panics
    ///
    /// If it can't be sent.
    pub fn signal(&self, name: &str) {
        // The shell's own `kill`, because small systems lack the command.
        let _ = shell(&format!("kill -{name} {}", self.process.id()));
    }

    /// Waits for a line that contains `part`, on the standard output or the standard error, and returns
    /// it. Each line is returned once.
    ///
    /// # Panics
    ///
    /// If the program does not print such a line within 30 seconds.
    #[must_use]
    #[track_caller]
    pub fn line(&self, part: &str) -> String {
        let missing = |lines: &mut Vec<String>| !lines.iter().any(|line| line.contains(part));
        let lines = self.output.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.output.changed.wait_timeout_while(lines, LINE_WITHIN, missing);
        let (mut lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match lines.iter().position(|line| line.contains(part)) {
            Some(index) => lines.remove(index),
            None => panic!("no line with {part:?}; other lines:\n{}", lines.join("\n")),
        }
    }

    /// Runs `curl -si` with further arguments on a path of the program, and returns the response.
    ///
    /// # Panics
    ///
    /// If curl is not installed, fails, or receives no response within 30 seconds.
    #[must_use]
    #[track_caller]
    pub fn curl(&self, arguments: &[&str], path: &str) -> Response {
        let url = format!("http://{}{path}", self.address);
        let words = [&["-si"], arguments, &[&url]].concat();
        let shown: String = words.iter().map(|word| format!(" {}", quoted(word))).collect();
        let mut command = Command::new("curl");
        Response::parse(&run(&format!("curl{shown}"), command.args(words).args(["-m", "30"])))
    }
}

/// A test of this binary in another process, which is killed on drop.
#[derive(Debug)]
pub struct Again(Child);

impl Again {
    /// Returns the command that runs one test alone, with its output.
    ///
    /// # Panics
    ///
    /// If the system does not know this process's binary.
    #[must_use]
    pub fn command(test: &str) -> Command {
        let mut command = Command::new(env::current_exe().expect("a path of this binary"));
        command.args(["--exact", test, "--nocapture"]);
        command
    }

    /// Starts a command.
    ///
    /// # Panics
    ///
    /// If it can't be started.
    #[must_use]
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Returns the process, with its input and output.
    pub const fn process(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Sends a signal by its name, such as `STOP`.
    ///
    /// # Panics
    ///
    /// If it can't be sent.
    pub fn signal(&self, name: &str) {
        let _ = shell(&format!("kill -{name} {}", self.0.id()));
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a line by `sh -c`, such as a command that a program has printed, and returns its output.
///
/// # Panics
///
/// If the last command of the line fails.
#[must_use]
#[track_caller]
pub fn shell(line: &str) -> String {
    run(line, Command::new("sh").args(["-c", line]))
}

/// A response, as `curl -i` prints it.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The names and values of the header fields, in the order received.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Response {
    /// Returns the first value of a header field. `name` is in lower case.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a response has a head");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let fields = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.expect("a response begins with its status"),
            fields: fields.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
            body: body.to_owned(),
        }
    }
}

/// Prints `shown` as a command, runs the command, and prints and returns its output.
#[track_caller]
fn run(shown: &str, command: &mut Command) -> String {
    println!("$ {shown}");
    // Requests to the loopback address bypass a proxy that the environment sets.
    let output = command.env("no_proxy", "127.0.0.1").output();
    let output = output.unwrap_or_else(|error| panic!("{shown}: {error}; install the command"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{}{errors}", text.replace('\r', ""));
    assert!(output.status.success(), "{shown}: {}: {errors}", output.status);
    text
}

/// Prints and stores each line, until the program ends.
fn collect(stream: Option<impl Read + Send + 'static>, output: &Arc<Output>) {
    let lines = BufReader::new(stream.expect("the stream is a pipe")).lines();
    let output = Arc::clone(output);
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            println!("{line}");
            output.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            output.changed.notify_all();
        }
    });
}

/// Returns a word as a shell needs it.
fn quoted(word: &str) -> String {
    if word.contains([' ', '"', '{', '*', '&', '?']) { format!("'{word}'") } else { word.into() }
}
