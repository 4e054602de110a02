//! The few lines of the Redis protocol that one command and its reply need.
//!
//! The client library under test can't do this job: a test pauses, floods or reconfigures the
//! server behind that library's back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Sends one command over a connection of its own and returns the reply as it came, without the
/// final line end: `+OK`, `:3`, or `$5`, a line end and `hello`.
///
/// # Errors
///
/// An error reply, with its text (`NOSCRIPT ...`); no connection; no complete reply within
/// `timeout`, which bounds each read.
pub(super) fn call(port: u16, words: &[&str], timeout: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(encode(words).as_bytes())?;

    let reply = read_reply(&mut BufReader::new(stream))?;
    let text = reply.trim_end();
    match text.strip_prefix('-') {
        Some(error) => Err(io::Error::other(error)),
        None => Ok(text.to_owned()),
    }
}

fn encode(words: &[&str]) -> String {
    let words_as_bulk = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    words_as_bulk.fold(format!("*{}\r\n", words.len()), |command, word| command + &word)
}

fn read_reply(stream: &mut impl BufRead) -> io::Result<String> {
    let mut reply = String::new();
    if stream.read_line(&mut reply)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // Negative lengths are nulls: nothing follows them.
    let length: u64 = reply.get(1..).and_then(|rest| rest.trim_end().parse().ok()).unwrap_or(0);
    match reply.as_bytes().first() {
        Some(b'$') if !reply.starts_with("$-") => {
            stream.take(length + 2).read_to_string(&mut reply)?;
        }
        Some(b'*') => {
            for _ in 0..length {
                reply += &read_reply(stream)?;
            }
        }
        _ => {}
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::{encode, read_reply};

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        assert_eq!(encode(&["GET", "é"]), "*2\r\n$3\r\nGET\r\n$2\r\né\r\n");
    }

    #[test]
    fn a_reply_is_read_to_its_end_and_no_further() {
        for reply in
            ["+OK\r\n", ":-3\r\n", "$-1\r\n", "$0\r\n\r\n", "*2\r\n$3\r\na\nb\r\n*1\r\n:1\r\n"]
        {
            let stream = format!("{reply}+NEXT\r\n");
            assert_eq!(read_reply(&mut stream.as_bytes()).unwrap(), reply);
        }
    }

    #[test]
    fn a_closed_connection_is_an_error() {
        assert!(read_reply(&mut &b""[..]).is_err());
        assert!(read_reply(&mut &b"*1\r\n"[..]).is_err());
    }
}
