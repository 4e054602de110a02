//! The memory of a limiter that is not used.

use allocation_counter::{AllocationInfo, measure};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use tokio::runtime::Builder;

use crate::connect_here;

// On this thread instead of one of its own, because allocations are counted by thread.
#[test]
fn an_idle_limiter_allocates_less_than_64_kib() {
    let server = Server::start();
    let (mut runtime, mut connection, mut limiter) = (None, None, None);
    let of_runtime = measure(|| {
        runtime = Some(Builder::new_current_thread().enable_all().build().unwrap());
    });
    let runtime = runtime.unwrap();
    let of_connection =
        measure(|| connection = Some(runtime.block_on(connect_here(&server.url()))));
    let of_limiter = measure(|| {
        let policy = Policy::gcra("test", Quota::per_second(1));
        let builder = RedisLimiter::builder(policy);
        limiter = Some(builder.build_on(connection.take().unwrap()).unwrap());
    });
    let kib = |allocated: AllocationInfo| allocated.bytes_current / 1024;
    let (runtime, connection, limiter) = (kib(of_runtime), kib(of_connection), kib(of_limiter));
    assert!(limiter < 64, "{limiter} KiB");
    // Once a connection, for all of its limiters.
    assert!(runtime < 32, "{runtime} KiB");
    assert!(connection < 128, "{connection} KiB, of the client library");
}
