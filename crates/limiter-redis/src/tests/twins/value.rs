//! What stands at a key, as the scripts write it: `text.lua` in Rust, and `tape.lua` as far as it can be
//! read.

use crate::scripts::twin::{doubles, from_doubles};

/// What stands at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(Option<Vec<u8>>),
    /// What a tape tells, see `rig.lua`: a head, and the entries, the newest first; none if there is no
    /// key.
    Tape(Vec<String>),
}

/// What stands behind a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes {
    pub(super) promised: i128,
    pub(super) since: i128,
    pub(super) moved: i128,
    pub(super) horizon: i128,
}

/// How far ahead a note can be.
const FAR: i128 = 164_160_000_000_000;

impl Value {
    /// Returns the state, as an algorithm reads it, and the notes.
    pub(super) fn load(&self, now: i128) -> (Option<Vec<u8>>, Notes) {
        match self {
            Self::Text(None) => (None, Notes::default()),
            Self::Text(Some(text)) => {
                let (state, notes) = Notes::before(text, now);
                (Some(state.to_vec()).filter(|state| !state.is_empty()), notes)
            }
            Self::Tape(list) => {
                let Some((head, entries)) = list.split_first() else {
                    return (None, Notes::default());
                };
                let (_, notes) = Notes::split(head, now);
                let mut entries: Vec<_> = entries.iter().map(String::as_str).collect();
                entries.reverse();
                let text = if entries.is_empty() { "-".to_owned() } else { entries.join(",") };
                (Some(text.into_bytes()), notes)
            }
        }
    }

    /// Writes a state that counts until a moment.
    pub(super) fn store(
        &mut self,
        text: &[u8],
        till: i128,
        notes: &Notes,
        now: i128,
    ) -> Option<i128> {
        let needed =
            if notes.matter(now) { till.max(notes.promised).max(notes.horizon) } else { till };
        match self {
            Self::Text(value) => {
                *value = Some([notes.in_front(now), text.to_vec()].concat());
                Some((needed - now) / 1_000 + 2)
            }
            Self::Tape(list) => {
                let expires = list.first().map_or(0, |head| expiry_of(head));
                let mut expiry = expires;
                if expiry <= needed + 2_000 || expiry > now + FAR {
                    expiry = needed + (needed - now + 1) / 2 + 2_000;
                }
                *list = listed(str::from_utf8(text).unwrap().trim_end(), expiry, notes, now);
                (expiry != expires).then(|| (expiry - now) / 1_000 + 2)
            }
        }
    }

    /// Leaves the notes alone.
    pub(super) fn clear(&mut self, notes: &Notes, now: i128) -> Option<i128> {
        let is_text = matches!(self, Self::Text(_));
        if !notes.matter(now) {
            *self = if is_text { Self::Text(None) } else { Self::Tape(Vec::new()) };
            return None;
        }
        self.store(if is_text { b"" } else { b"-" }, now, notes, now)
    }
}

impl Notes {
    /// Returns the state before the notes, and these, as far as they still matter.
    fn split(text: &str, now: i128) -> (String, Self) {
        let parts: Vec<_> = text.split('|').collect();
        let numbers = parts.iter().skip(1).map(|part| crate::scripts::twin::number(part));
        let numbers = numbers.collect::<Option<Vec<_>>>();
        let Some(&[promised, since, moved, horizon]) = numbers.as_deref() else {
            return (text.to_owned(), Self::default());
        };
        (parts[0].to_owned(), Self::in_reach([promised, since, moved, horizon], now))
    }

    /// Returns the state behind the notes, and these, as far as they still matter.
    fn before(text: &[u8], now: i128) -> (&[u8], Self) {
        let marked = text.strip_prefix(&(-1_f64).to_le_bytes());
        let Some((notes, state)) = marked.and_then(<[u8]>::split_first_chunk::<32>) else {
            return (text, Self::default());
        };
        match doubles::<4>(notes) {
            Some(notes) => (state, Self::in_reach(notes, now)),
            None => (text, Self::default()),
        }
    }

    fn in_reach([promised, since, moved, horizon]: [i128; 4], now: i128) -> Self {
        let in_reach = |at: i128| if at > now && at <= now + FAR { at } else { 0 };
        let (promised, horizon) = (in_reach(promised), in_reach(horizon));
        Self { promised, since: since.min(now), moved: moved.min(now), horizon }
    }

    fn in_front(&self, now: i128) -> Vec<u8> {
        let Self { promised, since, moved, horizon } = *self;
        let notes = from_doubles(&[-1, promised, since, moved, horizon]);
        if self.matter(now) { notes } else { Vec::new() }
    }

    const fn matter(&self, now: i128) -> bool {
        self.promised > now || self.horizon > now
    }

    fn behind(&self, text: &str, now: i128) -> String {
        let Self { promised, since, moved, horizon } = self;
        if self.matter(now) {
            format!("{text}|{promised}|{since}|{moved}|{horizon}")
        } else {
            text.to_owned()
        }
    }
}

/// Returns the list of a head and the entries of a packed state.
fn listed(packed: &str, expiry: i128, notes: &Notes, now: i128) -> Vec<String> {
    let entries: Vec<_> = packed.split(',').filter(|entry| *entry != "-").collect();
    let parsed: Vec<_> = entries.iter().map(|entry| entry_of(entry)).collect();
    let total: i128 = parsed.iter().map(|(_, count)| count).sum();
    let tail = parsed.first().map_or(0, |(at, _)| *at);
    let head = format!("{total}:{}:{tail}:{expiry}", entries.len());
    let entries = entries.iter().rev().map(|entry| (*entry).to_owned());
    [notes.behind(&head, now)].into_iter().chain(entries).collect()
}

fn entry_of(text: &str) -> (i128, i128) {
    use crate::scripts::twin::{split_colon, split_digits};
    split_digits(text, 4).or_else(|| split_colon(text)).expect("an entry")
}

fn expiry_of(head: &str) -> i128 {
    let head = head.split('|').next().unwrap_or_default();
    head.rsplit(':').next().and_then(crate::scripts::twin::number).unwrap_or_default()
}
