//! What this process decides without the server.
//!
//! | file | decides |
//! |---|---|
//! | `denials` | refusals that still hold |
//! | `lease` | permits that the server granted in bulk |
//! | `fallback` | everything while the server fails, by `share` of the quotas in memory |

pub(crate) mod denials;
pub(crate) mod fallback;
pub(crate) mod lease;
mod share;

use crate::sync;
