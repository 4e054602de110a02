//! Which server of a cluster serves which slots, as the cluster says it.

use fred::types::{Value, config::Server};

/// The number of slots of a cluster.
pub(super) const SLOTS: usize = 16_384;

/// Which nodes serve which slots, as one node says it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// The highest configuration epoch of the nodes, which grows when a primary takes slots of another one. It is
    /// 0 if the node does not say.
    pub(super) epoch: u64,
    pub(super) ranges: Vec<Range>,
}

/// Slots that one primary serves, from the reply to `CLUSTER SLOTS`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) primary: Server,
}

/// Reads the reply to `CLUSTER SLOTS`, or returns `None` if it contains no slots. A node without a host
/// has the host `source`.
pub(crate) fn read(reply: &Value, source: &str) -> Option<Vec<Range>> {
    let Value::Array(ranges) = reply else { return None };
    let ranges: Vec<Range> = ranges.iter().filter_map(|range| range_of(range, source)).collect();
    (!ranges.is_empty()).then_some(ranges)
}

/// Reads `[first, last, [host, port, ...], ...]`, the primary first.
fn range_of(range: &Value, source: &str) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [first, last, primary, ..] = parts.as_slice() else { return None };
    let number = |value: &Value| usize::try_from(value.as_i64()?).ok();
    let (first, last) = (number(first)?, number(last)?);
    if first > last || last >= SLOTS {
        return None;
    }
    let primary = server(primary, source)?;
    Some(Range { first, last, primary })
}

/// Reads the highest configuration epoch from the reply to `CLUSTER NODES`: the seventh word of each line.
pub(crate) fn epoch(reply: &Value) -> u64 {
    let text = reply.as_str().unwrap_or_default();
    let epochs = text.lines().filter_map(|line| line.split(' ').nth(6)?.parse().ok());
    epochs.max().unwrap_or_default()
}

fn server(node: &Value, source: &str) -> Option<Server> {
    let Value::Array(parts) = node else { return None };
    let [host, port, ..] = parts.as_slice() else { return None };
    let host = host.as_str().unwrap_or_default();
    let host = if host.is_empty() || host == "?" { source } else { &host };
    Some(Server::new(host, u16::try_from(port.as_i64()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, port.into(), "id".into(), Value::Array(vec![])])
    }

    #[test]
    fn slots_are_read_with_their_nodes() {
        let first = Value::Array(vec![
            0.into(),
            100.into(),
            node("10.0.0.1".into(), 1),
            node("10.0.0.2".into(), 2),
        ]);
        let rest = Value::Array(vec![101.into(), 16_383.into(), node(Value::Null, 3)]);
        let read = read(&Value::Array(vec![first, rest]), "source").unwrap();
        assert_eq!(
            read,
            [
                Range { first: 0, last: 100, primary: Server::new("10.0.0.1", 1) },
                Range { first: 101, last: 16_383, primary: Server::new("source", 3) },
            ]
        );
    }

    #[test]
    fn the_highest_epoch_of_a_node_is_that_of_the_map() {
        let lines = "a1 10.0.0.1:1@10001,host myself,master - 0 0 9 connected 0-100 [7->-a2]\n\
                     a2 10.0.0.2:2@10002 master - 0 1719 12 connected 101-16383\n\
                     a3 10.0.0.3:3@10003 slave,fail? a2 1719 1719 3 disconnected\n";
        assert_eq!(epoch(&lines.into()), 12);
        assert_eq!(epoch(&"".into()), 0);
        assert_eq!(epoch(&Value::Null), 0);
    }

    #[test]
    fn a_reply_without_slots_is_no_map() {
        let beyond = Value::Array(vec![0.into(), 16_384.into(), node("host".into(), 1)]);
        let backwards = Value::Array(vec![2.into(), 1.into(), node("host".into(), 1)]);
        let negative = Value::Array(vec![(-1).into(), 1.into(), node("host".into(), 1)]);
        for reply in [beyond, backwards, negative, 3.into(), Value::Array(vec![0.into()])] {
            assert_eq!(read(&Value::Array(vec![reply]), "source"), None);
        }
        assert_eq!(read(&Value::Array(vec![]), "source"), None);
        assert_eq!(read(&Value::Null, "source"), None);
    }
}
