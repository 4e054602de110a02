//! What the operations do with the limits of a policy, in Rust.

use limiter_core::{Algorithm, Policy, algorithms::WindowKind};

use super::{
    gcra::Gcra,
    ledger::Ledger,
    twin::{Charge, Twin, up},
    windows::Windows,
};
use crate::ScriptCall;

/// A limit of any algorithm.
enum Any {
    Gcra(Gcra),
    Windows(Windows),
    Ledger(Ledger),
}

impl Any {
    fn twin(&self) -> &dyn Twin {
        match self {
            Self::Gcra(gcra) => gcra,
            Self::Windows(windows) => windows,
            Self::Ledger(ledger) => ledger,
        }
    }

    fn twin_mut(&mut self) -> &mut dyn Twin {
        match self {
            Self::Gcra(gcra) => gcra,
            Self::Windows(windows) => windows,
            Self::Ledger(ledger) => ledger,
        }
    }
}

/// A policy at one key.
pub(super) struct Model {
    limits: Vec<Any>,
    now: i128,
}

/// What a call did: what it replied, what is at the key now, and the expiry that was set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) reply: Vec<i128>,
    pub(super) value: Option<String>,
    pub(super) life: Option<i128>,
}

impl Model {
    /// Makes the limits of a policy, with the arguments of each in scripts over several limits.
    pub(super) fn new<'a>(policy: &Policy, limits: impl Iterator<Item = &'a [String; 4]>) -> Self {
        let windows = |index, kind| Any::Windows(Windows::new(policy, index, kind));
        let limits = limits.enumerate().map(|(index, arguments)| {
            let words: Vec<_> = arguments.iter().map(String::as_str).collect();
            match policy.limits()[index].algorithm() {
                Algorithm::FixedWindow => windows(index, WindowKind::Fixed),
                Algorithm::AlignedWindow => windows(index, WindowKind::Aligned),
                Algorithm::SlidingCounter => windows(index, WindowKind::Sliding),
                Algorithm::SubWindows(_) | Algorithm::SlidingLog => {
                    Any::Ledger(Ledger::open(&words))
                }
                Algorithm::Gcra | Algorithm::LeakyQueue { .. } => Any::Gcra(Gcra::open(&words)),
            }
        });
        Self { limits: limits.collect(), now: 0 }
    }

    fn read(&mut self, value: Option<&str>, now: i128) -> bool {
        self.now = now;
        if let [limit] = self.limits.as_mut_slice() {
            // The elements of a list are those of a text.
            let is_list = matches!(limit, Any::Ledger(_));
            let value =
                value.map(|value| if is_list { value.replace(',', ";") } else { value.to_owned() });
            let value = value.as_deref();
            return limit.twin_mut().read(value, now);
        }
        let states: Vec<_> = value.map(|value| value.split(", ").collect()).unwrap_or_default();
        let mut is_possible = true;
        for (index, limit) in self.limits.iter_mut().enumerate() {
            let state = states.get(index).copied().unwrap_or_default();
            let state = value.map(|_| state).filter(|state| *state != "-");
            is_possible &= limit.twin_mut().read(state, now);
        }
        is_possible
    }

    /// Checks, reserves or peeks.
    pub(super) fn take(
        &mut self,
        now: i128,
        found: Option<&str>,
        cost: i128,
        within: Option<i128>,
    ) -> Outcome {
        let is_possible = self.read(found, now);
        let is_foreign = self.limits.iter().any(|limit| limit.twin().is_foreign());
        let fits = |from| {
            let all = self.limits.iter().map(|limit| limit.twin().fits(cost, from));
            all.enumerate().max_by_key(|(_, at)| at.unwrap_or(i128::MAX)).unwrap()
        };
        let (longest, at) = fits(now);
        let at = at.and_then(|at| fits(at).1);
        let latest = now + within.filter(|_| !is_foreign).unwrap_or(0);
        let at_or_never = at.unwrap_or(i128::MAX);
        if cost == 0 || at_or_never > latest {
            let wait = at.map_or(-1, |at| at - now);
            // The scripts of one algorithm don't number the limit.
            let is_alone = match self.limits.as_slice() {
                [Any::Ledger(_)] => true,
                [_] => within.is_none(),
                _ => false,
            };
            let head = [0, wait, longest as i128 + 1];
            let head = &head[..if is_alone { 2 } else { 3 }];
            let reply = [head, &self.usages()].concat();
            if is_possible {
                return Outcome { reply, value: found.map(str::to_owned), life: None };
            }
            let (value, life) = self.value();
            return Outcome { reply, value, life };
        }
        let charge = |limit: &mut Any| limit.twin_mut().charge(cost, at_or_never);
        let marks: Vec<_> = self.limits.iter_mut().map(charge).collect();
        let mut reply = match self.limits.as_slice() {
            [Any::Gcra(gcra)] if within.is_none() => vec![gcra.charged()],
            _ => self.usages(),
        };
        if within.is_some() {
            reply.extend([at_or_never - now, now].into_iter().chain(marks));
        }
        let (value, life) = self.value();
        Outcome { reply, value, life }
    }

    /// Grants a lease of the permits that are wanted, or as many as there may be, or checks the cost. `terms` are
    /// the cost, the permits that are wanted, and what scripts are given beside them.
    pub(super) fn lease(&mut self, now: i128, found: Option<&str>, terms: [i128; 3]) -> Outcome {
        let mut outcome = self.take(now, found, terms[0], None);
        if outcome.reply[0] <= 0 {
            return outcome;
        }
        outcome.reply = match self.limits.as_mut_slice() {
            [Any::Gcra(gcra)] => {
                let permits = gcra.lease(terms);
                vec![gcra.charged(), permits, now]
            }
            [Any::Windows(windows)] => {
                let [permits, mark] = windows.lease(terms);
                windows.usage().into_iter().chain([permits, now, mark]).collect()
            }
            _ => panic!("nothing of this policy is leased"),
        };
        let (value, life) = self.value();
        Outcome { value, life, ..outcome }
    }

    /// Gives back by the arguments of a call: the permits, when they were charged, and the marks.
    pub(super) fn refund(&mut self, now: i128, found: Option<&str>, call: &ScriptCall) -> Outcome {
        let arguments: Vec<_> = call.arguments.iter().copied().map(i128::from).collect();
        let (head, marks) = arguments.split_first_chunk::<5>().unwrap();
        let &[permits, cost, taken_at, at, leases] = head;
        let charge = Charge { permits, cost, taken_at, at, leases };
        let nothing = Outcome { reply: vec![0], value: found.map(str::to_owned), life: None };
        if found.is_none() || now < taken_at || !self.read(found, now) {
            return nothing;
        }
        let limits = self.limits.iter_mut().zip(marks);
        let back: Vec<_> =
            limits.map(|(limit, mark)| limit.twin_mut().refund(&charge, *mark)).collect();
        let is_early = now < at && !back.iter().all(|(_, is_whole)| *is_whole);
        let most = back.iter().map(|(back, _)| *back).max().unwrap();
        if most == 0 || is_early {
            return nothing;
        }
        let (value, life) = self.value();
        // A list keeps the expiry that it has.
        let life = life.filter(|_| !matches!(self.limits.as_slice(), [Any::Ledger(_)]));
        Outcome { reply: vec![most], value, life }
    }

    fn usages(&self) -> Vec<i128> {
        self.limits.iter().flat_map(|limit| limit.twin().usage()).collect()
    }

    /// Returns what is written, and its expiry.
    fn value(&self) -> (Option<String>, Option<i128>) {
        let texts: Vec<_> = self.limits.iter().map(|limit| limit.twin().text()).collect();
        let lasts = texts.iter().map(|(_, lasts)| *lasts).max().unwrap_or(0);
        if lasts == 0 {
            return (None, None);
        }
        let value = match self.limits.as_slice() {
            [Any::Ledger(_)] => Some(texts[0].0.replace(';', ",")),
            _ => Some(texts.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(", ")),
        };
        (value, Some(up(lasts, 1_000) + 1))
    }
}
