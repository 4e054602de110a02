//! The state of a cluster, and slots that move, or whose move was interrupted.

use limiter_redis::{CallError, ScriptReply, Server};

use super::{Findings, commands::Denial};
use crate::read::{WITHIN, text};

/// Adds a problem for a cluster that refuses commands, and for slots that the server migrates or imports. A server
/// outside of a cluster has neither.
pub(super) async fn examine(server: &Server, findings: &mut Findings) {
    let info = server.send("INFO", &["cluster"], WITHIN).await;
    if info.is_ok_and(|info| text(&info).is_some_and(|info| info.contains("cluster_enabled:0"))) {
        return;
    }
    let mut reply = async |about| {
        let reply = server.send("CLUSTER", &[about], WITHIN).await;
        text_or_advice(server, about, reply, findings)
    };
    let (state, nodes) = (reply("INFO").await, reply("NODES").await);
    if let Some(state) = state.as_deref().and_then(state_of)
        && state != "ok"
    {
        let text = format!(
            "cluster_state is {state}: slots have no primary, or this node sees too few others, so it refuses commands"
        );
        let advice = "run redis-cli --cluster check, and start the nodes that are down or repair the network. Until then, \
                      limiters of its subjects return errors, or decide in memory";
        findings.problem(server.name(), text, advice);
    }
    let open = nodes.as_deref().map(open_slots).unwrap_or_default();
    if open.is_empty() {
        return;
    }
    let (slots, have) = match open.len() {
        1 => ("slot", "has"),
        _ => ("slots", "have"),
    };
    let text = format!(
        "{slots} {} {have} not moved to the end: until then, calls with several keys may fail there with TRYAGAIN: those \
         of policies with a log beside other limits, and of lists of demands",
        open.join(", ")
    );
    let advice = "wait until the cluster is resharded; after an interrupted reshard, run redis-cli --cluster fix";
    findings.problem(server.name(), text, advice);
}

/// Returns the text of a reply, and advises to allow a command that the user may not run.
fn text_or_advice(
    server: &Server,
    about: &str,
    reply: Result<ScriptReply, CallError>,
    findings: &mut Findings,
) -> Option<String> {
    match reply {
        Ok(reply) => text(&reply),
        Err(error) if Denial::of(&error) == Some(Denial::Command) => {
            let text =
                format!("the user may not run CLUSTER {about}, so the cluster is not checked");
            let advice = format!("allow the user +cluster|{}", about.to_lowercase());
            findings.advise(server.name(), text, &advice);
            None
        }
        Err(_) => None,
    }
}

/// Returns `cluster_state` in a reply to `CLUSTER INFO`.
fn state_of(info: &str) -> Option<&str> {
    info.lines().find_map(|line| line.strip_prefix("cluster_state:")).map(str::trim)
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
