//! `scripts`: the scripts that limiters send, by the digests that servers show.

use limiter_redis::scripts;

use crate::{Failure, Outcome};

/// Prints the digest and the name of each script, or the text of one as it is sent.
pub(crate) fn run(name: Option<&str>) -> Result<Outcome, Failure> {
    let text = match name {
        None => {
            let line = |(name, text)| format!("{}  {name}\n", scripts::digest(text));
            scripts::all().map(line).collect()
        }
        Some(name) => {
            let names = || scripts::all().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            let found = scripts::all().find(|(script, _)| *script == name);
            let (_, text) = found.ok_or_else(|| {
                Failure::Usage(format!("invalid script {name:?}; use one of {}", names()))
            })?;
            format!("{text}\n")
        }
    };
    Ok(Outcome { text, has_problem: false })
}
