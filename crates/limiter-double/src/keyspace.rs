//! The keys of a server.

use std::collections::{BTreeMap, VecDeque};

use crate::{reply::WrongType, version::Version};

/// What is stored at a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(Vec<u8>),
    /// A list with one element at least.
    List(VecDeque<Vec<u8>>),
    /// A hash with one field at least: fields and values, in the order in which the fields were added.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// A sorted set with one member at least, with their scores.
    SortedSet(BTreeMap<Vec<u8>, f64>),
}

/// A value and its expiry.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The value.
    pub value: Value,
    /// The last millisecond of Unix time in which the key exists.
    pub expires_at: Option<i64>,
}

/// A type of values that hold several elements: an empty one is as good as no key.
pub(crate) trait Collection: Default {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn is_empty(&self) -> bool;
    fn into_value(self) -> Value;
}

macro_rules! collection {
    ($variant:ident, $type:ty) => {
        impl Collection for $type {
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$variant(it) = value { Some(it) } else { None }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$variant(it) = value { Some(it) } else { None }
            }

            fn is_empty(&self) -> bool {
                self.is_empty()
            }

            fn into_value(self) -> Value {
                Value::$variant(self)
            }
        }
    };
}

pub(crate) type List = VecDeque<Vec<u8>>;
pub(crate) type Hash = Vec<(Vec<u8>, Vec<u8>)>;
pub(crate) type SortedSet = BTreeMap<Vec<u8>, f64>;

collection!(List, List);
collection!(Hash, Hash);
collection!(SortedSet, SortedSet);

/// All keys, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    pub(crate) version: Version,
    keys: BTreeMap<Vec<u8>, Stored>,
    /// In microseconds of Unix time.
    now: i64,
    /// The estimated bytes of all keys, expired ones included. It is kept up to date while `is_counted`.
    bytes: usize,
    is_counted: bool,
}

impl Keyspace {
    pub(crate) const fn set_time(&mut self, micros: i64) {
        self.now = micros;
    }

    pub(crate) const fn now_micros(&self) -> i64 {
        self.now
    }

    const fn now_millis(&self) -> i64 {
        self.now.div_euclid(1_000)
    }

    fn is_live(&self, stored: &Stored) -> bool {
        stored.expires_at.is_none_or(|last| self.now_millis() <= last)
    }

    /// Returns the keys that have not expired.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        let live = self.keys.iter().filter(|(_, stored)| self.is_live(stored));
        live.map(|(key, stored)| (key.as_slice(), stored))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Stored> {
        self.keys.get(key).filter(|stored| self.is_live(stored))
    }

    pub(crate) fn text(&self, key: &[u8]) -> Result<Option<&[u8]>, WrongType> {
        match self.get(key).map(|stored| &stored.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WrongType),
        }
    }

    /// Returns what is `read` of the collection at a key: of an empty one if there is no key.
    pub(crate) fn read<C: Collection, T>(
        &self,
        key: &[u8],
        read: impl FnOnce(&C) -> T,
    ) -> Result<T, WrongType> {
        match self.get(key) {
            None => Ok(read(&C::default())),
            Some(stored) => C::of(&stored.value).map(read).ok_or(WrongType),
        }
    }

    /// Changes the collection at a key, or an empty one, and keeps its expiry. One that is empty then is deleted.
    pub(crate) fn change<C: Collection, T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut C) -> T,
    ) -> Result<T, WrongType> {
        if self.get(key).is_none() {
            let mut new = C::default();
            let output = change(&mut new);
            if !new.is_empty() {
                self.insert(key, Stored { value: new.into_value(), expires_at: None });
            }
            return Ok(output);
        }
        let mut stored = self.remove(key).ok_or(WrongType)?;
        let output = C::of_mut(&mut stored.value).map(change).ok_or(WrongType);
        let is_empty = C::of(&stored.value).is_some_and(Collection::is_empty);
        if !is_empty {
            self.insert(key, stored);
        }
        output
    }

    /// Sets a string, which expires at a millisecond of Unix time, or never.
    pub(crate) fn set(&mut self, key: &[u8], text: &[u8], expires_at: Option<i64>) {
        self.insert(key, Stored { value: Value::Text(text.to_vec()), expires_at });
    }

    /// Returns when a key expires that lasts for so many milliseconds, unless no clock gets so far.
    pub(crate) const fn expiry_in(&self, millis: i64) -> Option<i64> {
        self.now_millis().checked_add(millis)
    }

    /// Sets when a key expires, and returns whether it exists.
    pub(crate) fn expire(&mut self, key: &[u8], at: Option<i64>) -> bool {
        let exists = self.get(key).is_some();
        if exists && at.is_some_and(|at| at <= self.now_millis()) {
            self.delete(key);
        } else if let Some(stored) = self.keys.get_mut(key).filter(|_| exists) {
            stored.expires_at = at;
        }
        exists
    }

    /// Returns whether the key existed.
    pub(crate) fn delete(&mut self, key: &[u8]) -> bool {
        let existed = self.get(key).is_some();
        self.remove(key);
        existed
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.bytes = 0;
    }

    /// Returns in how many milliseconds a key expires: -1 for never, -2 if there is no key.
    pub(crate) fn left(&self, key: &[u8]) -> i64 {
        self.get(key).map_or(-2, |stored| stored.expires_at.map_or(-1, |at| at - self.now_millis()))
    }

    /// Takes a key with its value, as a slot that moves does.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<Stored> {
        self.get(key)?;
        self.remove(key)
    }

    pub(crate) fn insert(&mut self, key: &[u8], stored: Stored) {
        let added = if self.is_counted { bytes(key, &stored.value) } else { 0 };
        self.remove(key);
        self.bytes += added;
        self.keys.insert(key.to_vec(), stored);
    }

    fn remove(&mut self, key: &[u8]) -> Option<Stored> {
        let stored = self.keys.remove(key)?;
        if self.is_counted {
            self.bytes = self.bytes.saturating_sub(bytes(key, &stored.value));
        }
        Some(stored)
    }

    /// Returns an estimate of the memory of all keys in bytes. From then on it is kept up to date.
    pub(crate) fn used_memory(&mut self) -> usize {
        if !self.is_counted {
            self.bytes = self.keys.iter().map(|(key, stored)| bytes(key, &stored.value)).sum();
            self.is_counted = true;
        }
        self.bytes
    }
}

/// About what a server takes for a key and its expiry, and for an element.
const KEY: usize = 96;
const ELEMENT: usize = 16;

fn bytes(key: &[u8], value: &Value) -> usize {
    let of_value: usize = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.iter().map(|it| ELEMENT + it.len()).sum(),
        Value::Hash(fields) => {
            fields.iter().map(|(field, it)| ELEMENT + field.len() + it.len()).sum()
        }
        Value::SortedSet(members) => members.keys().map(|member| 2 * ELEMENT + member.len()).sum(),
    };
    KEY + key.len() + of_value
}

#[cfg(test)]
mod tests {
    use crate::Server;

    #[test]
    fn memory_that_is_kept_up_to_date_is_that_of_the_keys() {
        let mut server = Server::default();
        assert_eq!(server.used_memory(), 0);
        let commands = [
            "SET s 12345",
            "SET s 1",
            "HSET h a 1 b 2",
            "HSET h a 123",
            "HDEL h b",
            "RPUSH l a bc def",
            "LSET l 0 long",
            "LTRIM l 0 1",
            "ZADD z 1 a 2 b",
            "ZREM z a",
            "GET h",
            "RPUSH h a",
            "PEXPIRE z 1",
            "SET t 1 PX 1",
            "DEL s",
            "FLUSHALL",
        ];
        for (millis, command) in (0..).zip(commands) {
            server.execute(&command.split(' ').collect::<Vec<_>>(), millis * 1_000);
            let mut fresh = server.store.space.clone();
            fresh.is_counted = false;
            assert_eq!(server.used_memory(), fresh.used_memory(), "{command}");
        }
    }
}
