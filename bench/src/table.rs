//! Medians, and tables of them.

use std::fmt;

/// Several measurements of the same thing.
#[derive(Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Returns the quotients of two samples, round by round.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    /// Returns the larger of two samples, round by round.
    pub(crate) fn max(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one.max(*other)).collect())
    }

    /// Returns the median and the range of the middle half.
    pub(crate) fn quartiles(&self) -> (f64, f64, f64) {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |quarter: usize| {
            let index = sorted.len().saturating_sub(1) * quarter;
            // To the nearest, away from the median.
            let index = if quarter < 2 { index / 4 } else { index.div_ceil(4) };
            sorted.get(index).copied().unwrap_or(f64::NAN)
        };
        (at(2), at(1), at(3))
    }

    /// Prints the median and the range of the middle half, in units of `unit`.
    pub(crate) fn show(&self, unit: f64, decimals: usize) -> String {
        let (median, low, high) = self.quartiles();
        let [median, low, high] = [median, low, high].map(|value| value / unit);
        format!("{median:.decimals$} ({low:.decimals$} to {high:.decimals$})")
    }
}

/// A table in Markdown.
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let head: Vec<String> = head.iter().map(ToString::to_string).collect();
        let rule = vec!["---".to_owned(); head.len()];
        Self(vec![head, rule])
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().collect());
    }

    pub(crate) fn print(self) {
        println!("{self}");
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        for row in &self.0 {
            let cells = row.iter().enumerate();
            let cells: Vec<_> =
                cells.map(|(column, cell)| format!("{cell:<0$}", width(column))).collect();
            writeln!(f, "| {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}
