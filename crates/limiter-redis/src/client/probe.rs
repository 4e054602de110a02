//! What a required connection is tried for: whether its user may do what limiters do.

use std::time::Duration;

use super::{ScriptCall, ScriptClient, ScriptReply, connection::Connection, faults::CallError};

/// Calls each command of the scripts once.
const PROBE: &str = include_str!("probe.lua");

/// Keys with the default prefix, in one slot. They are gone when the script ends.
const KEYS: [&str; 2] = ["limiter:{probe}:hash", "limiter:{probe}:list"];

impl Connection {
    /// Runs a script that calls what the scripts of limiters call, and returns its error.
    ///
    /// A user may have keys with another prefix alone. Such a user may run scripts, and nothing else is tried.
    pub(super) async fn probe(&self, within: Duration) -> Result<(), CallError> {
        let keys = KEYS.map(|key| key.as_bytes().into()).into();
        let reply = self.run(&ScriptCall::new(PROBE, keys), within).await;
        match reply {
            Ok(ScriptReply::Text(text)) if text == "OK" => Ok(()),
            Ok(ScriptReply::Text(words)) => Err(CallError::of_command("Redis", &words)),
            Ok(reply) => Err(CallError::invalid_reply(&reply)),
            // The command itself is checked before its keys.
            Err(error) if error.to_string().contains("permissions to access") => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PROBE;
    use crate::scripts::SCRIPT_COMMANDS;

    #[test]
    fn each_command_of_scripts_is_tried() {
        for command in SCRIPT_COMMANDS {
            assert!(PROBE.contains(&format!("{{ '{command}'")), "{command}");
        }
    }
}
