//! `reset`: makes a subject fresh.

use limiter_redis::{LEASES, ScriptCall, ScriptClient as _, ScriptReply};
use serde_json::json;

use crate::{
    Failure, Outcome,
    arguments::{Server, Target},
    read::{WITHIN, invalid},
    stored::Family,
    target::{self, Found, REPLACED, Targets},
    words,
};

const RESET: &str = "return redis.call('DEL', KEYS[1])";

pub(crate) async fn run(server: &Server, target: &Target) -> Result<Outcome, Failure> {
    let connection = server.connect().await?;
    let Targets { keys, searched, note, may_be_replaced } =
        target::find(server, &connection, target).await?;
    let (mut deleted, mut missing) = (Vec::new(), Vec::new());
    for Found { key, parts, .. } in keys {
        // In a cluster, a call of two keys fails while their slot is migrated.
        let beside =
            (parts.family() == Ok(Family::Gcra)).then(|| [&key, LEASES.as_bytes()].concat());
        let is_of_leases = [false, true];
        for (key, is_of_leases) in [Some(key), beside].into_iter().flatten().zip(is_of_leases) {
            let shown = words::text(&key);
            match connection.run(&ScriptCall::new(RESET, vec![key.into()]), WITHIN).await? {
                ScriptReply::Integer(0) if is_of_leases => {}
                ScriptReply::Integer(0) => missing.push(shown),
                ScriptReply::Integer(_) => deleted.push(shown),
                reply => return Err(invalid(&reply).into()),
            }
        }
    }
    let result = if !deleted.is_empty() {
        let deleted: String = deleted.iter().map(|key| format!("Deleted {key}\n")).collect();
        deleted
            + "The subject is fresh. A process that has cached a denial refuses it for at most one more \
               second.\n"
    } else if may_be_replaced {
        REPLACED.to_owned()
    } else if searched.is_empty() {
        format!("Nothing is stored at {}, so nothing was deleted.\n", missing.join(" and "))
    } else {
        format!(
            "No key begins with {}, so nothing was deleted. Check the subject, the --kind, the --prefix \
             and the policy's name.\n",
            searched.join(" or ")
        )
    };
    let text = note + &result;
    let has_problem = deleted.is_empty();
    Ok(Outcome { text, json: json!({ "deleted": deleted }), has_problem })
}
