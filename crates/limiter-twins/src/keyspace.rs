//! The keys of a server.

use std::{collections::BTreeMap, mem};

/// What is stored at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A string.
    Text(Vec<u8>),
    /// A list with one element at least.
    List(Vec<Vec<u8>>),
    /// A sorted set with one member at least: the members, by their scores.
    SortedSet(BTreeMap<Vec<u8>, i64>),
}

/// A value and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The value.
    pub value: Value,
    /// From when on the key is absent, in milliseconds of Unix time.
    pub expires_at: Option<i64>,
}

/// A key holds a value of another type than the command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongType;

impl WrongType {
    /// The error of real servers.
    pub(crate) const TEXT: &str =
        "WRONGTYPE Operation against a key holding the wrong kind of value";
}

/// All keys, in their order. A key that has expired is deleted when it is next accessed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    keys: BTreeMap<Vec<u8>, Stored>,
    /// In milliseconds.
    now: i64,
}

impl Keyspace {
    /// Sets the time, in microseconds.
    pub(crate) const fn set_time(&mut self, micros: i64) {
        self.now = micros.div_euclid(1_000);
    }

    fn is_live(&self, stored: &Stored) -> bool {
        stored.expires_at.is_none_or(|at| self.now < at)
    }

    /// Returns the keys that have not expired.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        let live = self.keys.iter().filter(|(_, stored)| self.is_live(stored));
        live.map(|(key, stored)| (key.as_slice(), stored))
    }

    /// Returns what is stored at a key that has not expired.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<&Stored> {
        self.keys.get(key).filter(|stored| self.is_live(stored))
    }

    /// Returns what is stored at a key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&mut Stored> {
        if self.peek(key).is_none() {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    /// Returns the string at a key.
    pub(crate) fn text(&mut self, key: &[u8]) -> Result<Option<&[u8]>, WrongType> {
        match self.get(key).map(|stored| &stored.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WrongType),
        }
    }

    /// Returns the elements of the list at a key, none of an absent one.
    pub(crate) fn list(&mut self, key: &[u8]) -> Result<&[Vec<u8>], WrongType> {
        match self.get(key).map(|stored| &stored.value) {
            None => Ok(&[]),
            Some(Value::List(elements)) => Ok(elements),
            Some(_) => Err(WrongType),
        }
    }

    /// Reads and changes the members of the sorted set at a key with their scores, none of an absent one. Keeps its expiry.
    /// An empty one is deleted.
    pub(crate) fn with_sorted_set<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut BTreeMap<Vec<u8>, i64>) -> T,
    ) -> Result<T, WrongType> {
        if let Some(stored) = self.get(key) {
            let Value::SortedSet(members) = &mut stored.value else { return Err(WrongType) };
            let output = change(members);
            if members.is_empty() {
                self.keys.remove(key);
            }
            return Ok(output);
        }
        let mut members = BTreeMap::new();
        let output = change(&mut members);
        if !members.is_empty() {
            let stored = Stored { value: Value::SortedSet(members), expires_at: None };
            self.keys.insert(key.to_vec(), stored);
        }
        Ok(output)
    }

    /// Sets a string, which expires after so many milliseconds, or never.
    pub(crate) fn set(&mut self, key: &[u8], text: Vec<u8>, expiry: Option<i64>) {
        let expires_at = expiry.map(|millis| self.now.saturating_add(millis));
        self.keys.insert(key.to_vec(), Stored { value: Value::Text(text), expires_at });
    }

    /// Replaces the elements of a list, and keeps its expiry. An empty list is deleted.
    pub(crate) fn set_list(&mut self, key: &[u8], elements: Vec<Vec<u8>>) {
        let expires_at = self.get(key).and_then(|stored| stored.expires_at);
        if elements.is_empty() {
            self.keys.remove(key);
        } else {
            self.keys.insert(key.to_vec(), Stored { value: Value::List(elements), expires_at });
        }
    }

    /// Sets after how many milliseconds a key expires.
    pub(crate) fn expire(&mut self, key: &[u8], millis: i64) {
        let at = self.now.saturating_add(millis);
        if let Some(stored) = self.get(key) {
            stored.expires_at = Some(at);
        }
    }

    /// Returns whether the key existed.
    pub(crate) fn delete(&mut self, key: &[u8]) -> bool {
        let existed = self.peek(key).is_some();
        self.keys.remove(key);
        existed
    }

    pub(crate) fn clear(&mut self) {
        drop(mem::take(&mut self.keys));
    }

    /// Returns in how many milliseconds a key expires: -1 for never, -2 for an absent key.
    pub(crate) fn left(&self, key: &[u8]) -> i64 {
        self.peek(key).map_or(-2, |stored| stored.expires_at.map_or(-1, |at| at - self.now))
    }
}
