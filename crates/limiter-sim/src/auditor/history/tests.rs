//! Histories that are over their bounds, and those that are not.

use super::{super::bound::Form, *};
use crate::vocabulary::ProcessId;

const WINDOW: Micros = 1_000_000;

const fn log_of(limit: u64) -> Bound {
    Bound::Window { limit, beside: 0, window: WINDOW, form: Form::Plain, pace: None }
}

fn log(limit: u64) -> History {
    History::new(vec![(0, log_of(limit))], 0)
}

const fn rate(burst: u64, permits: u64) -> Bound {
    Bound::Rate { burst, permits, window: WINDOW, horizon: WINDOW }
}

/// Adds permits that count within a stretch.
fn add(history: &mut History, permits: u64, (earliest, latest): (Micros, Micros)) -> AdmissionId {
    history.add(earliest, Admitted { permits, latest })
}

fn none() -> Around {
    Around::default()
}

#[test]
fn more_than_the_limit_in_a_window_is_found() {
    let mut history = log(2);
    for at in [0, WINDOW / 2, WINDOW] {
        let id = add(&mut history, 1, (at, at));
        assert!(history.over(id, &none()).is_none(), "{at}");
    }
    let id = add(&mut history, 1, (WINDOW + 1, WINDOW + 1));
    let over = history.over(id, &none()).unwrap();
    assert_eq!((over.permits, over.bound, over.from), (3, 2, WINDOW / 2));
}

#[test]
fn more_than_the_burst_and_the_rate_is_found() {
    let mut history = History::new(vec![(0, rate(2, 10))], 0);
    for at in [0, 0, 100_000, 200_000] {
        let id = add(&mut history, 1, (at, at));
        assert!(history.over(id, &none()).is_none(), "{at}");
    }
    let id = add(&mut history, 1, (299_000, 299_000));
    assert!(history.over(id, &none()).is_some());
}

#[test]
fn an_admission_counts_where_all_its_moments_are() {
    let mut history = log(1);
    add(&mut history, 1, (0, 0));
    let late = add(&mut history, 1, (500_000, 2_000_000));
    assert!(history.over(late, &none()).is_none(), "it may count a window later");
    let id = add(&mut history, 1, (600_000, 600_000));
    assert!(history.over(id, &none()).is_some());
}

#[test]
fn what_came_back_was_never_admitted() {
    let mut history = log(1);
    let first = add(&mut history, 1, (0, 0));
    assert_eq!(history.subtract(first, 5, 5, &none()), 1);
    let second = add(&mut history, 1, (10, 10));
    assert!(history.over(second, &none()).is_none());
    history.add_again(first, 1);
    assert!(history.over(first, &none()).is_some());
}

#[test]
fn what_is_forgotten_is_neither_counted_nor_checked() {
    let mut history = log(1);
    let first = add(&mut history, 1, (0, 0));
    history.subtract(first, 1, 0, &none());
    // It began before the others, and may count for long.
    add(&mut history, 1, (0, 30_000_000));
    history.forget(20_000_000);
    history.add_again(first, 1);
    assert!(history.over(first, &none()).is_none());
    assert_eq!(history.admissions.len(), 1);
}

#[test]
fn a_receipt_from_before_an_incarnation_may_give_back_what_others_were_charged() {
    let mut history = log(1);
    let old = add(&mut history, 1, (0, 0));
    history.has_incarnation(5, 5);
    let at = 2 * WINDOW;
    add(&mut history, 1, (at, at));
    history.subtract(old, 1, at + 1, &none());
    let id = add(&mut history, 1, (at + 2, at + 2));
    assert!(history.over(id, &none()).is_none());
    let id = add(&mut history, 1, (at + 3, at + 3));
    assert!(history.over(id, &none()).is_some());
}

#[test]
fn a_reservation_from_before_an_incarnation_may_give_back_what_others_were_charged() {
    let mut history = History::new(vec![(0, rate(2, 1))], 50);
    // Reserved before the incarnation, for a moment after it.
    let old = add(&mut history, 1, (50, 50));
    history.has_incarnation(5, 5);
    let fresh = add(&mut history, 2, (100, 100));
    assert!(history.over(fresh, &none()).is_none());
    history.subtract(old, 1, 110, &none());
    let id = add(&mut history, 1, (120, 120));
    assert!(history.over(id, &none()).is_none());
    let id = add(&mut history, 1, (130, 130));
    assert!(history.over(id, &none()).is_some());
}

#[test]
fn an_incarnation_has_a_bound_of_its_own() {
    let mut history = log(1);
    add(&mut history, 1, (0, 0));
    history.has_incarnation(5, 5);
    let id = add(&mut history, 1, (10, 10));
    assert!(history.over(id, &none()).is_none());
    let id = add(&mut history, 1, (20, 20));
    assert!(history.over(id, &none()).is_some());
}

#[test]
fn work_that_is_charged_afterwards_overshoots_once() {
    let (mut history, mut around) = (log(1), Around::default());
    add(&mut history, 1, (10, 10));
    around.requests.add(5, 20, 4);
    let id = add(&mut history, 4, (20, 20));
    assert!(history.over(id, &around).is_none());
    around.requests.add(30, 40, 4);
    let id = add(&mut history, 1, (30, 30));
    assert!(history.over(id, &around).is_some(), "the requests were not in flight together");
}

#[test]
fn a_quota_that_is_not_in_use_admits_nothing() {
    let (mut history, mut around) = (log(1), Around::default());
    history.add_bound(1, log_of(3));
    around.uses.begin(ProcessId(1), 0, 0);
    around.uses.begin(ProcessId(1), 1, 2 * WINDOW);
    add(&mut history, 1, (10, 10));
    let id = add(&mut history, 2, (20, 20));
    assert!(history.over(id, &around).is_some());
    let id = add(&mut history, 3, (2 * WINDOW, 2 * WINDOW));
    assert!(history.over(id, &around).is_none());
}
