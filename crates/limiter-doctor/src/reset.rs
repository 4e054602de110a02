//! `reset`: makes a subject fresh.

use limiter_redis::{ScriptCall, ScriptClient as _, ScriptReply};
use serde_json::json;

use crate::{
    Failure, Outcome,
    arguments::{Server, Target},
    read::{WITHIN, invalid},
    target,
};

const RESET: &str = "return redis.call('DEL', KEYS[1])";

pub(crate) async fn run(server: &Server, target: &Target) -> Result<Outcome, Failure> {
    let connection = server.connect().await?;
    let key = target::find(server, &connection, target)?.key;
    let shown = String::from_utf8_lossy(&key).into_owned();
    let call = ScriptCall::new(RESET, vec![key]);
    let reply = connection.run(&call, WITHIN).await?;
    let ScriptReply::Integer(deleted) = reply else { return Err(invalid(&reply).into()) };
    let text = if deleted > 0 {
        format!(
            "Deleted {shown}: the subject is fresh. A process that has cached a denial refuses it for \
             at most one more second.\n"
        )
    } else {
        format!("Nothing is stored at {shown}: the subject was fresh.\n")
    };
    let json = json!({ "key": shown, "deleted": deleted > 0 });
    Ok(Outcome { text, json, has_problem: false })
}
