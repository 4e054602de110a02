//! What is measured: the cells of the report, and their targets.

use crate::send::{Call, Inner};

/// How layers and the inner service are configured.
#[derive(Clone, Copy)]
pub struct Setup {
    pub inner: Inner,
    /// Whether responses carry header fields about the limit.
    pub headers: bool,
    /// Whether all requests are refused; otherwise all are admitted.
    pub refuses: bool,
}

/// Layers side by side at the same work.
#[derive(Clone, Copy)]
pub struct Cell {
    pub name: &'static str,
    pub setup: Setup,
    pub call: Call,
    pub threads: usize,
    pub target: Option<Target>,
}

/// What our layer must reach in a cell, as it comes. Each figure is an upper bound.
#[derive(Clone, Copy)]
pub struct Target {
    /// To tower_governor, in the profile `release` and in `lto`.
    pub ratios: Option<[f64; 2]>,
    pub nanos: Option<f64>,
    pub allocations: Option<f64>,
}

const PLAIN: Setup = Setup { inner: Inner::Empty, headers: false, refuses: false };
const HEADERS: Setup = Setup { inner: Inner::ContentType, headers: true, refuses: false };
const EMPTY: Setup = Setup { inner: Inner::Empty, headers: true, refuses: false };
const REFUSAL: Setup = Setup { inner: Inner::Empty, headers: true, refuses: true };

const fn target(ratios: [f64; 2], allocations: f64) -> Option<Target> {
    Some(Target { ratios: Some(ratios), nanos: None, allocations: Some(allocations) })
}

const REFUSAL_TARGET: Target = Target { ratios: None, nanos: Some(500.0), allocations: None };

/// The targets without header fields, and those with them.
pub const PLAIN_TARGETS: [f64; 2] = [1.25, 1.8];
pub const FIELDS_TARGETS: [f64; 2] = [0.68, 0.88];

const fn cell(name: &'static str, setup: Setup, target: Option<Target>) -> Cell {
    Cell { name, setup, call: Call::Clone, threads: 1, target }
}

/// All cells.
pub const CELLS: [Cell; 8] = [
    cell("Admitted, without header fields", PLAIN, target(PLAIN_TARGETS, 0.0)),
    cell("Admitted, with header fields", HEADERS, target(FIELDS_TARGETS, 2.0)),
    cell(
        "Admitted, with header fields into an empty header map",
        EMPTY,
        target(FIELDS_TARGETS, 4.0),
    ),
    cell("Refused, with header fields", REFUSAL, Some(REFUSAL_TARGET)),
    Cell { call: Call::Same, ..cell("Admitted, without header fields, no clone", PLAIN, None) },
    Cell { call: Call::Same, ..cell("Admitted, with header fields, no clone", HEADERS, None) },
    Cell { threads: 2, ..cell("Admitted, without header fields, 2 threads", PLAIN, None) },
    Cell { threads: 2, ..cell("Admitted, with header fields, 2 threads", HEADERS, None) },
];
