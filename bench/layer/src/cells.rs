//! What is measured: the cells of the report, and their targets.

use crate::{
    contenders::{OURS, OURS_WITHOUT_DECISIONS},
    send::{Call, Inner},
};

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

/// What a layer of ours must reach in a cell. Each figure is an upper bound.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the layer.
    pub layer: &'static str,
    pub ratio: Option<f64>,
    pub nanos: Option<f64>,
    pub allocations: Option<f64>,
}

const PLAIN: Setup = Setup { inner: Inner::Empty, headers: false, refuses: false };
const HEADERS: Setup = Setup { inner: Inner::ContentType, headers: true, refuses: false };
const EMPTY: Setup = Setup { inner: Inner::Empty, headers: true, refuses: false };
const REFUSAL: Setup = Setup { inner: Inner::Empty, headers: true, refuses: true };

const fn target(ratio: f64, allocations: f64) -> Option<Target> {
    Some(Target {
        layer: OURS_WITHOUT_DECISIONS,
        ratio: Some(ratio),
        nanos: None,
        allocations: Some(allocations),
    })
}

const REFUSAL_TARGET: Target =
    Target { layer: OURS, ratio: None, nanos: Some(500.0), allocations: None };

const fn cell(name: &'static str, setup: Setup, target: Option<Target>) -> Cell {
    Cell { name, setup, call: Call::Clone, threads: 1, target }
}

/// All cells.
pub const CELLS: [Cell; 8] = [
    cell("Admitted, without header fields", PLAIN, target(1.2, 0.0)),
    cell("Admitted, with header fields", HEADERS, target(0.65, 2.0)),
    cell("Admitted, with header fields into an empty header map", EMPTY, target(0.65, 4.0)),
    cell("Refused, with header fields", REFUSAL, Some(REFUSAL_TARGET)),
    Cell { call: Call::Same, ..cell("Admitted, without header fields, no clone", PLAIN, None) },
    Cell { call: Call::Same, ..cell("Admitted, with header fields, no clone", HEADERS, None) },
    Cell { threads: 2, ..cell("Admitted, without header fields, 2 threads", PLAIN, None) },
    Cell { threads: 2, ..cell("Admitted, with header fields, 2 threads", HEADERS, None) },
];
