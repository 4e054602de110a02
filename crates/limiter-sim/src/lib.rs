//! A fleet of processes, its network and its servers in one thread, by a simulated clock.
//!
//! The processes run the limiters of `limiter-redis` as they are: their queues, batches, circuit breakers, cached denials,
//! local shares, leases, refunds, and permits of requests in flight. Only what is around them is simulated: the clock and
//! the random numbers of each process, its tasks and timers, the network, and the servers, which are those of
//! `limiter-double` and run the text of the scripts.
//!
//! A [run](run()) draws everything from one seed: policies, traffic and [faults](Fault). An auditor, which shares no code
//! with the limiters, checks bounds and charges. Then the faults stop, each key has to be admitted at its limit again, and
//! nothing may be left at the servers. The same seed gives the same run; its [report](Report) has a hash over every event.
//! Of a seed that fails, [`shortest()`] finds the shortest run with a violation. [`Wrong`] worlds show that the auditor
//! can fail.
//!
//! ```
//! use limiter_sim::{Settings, run};
//!
//! let report = run(&Settings { seed: 7, ..Settings::default() });
//! assert!(report.violations.is_empty(), "{report}");
//! assert_eq!(report.hash, run(&Settings { seed: 7, ..Settings::default() }).hash);
//! ```

mod algorithms;
mod auditor;
mod clock;
mod executor;
mod fault;
mod finish;
mod fleet;
mod network;
mod processes;
mod random;
mod record;
mod run;
mod servers;
mod settings;
mod shortest;
mod sync;
#[cfg(test)]
mod tests;
mod traffic;
mod vocabulary;
mod world;
mod wrong;

pub use fault::Fault;
pub use record::Violation;
pub use run::{Report, run};
pub use settings::Settings;
pub use shortest::{Shortest, shortest};
pub use vocabulary::Micros;
pub use wrong::Wrong;
