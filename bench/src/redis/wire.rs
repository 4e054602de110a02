//! A pipelined connection, and the calls of a limiter as a server receives them.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use limiter_core::Policy;
use limiter_redis::{CallError, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply};
use tokio::runtime::Runtime;

use super::WITHIN;

/// Calls in one write. While the server executes one batch, the next one is in flight.
const BATCH: usize = 250;

/// A connection to the server. Calls are sent before the replies to earlier ones are read, so that the server is never
/// idle.
pub(super) struct Pipe(BufReader<TcpStream>);

/// The keys and the arguments of a call.
pub(super) struct Call {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) arguments: Vec<Vec<u8>>,
}

/// Encoded calls of one script, which are sent in turn.
pub(super) struct Calls {
    commands: Vec<Vec<u8>>,
    next: usize,
}

impl Calls {
    /// Returns calls of the script with this digest, with their keys and arguments.
    pub(super) fn new(digest: &str, calls: &[Call]) -> Self {
        let command = |Call { keys, arguments }: &Call| {
            let number = keys.len().to_string();
            let head = [b"EVALSHA".as_slice(), digest.as_bytes(), number.as_bytes()];
            let words: Vec<&[u8]> =
                head.into_iter().chain(keys.iter().chain(arguments).map(Vec::as_slice)).collect();
            let mut out = format!("*{}\r\n", words.len()).into_bytes();
            for word in words {
                out.extend(format!("${}\r\n", word.len()).bytes());
                out.extend(word);
                out.extend(b"\r\n");
            }
            out
        };
        Self { commands: calls.iter().map(command).collect(), next: 0 }
    }

    /// Returns the next batch, with the keys in another order than the one in which they were created.
    fn batch(&mut self) -> Vec<u8> {
        let mut batch = Vec::new();
        for _ in 0..BATCH {
            self.next = (self.next + 7_919) % self.commands.len();
            batch.extend_from_slice(&self.commands[self.next]);
        }
        batch
    }
}

impl Pipe {
    pub(super) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::with_capacity(1 << 16, stream)))
    }

    /// Sends calls for `time`, and at least `least` of them. Returns how many, and the seconds.
    pub(super) fn run(
        &mut self,
        calls: &mut Calls,
        time: Duration,
        least: usize,
    ) -> Result<(usize, f64)> {
        let (start, mut number, mut last) = (Instant::now(), 0, false);
        self.0.get_mut().write_all(&calls.batch())?;
        while !last {
            last = start.elapsed() >= time && number + BATCH >= least;
            if !last {
                self.0.get_mut().write_all(&calls.batch())?;
            }
            for _ in 0..BATCH {
                self.skip_reply()?;
            }
            number += BATCH;
        }
        Ok((number, start.elapsed().as_secs_f64()))
    }

    fn skip_reply(&mut self) -> Result<()> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line)?;
        let line = str::from_utf8(&line)?.trim_end();
        ensure!(!line.is_empty(), "the server has closed the connection");
        match line.split_at(1) {
            (":" | "+", _) | ("$", "-1") => Ok(()),
            ("*", number) => (0..number.parse::<usize>()?).try_for_each(|_| self.skip_reply()),
            ("$", length) => Ok(self.0.read_exact(&mut vec![0; length.parse::<usize>()? + 2])?),
            _ => bail!("the server replied: {line}"),
        }
    }
}

/// Returns the script of a policy, and the keys and arguments of the calls that checks send. The scripts' arguments are
/// private to `limiter-redis`, so they are read from calls.
pub(super) fn captured(
    policy: &Policy,
    prefix: &str,
    subjects: &[String],
) -> Result<(String, Vec<Call>)> {
    let recorder = Recorder::default();
    let limiter = RedisLimiter::builder(policy.clone())
        .prefix(prefix)
        .deadline(WITHIN)
        // Each check makes a call.
        .denial_cache(0)
        .build_on(recorder.clone())?;
    let (mut script, mut calls) = (String::new(), Vec::new());
    for subject in subjects {
        // An error, because there is no reply.
        drop(RUNTIME.block_on(limiter.check(subject.as_str())));
        let call = recorder.call.lock().expect("no panic").take();
        let (source, call) = call.context("no call was sent")?;
        script = source;
        calls.push(call);
    }
    Ok((script, calls))
}

/// Records the last call and its source. It never has the script, so that the limiter sends its source.
#[derive(Clone, Default)]
struct Recorder {
    call: Arc<Mutex<Option<(String, Call)>>>,
}

/// Never dropped, because tasks on it may end after everything else.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

impl ScriptClient for Recorder {
    async fn run(&self, call: &ScriptCall, _: Duration) -> Result<ScriptReply, CallError> {
        let words = call.args();
        if let [name, source, _, rest @ ..] = words.as_slice()
            && **name == *b"EVAL"
        {
            let source = String::from_utf8_lossy(source).into_owned();
            let keys = call.keys.iter().map(|key| key.to_vec()).collect();
            let arguments = rest.iter().skip(call.keys.len()).map(|it| it.to_vec()).collect();
            *self.call.lock().expect("no panic") = Some((source, Call { keys, arguments }));
        }
        Err(CallError::new(Fault::NoScript, "the recorder has no script"))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(RUNTIME.spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        // A caller may poll it outside of the runtime.
        let _context = RUNTIME.enter();
        tokio::time::sleep(time)
    }
}
