//! Outgoing requests, at the pace that their servers allow.

mod announcement;
mod backoff;
mod error;
mod host;
mod hosts;
mod layer;
mod pace;
mod service;
mod state;

pub use self::{
    error::ThrottleError,
    layer::ThrottleLayer,
    service::{Throttle, ThrottleFuture},
};
