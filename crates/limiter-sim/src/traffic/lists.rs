//! Lists of demands on keys of several limiters.

use limiter_core::{Cost, Decision, Demand, decide};

use super::caller::{Caller, Kept, begin};
use crate::{
    processes::Target,
    record::{End, Operation},
};

impl Caller {
    /// Decides on up to three keys together, by limiters of one group or of several.
    pub(super) async fn decide(&mut self, first: Target, cost: Cost) {
        let mut parts = vec![first];
        for _ in 0..2 {
            let limiter = self.random.index(self.member.limiters.rates.len());
            let next = self.member.pick(limiter, &mut self.random);
            if parts.iter().all(|part| part.subject != next.subject) {
                parts.push(next);
            }
        }
        let handles: Vec<_> = parts.iter().filter_map(|part| self.member.handle(*part)).collect();
        let begun = parts.iter().map(|part| begin(&self.member, *part, ("decide", cost.get())));
        let operations: Vec<Operation> = begun.collect();
        let answer = {
            let demands = parts.iter().zip(&handles);
            let demands: Vec<_> = demands
                .map(|(part, handle)| Demand::new(handle, part.subject.name(), cost))
                .collect();
            decide(&demands)
        };
        let joint = match self.wait(answer).await {
            Some(Ok(joint)) => joint,
            Some(Err(error)) => {
                return operations.iter().for_each(|it| self.end(it, End::Failed(&error)));
            }
            None => return operations.iter().for_each(|it| self.end(it, End::Left)),
        };
        let mut admissions = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            // A part of a list that is refused, and is not refused itself, may have been charged and refunded.
            let is_final = |it: &Decision| it.is_admitted() == joint.is_admitted();
            let decision = joint.decision(index).filter(is_final);
            admissions.push(decision.and_then(|it| {
                let decided = (it.source(), it.is_admitted().then_some(cost.get()));
                self.member
                    .with_record(|record, moment| record.decides(moment, operation, decided, 0))
            }));
            self.end(operation, End::Answered { is_charged: false });
        }
        for (index, receipt) in joint.into_receipts() {
            if let (Some(&target), Some(&admission)) = (parts.get(index), admissions.get(index)) {
                self.keep(Kept { target, receipt, admission });
            }
        }
    }
}
