//! Outgoing HTTP requests at the pace that their servers allow: a tower layer.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod announcement;
mod backoff;
mod error;
mod host;
mod hosts;
mod layer;
mod pace;
mod permit;
mod service;
mod state;

pub use limiter_core;
#[doc(no_inline)]
pub use limiter_core::{Error, MemoryLimiter, Policy, Quota, WaitingLimiter};

pub use self::{
    error::{OnStoreFailure, ThrottleError},
    layer::ThrottleLayer,
    service::{Throttle, ThrottleFuture},
};
