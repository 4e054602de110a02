//! What is logged, line by line.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// What was logged on this thread since [`Log::start`], from the level INFO up, without times.
///
/// A test on a runtime of one thread sees what all its tasks log.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Starts to collect.
    #[must_use]
    pub fn start() -> Self {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(lines.clone())
            .finish();
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns the lines so far.
    ///
    /// # Panics
    ///
    /// If a line is not UTF-8.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let bytes = self.lines.0.lock().expect("no one panics with the lock").clone();
        let text = String::from_utf8(bytes).expect("lines are text");
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no one panics with the lock").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
