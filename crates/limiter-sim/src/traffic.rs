//! The callers of a process: what they ask of its limiters, and what they note of the answers.

mod caller;
mod holder;
mod lists;

use std::sync::Arc;

use self::holder::Holder;
pub(crate) use self::{
    caller::Caller,
    holder::{AtWork, enter},
};
use crate::{executor::Executor, processes::Member, random::Random};

/// Starts the callers of a process: two to eight of rates, and two to six that hold permits.
pub(crate) fn start(executor: &Executor, (member, mut random): (Arc<Member>, Random)) {
    for _ in 0..random.between(2, 8) {
        let caller = Caller::new(&member, random.fork());
        executor.spawn(member.process, caller.run());
    }
    for _ in 0..random.between(2, 6) {
        let holder = Holder { member: Arc::clone(&member), random: random.fork() };
        executor.spawn(member.process, holder.run());
    }
}
