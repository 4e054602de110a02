//! The sessions in `docs/states.md` print what a server prints.

use std::{env, fs, time::Duration};

use limiter_core::Policy;
use limiter_rig::server::Server;
use tokio::runtime::Runtime;

use crate::{Connection, RedisLimiter, connect, scripts};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/states.md");

/// Precedes the text that reads the clock: the server's clock does not move.
const CLOCK: &str = "
local server = redis
local redis = { call = function(command, ...)
  if command == 'TIME' then
    return { 'SECONDS', '0' }
  end
  return server.call(command, ...)
end, pcall = server.pcall }
";

#[test]
fn sessions_in_the_documents_are_real() {
    let runtime = Runtime::new().unwrap();
    let server = Server::start();
    let connection = runtime.block_on(connect(&server.url())).unwrap();
    let written = fs::read_to_string(DOCUMENT).unwrap();
    let mut printed = String::new();
    let mut is_session = false;
    for line in written.lines() {
        if line.starts_with("```") {
            is_session = line == "```console";
        }
        if let Some(traffic) = line.strip_prefix("# The policy ").filter(|_| is_session) {
            server.command(&["FLUSHALL"]).unwrap();
            runtime.block_on(make(&connection, traffic));
        } else if is_session && !line.starts_with(['$', '`']) {
            // What it printed before.
            continue;
        }
        printed += &format!("{line}\n");
        if let Some(command) = line.strip_prefix("$ redis-cli ") {
            let command = command.replace('"', "");
            let reply = server.command(&command.split(' ').collect::<Vec<_>>()).unwrap();
            printed += &as_printed(&reply);
        }
    }
    if env::var_os("LIMITER_WRITE_DOCS").is_some() {
        fs::write(DOCUMENT, &printed).unwrap();
        return;
    }
    let hint = "run this test with LIMITER_WRITE_DOCS=1 to write the sessions anew";
    assert!(written == printed, "{DOCUMENT} is out of date: {hint}\n{printed}");
}

/// Makes the checks of a line such as `"api" is "10/min". 3 checks at 1767225600. 1 check by "9/h" at 1767225610.`
async fn make(connection: &Connection, traffic: &str) {
    let (policy, checks) = traffic.split_once(". ").unwrap();
    let texts: Vec<&str> = policy.split('"').skip(1).step_by(2).collect();
    let (name, limits) = texts.split_first().unwrap();
    let policy = match limits {
        [limit] => Policy::parse(name, limit).unwrap(),
        limits => {
            let limits = limits.iter().map(|limit| {
                let (name, limit) = limit.split_once('=').unwrap();
                Policy::parse(name, limit).unwrap()
            });
            Policy::all_of(name, limits).unwrap()
        }
    };
    for checks in checks.trim_end_matches('.').split(". ") {
        let (what, seconds) = checks.split_once(" at ").unwrap();
        let (number, by) = what.split_once(' ').unwrap();
        let by = by.trim_start_matches("checks").trim_start_matches("check");
        let limiter = RedisLimiter::builder(policy.clone())
            .server_clock(&(CLOCK.replace("SECONDS", seconds) + scripts::CLOCK))
            .deadline(Duration::from_secs(10))
            .build_on(connection.clone())
            .unwrap();
        let limiter = match by.strip_prefix(" by ") {
            Some(quota) => {
                let tier = Policy::parse("tier", quota.trim_matches('"')).unwrap();
                limiter.with_policy(&tier).unwrap()
            }
            None => limiter,
        };
        for _ in 0..number.parse().unwrap() {
            assert!(limiter.check("alice").await.unwrap().is_admitted(), "{traffic}");
        }
    }
}

/// Returns a reply as `redis-cli` prints it.
fn as_printed(reply: &str) -> String {
    let mut lines = reply.lines();
    let first = lines.next().unwrap();
    let quoted: Vec<String> =
        lines.filter(|line| !line.starts_with('$')).map(|line| format!("{line:?}")).collect();
    match first.split_at(1) {
        (":", number) => format!("(integer) {number}\n"),
        ("$", _) => quoted.join("\n") + "\n",
        ("*", _) => {
            let elements = quoted.iter().enumerate();
            elements.map(|(index, text)| format!("{}) {text}\n", index + 1)).collect()
        }
        _ => panic!("{reply:?}"),
    }
}
