//! The limits of each algorithm.

mod gcra;
mod log;
mod windows;

pub(crate) use gcra::Gcra;
pub(crate) use windows::Windows;

use limiter_core::algorithms::WindowKind;

use crate::limit::{Limit, Terms};

/// Returns the limit of a kind, `None` if the kind or the terms are invalid.
pub(crate) fn of_kind(kind: &str, terms: Terms<'_>) -> Option<Box<dyn Limit>> {
    Some(match kind {
        "gcra" => Box::new(Gcra::new(terms)?),
        "fixed" => Box::new(Windows::new(WindowKind::Fixed, terms)?),
        "aligned" => Box::new(Windows::new(WindowKind::Aligned, terms)?),
        "counter" => Box::new(Windows::new(WindowKind::Sliding, terms)?),
        "loose" | "strict" => Box::new(log::Log::new(kind == "strict", terms)?),
        _ => return None,
    })
}
