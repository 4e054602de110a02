//! The ratios that have a target.

use crate::table::{Sample, Table};

/// A script whose rate is compared with the rate of another one, with as many keys.
pub(crate) struct Pair {
    pub(crate) script: &'static str,
    pub(crate) reference: &'static str,
    target: Option<f64>,
}

/// A ratio, round by round.
pub(crate) struct Ratio {
    pub(crate) name: String,
    /// By decisions a second.
    pub(crate) by_rate: Sample,
    /// By decisions for each second of processor time.
    pub(crate) by_time: Sample,
    /// The least that the median by decisions a second should be.
    pub(crate) target: Option<f64>,
}

pub(crate) const FLOOR: &str = "floor";

pub(crate) const PAIRS: [Pair; 12] = [
    pair("GCRA", "redis_rate's rules (written for this bench)", Some(1.15)),
    pair("GCRA, refused", "redis_rate's rules (written for this bench), refused", Some(1.15)),
    pair("GCRA", FLOOR, None),
    pair("fixed window", "classic: INCR and EXPIRE", Some(0.46)),
    pair("fixed window", FLOOR, None),
    pair("aligned window", FLOOR, None),
    pair("2 limits", FLOOR, Some(0.31)),
    pair("log", "classic: log in a sorted set", Some(0.55)),
    pair(
        "log of 100 entries, refused",
        "classic: log in a sorted set of 100 entries, refused",
        Some(0.5),
    ),
    pair("sub-windows, 10 slots", "classic: hash of sub-windows, 10 slots", Some(0.8)),
    pair("sub-windows, 60 slots", "classic: hash of sub-windows, 60 slots", Some(0.8)),
    pair("sub-windows, 1,000 slots", "classic: hash of sub-windows, 1000 slots", Some(0.8)),
];

const fn pair(script: &'static str, reference: &'static str, target: Option<f64>) -> Pair {
    Pair { script, reference, target }
}

impl Pair {
    pub(crate) fn ratio(&self, by_rate: Sample, by_time: Sample) -> Ratio {
        let name = format!("{} / {}", self.script, self.reference);
        Ratio { name, by_rate, by_time, target: self.target }
    }
}

/// Prints the ratios, if there are any, and whether they reach their targets.
pub(crate) fn print(ratios: &[Ratio]) {
    if ratios.is_empty() {
        return;
    }
    println!(
        "## Targets\n\nThe ratio of two rates in the same round: the median of the rounds, and the \
         range of the middle half of them. By decisions a second, and by decisions for each second of \
         processor time, the server's for scripts and the client's for clients. A target is reached if \
         the median by decisions a second is at least as large. The scripts and clients are described \
         below.\n"
    );
    let mut table =
        Table::new(&["ratio", "by decisions a second", "by processor time", "target", "reached"]);
    for ratio in ratios {
        let (median, ..) = ratio.by_rate.quartiles();
        let (target, reached) = ratio.target.map_or_else(Default::default, |target| {
            let reached = if median >= target { "yes" } else { "no" };
            (format!("{target:.2}"), reached)
        });
        table.row([
            ratio.name.clone(),
            ratio.by_rate.show(1.0, 3),
            ratio.by_time.show(1.0, 3),
            target,
            reached.to_owned(),
        ]);
    }
    table.print();
}
