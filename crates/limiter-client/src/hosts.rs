//! The hosts that requests were sent to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use limiter_core::WaitingLimiter;

use crate::host::Host;

/// The most hosts that are kept, unless requests to more are waiting or in flight.
pub(crate) const MAX_HOSTS: usize = 10_000;

/// The longest name of a host. Hosts with longer ones share one entry, so that names take no memory without bound: a host's
/// name has at most 253 bytes by RFC 1035.
const MAX_NAME: usize = 255;

/// The name of the entry of hosts with longer names.
const LONG_NAME: &str = "(a name of more than 255 bytes)";

/// One host in so many is evicted at a time, so that a search through all hosts is made once for so many.
const EVICTED: usize = 100;

/// What is known of each host. Shared by all clones of a layer.
#[derive(Default)]
pub(crate) struct Hosts(Mutex<Table>);

#[derive(Default)]
struct Table {
    hosts: HashMap<Arc<str>, Entry>,
    /// Counts the uses of all hosts.
    uses: u64,
}

struct Entry {
    host: Arc<Host>,
    /// The number of its last use.
    used: u64,
}

impl Hosts {
    /// Returns the host of this name, which has this `limiter` if it is new.
    ///
    /// If there are too many, a hundredth is evicted: those that were used longest ago, those without a
    /// pause first, and none to which a request waits or is in flight.
    pub(crate) fn get(
        &self,
        name: &str,
        limiter: impl FnOnce() -> Arc<dyn WaitingLimiter>,
    ) -> Arc<Host> {
        let name = if name.len() <= MAX_NAME { name } else { LONG_NAME };
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.uses += 1;
        let used = table.uses;
        if let Some(entry) = table.hosts.get_mut(name) {
            entry.used = used;
            return Arc::clone(&entry.host);
        }
        if table.hosts.len() >= MAX_HOSTS {
            evict(&mut table.hosts);
        }
        let name: Arc<str> = name.into();
        let host = Arc::new(Host::new(Arc::clone(&name), limiter()));
        table.hosts.insert(name, Entry { host: Arc::clone(&host), used });
        host
    }
}

fn evict(hosts: &mut HashMap<Arc<str>, Entry>) {
    // No clone of an entry's `Arc` is made but under the lock, so an idle host stays idle.
    let is_idle = |entry: &Entry| Arc::strong_count(&entry.host) == 1;
    let value = |entry: &Entry| (entry.host.is_paused(), entry.used);
    let mut values: Vec<_> = hosts.values().filter(|it| is_idle(it)).map(value).collect();
    let count = hosts.len().div_ceil(EVICTED).min(values.len());
    if let Some(last) = count.checked_sub(1) {
        let (_, last, _) = values.select_nth_unstable(last);
        hosts.retain(|_, entry| !is_idle(entry) || value(entry) > *last);
    }
}
