//! The arguments of scripts for a limit.

use limiter_core::{Algorithm, Limit};

/// A limit as an argument of scripts.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) kind: &'static str,
    pub(crate) quota: String,
    pub(crate) permits: u64,
    pub(crate) number: u64,
    /// In microseconds.
    pub(crate) horizon: u64,
}

/// The ticks of a microsecond where the increment of a quota has decimals.
const FINE: u64 = 10_000;

impl Arguments {
    pub(crate) fn new(limit: &Limit) -> Self {
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap();
        let (quota, horizon) = (limit.quota(), micros(limit.horizon()));
        let (window, permits) = (micros(quota.window()), quota.permits());
        let of = |kind, quota, number| Self { kind, quota, permits, number, horizon };
        let windows = |kind| of(kind, format!(" {window} {} ", window + horizon), window);
        match limit.algorithm() {
            Algorithm::FixedWindow => windows("fixed"),
            Algorithm::AlignedWindow => windows("aligned"),
            Algorithm::SlidingCounter => windows("counter"),
            Algorithm::SlidingLog => of("loose", format!(" 1 {window} {horizon}"), 0),
            Algorithm::SubWindows(slots) => {
                let number = u64::from(slots.number());
                let slot = window.div_ceil(number);
                let span = slot * (number + u64::from(!slots.is_loose()));
                let kind = if slots.is_loose() { "loose" } else { "strict" };
                let paced = if slots.is_paced() { number } else { 0 };
                of(kind, format!(" {slot} {span} {horizon}"), paced)
            }
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                let lost = window.div_ceil(permits) * permits - window;
                let is_coarse = lost * 1_000 < window;
                let scale = if is_coarse { 1 } else { FINE };
                let increment = (window * scale).div_ceil(permits);
                let reach = quota.burst() * increment + horizon * scale;
                let quota_text = if is_coarse {
                    format!(" {increment} {reach}")
                } else {
                    let fine = |ticks| format!("{}.{:04}", ticks / FINE, ticks % FINE);
                    format!(" {} {}", fine(increment), fine(reach))
                };
                Self { permits: quota.burst(), ..of("gcra", quota_text, increment) }
            }
        }
    }

    /// Returns the arguments for the general scripts.
    pub(crate) fn general(&self) -> [String; 4] {
        let Self { kind, quota, permits, number, .. } = self;
        [(*kind).to_owned(), quota.clone(), permits.to_string(), number.to_string()]
    }

    /// Returns the hot script of the limit, and its arguments.
    pub(crate) fn hot(&self) -> Option<(&'static str, Vec<String>)> {
        let [_, quota, permits, number] = self.general();
        Some(match self.kind {
            "gcra" => ("gcra", vec![quota, permits, number]),
            "fixed" => ("window", vec![quota, permits, number, "1".to_owned()]),
            "aligned" => ("window", vec![quota, permits, number.clone(), number]),
            "counter" => ("counter", vec![quota, permits, number]),
            _ if self.number == 0 => ("log", vec![quota, permits]),
            _ => return None,
        })
    }
}
