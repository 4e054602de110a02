//! For which operations calls are counted, where permits are leased.

use limiter_core::{Error, ErrorKind, Source};

use super::{Answer, End, Operation, Question, Records};
use crate::{
    auditor::Auditor,
    vocabulary::{MAX_NODES, Micros, Moment, ProcessId, Subject},
};

const PROCESS: ProcessId = ProcessId(1);
const KEY: Subject = Subject(0);

fn at(now: Micros) -> Moment {
    Moment { now, by_nodes: [now; MAX_NODES] }
}

/// Returns the number of violations if an operation ends by `end`, and two calls change the key that were sent
/// afterwards, while only another operation is under way.
fn violations_after(end: impl FnOnce(&mut Records, &Operation)) -> usize {
    let mut records = Records::new(vec!["key".to_owned()], Auditor::default());
    records.is_stored_at(KEY, 0, vec![b"key".to_vec()]);
    let question = Question { operation: "check", permits: 1, tier: 0, is_direct: false };
    let ended = records.asks(at(10), (PROCESS, 0), KEY, question);
    let _other = records.asks(at(100_000), (PROCESS, 0), KEY, question);
    end(&mut records, &ended);
    for call in [1, 2] {
        records.sent(at(200_010), PROCESS, call, &[b"key".to_vec()]);
        let keys = [(b"key".to_vec(), true)];
        records.executed(at(200_020), (PROCESS, call, 200_010), "lease", &keys);
    }
    records.violations.len()
}

#[test]
fn a_request_may_go_on_for_an_operation_whose_outcome_is_not_known() {
    let fails = |kind| {
        violations_after(|records, operation| {
            records.ends(at(200_000), operation, End::Failed(&Error::new(kind, "no lease")));
        })
    };
    assert_eq!(fails(ErrorKind::Undetermined), 0);
    assert_eq!(fails(ErrorKind::Unavailable), 1);

    let decided_by = |source| {
        violations_after(|records, operation| {
            let answer =
                Answer { source, permits: None, delay: 0, wait: Some(1), of_request: None };
            records.decides(at(200_000), operation, answer);
            records.ends(at(200_000), operation, End::Answered);
        })
    };
    assert_eq!(decided_by(Source::Local), 0);
    assert_eq!(decided_by(Source::Cache), 1);
}
