//! What is logged, line by line.

use std::{cell::RefCell, io, marker::PhantomData, sync::Once};

use tracing_subscriber::fmt::MakeWriter;

/// What was logged on this thread since [`Log::start`], from the level INFO up, without times.
///
/// A test on a runtime of one thread sees what all its tasks log.
#[derive(Debug)]
pub struct Log {
    /// Another thread has other lines.
    not_send: PhantomData<*const ()>,
}

thread_local! {
    /// `None` where no one listens.
    static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

impl Log {
    /// Starts to collect.
    ///
    /// # Panics
    ///
    /// If the process has another global subscriber.
    #[must_use]
    pub fn start() -> Self {
        // One subscriber for all threads: where there is one for this thread alone, an event that
        // another thread meets first is taken for one that interests no one.
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let lines = tracing_subscriber::fmt()
                .with_ansi(false)
                .without_time()
                .with_writer(ThisThread)
                .finish();
            // Its own `init` would collect what is logged by the crate `log` as well, where anyone
            // has turned its feature on.
            tracing::subscriber::set_global_default(lines).expect("there is no other subscriber");
        });
        LINES.with_borrow_mut(|lines| *lines = Some(Vec::new()));
        Self { not_send: PhantomData }
    }

    /// Returns the lines so far.
    ///
    /// # Panics
    ///
    /// If a line is not UTF-8.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let bytes = LINES.with_borrow(|lines| lines.clone().unwrap_or_default());
        let text = String::from_utf8(bytes).expect("lines are text");
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        LINES.with_borrow_mut(|lines| *lines = None);
    }
}

/// Writes to the thread's own lines.
#[derive(Clone, Copy)]
struct ThisThread;

impl io::Write for ThisThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for ThisThread {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}
