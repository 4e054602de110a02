//! An operation: what a caller asks for, what it is answered, and how that ends.

use limiter_core::{Error, Source};

use crate::{
    auditor::Begun,
    vocabulary::{Micros, Moment},
};

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) begun: Begun,
    pub(crate) asked: Moment,
    pub(super) question: Question,
}

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) operation: &'static str,
    pub(crate) permits: u64,
    /// By which of the policies that take turns.
    pub(crate) tier: usize,
    /// Whether each of its calls is its own, and for one key: not with leases, nor for a list of demands.
    pub(crate) is_direct: bool,
}

/// What a caller was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) source: Source,
    /// The permits of an admission.
    pub(crate) permits: Option<u64>,
    /// For how much later they were charged.
    pub(crate) delay: Micros,
    /// How long a refusal says to wait, unless that is for ever.
    pub(crate) wait: Option<Micros>,
    /// If they were charged afterwards: when the request began.
    pub(crate) of_request: Option<Moment>,
}

/// How an operation has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    /// With a decision, or another answer.
    Answered,
    /// With an error.
    Failed(&'a Error),
    /// Its caller has left.
    Left,
}
