//! Work that is charged afterwards, whether or not it fits.

use crate::vocabulary::Micros;

/// A request whose work was charged afterwards, from when it was asked for until it was charged.
#[derive(Clone, Copy, Debug)]
struct Request {
    from: Micros,
    to: Micros,
    permits: u64,
}

/// The requests of a key that were charged afterwards.
#[derive(Debug, Default)]
pub(crate) struct Requests(Vec<Request>);

impl Requests {
    pub(crate) fn add(&mut self, from: Micros, to: Micros, permits: u64) {
        self.0.push(Request { from, to, permits });
    }

    pub(crate) fn forget(&mut self, before: Micros) {
        self.0.retain(|request| request.to >= before);
    }

    /// Returns the most permits that requests were charged which were in flight at the same time in a stretch.
    pub(crate) fn at_once(&self, from: Micros, to: Micros) -> u64 {
        let within = self.0.iter().filter(|it| it.from <= to && from <= it.to);
        // Starts sort before ends at the same moment, at which both are in flight.
        let mut moments: Vec<(Micros, bool, u64)> = within
            .flat_map(|it| [(it.from.max(from), false, it.permits), (it.to, true, it.permits)])
            .collect();
        moments.sort_unstable();
        let (mut in_flight, mut most) = (0, 0);
        for (_, is_end, permits) in moments {
            in_flight = if is_end { in_flight - permits } else { in_flight + permits };
            most = most.max(in_flight);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_add_up_while_they_are_in_flight_together() {
        let mut requests = Requests::default();
        requests.add(10, 20, 5);
        requests.add(15, 30, 3);
        requests.add(25, 40, 4);
        for (from, to, permits) in [(0, 9, 0), (0, 12, 5), (0, 99, 8), (21, 99, 7), (31, 35, 4)] {
            assert_eq!(requests.at_once(from, to), permits, "{from} to {to}");
        }
        requests.forget(31);
        assert_eq!(requests.at_once(0, 99), 4);
    }
}
