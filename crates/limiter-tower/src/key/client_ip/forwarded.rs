//! The header field `Forwarded` (RFC 7239).

use std::{iter, net::IpAddr};

use http::{HeaderMap, header::FORWARDED};

use super::node;

/// The longest address in quotes, with port and zone. A longer one is not an address.
const LONGEST: usize = 128;

/// Returns the address of each element of all lines, from the right.
pub(super) fn addresses(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(FORWARDED).iter().rev();
    lines.flat_map(|line| rsplit(line.as_bytes(), b',')).map(address)
}

/// Returns the address in the parameter `for` of an element, such as
/// `for="[2001:db8::1]:4711";proto=https`.
fn address(element: &[u8]) -> Option<IpAddr> {
    let mut node = None;
    for pair in rsplit(element, b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty()) {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = pair.split_at_checked(equals)?;
        // A second `for` is an error.
        if name.eq_ignore_ascii_case(b"for") && node.replace(value.get(1..)?).is_some() {
            return None;
        }
    }
    match node? {
        [b'"', quoted @ .., b'"'] => unquoted(quoted),
        token => node::address(token),
    }
}

/// Returns the address in the content of a quoted string.
fn unquoted(content: &[u8]) -> Option<IpAddr> {
    let mut text = [0; LONGEST];
    let mut length = 0;
    let mut bytes = content.iter();
    while let Some(mut byte) = bytes.next() {
        match byte {
            b'\\' => byte = bytes.next()?,
            b'"' => return None,
            _ => {}
        }
        *text.get_mut(length)? = *byte;
        length += 1;
    }
    node::address(text.get(..length)?)
}

/// Splits at each `separator` outside of quoted strings, from the right.
///
/// Quotes are matched from the right too. A client that sends an unbalanced quote thus can't change
/// how the elements are read that proxies have appended.
fn rsplit(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest?;
        let mut in_quotes = false;
        let at = text.iter().enumerate().rposition(|(index, byte)| {
            if *byte == b'"' && !(in_quotes && is_escaped(text, index)) {
                in_quotes = !in_quotes;
            }
            *byte == separator && !in_quotes
        });
        let (left, part) = match at {
            Some(at) => (text.get(..at), text.get(at + 1..)),
            None => (None, Some(text)),
        };
        rest = left;
        part
    })
}

/// Returns whether an odd number of backslashes precedes the byte at `index`.
fn is_escaped(text: &[u8], index: usize) -> bool {
    let before = text.get(..index).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}
