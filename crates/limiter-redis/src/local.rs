//! What this process decides without the server.
//!
//! | file | decides |
//! |---|---|
//! | `denials` | refusals that still hold |
//! | `fallback` | everything while the server fails, by a share of the quotas in memory |

pub(crate) mod denials;
pub(crate) mod fallback;

use crate::sync;
