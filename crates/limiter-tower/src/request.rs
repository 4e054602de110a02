//! A request's way through a layer: the decision, the inner service, the response.
//!
//! | file | what |
//! |---|---|
//! | `service`, `future` | the way, for rates and for requests in flight: a [`Gate`](gate::Gate) decides |
//! | `common` | what layers of both kinds have |
//! | `layer`, `rates` | the layer of rates, and its gate |
//! | `fast` | the decision of rules in memory, without what most rules do without |
//! | `decide`, `queue`, `conclude` | the decision on one request by all rates |
//! | `after` | what is done with an admitted request and its response |
//! | `body` | the body of a refusal, in the type of the inner service's body |

pub(crate) mod after;
pub(crate) mod body;
pub(crate) mod common;
mod conclude;
pub(crate) mod decide;
mod fast;
pub(crate) mod future;
pub(crate) mod gate;
mod layer;
mod queue;
pub(crate) mod rates;
pub(crate) mod service;

pub use self::layer::RateLimitLayer;
