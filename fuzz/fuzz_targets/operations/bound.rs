//! What GCRA may admit in any trailing window, while several quotas take turns on one key.

use limiter_core::{Algorithm, Cost, Policy, Timestamp};

use crate::LATEST;

/// The admissions of four keys, and the quotas that made them.
///
/// A key is forgotten, and not checked any more, where admissions have no known moment, and after
/// resets and steps back of the clock, each of which may give a new allowance or move a charge.
pub struct Bound {
    /// Whether the policies have one limit, by GCRA.
    applies: bool,
    spans: Vec<Span>,
    /// `None` for a key that is not checked.
    admitted: [Option<Vec<Admitted>>; 4],
}

/// What is known of the policies that share states.
struct Span {
    identity: String,
    /// The longest time in which a burst recovers, in nanoseconds with 32 binary places.
    burst: u128,
    /// The longest time in which a permit recovers.
    permit: u128,
}

struct Admitted {
    at: Timestamp,
    permits: u64,
    /// The index in `spans`.
    span: usize,
    /// The time in which a permit recovers.
    price: u128,
}

/// Where an admission is recorded.
#[derive(Clone, Copy)]
pub struct Admission {
    key: u8,
    index: usize,
}

impl Bound {
    pub fn new(policy: &Policy) -> Self {
        let applies = matches!(
            policy.limits(),
            [only] if matches!(only.algorithm(), Algorithm::Gcra | Algorithm::LeakyQueue { .. })
        );
        Self { applies, spans: Vec::new(), admitted: [const { Some(Vec::new()) }; 4] }
    }

    pub fn admit(
        &mut self,
        key: u8,
        policy: &Policy,
        at: Timestamp,
        cost: Cost,
    ) -> Option<Admission> {
        if at > LATEST {
            self.forget(key);
        }
        let (span, price) = self.span_of(policy);
        let admitted = self.admitted[usize::from(key)].as_mut()?;
        admitted.push(Admitted { at, permits: cost.get(), span, price });
        Some(Admission { key, index: admitted.len() - 1 })
    }

    /// Returns the index of the span that a policy belongs to, and the time in which one of its permits recovers.
    fn span_of(&mut self, policy: &Policy) -> (usize, u128) {
        let (identity, quota) = (&policy.identities()[0], policy.limits()[0].quota());
        let price = (quota.window().as_nanos() << 32) / u128::from(quota.permits());
        let burst = price * u128::from(quota.burst());
        let known = self.spans.iter().position(|span| span.identity == *identity);
        let index = known.unwrap_or(self.spans.len());
        match self.spans.get_mut(index) {
            Some(span) => {
                (span.burst, span.permit) = (span.burst.max(burst), span.permit.max(price));
            }
            None => self.spans.push(Span { identity: identity.clone(), burst, permit: price }),
        }
        (index, price)
    }

    /// Permits that came back count as never taken.
    pub fn give_back(&mut self, Admission { key, index }: Admission, permits: u64) {
        if let Some(admitted) = &mut self.admitted[usize::from(key)] {
            admitted[index].permits -= permits;
        }
    }

    pub fn forget(&mut self, key: u8) {
        self.admitted[usize::from(key)] = None;
    }

    /// Checks that in no trailing window, the permits of a key under policies of one span take longer to recover than
    /// the window and a burst, and one permit for the time that is rounded.
    pub fn check(self) {
        if !self.applies {
            return;
        }
        for mut admitted in self.admitted.into_iter().flatten() {
            admitted.sort_unstable_by_key(|admitted| admitted.at);
            for (index, Span { burst, permit, .. }) in self.spans.iter().enumerate() {
                let of_span: Vec<_> = admitted.iter().filter(|it| it.span == index).collect();
                for (start, first) in of_span.iter().enumerate() {
                    let mut taken = 0;
                    for Admitted { at, permits, price, .. } in of_span.iter().skip(start).take(200)
                    {
                        taken += u128::from(*permits) * price;
                        let time = at.saturating_since(first.at).as_nanos() << 32;
                        let most = burst + time + permit;
                        let from = first.at;
                        assert!(taken <= most, "{taken} from {from:?} to {at:?}: above {most}");
                    }
                }
            }
        }
    }
}
