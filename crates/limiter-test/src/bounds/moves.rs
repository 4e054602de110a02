//! What an adversary does, and what it gets.

use std::time::Duration;

use limiter_core::{Cost, Receipt, Timestamp};

use super::measure::Admission;
use crate::subject::Subject;

const KEY: &str = "key";

/// One move of an adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Sets the clock, ahead or back.
    At(u64),
    /// Asks for so many permits.
    Take(Cost),
    /// Takes all that are there.
    TakeAll,
    /// Asks for a permit for later, whenever that is.
    Reserve,
    /// Waits until the next permit is there, and takes it.
    TakeNext,
    /// Gives back the oldest admission that it has.
    GiveBack,
}

/// One who makes moves, and keeps what it gets.
#[derive(Debug)]
struct Player<T> {
    target: T,
    now: Timestamp,
    /// The time that has really passed: a clock that is set back takes nothing away from it.
    passed: u128,
    held: Vec<(Admission, Receipt)>,
    /// What was not returned of admissions that were refunded.
    settled: Vec<Admission>,
    steps_back: bool,
}

/// Makes `moves` against `target`, and returns what was admitted and not given back, by time.
///
/// Unless the clock `steps_back`, moves that would set it back are left out. Times count from the
/// first moment, and only forwards: what was set back passes once more.
pub fn play<T: Subject>(target: T, moves: &[Move], steps_back: bool) -> Vec<Admission> {
    let now = Timestamp::ZERO;
    let mut player =
        Player { target, now, passed: 0, held: Vec::new(), settled: Vec::new(), steps_back };
    for made in moves {
        player.play(*made);
    }
    let mut admissions = player.settled;
    admissions.extend(player.held.into_iter().map(|(admission, _)| admission));
    admissions.sort_by_key(|admission| admission.at);
    admissions
}

impl<T: Subject> Player<T> {
    fn play(&mut self, made: Move) {
        match made {
            Move::At(at) => self.set(Timestamp::from_nanos(at)),
            Move::Take(cost) => self.try_take(cost),
            Move::TakeAll => {
                if let Ok(cost) = Cost::new(self.target.peek(self.now, KEY).remaining()) {
                    self.try_take(cost);
                }
                // There may be more than it says.
                self.try_take(Cost::ONE);
            }
            Move::Reserve => {
                let _ = self.take(Cost::ONE, Duration::MAX);
            }
            Move::TakeNext => {
                if let Err(Some(wait)) = self.take(Cost::ONE, Duration::ZERO) {
                    self.set(self.now.saturating_add(wait));
                    self.try_take(Cost::ONE);
                }
            }
            Move::GiveBack => {
                if !self.held.is_empty() {
                    let (mut admission, receipt) = self.held.remove(0);
                    let back = self.target.refund(self.now, receipt);
                    admission.permits = admission.permits.saturating_sub(back);
                    self.settled.push(admission);
                }
            }
        }
    }

    fn set(&mut self, now: Timestamp) {
        if now < self.now && !self.steps_back {
            return;
        }
        self.passed += now.saturating_since(self.now).as_nanos();
        self.now = now;
    }

    fn try_take(&mut self, cost: Cost) {
        let _ = self.take(cost, Duration::ZERO);
    }

    fn take(&mut self, cost: Cost, within: Duration) -> Result<(), Option<Duration>> {
        let reservation = self.target.reserve(self.now, KEY, cost, within);
        let retry_after = reservation.decision().retry_after();
        let at = self.passed + reservation.delay().unwrap_or_default().as_nanos();
        let receipt = reservation.into_receipt().ok_or(retry_after)?;
        self.held.push((Admission { at, permits: cost.get() }, receipt));
        Ok(())
    }
}
