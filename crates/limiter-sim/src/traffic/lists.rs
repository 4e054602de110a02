//! Lists of demands on one key of two limiters.

use std::time::Duration;

use limiter_core::{Demand, decide};

use super::caller::{Caller, Kept};
use crate::{
    fleet::KEYS,
    records::{End, Operation},
};

impl Caller {
    /// Decides on a key of two limiters together.
    pub(super) async fn decide(&mut self, key: usize) {
        let first = self.member.pick_limiter(&mut self.random);
        let second = self.member.pick_limiter(&mut self.random);
        let name = KEYS.get(key).copied().unwrap_or_default();
        let cost = self.cost();
        let parts: Vec<usize> = if first == second { vec![first] } else { vec![first, second] };
        let asks = parts.iter().map(|limiter| self.asks((*limiter, key), ("decide", cost.get())));
        let operations: Vec<Operation> = asks.collect();
        let answer = {
            let limiters = parts.iter().filter_map(|limiter| self.member.limiter(*limiter));
            let demands: Vec<_> = limiters.map(|it| Demand::new(it, name, cost)).collect();
            decide(&demands)
        };
        let answer = self.wait(answer).await;
        let joint = match answer {
            Some(Ok(joint)) => joint,
            Some(Err(error)) => {
                let end = End::Failed(&error);
                operations.iter().for_each(|operation| self.end(operation, end));
                return;
            }
            None => {
                operations.iter().for_each(|operation| self.end(operation, End::Left));
                return;
            }
        };
        let mut admissions = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            let decision = joint.decision(index).filter(|_| joint.is_admitted());
            admissions.push(decision.and_then(|decision| {
                self.note_decision(operation, decision, cost.get(), Duration::ZERO)
            }));
            // A part of a list that is refused may have been charged and refunded, or was refused itself.
            if decision.is_none() {
                self.is_uncertain(parts.get(index).copied().unwrap_or(0));
            }
            self.answered(operation);
        }
        for (index, receipt) in joint.into_receipts() {
            let (Some(&limiter), Some(&admission)) = (parts.get(index), admissions.get(index))
            else {
                continue;
            };
            self.keep(Kept { limiter, key, receipt, admission });
        }
    }
}
