//! Slots of a cluster that move, or whose move was interrupted.

use limiter_redis::Server;

use super::Findings;
use crate::read::{WITHIN, text};

/// Adds a problem for slots that the server migrates or imports. A server outside of a cluster has no slots.
pub(super) async fn examine(server: &Server, findings: &mut Findings) {
    let reply = server.send("CLUSTER", &["NODES"], WITHIN).await;
    let Some(nodes) = reply.ok().and_then(|reply| text(&reply)) else { return };
    let open = open_slots(&nodes);
    if open.is_empty() {
        return;
    }
    let (slots, have) = match open.len() {
        1 => ("slot", "has"),
        _ => ("slots", "have"),
    };
    let text = format!(
        "{slots} {} {have} not moved to the end: until then, checks of policies of several limits, refunds by GCRA and \
         leases fail there with TRYAGAIN",
        open.join(", ")
    );
    let advice = "wait until the cluster is resharded; after an interrupted reshard, run redis-cli --cluster fix";
    findings.problem(server.name(), text, advice);
}

/// Returns the slots that the node migrates or imports: `[93->-ID]` and `[93-<-ID]` in its own line.
fn open_slots(nodes: &str) -> Vec<&str> {
    let own = nodes.lines().filter(|line| line.contains("myself"));
    let open = own.flat_map(str::split_whitespace).filter_map(|word| word.strip_prefix('['));
    open.filter_map(|word| word.split_once('-').map(|(slot, _)| slot)).collect()
}

#[cfg(test)]
mod tests {
    use super::open_slots;

    #[test]
    fn slots_that_move_are_open() {
        let nodes = "a1 10.0.0.1:1@2 myself,master - 0 0 9 connected 0-100 [93->-a2] [7-<-a2]\n\
                     a2 10.0.0.2:1@2 master - 0 9 12 connected 101-16383 [5->-a1]\n";
        assert_eq!(open_slots(nodes), ["93", "7"]);
        assert!(open_slots("a1 10.0.0.1:1@2 myself,master - 0 0 9 connected 0-16383\n").is_empty());
    }
}
