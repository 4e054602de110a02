//! What this process decides without the server.
//!
//! | file | decides |
//! |---|---|
//! | `denials` | refusals that still hold |

pub(crate) mod denials;

use crate::sync;
