//! Lists of demands on keys of several limiters.

use std::time::Duration;

use limiter_core::{Decision, Demand, decide};

use super::{
    caller::{Caller, Kept},
    member::Target,
};
use crate::records::{End, Operation};

impl Caller {
    /// Decides on up to three keys together, by limiters of one group or of several.
    pub(super) async fn decide(&mut self, first: Target) {
        let mut parts = vec![first];
        for _ in 0..2 {
            let limiter = self.member.pick_limiter(&mut self.random);
            let next = self.member.pick(limiter, &mut self.random);
            if parts.iter().all(|part| part.subject() != next.subject()) {
                parts.push(next);
            }
        }
        let cost = self.cost();
        let handles: Vec<_> = parts.iter().filter_map(|part| self.member.handle(*part)).collect();
        let asks = parts.iter().map(|part| self.asks(*part, ("decide", cost.get())));
        let operations: Vec<Operation> = asks.collect();
        let answer = {
            let demands = parts.iter().zip(&handles);
            let demands: Vec<_> =
                demands.map(|(part, handle)| Demand::new(handle, part.name(), cost)).collect();
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
            // A part of a list that is refused, and is not refused itself, may have been charged and refunded.
            let is_final = |it: &Decision| it.is_admitted() == joint.is_admitted();
            let decision = joint.decision(index).filter(is_final);
            admissions.push(decision.and_then(|decision| {
                self.note_decision(operation, decision, cost.get(), (Duration::ZERO, None))
            }));
            self.answered(operation);
        }
        for (index, receipt) in joint.into_receipts() {
            let (Some(&target), Some(&admission)) = (parts.get(index), admissions.get(index))
            else {
                continue;
            };
            self.keep(Kept { target, receipt, admission });
        }
    }
}
