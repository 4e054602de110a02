//! The lists of commands and scripts, which operators allow and the doctor uses, are those that are sent.

use std::{collections::BTreeSet, fs, path::Path};

use limiter_core::{Cost, Policy};
use limiter_test::bounds::cases::policies;

use crate::{
    ScriptCall,
    call::check::{Charge, Route},
    client::Form,
    scripts::{self, Plan},
};

/// Adds the command of each `call('X'`, `pcall('X'` and `try('X'` in a folder's scripts.
fn collect(folder: &Path, commands: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, commands);
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            let text = fs::read_to_string(path).unwrap();
            commands.extend(text.lines().flat_map(called));
        }
    }
}

/// Returns the quoted upper-case words of a line that follow `call(`, `pcall(` or `try(`.
fn called(line: &str) -> Vec<String> {
    let code = line.split("--").next().unwrap_or_default();
    let after = ["call(", "try("].into_iter().flat_map(|call| code.split(call).skip(1));
    let words = after.filter_map(|after| {
        let after = after.trim_start();
        let quote = after.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let (word, _) = after.get(1..)?.split_once(quote)?;
        let is_command = !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
        is_command.then(|| word.to_owned())
    });
    words.collect()
}

#[test]
fn the_list_has_the_commands_that_scripts_call() {
    let line =
        "x = redis.call('GET', k) or pcall( \"SET\", k), try('LLEN'), call(f) -- call('KEYS')";
    assert_eq!(called(line), ["GET", "SET", "LLEN"]);

    let mut commands = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts"), &mut commands);
    let listed = scripts::SCRIPT_COMMANDS.iter().chain(scripts::IN_FLIGHT_COMMANDS);
    let listed: BTreeSet<_> = listed.map(ToString::to_string).collect();
    assert_eq!(listed, commands, "update the lists of commands in src/scripts.rs");
}

#[test]
fn the_list_has_the_commands_that_send_scripts() {
    let mut call = ScriptCall::new("return 1", Vec::new());
    let name = |call: &ScriptCall| String::from_utf8(call.args()[0].to_vec()).unwrap();
    let by_source = name(&call);
    call.form = Form::Evalsha;
    assert_eq!([name(&call), by_source], scripts::CALL_COMMANDS);
}

#[test]
fn the_list_has_the_scripts_of_all_policies() {
    let listed: BTreeSet<_> = scripts::all().map(|(_, source)| scripts::digest(source)).collect();
    let names: BTreeSet<_> = scripts::all().map(|(name, _)| name).collect();
    assert_eq!((listed.len(), names.len()), (scripts::all().count(), scripts::all().count()));

    let policies: Vec<_> = policies().into_iter().map(|(_, policy)| policy).collect();
    let pairs = policies.iter().zip(policies.iter().rev()).filter_map(|(one, other)| {
        let limits = [one, other].map(|policy| policy.limits()[0].clone());
        let named = limits
            .iter()
            .zip(["a", "b"])
            .map(|(limit, name)| Policy::new(name, limit.algorithm(), *limit.quota()).unwrap());
        Policy::all_of("api", named).ok()
    });
    for policy in policies.iter().cloned().chain(pairs) {
        let plan = Plan::new(&policy, policy.name(), true);
        let [own, leased] = [0, 100].map(|wanted| Charge::of(&plan, Cost::ONE, wanted).route);
        for call in [own, leased, Route::Lease, Route::List].map(Route::begin) {
            let digest = String::from_utf8(call.args()[1].to_vec()).unwrap();
            assert!(listed.contains(&digest), "{policy:?}: {call:?}");
        }
    }
}

#[test]
fn the_users_of_the_guide_may_send_all_commands() {
    let scripts = scripts::SCRIPT_COMMANDS.iter().chain(scripts::IN_FLIGHT_COMMANDS);
    let permissions = scripts::CALL_COMMANDS.iter().chain(scripts);
    let permissions = permissions.map(|command| format!("+{}", command.to_lowercase()));
    let permissions: BTreeSet<_> = permissions.collect();
    let guide = include_str!("../../docs/guide/production.md");
    let of_user = |name: &str| {
        let begin = format!("user {name} ");
        let user = guide.lines().find_map(|line| line.strip_prefix(&begin)).unwrap();
        let words = user.split_whitespace().filter(|word| word.starts_with('+'));
        words.map(ToString::to_string).collect::<BTreeSet<_>>()
    };
    let by_connections = ["+client|setname", "+ping"].map(ToString::to_string);
    let expected = permissions.into_iter().chain(by_connections).collect();
    assert_eq!(of_user("limiter"), expected, "the service's user in docs/guide/production.md");
    // The doctor's own tests run all of its commands as this user.
    assert!(of_user("doctor").is_superset(&expected), "the doctor's user in production.md");
}
