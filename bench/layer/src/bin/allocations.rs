//! Prints the allocations that each layer adds to a request.

use std::net::SocketAddr;

use limiter_bench_layer::{
    SEPARATOR,
    cells::CELLS,
    contenders::CONTENDERS,
    send::{self, Call, Subject},
};

fn main() {
    let addresses = send::addresses();
    for (index, cell) in CELLS.iter().enumerate().filter(|(_, cell)| cell.threads == 1) {
        let mut bare = None;
        for contender in &CONTENDERS {
            let Some(subject) = (contender.build)(cell.setup) else { continue };
            let count = count(&*subject, cell.call, &addresses);
            let added = count - *bare.get_or_insert(count);
            println!("{index}{SEPARATOR}{}{SEPARATOR}{added}", contender.name);
        }
    }
}

/// Returns the allocations of a request of a known address.
fn count(subject: &dyn Subject, call: Call, addresses: &[SocketAddr]) -> f64 {
    // The limiter inserts the addresses, and those without permits left are refused from then on.
    subject.send(call, &mut addresses.iter().copied());
    let counted = allocation_counter::measure(|| {
        subject.send(call, &mut addresses.iter().copied());
    });
    counted.count_total as f64 / addresses.len() as f64
}
