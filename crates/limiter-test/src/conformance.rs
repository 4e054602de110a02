//! What every limiter returns, row by row.
//!
//! A file of `conformance/` has a paragraph for each case: its name and its policy, whose limits are separated by semicolons,
//! then a row for each request and all that is returned:
//!
//! ```text
//! a_peek_charges_nothing: 2/2s
//!            0 peek                    -> 2 left, fresh
//!            0 check 1                 -> yes, 1 left, fresh in 1s
//! ```
//!
//! A row begins with the time of the request in milliseconds, and a key in quotes unless it is `"a"`. A reservation is
//! `within` milliseconds. A refund names the receipt by the number of receipts before it, and how many of its permits to
//! `keep`. `switch` makes all later requests under another policy. A line that begins with `also` repeats all cases of its file
//! with that after their policies.

use std::{iter, time::Duration};

use limiter_core::{Cost, Decision, Policy, Receipt, Reservation, Timestamp, Usage};

use crate::subject::Subject;

/// The rows of GCRA.
pub const GCRA: &str = include_str!("conformance/gcra.txt");

/// The rows of the algorithms with windows.
pub const WINDOWS: &str = include_str!("conformance/windows.txt");

/// The rows of several limits at once.
pub const SEVERAL: &str = include_str!("conformance/several.txt");

/// The rows of all operations but checks and charges.
pub const OPERATIONS: &str = include_str!("conformance/operations.txt");

/// The rows of charges.
pub const CHARGES: &str = include_str!("conformance/charges.txt");

/// The rows of policies in turn on one key, of limiters whose states belong to a span.
pub const SPANS: &str = include_str!("conformance/spans.txt");

/// Those rows whose increments memory rounds up, to a quarter of a nanosecond.
pub const BY_QUARTER_NANOS: &str = include_str!("conformance/by_quarter_nanos.txt");

/// Those rows whose increments Redis rounds up, to a microsecond.
pub const BY_MICROS: &str = include_str!("conformance/by_micros.txt");

/// Runs the rows of `files` on limiters that `make` makes for their policies.
///
/// # Panics
///
/// At the first row that returns something else.
pub fn run<S: Subject>(files: &[&'static str], mut make: impl FnMut(Policy) -> S) {
    for file in files {
        let also = file.lines().find_map(|line| line.strip_prefix("also"));
        for also in iter::once("").chain(also) {
            let mut case = None;
            for line in file.lines().filter(|line| !line.starts_with("also")) {
                let text = line.trim();
                if text.is_empty() || text.starts_with('#') {
                    continue;
                }
                match (&mut case, line.starts_with(' ')) {
                    (Some(case), true) => Case::check(case, text),
                    _ => case = Some(Case::new(text, also, &mut make)),
                }
            }
        }
    }
}

/// A limiter under the policy of a case, and what it has returned.
struct Case<S> {
    name: &'static str,
    subject: S,
    receipts: Vec<Option<Receipt>>,
}

impl<S: Subject> Case<S> {
    fn new(text: &'static str, also: &str, make: impl FnOnce(Policy) -> S) -> Self {
        let (name, policy) = text.split_once(": ").expect("a case has a policy");
        let subject = make(policy_of(&format!("{policy}{also}")));
        Self { name, subject, receipts: Vec::new() }
    }

    fn check(&mut self, row: &str) {
        let (request, expected) = row.split_once(" -> ").unwrap_or((row, ""));
        let place = format!("{}: {request}", self.name);
        assert_eq!(self.answer(request), expected, "{place}");
    }

    fn answer(&mut self, request: &str) -> String {
        let mut words = request.split_whitespace().peekable();
        let at = words.next().map(number).unwrap_or_default();
        let now = Timestamp::from_nanos(at * 1_000_000);
        let key = words.next_if(|word| word.starts_with('"'));
        let key = key.map_or("a", |key| key.trim_matches('"'));
        let words: Vec<_> = words.collect();
        let subject = &mut self.subject;
        match *words.as_slice() {
            ["check", permits] => {
                let decision = subject.decide(now, key, cost(permits));
                self.decided("yes", decision)
            }
            ["peek"] => usage(&subject.peek(now, key)),
            ["reserve", permits, "within", within] => {
                let within = Duration::from_millis(number(within));
                let reservation = subject.reserve(now, key, cost(permits), within);
                let answer = match reservation.delay() {
                    None => "no".to_owned(),
                    Some(Duration::ZERO) => "now".to_owned(),
                    Some(delay) => format!("in {delay:?}"),
                };
                self.receipts.push(reservation.into_receipt());
                answer
            }
            ["take", most] => {
                let taken = subject.take_up_to(now, key, cost(most));
                self.took(taken)
            }
            ["charge", permits] => {
                let charged = subject.charge(now, key, cost(permits));
                self.took(charged)
            }
            ["refund", receipt, ref keep @ ..] => {
                let place = number(receipt.trim_start_matches('#'));
                let place = usize::try_from(place).unwrap_or(usize::MAX);
                let receipt = self.receipts.get_mut(place).and_then(Option::take);
                let receipt = receipt.expect("the receipt exists, and was not refunded");
                let kept = match *keep {
                    ["keep", kept] => number(kept),
                    _ => 0,
                };
                format!("{} back", subject.refund(now, receipt.keep(kept)))
            }
            ["reset"] => {
                subject.reset(now, key);
                String::new()
            }
            ["switch", ref policy @ ..] => {
                subject.switch(&policy_of(&policy.join(" ")));
                String::new()
            }
            _ => panic!("{request:?} is not a request"),
        }
    }

    fn took(&mut self, taken: Reservation) -> String {
        let decision = taken.decision();
        let delay = decision.is_admitted().then_some(Duration::ZERO);
        assert_eq!(taken.delay(), delay, "{}: {taken:?}", self.name);
        assert!(decision.is_admitted() || taken.permits() == 0, "{}: {taken:?}", self.name);
        let took = format!("took {}", taken.permits());
        self.receipts.push(taken.into_receipt());
        self.decided(&took, decision)
    }

    fn decided(&self, admitted: &str, decision: Decision) -> String {
        let limits = self.subject.policy().limits().len();
        let of_limit = format!("limit {}: ", decision.limit_index());
        let of_limit = if limits > 1 { &*of_limit } else { "" };
        let outcome = match decision.retry_after() {
            Some(Duration::ZERO) if decision.is_admitted() => admitted.to_owned(),
            None => "never".to_owned(),
            Some(retry) if !decision.is_admitted() => format!("no, retry in {retry:?}"),
            Some(_) => panic!("{}: {decision:?}", self.name),
        };
        format!("{of_limit}{outcome}, {}", usage(&decision.usage()))
    }
}

fn usage(usage: &Usage) -> String {
    let left = usage.remaining();
    match usage.reset_after() {
        Duration::ZERO => format!("{left} left, fresh"),
        reset => format!("{left} left, fresh in {reset:?}"),
    }
}

fn cost(text: &str) -> Cost {
    Cost::of(if text == "max" { u64::MAX } else { number(text) })
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

fn policy_of(text: &str) -> Policy {
    let limit = |(number, limit): (usize, &str)| {
        let name = if text.contains(';') { &*format!("limit {number}") } else { "test" };
        Policy::parse(name, limit).expect("the limit of a row is valid")
    };
    let mut limits: Vec<_> = text.split(';').enumerate().map(limit).collect();
    match limits.len() {
        1 => limits.remove(0),
        _ => Policy::all_of("test", limits).expect("the limits of a row go together"),
    }
}
