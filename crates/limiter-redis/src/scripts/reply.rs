//! What the replies of scripts mean. The header of each script describes its replies.

use std::time::Duration;

use limiter_core::{Cost, Decision, Usage};

use super::{
    Gcra, ScriptLimit,
    check::{Ask, Charge, Charged, CheckReply, Route},
    limit::{Family, argument, micros},
    plan::Plan,
};

/// The first number of most replies.
pub(super) const REFUSED: i64 = 0;
pub(super) const ADMITTED: i64 = 1;

/// The wait of a cost that never fits.
const NEVER: i64 = -1;

/// What the script of a family replied for a key.
enum OwnReply {
    Admitted(Usage),
    Refused(Usage, Option<Duration>),
}

/// What the script `lease` replied for a key.
enum LeaseReply {
    /// The cost was charged, or a lease of more permits.
    Charged {
        usage: Usage,
        permits: i64,
        taken_at: i64,
        mark: i64,
    },
    Refused(Usage, Option<Duration>),
}

/// What the script `policy` replied to a request.
enum PolicyReply<'a> {
    Admitted(Vec<Usage>),
    /// Admitted with a receipt.
    Charged {
        usages: Vec<Usage>,
        /// The delay of a reservation; otherwise how many permits were charged.
        delay_or_permits: u64,
        taken_at: i64,
        marks: &'a [i64],
    },
    /// A refusal or a peek. The limit at this place has the wait.
    Refused {
        usages: Vec<Usage>,
        wait: Option<Duration>,
        place: usize,
    },
}

impl Plan {
    /// Returns what a reply to a check means, `None` if it can't be one or contradicts itself.
    pub(crate) fn checked(&self, numbers: &[i64], charge: Charge) -> Option<CheckReply> {
        let (cost, limit) = (charge.cost, self.limits.first()?);
        match (charge.route, &self.own) {
            (Route::Own, Some(_)) => match OwnReply::read(limit, numbers, cost)? {
                OwnReply::Admitted(usage) => Some(admitted(usage, None)),
                OwnReply::Refused(usage, wait) => refused(usage, wait),
            },
            (Route::Lease, _) => match LeaseReply::read(limit, numbers)? {
                LeaseReply::Charged { permits, .. } if permits < argument(cost) => None,
                LeaseReply::Charged { usage, permits, taken_at, mark } => {
                    let is_lease = permits > argument(cost);
                    let terms = self.lease.filter(|_| is_lease);
                    let length = terms.map_or(0, |terms| terms.charged_ahead());
                    let marks = vec![mark];
                    let charged = Charged { cost: permits, taken_at, delay: 0, marks, length };
                    Some(admitted(usage, Some(charged)))
                }
                LeaseReply::Refused(usage, wait) => refused(usage, wait),
            },
            (Route::Own | Route::Policy, _) => {
                let ask = charge.has_receipt().then_some(Ask::Within(Duration::ZERO));
                self.decided(numbers, cost, ask)
            }
        }
    }

    /// Returns what a reply to a request with a receipt means, `None` if it can't be one or contradicts itself.
    pub(crate) fn reserved(&self, numbers: &[i64], cost: Cost, ask: Ask) -> Option<CheckReply> {
        self.decided(numbers, cost, Some(ask))
    }

    /// Returns the decision of the script `policy`, of a request with a receipt if that asks for something.
    fn decided(&self, numbers: &[i64], asked: Cost, ask: Option<Ask>) -> Option<CheckReply> {
        match PolicyReply::read(self, numbers, ask.is_some())? {
            PolicyReply::Admitted(usages) => Some(admitted(Usage::fewest_remaining(usages), None)),
            PolicyReply::Charged { usages, delay_or_permits: number, taken_at, marks } => {
                let (cost, delay) = match ask {
                    Some(Ask::UpTo | Ask::InAnyCase) => (i64::try_from(number).ok()?, 0),
                    Some(Ask::Within(_)) | None => (argument(asked), number),
                };
                // A request for as much as fits is refused if nothing does.
                if cost > argument(asked) || cost == 0 && ask != Some(Ask::InAnyCase) {
                    return None;
                }
                let charged = Charged { cost, taken_at, delay, marks: marks.to_vec(), length: 0 };
                Some(admitted(Usage::fewest_remaining(usages), (cost > 0).then_some(charged)))
            }
            PolicyReply::Refused { .. } if ask == Some(Ask::InAnyCase) => None,
            PolicyReply::Refused { usages, wait, place } => refused(*usages.get(place)?, wait),
        }
    }

    /// Returns what a reply to a peek means, `None` if it can't be one.
    pub(crate) fn peeked(&self, numbers: &[i64]) -> Option<Usage> {
        match PolicyReply::read(self, numbers, false)? {
            PolicyReply::Refused { usages, .. } => Some(Usage::fewest_remaining(usages)),
            PolicyReply::Admitted(_) | PolicyReply::Charged { .. } => None,
        }
    }

    /// Returns how many permits a refund gave back, `None` if the reply can't say so.
    pub(crate) fn refunded(&self, numbers: &[i64]) -> Option<u64> {
        let &[permits] = numbers else { return None };
        u64::try_from(permits).ok()
    }

    /// Returns for how long no `cost` fits after an admission that left this usage. A counter's usage does not say
    /// that, and zero is returned.
    pub(crate) fn wait_after(&self, usage: &Usage, cost: Cost) -> Duration {
        let reset = usage.reset_after();
        match self.limits.as_slice() {
            [ScriptLimit { gcra: Some(gcra), .. }] => {
                gcra.wait(micros(reset) * gcra.scale, cost.get()).unwrap_or_default()
            }
            [limit] if limit.family() == Family::Window && usage.remaining() < cost.get() => reset,
            _ => Duration::ZERO,
        }
    }

    /// Reads the time until each limit is fresh, and the permits that it has left.
    pub(super) fn usages(&self, numbers: &[i64]) -> Option<Vec<Usage>> {
        let (pairs, _) = numbers.as_chunks::<2>();
        let limits = self.limits.iter().zip(pairs).enumerate();
        let usages = limits.map(|(place, (limit, &[reset, left]))| {
            Some(usage(limit, reset, left)?.with_limit_index(place))
        });
        usages.collect()
    }
}

impl OwnReply {
    fn read(limit: &ScriptLimit, numbers: &[i64], cost: Cost) -> Option<Self> {
        match (&limit.gcra, numbers) {
            (Some(gcra), &[number]) => Self::of_debt(gcra, number, cost),
            (None, &[ADMITTED, reset, left]) => Some(Self::Admitted(usage(limit, reset, left)?)),
            (None, &[REFUSED, reset, left, wait]) => {
                Some(Self::Refused(usage(limit, reset, left)?, self::wait(wait)?))
            }
            _ => None,
        }
    }

    /// Reads the debt after a charge, or -1 less the debt that refuses the cost.
    fn of_debt(gcra: &Gcra, number: i64, cost: Cost) -> Option<Self> {
        if number > 0 {
            return Some(Self::Admitted(gcra.usage(number.unsigned_abs())));
        }
        let debt = u64::try_from(number.checked_add(1)?.checked_neg()?).ok()?;
        Some(Self::Refused(gcra.usage(debt), gcra.wait(debt, cost.get())))
    }
}

impl LeaseReply {
    fn read(limit: &ScriptLimit, numbers: &[i64]) -> Option<Self> {
        match *numbers {
            [ADMITTED, reset, left, permits, taken_at, mark] => {
                let usage = usage(limit, reset, left)?;
                Some(Self::Charged { usage, permits, taken_at, mark })
            }
            [REFUSED, reset, left, wait] => {
                Some(Self::Refused(usage(limit, reset, left)?, self::wait(wait)?))
            }
            _ => None,
        }
    }
}

impl<'a> PolicyReply<'a> {
    fn read(plan: &Plan, numbers: &'a [i64], has_receipt: bool) -> Option<Self> {
        let (&flag, rest) = numbers.split_first()?;
        let (usages, rest) = rest.split_at_checked(plan.limits.len() * 2)?;
        let usages = plan.usages(usages)?;
        match (flag, rest) {
            (ADMITTED, []) if !has_receipt => Some(Self::Admitted(usages)),
            (ADMITTED, &[number, taken_at, ref marks @ ..])
                if has_receipt && marks.len() == plan.limits.len() =>
            {
                let delay_or_permits = u64::try_from(number).ok()?;
                Some(Self::Charged { usages, delay_or_permits, taken_at, marks })
            }
            (REFUSED, &[wait, number]) => {
                let place = usize::try_from(number.checked_sub(1)?).ok()?;
                Some(Self::Refused { usages, wait: self::wait(wait)?, place })
            }
            _ => None,
        }
    }
}

fn admitted(usage: Usage, charged: Option<Charged>) -> CheckReply {
    CheckReply { decision: Decision::admitted(usage), charged }
}

/// Returns a refusal, `None` if the cost does not have to wait.
fn refused(usage: Usage, wait: Option<Duration>) -> Option<CheckReply> {
    let decision = (wait != Some(Duration::ZERO)).then(|| Decision::refused(usage, wait))?;
    Some(CheckReply { decision, charged: None })
}

fn usage(limit: &ScriptLimit, reset: i64, left: i64) -> Option<Usage> {
    let reset = Duration::from_micros(u64::try_from(reset).ok()?);
    Some(Usage::new(limit.largest, u64::try_from(left).ok()?, reset))
}

/// Reads a wait, for ever as `None`.
pub(super) fn wait(number: i64) -> Option<Option<Duration>> {
    if number == NEVER {
        return Some(None);
    }
    Some(Some(Duration::from_micros(u64::try_from(number).ok()?)))
}
