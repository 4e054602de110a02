//! The circuit breakers of a limiter: one for each server, so that a node of a cluster that fails does not keep calls
//! from the others.

use std::sync::Arc;

use limiter_core::Clock;

use super::breaker::{Breaker, Pass, Settings};
use crate::{
    client::{
        ScriptClient,
        faults::{CallError, Fault},
    },
    events::Events,
};

pub(crate) struct Breakers([Breaker; SERVERS]);

/// Servers with larger numbers share the breaker of another server.
const SERVERS: usize = 32;

impl Breakers {
    pub(crate) fn new(settings: Settings) -> Self {
        Self(std::array::from_fn(|_| Breaker::new(settings)))
    }

    /// Returns the circuit breaker of the server that has the key.
    pub(crate) fn of(&self, client: &impl ScriptClient, key: &[u8]) -> &Breaker {
        // The first is for keys whose server is not known, and for clients with one server.
        self.at(client.server_of(key).map(|(number, _)| number))
    }

    fn at(&self, server: Option<usize>) -> &Breaker {
        let index = server.map_or(0, |number| 1 + number % (SERVERS - 1));
        // There is one for each remainder.
        self.0.get(index).unwrap_or(&self.0[0])
    }

    /// Reports the outcome of a call for the key to the circuit breaker, and what follows to `events`.
    pub(crate) fn note(
        &self,
        pass: Pass<'_>,
        (client, key): (&impl ScriptClient, &[u8]),
        error: Option<&CallError>,
        (events, clock): (&Events, &dyn Clock),
    ) {
        let failed = error.map_or(Some(false), |error| error.fault().server_failed());
        let cause = || error.map_or(String::new(), ToString::to_string);
        // The server that did not reply, if the one that has the key redirected the call to it.
        let other = error.and_then(|error| error.called.as_ref()).filter(|_| failed == Some(true));
        if let Some((number, name)) = other {
            let (sent, now) = (pass.sent(), clock.now());
            if let Some(opened) = self.at(Some(*number)).timed_out(sent, now) {
                events.transition(opened, Some(Arc::clone(name)), &cause());
            }
        }
        let transition = match failed {
            // Without a result, the pass lets another call probe.
            None => return,
            Some(true) if other.is_none() => pass.failed(clock.now()),
            Some(_) => pass.succeeded(),
        };
        match transition {
            Some(transition) => {
                events.transition(transition, node_of(client, key), &cause());
            }
            None if failed == Some(true) && self.of(client, key).is_open() => {
                events.log_outage(node_of(client, key), &cause());
            }
            None => {}
        }
    }
}

/// Returns the name of the server that has the key, if there are several.
pub(crate) fn node_of(client: &impl ScriptClient, key: &[u8]) -> Option<Arc<str>> {
    client.server_of(key).map(|(_, name)| name)
}

/// Returns the error of a call that an open circuit breaker refused.
pub(crate) fn is_open(client: &impl ScriptClient, key: &[u8]) -> CallError {
    let node = node_of(client, key).map_or(String::new(), |node| format!(" at {node}"));
    CallError::new(Fault::NotSent, format!("Redis{node} failed recently and is not called"))
}
