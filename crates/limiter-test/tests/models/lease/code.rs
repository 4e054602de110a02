//! The right rule is that of the scripts `lease`, `policy` and `refund`.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Charge, EXPLORED, Leases, RIGHT, Server,
    state::{Open, State},
};
use crate::{
    admissions::Units,
    server::{Key, Refund},
};

/// Returns the numbers of the server that occur in some states.
fn servers(states: &[Arc<State>]) -> BTreeSet<Server> {
    states.iter().map(|state| state.server).collect()
}

/// Returns which permits of which charges may be returned, and the numbers of the server then.
fn refunds(states: &[Arc<State>]) -> BTreeSet<(Server, Charge, Units)> {
    let of_state = |state: &Arc<State>| {
        let returns = state.leases.iter().map(|lease| (lease.charge, lease.unused));
        let receipts = state.admissions.open().filter_map(|(_, _, open)| match open {
            Open::Receipt(charge) => Some(charge),
            Open::Reply => None,
        });
        let refunds = receipts.flat_map(|it| (1..=it.cost).map(move |permits| (it, permits)));
        let all = returns.chain(refunds);
        all.map(|(charge, permits)| (state.server, charge, permits)).collect::<Vec<_>>()
    };
    states.iter().flat_map(of_state).collect()
}

/// Returns the key of the script in a state of the model.
fn key_of(leases: &Leases, server: Server) -> Key {
    Key::new(leases.quota(), server.debt, server.latest_end)
}

fn server_of(key: &Key) -> Server {
    Server { debt: key.debt(), latest_end: key.latest_end() }
}

/// On a larger key than the model has, because on that one the script, which mostly grants half of what there is, grants no
/// more than 2 permits, and nothing ahead.
#[test]
fn leases_by_the_script_follow_the_rule() {
    let leases = Leases { burst: 120, lengths: &[72], horizon: 5, ahead: true, ..RIGHT[0] };
    let length = leases.lengths[0];
    let latest_ends = [0, 1, length - 1, length, length + 2, 2 * length];
    let all = (0..=leases.burst + leases.horizon)
        .flat_map(|debt| latest_ends.map(move |latest_end| Server { debt, latest_end }));
    let (mut granted, mut ahead) = (BTreeSet::new(), BTreeSet::new());
    for (server, wanted) in all.flat_map(|server| (2..=leases.burst).map(move |it| (server, it))) {
        let mut key = key_of(&leases, server);
        let what = format!("{wanted} on {server:?}");
        let (permits, later) = key.lease(wanted, length);
        let mut after = match permits {
            0..=1 => {
                let charge = leases.charge(server, 1, 0);
                // A cost that fits waits for a lease that begins later.
                let charge = charge.filter(|_| later.is_none());
                assert_eq!(charge.is_some(), permits == 1, "{what}");
                charge.map_or(server, |it| Server { debt: it.mark, ..server })
            }
            _ => {
                assert!(permits <= wanted.min(leases.room(server, length)), "{what}");
                leases.grant(server, permits, length)
            }
        };
        granted.insert(permits);
        if let Some((permits, begins)) = later {
            assert!((2..=leases.room_ahead(after, length)).contains(&permits), "{what}");
            let (at, last) = leases.grant_ahead(after, permits, length).unwrap();
            assert_eq!(begins, at, "{what}");
            ahead.insert(permits);
            after = last;
        }
        assert_eq!(server_of(&key), after, "{what}");
    }
    assert_eq!(granted, (0..=36).filter(|permits| *permits != 1).collect());
    assert_eq!(ahead, BTreeSet::from([2, 3]));
}

#[test]
fn charges_by_the_script_follow_the_rule() {
    for (leases, explored) in &*EXPLORED {
        for server in servers(&explored.states) {
            for (cost, within) in
                (1..=leases.burst).flat_map(|cost| [(cost, 0), (cost, leases.horizon)])
            {
                let mut key = key_of(leases, server);
                let charge = leases.charge(server, cost, within);
                let what = format!("{cost} within {within} on {server:?} by {leases:?}");
                assert_eq!(key.reserve(cost, within), charge.map(|it| (it.at, it.mark)), "{what}");
                let debt = charge.map_or(server.debt, |charge| charge.mark);
                assert_eq!(server_of(&key), Server { debt, ..server }, "{what}");
            }
        }
    }
}

#[test]
fn refunds_by_the_script_follow_the_rule() {
    for (leases, explored) in &*EXPLORED {
        let refunds = refunds(&explored.states);
        println!("{} refunds by {leases:?}", refunds.len());
        for (server, charge, permits) in refunds {
            let mut key = key_of(leases, server);
            let Charge { at, cost, mark, length } = charge;
            key.refund(&Refund { permits, cost, at, length, mark });
            let debt = server.debt - leases.back(server, charge, permits);
            let what = format!("{permits} of {charge:?} on {server:?} by {leases:?}");
            assert_eq!(server_of(&key), Server { debt, ..server }, "{what}");
        }
    }
}
