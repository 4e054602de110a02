//! The bound of quotas that take turns on a key, as law 9 has it.

use super::bound::{Bound, Form, ROUNDED};
use crate::vocabulary::Micros;

/// Returns the most permits that count in a stretch in which these quotas have charged a key.
///
/// - *Rates*: the largest burst, and the highest rate.
/// - *Windows of one length*: what the largest of the limits admits alone.
/// - *Windows of several lengths*, within each of them: the most that one of the quotas admits there alone, and the
///   largest limit.
/// - *Aligned windows of `n` lengths*, within the shortest: `n + 1` times the largest limit.
pub(super) fn within(quotas: &[Bound], stretch: Micros, overshoot: u64) -> Option<u64> {
    let (first, others) = quotas.split_first()?;
    if others.is_empty() {
        return first.within(stretch, overshoot);
    }
    let at_once = quotas.iter().map(|quota| quota.at_once()).max()?;
    if matches!(first, Bound::Rate { .. }) {
        let longest = quotas.iter().map(|quota| quota.longest()).max()?;
        let given = quotas.iter().map(|quota| quota.given(stretch)).max()?;
        let debt = quotas.iter().map(|quota| quota.debt(overshoot)).max()?;
        return (stretch <= longest).then_some(at_once + given + debt);
    }
    let mut lengths: Vec<Micros> = quotas.iter().map(|quota| quota.window()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    if lengths.len() == 1 {
        return quotas.iter().filter_map(|quota| quota.within(stretch, overshoot)).max();
    }
    let length = lengths.iter().copied().find(|length| stretch + ROUNDED < *length)?;
    let largest = at_once.saturating_add(overshoot);
    if matches!(first, Bound::Window { form: Form::Aligned, .. }) {
        let is_shortest = lengths.first() == Some(&length);
        return is_shortest.then(|| (lengths.len() as u64 + 1) * largest);
    }
    let alone = quotas.iter().map(|quota| match quota {
        Bound::Window { limit, window, .. } => {
            length.div_ceil(*window) * limit.saturating_add(overshoot) + quota.beside(overshoot)
        }
        Bound::Rate { .. } => 0,
    });
    Some(alone.max()? + largest)
}

/// Returns the most permits that count in a stretch in which these quotas have charged a key in memory, where each may
/// have a span of its own: the sum of their bounds.
pub(super) fn of_spans(quotas: &[Bound], stretch: Micros, overshoot: u64) -> Option<u64> {
    quotas.iter().map(|quota| quota.within(stretch, overshoot)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_several_spans_add_up() {
        let quotas = [rate(20, 10), rate(5, 100)];
        let each = quotas.map(|quota| quota.within(100_000, 0).unwrap());
        assert_eq!(of_spans(&quotas, 100_000, 0), Some(each[0] + each[1]));
        let quotas = [window(3, 1_000, Form::Plain), window(5, 400, Form::Plain)];
        assert_eq!(of_spans(&quotas, 500, 0), None);
    }

    const fn rate(burst: u64, permits: u64) -> Bound {
        Bound::Rate { burst, permits, window: 1_000_000, horizon: 1_000_000 }
    }

    const fn window(limit: u64, window: Micros, form: Form) -> Bound {
        Bound::Window { limit, beside: limit, window, form, pace: None }
    }

    #[test]
    fn rates_have_the_largest_burst_and_the_highest_rate() {
        let quotas = [rate(20, 10), rate(5, 100)];
        assert_eq!(within(&quotas, 100_000, 0), Some(30));
        assert_eq!(within(&quotas, 100_000, 7), Some(37));
        assert_eq!(within(&quotas[..1], 100_000, 70), Some(31), "a debt ends at the horizon");
    }

    #[test]
    fn windows_of_one_length_have_the_largest_limit() {
        let quotas = [window(3, 1_000, Form::Plain), window(5, 1_000, Form::Plain)];
        assert_eq!(within(&quotas, 500, 0), Some(10));
        assert_eq!(within(&quotas, 999, 0), None);
    }

    #[test]
    fn windows_of_several_lengths_have_the_largest_limit_more() {
        let quotas = [window(3, 1_000, Form::Plain), window(5, 400, Form::Plain)];
        assert_eq!(within(&quotas, 300, 0), Some(15));
        assert_eq!(within(&quotas, 500, 0), Some(25));
        assert_eq!(within(&quotas, 1_000, 0), None);
    }

    #[test]
    fn aligned_windows_of_two_lengths_have_three_limits() {
        let quotas = [window(3, 1_000, Form::Aligned), window(5, 400, Form::Aligned)];
        assert_eq!(within(&quotas, 300, 0), Some(15));
        assert_eq!(within(&quotas, 500, 0), None);
    }
}
