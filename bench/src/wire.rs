//! A pipelined connection: calls are sent before the replies to earlier ones are read, so that the
//! server is never idle.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use limiter_redis::ScriptReply;

/// Calls in one write. While the server executes one batch, the next one is in flight.
const BATCH: usize = 250;

/// A connection to the server.
pub(crate) struct Pipe {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

/// Calls of one script with each key in turn.
pub(crate) struct Calls {
    /// The encoded calls, one for each key.
    commands: Vec<Vec<u8>>,
    next: usize,
}

/// How many calls were executed in which time.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) calls: usize,
    pub(crate) time: Duration,
    /// One reply of each batch.
    pub(crate) replies: Vec<ScriptReply>,
}

impl Calls {
    /// Returns calls of the script with this digest, one for the keys of each subject.
    pub(crate) fn new(digest: &str, keys: &[Vec<Vec<u8>>], arguments: &[Vec<u8>]) -> Self {
        let command = |keys: &Vec<Vec<u8>>| {
            let number = keys.len().to_string();
            let mut words: Vec<&[u8]> = vec![b"EVALSHA", digest.as_bytes(), number.as_bytes()];
            words.extend(keys.iter().chain(arguments).map(Vec::as_slice));
            encode(&words)
        };
        Self { commands: keys.iter().map(command).collect(), next: 0 }
    }

    /// Writes the next batch, with the keys in another order than the one in which they were created.
    fn batch(&mut self, out: &mut Vec<u8>) {
        out.clear();
        for _ in 0..BATCH {
            self.next = (self.next + 7_919) % self.commands.len();
            out.extend(self.commands.get(self.next).into_iter().flatten());
        }
    }
}

impl Pipe {
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let replies = BufReader::with_capacity(1 << 16, stream.try_clone()?);
        Ok(Self { stream, replies })
    }

    /// Sends calls for `time`, and at least `least` of them.
    pub(crate) fn run(
        &mut self,
        calls: &mut Calls,
        time: Duration,
        least: usize,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut batch = Vec::new();
        let start = Instant::now();
        calls.batch(&mut batch);
        self.stream.write_all(&batch)?;
        let mut last = false;
        while !last {
            last = start.elapsed() >= time && outcome.calls + BATCH >= least;
            if !last {
                calls.batch(&mut batch);
                self.stream.write_all(&batch)?;
            }
            for _ in 1..BATCH {
                self.reply()?;
            }
            outcome.replies.push(self.reply()?);
            outcome.calls += BATCH;
        }
        outcome.time = start.elapsed();
        Ok(outcome)
    }

    fn reply(&mut self) -> Result<ScriptReply> {
        let mut line = Vec::new();
        self.replies.read_until(b'\n', &mut line)?;
        let line = str::from_utf8(&line)?.trim_end();
        ensure!(!line.is_empty(), "the server has closed the connection");
        let (kind, rest) = line.split_at(1);
        match kind {
            ":" => Ok(ScriptReply::Integer(rest.parse()?)),
            "*" => {
                let replies: Result<_> = (0..rest.parse()?).map(|_| self.reply()).collect();
                Ok(ScriptReply::Array(replies?))
            }
            "$" if rest == "-1" => Ok(ScriptReply::Nil),
            "$" => {
                let length: usize = rest.parse()?;
                let mut text = vec![0; length + 2];
                self.replies.read_exact(&mut text)?;
                text.truncate(length);
                Ok(ScriptReply::Text(String::from_utf8(text)?))
            }
            "+" => Ok(ScriptReply::Text(rest.to_owned())),
            _ => bail!("the server replied: {line}"),
        }
    }
}

fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).bytes());
        out.extend(*word);
        out.extend(b"\r\n");
    }
    out
}
