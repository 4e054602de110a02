//! A call of a script.

use std::slice;

use crate::{
    keyspace::Keyspace,
    limit::{Limit, Terms},
    limits,
    reply::Reply,
    text,
};

/// The keys and arguments of a call, what it accesses, and the time.
pub(crate) struct Call<'a> {
    pub(crate) space: &'a mut Keyspace,
    pub(crate) keys: Vec<&'a [u8]>,
    pub(crate) arguments: Arguments<'a>,
    /// In microseconds of Unix time.
    pub(crate) now: i64,
}

/// The arguments that are still to be read.
#[derive(Clone, Debug)]
pub(crate) struct Arguments<'a>(slice::Iter<'a, &'a [u8]>);

impl<'a> Call<'a> {
    /// Returns the call with the words behind a script: the number of its keys, these, and its arguments.
    pub(crate) fn new(
        space: &'a mut Keyspace,
        words: &'a [&'a [u8]],
        now: i64,
    ) -> Result<Self, Reply> {
        let mut words = words.iter();
        let count = Arguments(words.clone()).number().ok();
        words.next();
        let count = count.and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| *count <= words.len());
        let Some(count) = count else {
            return Err(Reply::error(
                "ERR Number of keys can't be greater than number of args or negative",
            ));
        };
        let keys: Vec<_> = words.by_ref().take(count).copied().collect();
        for key in &keys {
            // An expired key is deleted, whether or not the script accesses it.
            space.get(key);
        }
        Ok(Self { space, keys, arguments: Arguments(words), now })
    }
}

impl<'a> Arguments<'a> {
    /// Returns the next argument.
    pub(crate) fn text(&mut self) -> Result<&'a str, Reply> {
        let word = self.0.next().and_then(|word| str::from_utf8(word).ok());
        word.ok_or_else(|| Reply::error("ERR an argument is missing, or not text"))
    }

    /// Returns the next argument, which is a whole number.
    pub(crate) fn number(&mut self) -> Result<i64, Reply> {
        let word = self.text()?;
        let number = text::digits(word).or_else(|| word.parse().ok());
        number.ok_or_else(|| Reply::error(format!("ERR the argument {word:?} is not a number")))
    }

    /// Returns the next argument, a number that is not negative.
    pub(crate) fn permits(&mut self) -> Result<u64, Reply> {
        let number = self.number()?;
        u64::try_from(number)
            .map_err(|_| Reply::error(format!("ERR the argument {number} is negative")))
    }

    /// Returns the next four arguments as a limit.
    pub(crate) fn limit(&mut self) -> Result<Box<dyn Limit>, Reply> {
        let (kind, quota) = (self.text()?, self.text()?);
        let terms = Terms { quota, permits: self.permits()?, number: self.number()? };
        limits::of_kind(kind, terms)
            .ok_or_else(|| Reply::error(format!("ERR no limit is {kind} {terms:?}")))
    }

    /// Returns the next arguments, one cost for each key, or 1 for each if there are none.
    pub(crate) fn costs(&mut self, keys: usize) -> Result<Vec<u64>, Reply> {
        if self.0.len() == 0 {
            return Ok(vec![1; keys]);
        }
        (0..keys).map(|_| self.permits()).collect()
    }
}
