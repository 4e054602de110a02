//! Demands for one key of one limiter under one policy, merged.

use alloc::{format, vec::Vec};

use crate::{Demand, Error, ErrorKind, limiter::MAX_DEMANDS};

/// Demands of which no two are for one key of one limiter under one policy, and the place of each of the caller's demands
/// among them.
pub(crate) struct Merged<'a> {
    pub(crate) demands: Vec<Demand<'a>>,
    pub(crate) places: Vec<usize>,
}

impl<'a> Merged<'a> {
    /// Joins demands for one key of one limiter under one policy to one with the sum of their costs. Returns `None` if there
    /// are none.
    pub(crate) fn of(demands: &[Demand<'a>]) -> Result<Option<Self>, Error> {
        if demands.len() > MAX_DEMANDS {
            let number = demands.len();
            let message = format!("invalid list of {number} demands: use at most {MAX_DEMANDS}");
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        let pairs = || {
            let others = |index: usize| demands.iter().skip(index + 1);
            demands
                .iter()
                .enumerate()
                .flat_map(move |(at, it)| others(at).map(move |other| (it, other)))
        };
        if !pairs().any(|(one, other)| one.has_state_of(other)) {
            return Ok(None);
        }
        let mut merged = Self { demands: Vec::new(), places: Vec::new() };
        for demand in demands {
            let place = merged.demands.iter().position(|known| known.has_state_of(demand));
            merged.places.push(place.unwrap_or(merged.demands.len()));
            match place.and_then(|place| merged.demands.get_mut(place)) {
                Some(known) => known.join(demand),
                None => merged.demands.push(demand.clone()),
            }
        }
        Ok(Some(merged))
    }
}
