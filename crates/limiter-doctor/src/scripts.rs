//! `scripts`: the scripts that limiters send, and whether servers have them.

use limiter_redis::{CallError, ScriptReply, Server as Node, scripts};

use crate::{
    Failure, Outcome,
    arguments::Server,
    read::{WITHIN, invalid},
};

/// A server, and whether it has each script, in order.
type Loaded = (String, Result<Vec<bool>, CallError>);

/// Prints the text of a script as it is sent.
pub(crate) fn print(name: &str) -> Result<Outcome, Failure> {
    let script = scripts::all().find(|(script, _)| *script == name);
    let names = || scripts::all().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let (_, text) = script.ok_or_else(|| {
        Failure::Usage(format!("invalid script {name:?}; use one of {}", names()))
    })?;
    Ok(Outcome { text: format!("{text}\n"), has_problem: false })
}

pub(crate) async fn run(server: &Server) -> Result<Outcome, Failure> {
    let scripts: Vec<_> =
        scripts::all().map(|(name, source)| (name, scripts::digest(source))).collect();
    let digests: Vec<&str> = scripts.iter().map(|(_, digest)| digest.as_str()).collect();
    let mut servers: Vec<Loaded> = Vec::new();
    if server.is_given() {
        for node in server.connect().await?.servers() {
            servers.push((node.name().to_owned(), loaded(&node, &digests).await));
        }
    }
    let mut text = String::new();
    for (index, (name, digest)) in scripts.iter().enumerate() {
        let on = servers.iter().filter_map(|(_, loaded)| loaded.as_ref().ok()?.get(index));
        let on: Vec<_> = on.collect();
        let number = on.iter().filter(|has| ***has).count();
        let where_loaded = match (number, on.len()) {
            (_, 0) => String::new(),
            (0, 1) => "  not loaded".to_owned(),
            (1, 1) => "  loaded".to_owned(),
            (number, all) => format!("  loaded on {number} of {all} servers"),
        };
        text += format!("{digest}  {name:30}{where_loaded}").trim_end();
        text += "\n";
    }
    let failed: Vec<_> = servers
        .iter()
        .filter_map(|(server, loaded)| Some((server, loaded.as_ref().err()?.to_string())))
        .collect();
    for (server, error) in &failed {
        text += &format!("PROBLEM: {server} did not reply which scripts it has: {error}\n");
    }
    Ok(Outcome { text, has_problem: !failed.is_empty() })
}

/// Returns whether a server has each script.
async fn loaded(server: &Node, digests: &[&str]) -> Result<Vec<bool>, CallError> {
    let arguments = [&["EXISTS"], digests].concat();
    let reply = server.send("SCRIPT", &arguments, WITHIN).await?;
    let ScriptReply::Array(items) = &reply else { return Err(invalid(&reply)) };
    Ok(items.iter().map(|item| *item == ScriptReply::Integer(1)).collect())
}
