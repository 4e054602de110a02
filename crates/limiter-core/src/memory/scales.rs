//! The scales of the quotas whose debts are stored in words, each by a number of eight bits.

use alloc::{boxed::Box, sync::Arc};

use crate::{
    Error, ErrorKind, Timestamp,
    algorithm::{Gcra, Scale},
    sync::{AtomicU64, Mutex, Ordering, lock},
};

/// The scales of one limiter's quotas, by number.
///
/// Reading a scale takes no lock: it is written before the first word with its number, and is not
/// changed as long as there may be a debt with its number.
#[derive(Debug)]
pub(super) struct Scales {
    parts: Box<[[AtomicU64; 4]]>,
    leases: Mutex<Box<[Lease]>>,
}

/// How many numbers there are: 0 means a word without a debt, and 255 one that is being claimed.
const NUMBERS: usize = if cfg!(loom) { 2 } else { 254 };

/// Who uses a number.
#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    /// `None` for a number that was never used.
    scale: Option<Scale>,
    handles: u32,
    /// When it was first seen that no handle is left.
    idle_since: Option<Timestamp>,
}

impl Lease {
    /// Returns whether no debt of this scale can be left.
    fn is_over(&self, now: Timestamp) -> bool {
        match (self.scale, self.idle_since) {
            (None, _) => true,
            (Some(scale), Some(since)) => {
                scale.ticks_at(now).saturating_sub(scale.ticks_at(since)) > scale.reach()
            }
            _ => false,
        }
    }
}

/// A quota with the number of its scale, which is its own until the last of these is dropped.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) gcra: Gcra,
    pub(super) number: u8,
    scales: Arc<Scales>,
}

impl Scales {
    /// Returns the scales of a limiter whose first quota is that of `gcra`, and its number.
    pub(super) fn new(gcra: &Gcra) -> (Arc<Self>, Numbered) {
        let parts = (0..=NUMBERS).map(|_| [0; 4].map(AtomicU64::new)).collect();
        let leases = (0..NUMBERS).map(|_| Lease::default()).collect();
        let leases = Mutex::new(leases);
        let scales = Arc::new(Self { parts, leases });
        let first = scales.lease(&mut lock(&scales.leases), gcra, 0);
        (scales, first)
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
        let mut leases = lock(&self.leases);
        let same = leases.iter().position(|lease| lease.scale == Some(*gcra.scale()));
        let index = match same {
            Some(index) => index,
            None => free(&mut leases, now).ok_or_else(too_many)?,
        };
        let is_used = |lease: &Lease| same.is_none() && lease.scale.is_some();
        if leases.get(index).is_some_and(is_used) {
            erase(number_of(index));
        }
        Ok(self.lease(&mut leases, gcra, index))
    }

    fn lease(self: &Arc<Self>, leases: &mut [Lease], gcra: &Gcra, index: usize) -> Numbered {
        if let (Some(lease), Some(parts)) = (leases.get_mut(index), self.parts.get(index + 1)) {
            for (part, value) in parts.iter().zip(gcra.scale().parts()) {
                part.store(value, Ordering::Relaxed);
            }
            let handles = lease.handles + 1;
            *lease = Lease { scale: Some(*gcra.scale()), handles, idle_since: None };
        }
        Numbered { gcra: *gcra, number: number_of(index), scales: Arc::clone(self) }
    }
}

fn number_of(index: usize) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 255")]
    let number = index as u8 + 1;
    number
}

/// Returns a number that was never used, or else one whose debts have all recovered.
fn free(leases: &mut [Lease], now: Timestamp) -> Option<usize> {
    for lease in leases.iter_mut().filter(|lease| lease.handles == 0 && lease.scale.is_some()) {
        lease.idle_since.get_or_insert(now);
    }
    let unused = leases.iter().position(|lease| lease.scale.is_none());
    unused.or_else(|| leases.iter().position(|lease| lease.is_over(now)))
}

fn too_many() -> Error {
    Error::new(
        ErrorKind::InvalidSetting,
        "too many quotas: a limiter in memory holds 254 different quotas at once, each until its \
         debts have recovered; build it with wide states for more",
    )
}

impl Drop for Numbered {
    fn drop(&mut self) {
        let mut leases = lock(&self.scales.leases);
        if let Some(lease) = leases.get_mut(usize::from(self.number) - 1) {
            lease.handles -= 1;
        }
    }
}
