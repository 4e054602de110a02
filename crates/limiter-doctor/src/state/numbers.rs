//! The numbers of a state.

use super::Field;

/// Reads the numbers of a text, which are separated by single spaces.
pub(super) struct Reader<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { words: text.split(' ').collect(), next: 0 }
    }

    pub(super) fn whole(&mut self) -> Option<u64> {
        whole(self.word()?)
    }

    /// Returns a number with none or four decimals, in ten-thousandths.
    pub(super) fn ticks(&mut self) -> Option<u128> {
        let word = self.word()?;
        let (whole_part, decimals) = match word.split_once('.') {
            Some((whole_part, decimals)) if decimals.len() == 4 => (whole_part, whole(decimals)?),
            Some(_) => return None,
            None => (word, 0),
        };
        Some(u128::from(whole(whole_part)?) * 10_000 + u128::from(decimals))
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.next == self.words.len()
    }

    pub(super) fn field(&self, index: usize, name: &'static str, meaning: String) -> Field {
        let value = self.words.get(index).copied().unwrap_or_default().to_owned();
        Field { name, value, meaning }
    }

    fn word(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next).copied();
        self.next += 1;
        word
    }
}

/// Returns the number that is written as at most 16 digits, as scripts read it.
pub(super) fn whole(word: &str) -> Option<u64> {
    let is_number = word.len() <= 16 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}
