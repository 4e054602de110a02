//! What callers and processes do: check, reserve, refund, and have leases.

use super::{
    Charge, LATE, LATEST_REPLY, Leases, Rule, Server,
    state::{Lease, Open, State, Step},
};
use crate::{
    admissions::{Admission, Admissions},
    search::Model,
};

impl Leases {
    fn can_spend(&self, lease: &Lease) -> bool {
        lease.is_received && lease.counted < self.spent_for(lease.charge.length)
    }

    /// Returns the next state, where equal futures make equal states.
    fn reduced(&self, mut state: State) -> State {
        state.leases.retain(|lease| {
            let may_come_back = lease.charge.cost + lease.charge.at > 0;
            !lease.is_received || lease.unused > 0 && (self.can_spend(lease) || may_come_back)
        });
        for lease in state.leases.iter_mut().filter(|it| it.is_received && !self.can_spend(it)) {
            (lease.counted, lease.late) = (lease.charge.length, LATE);
        }
        state.leases.sort_unstable();
        state.admissions.fold(1);
        state
    }

    /// Returns a charge a unit later.
    fn aged(&self, charge: Charge) -> Charge {
        Charge { at: charge.at - 1, mark: (charge.mark - 1).max(0), ..charge }
    }

    /// Returns a charge without what does not matter.
    fn noted(&self, charge: Charge) -> Charge {
        if self.horizon > 0 { charge } else { Charge { mark: 0, ..charge } }
    }

    fn charges(&self, state: &State) -> Vec<(Step, State)> {
        let has_receipt = state.admissions.open().any(|it| matches!(it.2, Open::Receipt(_)));
        // One, or all that there is.
        let mut costs = vec![(1, 0), ((self.burst - state.server.debt).max(2), 0)];
        if self.horizon > 0 {
            costs.extend([(1, self.horizon), (2, self.horizon)]);
        }
        let next = |(cost, within)| {
            let charge = self.charge(state.server, cost, within)?;
            let mut next = state.clone();
            next.server.debt = charge.mark;
            let receipt = (!has_receipt).then_some(Open::Receipt(self.noted(charge)));
            next.admissions.add(charge.at, cost, receipt);
            Some((Step::Charge { cost, within }, next))
        };
        costs.into_iter().filter_map(next).collect()
    }

    fn refunds(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        for (place, _, open) in state.admissions.open() {
            let Open::Receipt(charge) = open else { continue };
            for permits in 1..=charge.cost {
                let back = self.back(state.server, charge, permits);
                if back > 0 {
                    let mut next = state.clone();
                    next.server.debt -= back;
                    next.admissions.settle(place, charge.cost - permits);
                    steps.push((Step::Refund { permits, charge }, next));
                }
            }
            let mut next = state.clone();
            next.admissions.settle(place, charge.cost);
            steps.push((Step::Use { charge }, next));
        }
        steps
    }

    fn grants(&self, state: &State) -> Vec<(Step, State)> {
        if state.leases.len() == self.processes {
            return Vec::new();
        }
        let next = |(permits, length)| {
            let mut next = state.clone();
            next.server = self.grant(state.server, permits, length);
            let mark = next.server.debt;
            let charge = self.noted(Charge { at: 0, cost: permits, mark, length });
            let (unused, is_received) = (permits, false);
            next.leases.push(Lease { charge, is_received, unused, counted: 0, late: 0 });
            next.admissions.add(0, 0, Some(Open::Reply));
            (Step::Grant { permits, length }, next)
        };
        let sizes = |length| (2..=self.room(state.server, length)).map(move |it| (it, length));
        let all = self.lengths.iter().copied().flat_map(sizes);
        all.map(next).collect()
    }

    /// Returns what can happen to a lease whose reply has not arrived.
    fn replies(&self, state: &State, lease: usize) -> Vec<(Step, State)> {
        let Lease { charge, unused, .. } = state.leases[lease];
        let is_of_lease = |admission: Admission<Open>| {
            admission.open == Some(Open::Reply) && admission.at == charge.at
        };
        let reply = state.admissions.open().find(|it| is_of_lease(it.1));
        let (place, ..) = reply.unwrap();
        let next = |served| {
            let mut next = state.clone();
            next.admissions.settle(place, served);
            let it = &mut next.leases[lease];
            (it.is_received, it.unused) = (true, unused - served);
            if self.rule == Rule::EndsAfterTheReply {
                (it.counted, it.late) = (0, 0);
            }
            (Step::Receive { lease, served }, next)
        };
        let mut lost = state.clone();
        lost.admissions.settle(place, 0);
        lost.leases.remove(lease);
        let lost = (Step::Forget { lease }, lost);
        [0, 1, unused].into_iter().map(next).chain([lost]).collect()
    }

    /// Returns what can happen to a lease that its process has.
    fn spends(&self, state: &State, lease: usize) -> Vec<(Step, State)> {
        let Lease { charge, unused, .. } = state.leases[lease];
        let can_spend = self.can_spend(&state.leases[lease]);
        let spend = |permits| {
            let mut next = state.clone();
            next.leases[lease].unused -= permits;
            next.admissions.add(0, permits, None);
            (Step::Spend { lease, permits }, next)
        };
        let mut steps: Vec<_> = [1, unused].into_iter().filter(|_| can_spend).map(spend).collect();
        let mut without = state.clone();
        without.leases.remove(lease);
        let back = self.back(state.server, charge, unused);
        if back > 0 {
            let keeps = self.rule == Rule::SpendsWhatItGaveBack;
            let mut next = if keeps { state.clone() } else { without.clone() };
            next.server.debt -= back;
            steps.push((Step::Return { lease }, next));
        }
        steps.push((Step::Forget { lease }, without));
        steps
    }

    fn wait(&self, state: &State, late: [bool; 2]) -> Option<State> {
        let mut next = state.clone();
        let Server { debt, latest_end } = &mut next.server;
        (*debt, *latest_end) = ((*debt - 1).max(0), (*latest_end - 1).max(0));
        for (place, is_late) in late.into_iter().enumerate() {
            match next.leases.get_mut(place) {
                Some(lease) if is_late && lease.late < LATE => lease.late += 1,
                Some(lease) if !is_late => {
                    lease.counted = lease.charge.length.min(lease.counted + 1);
                }
                None if !is_late => {}
                _ => return None,
            }
        }
        for lease in &mut next.leases {
            lease.charge = self.aged(lease.charge);
            if !lease.is_received && lease.charge.at < -LATEST_REPLY - lease.charge.length {
                return None;
            }
        }
        next.admissions.wait(|admission| match admission.open? {
            Open::Reply => Some(Open::Reply),
            Open::Receipt(charge) => {
                let may_come_back = charge.cost + admission.at > 0;
                may_come_back.then_some(Open::Receipt(self.aged(charge)))
            }
        });
        Some(next)
    }
}

impl Model for Leases {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let (server, leases) = (Server::default(), Vec::new());
        State { server, leases, admissions: Admissions::new() }
    }

    fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = [self.charges(state), self.refunds(state), self.grants(state)].concat();
        for (place, lease) in state.leases.iter().enumerate() {
            let more = if lease.is_received { Self::spends } else { Self::replies };
            steps.extend(more(self, state, place));
        }
        for late in [[false, false], [true, false], [false, true], [true, true]] {
            steps.extend(self.wait(state, late).map(|next| (Step::Wait { late }, next)));
        }
        steps.into_iter().map(|(step, next)| (step, self.reduced(next))).collect()
    }

    fn exceeds(&self, state: &State) -> bool {
        state.admissions.largest_debt(1) > self.burst
    }
}
