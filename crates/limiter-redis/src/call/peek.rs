//! A peek: how far the permits of a subject are used up.

use limiter_core::{Cost, Usage};

use super::request::{Operation, Request};
use crate::{
    client::ScriptCall,
    scripts::{Demand, ListRequest, Plan},
};

/// Reads how far the permits are used up.
pub(crate) struct Peek;

impl Operation for Peek {
    type Output = Usage;

    fn call(first: &Request<Self>, _: &[Request<Self>]) -> ScriptCall {
        let plan = &first.handle.plan;
        let request = ([Demand::charge(plan, Cost::ONE)], ListRequest::Peek);
        plan.list_call([request].into_iter())
    }

    fn read(&self, plan: &Plan, numbers: &[i64]) -> Option<Usage> {
        plan.peeked(numbers)
    }
}
