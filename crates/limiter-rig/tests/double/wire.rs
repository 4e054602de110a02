//! A connection to a real server, by which many commands are sent before their replies are read.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use limiter_double::Reply;

pub(crate) type Words = Vec<Vec<u8>>;

pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        // Not reached, unless the server hangs.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn call(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        self.send(&encoded(words));
        self.read()
    }

    /// Returns the replies to commands, which are sent at once.
    pub(crate) fn call_all(&mut self, commands: &[Words]) -> Vec<Reply> {
        self.send(&commands.iter().flat_map(|words| encoded(words)).collect::<Vec<_>>());
        commands.iter().map(|_| self.read()).collect()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn read(&mut self) -> Reply {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        let (kind, rest) = line.strip_suffix("\r\n").unwrap().split_at(1);
        match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(rest.parse().unwrap()),
            "$" | "*" if rest == "-1" => Reply::Nil,
            "*" => Reply::Array((0..rest.parse().unwrap()).map(|_| self.read()).collect()),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Reply::Bulk(text)
            }
            _ => panic!("no reply begins with {line:?}"),
        }
    }
}

pub(crate) fn encoded(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Returns the words of a command that is written as one text.
pub(crate) fn words(text: &str) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
