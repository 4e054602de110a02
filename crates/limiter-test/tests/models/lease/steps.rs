//! What callers and processes do: check, reserve, refund, and have leases.

use super::{
    Charge, LATE, LATEST_REPLY, Leases, Rule, Server,
    state::{Lease, Open, State, Step},
};
use crate::admissions::{Admission, Units};

impl Leases {
    fn can_spend(&self, lease: &Lease) -> bool {
        let has_begun = lease.waited >= lease.ahead || self.rule == Rule::AheadSpentAtOnce;
        lease.is_received && has_begun && lease.counted < self.ends(lease)
    }

    /// Returns when a lease ends, by the clock of its process, counted since it asked.
    fn ends(&self, lease: &Lease) -> Units {
        lease.ahead + self.spent_for(lease.charge.length)
    }

    /// Returns whether a lease can't be spent any more. A late reply can leave no time between its beginning and its
    /// end.
    fn is_over(&self, lease: &Lease) -> bool {
        let to_wait =
            if self.rule == Rule::AheadSpentAtOnce { 0 } else { lease.ahead - lease.waited };
        lease.is_received && lease.counted + to_wait >= self.ends(lease)
    }

    /// Returns the next state, where equal futures make equal states.
    fn reduced(&self, mut state: State) -> State {
        state.leases.retain(|lease| {
            let may_come_back = lease.charge.cost + lease.charge.at > 0;
            !lease.is_received || lease.unused > 0 && (!self.is_over(lease) || may_come_back)
        });
        for lease in state.leases.iter_mut().filter(|it| self.is_over(it)) {
            (lease.ahead, lease.waited) = (0, 0);
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
        if self.horizon > 0 || self.ahead { charge } else { Charge { mark: 0, ..charge } }
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
        let next = |permits, length, at, server: Server| {
            let mut next = state.clone();
            next.server = server;
            let charge = self.noted(Charge { at, cost: permits, mark: server.debt, length });
            let (unused, ahead, is_received) = (permits, at, false);
            let (counted, waited, late) = (0, 0, 0);
            next.leases.push(Lease { charge, ahead, is_received, unused, counted, waited, late });
            if at == 0 {
                next.admissions.add(0, 0, Some(Open::Reply));
            }
            (Step::Grant { permits, length, at }, next)
        };
        let mut steps = Vec::new();
        for &length in self.lengths {
            for permits in 2..=self.room(state.server, length) {
                let server = self.grant(state.server, permits, length);
                steps.push(next(permits, length, 0, server));
            }
            for permits in 2..=self.room_ahead(state.server, length) {
                let granted = self.grant_ahead(state.server, permits, length);
                steps.extend(granted.map(|(at, server)| next(permits, length, at, server)));
            }
        }
        steps
    }

    /// Returns what can happen to a lease whose reply has not arrived.
    fn replies(&self, state: &State, lease: usize) -> Vec<(Step, State)> {
        let Lease { charge, ahead, unused, .. } = state.leases[lease];
        let is_of_lease = |admission: Admission<Open>| {
            admission.open == Some(Open::Reply) && admission.at == charge.at
        };
        // No caller waits for a lease ahead.
        let reply = state.admissions.open().find(|it| ahead == 0 && is_of_lease(it.1));
        assert_eq!(reply.is_some(), ahead == 0);
        let next = |served| {
            let mut next = state.clone();
            if let Some((place, ..)) = reply {
                next.admissions.settle(place, served);
            }
            let it = &mut next.leases[lease];
            (it.is_received, it.unused) = (true, unused - served);
            let ends_late = self.rule == Rule::AheadEndsAfterTheReply && ahead > 0;
            if self.rule == Rule::EndsAfterTheReply || ends_late {
                (it.counted, it.late) = (0, 0);
            }
            (Step::Receive { lease, served }, next)
        };
        let mut lost = state.clone();
        if let Some((place, ..)) = reply {
            lost.admissions.settle(place, 0);
        }
        lost.leases.remove(lease);
        let lost = (Step::Forget { lease }, lost);
        let served = if ahead > 0 { vec![0] } else { vec![0, 1, unused] };
        served.into_iter().map(next).chain([lost]).collect()
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
        if self.rule == Rule::PartOfALeaseAhead && charge.at > 0 {
            for permits in 1..unused {
                let back = self.back(state.server, charge, permits);
                if back > 0 {
                    let mut next = state.clone();
                    next.server.debt -= back;
                    let it = &mut next.leases[lease];
                    it.unused -= permits;
                    it.charge.cost -= permits;
                    it.charge.mark -= back;
                    steps.push((Step::ReturnPart { lease, permits }, next));
                }
            }
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
                    let to_wait = if lease.is_received { lease.ahead - lease.waited } else { 0 };
                    lease.waited += to_wait.min(1);
                    lease.counted = (lease.ahead + lease.charge.length).min(lease.counted + 1);
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

    /// Returns what can happen in a state, and the state that follows.
    pub(super) fn steps(&self, state: &State) -> Vec<(Step, State)> {
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

    /// Returns whether more was admitted than the bound allows.
    pub(super) fn exceeds(&self, state: &State) -> bool {
        state.admissions.largest_debt(1) > self.burst
    }
}
