//! A fleet of processes, its network and its server in one thread, by a simulated clock.
//!
//! The processes run the limiters of `limiter-redis` as they are: their queues, batches, circuit breakers, cached denials,
//! local shares, leases and refunds. Only what is around them is simulated: the clock and the random numbers of each
//! process, its tasks and timers, the network, and the server: a Redis in the process that runs the text of the scripts.
//!
//! All algorithms are drawn. In a part of the seeds, the server is a cluster; policies have several limits; quotas take turns
//! on a key, as of plans or by a reload; processes are started anew with other settings; the server is far; and work is
//! charged afterwards.
//!
//! With [`in_flight`](Settings::in_flight), the callers of the processes hold permits of requests in flight, and reset keys.
//!
//! Not simulated yet: a cluster whose slots move.
//!
//! A [run](run()) draws everything from one seed: policies, traffic and [faults](Fault). An auditor, which shares no code
//! with the limiters, checks the bounds, the charges and the waits of refusals. Then the faults stop, and each key has to
//! be admitted at its limit again. The same seed gives the same run; its [report](Report) has a hash over every event.
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
mod calamity;
mod clock;
mod cluster;
mod executor;
mod fault;
mod finish_in_flight;
mod fleet;
mod in_flight;
mod in_flight_plan;
mod log;
mod network;
mod probe;
mod processes;
mod random;
mod records;
mod report;
mod run;
mod server;
mod settings;
mod shortest;
mod step;
mod sync;
#[cfg(test)]
mod tests;
mod traffic;
mod trips;
mod vocabulary;
mod world;
mod wrong;

pub use auditor::Violation;
pub use fault::Fault;
pub use report::Report;
pub use run::run;
pub use settings::Settings;
pub use shortest::{Shortest, shortest};
pub use vocabulary::Micros;
pub use wrong::Wrong;
