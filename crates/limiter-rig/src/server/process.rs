//! A child process and its folder, both gone when their owner is.

use std::fs::{self, File};
use std::io;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A running server. Dropping it kills the process and waits until it is gone.
#[derive(Debug)]
pub(super) struct Process {
    server: Child,
    guard: Child,
}

impl Process {
    /// Starts `binary` inside `folder`, its output appended to the folder's log.
    pub(super) fn start(binary: &Path, arguments: &[String], folder: &Folder) -> io::Result<Self> {
        let log = File::options().append(true).create(true).open(folder.log())?;
        let mut server = Command::new(binary)
            .args(arguments)
            .current_dir(&folder.0)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()?;
        match guard(&server, folder) {
            Ok(guard) => Ok(Self { server, guard }),
            Err(error) => {
                end(&mut server);
                Err(error)
            }
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.server.try_wait()?.is_some())
    }

    /// Sends a signal by its name, such as `STOP`.
    pub(super) fn signal(&self, name: &str) -> io::Result<()> {
        // The shell's own `kill`: small systems lack the command.
        let script = format!("kill -{name} {}", self.id());
        let status = Command::new("sh").args(["-c", &script]).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("`{script}`: {status}")))
        }
    }

    /// Ends the process, also a stopped one, and waits until it is gone.
    pub(super) fn kill(&mut self) {
        end(&mut self.server);
        end(&mut self.guard);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a shell that outlives this process, however it ends, to kill the server and remove the
/// folder: an aborted or interrupted test runs no destructors.
fn guard(server: &Child, folder: &Folder) -> io::Result<Child> {
    // Nothing is ever written: reading ends when the system closes the other end of the pipe.
    let mut shell = Command::new("sh");
    // Out of reach of an interrupt from the keyboard.
    #[cfg(unix)]
    shell.process_group(0);
    shell
        .args(["-c", r#"read -r line; kill -KILL "$1"; rm -r "$2""#, "guard"])
        .arg(server.id().to_string())
        .arg(&folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn end(child: &mut Child) {
    // An error means that it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// A new folder for temporary files. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates one in the system's folder for temporary files.
    ///
    /// # Errors
    ///
    /// If the system does not create it.
    pub fn create() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("limiter-server-{}-{count}", process::id()));
        // Left by an earlier process of the same id that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The end of the server's log, to quote when it fails.
    pub(super) fn log_tail(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(10)..).unwrap_or_default().join("\n")
    }

    fn log(&self) -> PathBuf {
        self.0.join("server.log")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
