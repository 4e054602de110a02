//! The scales of the quotas whose debts are stored in words, each by a number of eight bits.

use std::sync::Arc;

use crate::{
    Error, ErrorKind, Timestamp,
    algorithm::{Gcra, Scale},
    sync::{AtomicU64, Mutex, Ordering, lock},
};

/// The scales of one limiter's quotas, by number.
///
/// Reading a scale takes no lock: it is written before the first word with its number, and is not
/// changed as long as there may be a debt with its number.
pub(super) struct Scales {
    parts: Box<[[AtomicU64; 4]]>,
    /// Who uses the numbers from 1 on.
    leases: Mutex<Vec<Lease>>,
}

/// How many numbers there are: 0 means a word without a debt, and 255 one that is being claimed.
const NUMBERS: u8 = if cfg!(loom) { 2 } else { 254 };

struct Lease {
    number: u8,
    scale: Scale,
    /// Shared with the handles.
    users: Arc<()>,
    /// When it was first seen that no handle is left.
    idle_since: Option<Timestamp>,
}

impl Lease {
    /// Returns whether no debt of this scale can be left.
    fn is_over(&self, now: Timestamp) -> bool {
        let ticks_since = |idle| self.scale.ticks_at(now).saturating_sub(self.scale.ticks_at(idle));
        self.idle_since.is_some_and(|idle| ticks_since(idle) > self.scale.reach)
    }
}

/// A quota with the number of its scale, which is its own until the last of these is dropped.
#[derive(Clone)]
pub(super) struct Numbered {
    pub(super) gcra: Gcra,
    pub(super) number: u8,
    pub(super) scales: Arc<Scales>,
    _lease: Arc<()>,
}

impl Scales {
    /// Returns the first quota of a limiter, with the number of its scale.
    pub(super) fn first(gcra: &Gcra) -> Numbered {
        let parts = (0..=NUMBERS).map(|_| [0; 4].map(AtomicU64::new)).collect();
        let scales = Arc::new(Self { parts, leases: Mutex::default() });
        scales.lease(&mut lock(&scales.leases), gcra, 1)
    }

    /// Returns the scale of a number that was read from a word.
    pub(super) fn get(&self, number: u8) -> Scale {
        let load = |part: &AtomicU64| part.load(Ordering::Relaxed);
        let parts = self.parts.get(usize::from(number));
        Scale::of_parts(parts.map_or([0; 4], |parts| parts.each_ref().map(load)))
    }

    /// Returns `gcra` with the number of its scale. A number whose debts have all recovered is used
    /// again, after `erase` has removed it from all words.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if all numbers are in use.
    pub(super) fn number(
        self: &Arc<Self>,
        gcra: &Gcra,
        now: Timestamp,
        erase: impl FnOnce(u8),
    ) -> Result<Numbered, Error> {
        let leases = &mut *lock(&self.leases);
        for lease in &mut *leases {
            if Arc::get_mut(&mut lease.users).is_some() {
                lease.idle_since.get_or_insert(now);
            }
        }
        if let Some(lease) = leases.iter_mut().find(|lease| lease.scale == gcra.scale) {
            lease.idle_since = None;
            return Ok(self.numbered(gcra, lease));
        }
        let number = match (1..=NUMBERS).nth(leases.len()) {
            Some(unused) => unused,
            None => {
                let over = leases.iter().position(|lease| lease.is_over(now));
                let number = leases.swap_remove(over.ok_or_else(too_many)?).number;
                erase(number);
                number
            }
        };
        Ok(self.lease(leases, gcra, number))
    }

    fn lease(self: &Arc<Self>, leases: &mut Vec<Lease>, gcra: &Gcra, number: u8) -> Numbered {
        let scale = gcra.scale;
        let parts = self.parts.get(usize::from(number)).into_iter().flatten();
        parts.zip(scale.parts()).for_each(|(part, value)| part.store(value, Ordering::Relaxed));
        let lease = Lease { number, scale, users: Arc::default(), idle_since: None };
        let numbered = self.numbered(gcra, &lease);
        leases.push(lease);
        numbered
    }

    fn numbered(self: &Arc<Self>, gcra: &Gcra, lease: &Lease) -> Numbered {
        let (scales, users) = (Arc::clone(self), Arc::clone(&lease.users));
        Numbered { gcra: *gcra, number: lease.number, scales, _lease: users }
    }
}

fn too_many() -> Error {
    Error::new(
        ErrorKind::InvalidSetting,
        "too many quotas: a limiter in memory holds 254 different quotas at once, each until its \
         debts have recovered; build it with wide states for more",
    )
}
