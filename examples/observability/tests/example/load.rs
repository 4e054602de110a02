//! Many requests over one connection.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    ops::Add,
};

/// How many requests are sent before their responses are read.
const IN_FLIGHT: u64 = 100;

/// How many responses were received, by their status and header fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Responses {
    /// Status 200, with `RateLimit` and without `Retry-After`.
    pub(crate) admitted: u64,
    /// Status 429, with `RateLimit` and `Retry-After`.
    pub(crate) refused: u64,
}

/// Sends `count` requests of `client` over a connection of its own, and counts the responses.
pub(crate) fn send(address: &str, client: Ipv4Addr, count: u64) -> Responses {
    let stream = TcpStream::connect(address).unwrap();
    let mut requests = stream.try_clone().unwrap();
    let mut responses = BufReader::new(stream);
    let request = format!("GET / HTTP/1.1\r\nhost: test\r\nx-forwarded-for: {client}\r\n\r\n");
    let mut counted = Responses::default();
    let mut sent = 0;
    while sent < count {
        let batch = IN_FLIGHT.min(count - sent);
        requests.write_all(request.repeat(usize::try_from(batch).unwrap()).as_bytes()).unwrap();
        for _ in 0..batch {
            counted = counted + receive(&mut responses);
        }
        sent += batch;
    }
    counted
}

fn receive(stream: &mut impl BufRead) -> Responses {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "the connection has ended: {head}");
    }
    let field =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let length = field("content-length").unwrap().parse().unwrap();
    stream.take(length).read_to_end(&mut Vec::new()).unwrap();
    assert!(field("ratelimit").is_some(), "{head}");
    match (head.split(' ').nth(1).unwrap(), field("retry-after")) {
        ("200", None) => Responses { admitted: 1, refused: 0 },
        ("429", Some(_)) => Responses { admitted: 0, refused: 1 },
        _ => panic!("neither admitted nor refused: {head}"),
    }
}

impl Add for Responses {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let [admitted, refused] = [self.admitted + other.admitted, self.refused + other.refused];
        Self { admitted, refused }
    }
}
