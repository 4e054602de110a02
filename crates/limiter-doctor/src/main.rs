//! `limiter-doctor`: checks a server that keeps rate limits, explains, ranks and resets their states, and
//! lists their scripts.

mod address;
mod arguments;
mod block;
mod explain;
mod identity;
mod limits;
mod read;
mod report;
mod reset;
mod scripts;
mod state;
mod subject;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod top;
mod words;

use std::{
    fmt,
    io::{self, ErrorKind, Write as _},
    process::ExitCode,
};

use clap::Parser;
use limiter_redis::CallError;

use arguments::{Arguments, Command};

/// Why a command has no result.
#[derive(Debug)]
enum Failure {
    /// The arguments are invalid.
    Usage(String),
    /// The server could not be reached, or refused.
    Server(CallError),
}

/// What a command found.
struct Outcome {
    text: String,
    /// Whether something has to be changed.
    has_problem: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: can't start a runtime: {error}");
            return ExitCode::from(3);
        }
    };
    match runtime.block_on(run(&arguments)) {
        Ok(Outcome { text, has_problem }) => {
            let mut stdout = io::stdout().lock();
            match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
                // A reader such as `head` closes the pipe when it has enough.
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    eprintln!("error: can't write the output: {error}");
                    ExitCode::from(3)
                }
                _ => ExitCode::from(u8::from(has_problem)),
            }
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(match failure {
                Failure::Usage(_) => 2,
                Failure::Server(_) => 3,
            })
        }
    }
}

async fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let server = &arguments.server;
    match &arguments.command {
        Command::Report => report::run(server).await,
        Command::Explain { target, limits } => explain::run(server, target, limits).await,
        Command::Top(top) => top::run(server, top).await,
        Command::Reset(target) => reset::run(server, target).await,
        Command::Scripts { name } => scripts::run(name.as_deref()),
    }
}

/// An error before anything is sent is one of the arguments.
impl From<limiter_core::Error> for Failure {
    fn from(error: limiter_core::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Server(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => f.write_str(message),
            Self::Server(error) => error.fmt(f),
        }
    }
}
