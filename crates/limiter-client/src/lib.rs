#![cfg_attr(docsrs, feature(doc_cfg))]

//! [`classify`]: crate::ThrottleLayer::classify
//! [`Event`]: crate::Event
//! [`EventKind::name`]: crate::EventKind::name
//! [`host`]: crate::ThrottleLayer::host
//! [`longest_pause`]: crate::ThrottleLayer::longest_pause
//! [`observe`]: crate::ThrottleLayer::observe
//! [`queue`]: crate::ThrottleLayer::queue
//! [`Spend::Evenly`]: crate::Spend::Evenly
//! [`Spend::Freely`]: crate::Spend::Freely
//! [`ThrottleError`]: crate::ThrottleError
//! [`ThrottleError::into_boxed`]: crate::ThrottleError::into_boxed
//! [`in_flight`]: crate::ThrottleLayer::in_flight
//! [`ThrottleLayer::with_limiter`]: crate::ThrottleLayer::with_limiter
//! [`within`]: crate::ThrottleLayer::within
// Above, because the first definition counts: the README's own ones are for its readers outside of rustdoc.
#![doc = include_str!("../README.md")]

mod advice;
mod announcement;
mod backoff;
mod bucket;
mod error;
mod event;
mod fields;
mod host;
mod hosts;
mod in_flight;
mod layer;
mod name;
mod pace;
mod permit;
mod redact;
mod service;
mod settings;
mod spend;
mod state;
mod times;
mod window;

pub use limiter_core;
#[doc(no_inline)]
pub use limiter_core::{Error, MemoryLimiter, Policy, Quota, WaitingLimiter};

pub use limiter_core::OnStoreFailure;

pub use self::{
    error::{NotSent, ThrottleError},
    event::{Event, EventKind},
    in_flight::{HeldBody, InFlightThrottle, InFlightThrottleLayer},
    layer::ThrottleLayer,
    service::Throttle,
    spend::Spend,
};
