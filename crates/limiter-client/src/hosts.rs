//! The hosts that requests were sent to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::host::Host;

/// The most hosts that are kept, unless requests wait for more.
const MAX_HOSTS: usize = 10_000;

/// What is known of each host. Shared by all clones of a layer.
#[derive(Default)]
pub(crate) struct Hosts(Mutex<HashMap<Box<str>, Arc<Host>>>);

impl Hosts {
    /// Returns the host of this name, which `make` makes if it is new.
    ///
    /// If there are too many, those without a request in flight are forgotten: first those that are not
    /// paused.
    pub(crate) fn get(&self, name: &str, make: impl FnOnce() -> Host) -> Arc<Host> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(name) {
            return Arc::clone(host);
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.pause().is_some());
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, host| Arc::strong_count(host) > 1);
        }
        let host = Arc::new(make());
        hosts.insert(name.into(), Arc::clone(&host));
        host
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue, StatusCode, header::RETRY_AFTER};
    use limiter_core::{MemoryLimiter, Policy, Quota};

    use super::*;

    fn refuse(host: &Host) {
        let sent_at = host.sent(None);
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("60"))]);
        host.learn(sent_at, StatusCode::TOO_MANY_REQUESTS, &headers, Duration::from_secs(600));
    }

    #[test]
    fn a_flood_of_hosts_is_bounded_and_forgets_none_that_is_paused_or_in_use() {
        let limiter = MemoryLimiter::new(Policy::gcra("outgoing", Quota::per_second(1)));
        let (hosts, limiter) = (Hosts::default(), Arc::new(limiter));
        let get = |name: &str| hosts.get(name, || Host::new(name, limiter.clone()));
        let in_use = get("in-use.example");
        refuse(&get("paused.example"));
        for index in 0..3 * MAX_HOSTS {
            drop(get(&format!("{index}.example")));
        }
        assert!(hosts.0.lock().unwrap().len() <= MAX_HOSTS);
        assert!(Arc::ptr_eq(&in_use, &get("in-use.example")));
        assert!(get("paused.example").pause().is_some());

        // Paused hosts alone are as bounded.
        for index in 0..3 * MAX_HOSTS {
            refuse(&get(&format!("paused-{index}.example")));
        }
        assert!(hosts.0.lock().unwrap().len() <= MAX_HOSTS);
        assert!(Arc::ptr_eq(&in_use, &get("in-use.example")));
    }
}
