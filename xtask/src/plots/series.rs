//! The table that `simulate --picture` prints.

use anyhow::{Context, Result};

/// What became of one key.
pub(super) struct Series {
    pub(super) burst: f64,
    /// How many permits come back in a second.
    pub(super) rate: f64,
    pub(super) rows: Vec<Row>,
    /// Kinds of faults in the order of their first one, and from when to when they lasted, in seconds.
    pub(super) faults: Vec<(String, Vec<(f64, f64)>)>,
}

/// What became of it in 50 ms.
pub(super) struct Row {
    /// When it begins, in seconds.
    pub(super) from: f64,
    /// How many permits the server, leases and shares of processes admitted.
    pub(super) admitted: [f64; 3],
    pub(super) used: f64,
    pub(super) held: f64,
}

/// How long a row is, in seconds.
pub(super) const ROW: f64 = 0.05;

impl Series {
    pub(super) fn parse(table: &str) -> Result<Self> {
        let mut series = Self { burst: 0.0, rate: 0.0, rows: Vec::new(), faults: Vec::new() };
        for line in table.lines() {
            series.add(line).with_context(|| format!("no line of a series: {line:?}"))?;
        }
        Ok(series)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let number = |word: &str| word.parse::<u32>().ok().map(f64::from);
        let seconds = |word: &str| Some(number(word)? / 1_000.0);
        match line.split(',').collect::<Vec<_>>()[..] {
            ["limit", burst, permits, window] => {
                (self.burst, self.rate) = (number(burst)?, number(permits)? / seconds(window)?);
            }
            ["row", from, server, lease, share, used, held] => {
                let admitted = [number(server)?, number(lease)?, number(share)?];
                let (from, used, held) = (seconds(from)?, number(used)?, number(held)?);
                self.rows.push(Row { from, admitted, used, held });
            }
            ["fault", kind, from, to] => {
                let span = (seconds(from)?, seconds(to)?);
                match self.faults.iter_mut().find(|(known, _)| known == kind) {
                    Some((_, spans)) => spans.push(span),
                    None => self.faults.push((kind.to_owned(), vec![span])),
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_and_other_lines_are_refused() {
        let table = "limit,10,20,500\nrow,50,1,2,3,4,5\nfault,cut,1000,2000\nfault,cut,3000,3000\n";
        let series = Series::parse(table).unwrap();
        assert_eq!((series.burst, series.rate), (10.0, 40.0));
        assert_eq!(series.rows[0].admitted, [1.0, 2.0, 3.0]);
        assert_eq!(series.faults, [("cut".to_owned(), vec![(1.0, 2.0), (3.0, 3.0)])]);
        assert!(Series::parse("row,1").is_err());
    }
}
