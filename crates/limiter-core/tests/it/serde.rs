//! Configuration files: what is read, how it is written, and what each error says, and where.

use limiter_core::{Algorithm, Cost, ErrorKind, Limit, Policies, Policy, Quota, Slots};
use serde_json::json;

use crate::pairs;

const FILE: &str = r#"
search = "100/min burst 20 horizon 5min"

[login]
limit = "5/min by sliding-log"
[login.tiers]
staff = "50/min by sliding-log"
trusted = "20/min"

[api.limits]
burst = "10/s"
hourly = "100/h by sliding-log"
[api.tiers.premium]
burst = "100/s"
hourly = "1000/h by sliding-log"
[api.tiers.trial]
burst = "1/s"
hourly = "10/h"
"#;

#[test]
fn a_file_gives_the_policies_and_tiers_that_it_names() {
    let named = |name, text| Policy::parse(name, text).unwrap();
    let limits = |name, burst, hourly| {
        Policy::all_of(name, [named("burst", burst), named("hourly", hourly)]).unwrap()
    };
    let expected = Policies::new([
        named("search", "100/min burst 20 horizon 5min"),
        named("login", "5/min by sliding-log"),
        limits("api", "10/s", "100/h by sliding-log"),
    ])
    .and_then(|all| all.with_tier("login", named("staff", "50/min by sliding-log")))
    .and_then(|all| all.with_tier("login", named("trusted", "20/min by sliding-log")))
    .and_then(|all| all.with_tier("api", limits("premium", "100/s", "1000/h by sliding-log")))
    .and_then(|all| all.with_tier("api", limits("trial", "1/s", "10/h by sliding-log")))
    .unwrap();

    let policies: Policies = toml::from_str(FILE).unwrap();
    assert_eq!(policies, expected);
    let names: Vec<_> = policies.iter().map(Policy::name).collect();
    assert_eq!(names, ["api", "login", "search"]);
    let tiers = |name| policies.tiers(name).map(Policy::name).collect::<Vec<_>>();
    assert_eq!(tiers("login"), ["staff", "trusted"]);
    assert!(tiers("search").is_empty() && tiers("nothing").is_empty());
    let trusted = policies.tier("login", "trusted").unwrap();
    assert_eq!(trusted.limits()[0].to_string(), "20/min by sliding-log");
    assert_eq!(policies.get("login").unwrap().families(), trusted.families());
    assert_eq!(policies.tier("search", "trusted"), None);
    assert_eq!(policies.tier("nothing", "trusted"), None);
    assert_eq!(policies.get("nothing"), None);

    let json: serde_json::Value = toml::from_str(FILE).unwrap();
    assert_eq!(serde_json::from_value::<Policies>(json.clone()).unwrap(), expected);
    assert_eq!(serde_json::from_str::<Policies>(&json.to_string()).unwrap(), expected);
}

#[test]
fn tiers_may_precede_the_limit() {
    let text = r#"{"login": {"tiers": {"staff": "50/min"}, "limit": "5/min by sliding-log"}}"#;
    let policies: Policies = serde_json::from_str(text).unwrap();
    let staff = policies.tier("login", "staff").unwrap();
    assert_eq!(staff.limits()[0].algorithm(), Algorithm::SlidingLog);
}

#[test]
fn limit_and_limits_apply_together() {
    let text = r#"{"login": {"limit": "5/min", "limits": {"daily": "50/d"}}}"#;
    let policies: Policies = serde_json::from_str(text).unwrap();
    let limits = policies.get("login").unwrap().limits();
    let names: Vec<_> = limits.iter().map(Limit::name).collect();
    assert_eq!(names, ["daily", "login"]);
}

#[test]
fn invalid_tiers_are_refused() {
    let policy = |name, text| Policy::parse(name, text).unwrap();
    let all = || {
        let all = Policies::new([policy("a", "5/s")]).unwrap();
        all.with_tier("a", policy("t", "6/s")).unwrap()
    };
    let rows = [
        ("b", policy("t", "6/s"), ErrorKind::InvalidName),
        ("a", policy("a", "6/s"), ErrorKind::InvalidName),
        ("a", policy("t", "7/s"), ErrorKind::InvalidName),
        ("a", policy("u", "6/s by sliding-log"), ErrorKind::InvalidSetting),
    ];
    for (name, tier, kind) in rows {
        assert_eq!(all().with_tier(name, tier).unwrap_err().kind(), kind);
    }
    let queue = all().with_tier("a", policy("u", "6/s by leaky-queue depth 5")).unwrap();
    assert_eq!(queue.tiers("a").count(), 2);
    let twice = Policies::new([policy("a", "5/s"), policy("a", "6/s")]);
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::InvalidName);
}

#[test]
fn an_empty_file_has_no_policies() {
    assert_eq!(toml::from_str::<Policies>("").unwrap(), Policies::default());
}

#[test]
fn quotas_and_algorithms_are_texts_and_costs_are_numbers() {
    let quota = Quota::per_minute(100).with_burst(20);
    assert_eq!(serde_json::to_value(quota).unwrap(), json!("100/min burst 20"));
    assert_eq!(serde_json::from_value::<Quota>(json!("100/min burst 20")).unwrap(), quota);

    let algorithms = [
        (Algorithm::AlignedWindow, "aligned-window"),
        (Algorithm::SubWindows(Slots::loose(6)), "sub-windows 6 slots loose"),
    ];
    for (algorithm, text) in algorithms {
        assert_eq!(serde_json::to_value(algorithm).unwrap(), json!(text));
        assert_eq!(serde_json::from_value::<Algorithm>(json!(text)).unwrap(), algorithm);
    }

    let cost = Cost::of(u64::MAX);
    assert_eq!(serde_json::to_value(cost).unwrap(), json!(u64::MAX));
    assert_eq!(serde_json::from_value::<Cost>(json!(u64::MAX)).unwrap(), cost);
    let one: std::collections::HashMap<String, Cost> = toml::from_str("upload = 10").unwrap();
    assert_eq!(one["upload"].get(), 10);

    let errors = [
        serde_json::from_value::<Quota>(json!(5)).unwrap_err(),
        serde_json::from_value::<Quota>(json!("5")).unwrap_err(),
        serde_json::from_value::<Algorithm>(json!(null)).unwrap_err(),
        serde_json::from_value::<Algorithm>(json!("leaky-queue")).unwrap_err(),
        serde_json::from_value::<Cost>(json!(0)).unwrap_err(),
        serde_json::from_value::<Cost>(json!(-1)).unwrap_err(),
        serde_json::from_value::<Cost>(json!("1")).unwrap_err(),
    ];
    assert_eq!(
        errors.map(|error| error.to_string()),
        [
            "invalid type: integer `5`, expected a string",
            "invalid quota \"5\": it has no \"/\"; write permits per time, as in 100/min",
            "invalid type: null, expected a string",
            "invalid algorithm \"leaky-queue\": unknown algorithm \"leaky-queue\"; use gcra, \
             token-bucket, leaky-bucket, leaky-queue depth N, fixed-window, aligned-window, \
             sub-windows N slots [loose] [paced], sliding-counter or sliding-log",
            "invalid cost 0: it must be at least 1",
            "invalid value: integer `-1`, expected u64",
            "invalid type: string \"1\", expected u64",
        ]
    );
}

#[test]
fn an_error_reports_the_line_and_quotes_the_value() {
    let error = toml::from_str::<Policies>("search = \"100/min\"\nlogin = \"5/fortnight\"\n");
    let message = r#"TOML parse error at line 2, column 9
  |
2 | login = "5/fortnight"
  |         ^^^^^^^^^^^^^
"login": invalid limit "5/fortnight": "fortnight" is not a time; use a whole number and one of ms, s, min, h or d, as in 90s or 500ms
"#;
    assert_eq!(error.unwrap_err().to_string(), message);

    let rows = [
        ("search = 5", (1, 10)),
        ("[login]\nlimit = \"5/min\"\nlimt = \"6/min\"", (3, 8)),
        ("[login]\nlimit = \"5/min\"\n[login.tiers]\nstaff = \"6/min by log\"", (4, 9)),
        ("[api.limits]\nburst = \"5/s\"\nhourly = 100", (3, 10)),
        // What needs the whole policy is reported at its beginning.
        ("a = \"1/s\"\n[login]\nlimit = \"5/min burst 6 by sliding-log\"", (2, 1)),
        ("a = \"1/s\"\n[login]\ntiers.staff = \"5/min\"", (2, 1)),
    ];
    for (file, (line, column)) in rows {
        let error = toml::from_str::<Policies>(file).unwrap_err().to_string();
        let place = format!("TOML parse error at line {line}, column {column}\n");
        assert!(error.starts_with(&place), "{error}");
    }
}

#[test]
fn invalid_files_are_refused_by_the_part_that_is_wrong() {
    for (text, message) in pairs(REFUSED) {
        let error = serde_json::from_str::<Policies>(text).unwrap_err().to_string();
        let error = error.split(" at line ").next().unwrap();
        assert_eq!(error, message, "{text}");
    }
}

/// A file, and below it the error.
const REFUSED: &str = r#"
[]
    invalid type: sequence, expected a table of policies by name
{"a": "5/fortnight"}
    "a": invalid limit "5/fortnight": "fortnight" is not a time; use a whole number and one of ms, s, min, h or d, as in 90s or 500ms
{"a": 5}
    invalid type: integer `5`, expected a limit such as "100/min burst 20", or a table, for "a"
{"a": {}}
    "a": it has no limit; add one, or remove the table
{"a": {"limit": 5}}
    invalid type: integer `5`, expected a limit such as "100/min burst 20", or a table, for "a.limit"
{"a": {"limits": "5/s"}}
    "a.limits": unexpected field; use limit, limits.NAME, tiers.NAME or tiers.NAME.LIMIT
{"a": {"tiers": {"t": "6/s"}}}
    "a.tiers.t": unknown policy "a"; add its limits before its tiers
{"a": {"limit": "5/s", "tiers": {"t": {}}}}
    "a.tiers.t": it has no limit; add one, or remove the table
{"a": {"limit": "5/s", "limt": {}}}
    "a.limt": it has no limit; add one, or remove the table
{"a": {"limits": {}}}
    "a.limits": it has no limit; add one, or remove the table
{"a": {"limits": {"b": "5/s burst 6 by sliding-log"}}}
    "a.limits.b": invalid quota "5/s burst 6": sliding-log has no burst of its own; leave the burst out
{"a": {"limits": {"": "5/s"}}}
    "a": invalid limit name "": use at least one character
{"a": {"limits": {"b": "5/s", "c": "5/s"}}}
    "a": invalid policy "a": "b" and "c" are the same limit (5/s); leave one out
{"a": {"limits": {"b": "5/s", "c": "9/d by"}}}
    "a.limits.c": invalid limit "9/d by": "by" has no value; add one, or remove it
{"a": {"limit": "5/s", "tiers": {"": "6/s"}}}
    "a.tiers.": invalid policy name "": use at least one character
{"a": {"limits": {"b": "5/s", "b": "60/min"}}}
    "a.limits.b" is given twice; remove one
{"a": {"limit": "5/s", "limit": "5/s"}}
    "a.limit" is given twice; remove one
{"a": {"limit": "5/s", "limt": "5/s"}}
    "a.limt": unexpected field; use limit, limits.NAME, tiers.NAME or tiers.NAME.LIMIT
{"a": {"limit": "5/s", "name": "a"}}
    "a.name": unexpected field; use limit, limits.NAME, tiers.NAME or tiers.NAME.LIMIT
{"a": {"limit": "5/s", "tiers": "6/s"}}
    "a.tiers": unexpected field; use limit, limits.NAME, tiers.NAME or tiers.NAME.LIMIT
{"a": {"limit": "5/s", "tiers": {"a": "6/s"}}}
    "a.tiers.a": invalid tier "a": the policy or another tier has this name; rename the tier
{"a": {"limit": "5/s", "tiers": {"t": "6/s", "t": "7/s"}}}
    "a.tiers.t" is given twice; remove one
{"a": {"limit": "5/s", "tiers": {}, "tiers": {}}}
    "a.tiers" is given twice; remove one
{"a": {"limit": "5/s", "tiers": {"t": 6}}}
    invalid type: integer `6`, expected a limit such as "100/min burst 20", or a table, for "a.tiers.t"
{"a": {"limit": "5/s", "tiers": {"t": "6/x"}}}
    "a.tiers.t": invalid limit "6/x": "x" is not a time; use a whole number and one of ms, s, min, h or d, as in 90s or 500ms
{"a": {"limit": "5/s", "tiers": {"t": "6/s by sliding-log"}}}
    "a.tiers.t": invalid policy "t": it limits by sliding-log, and the states of "a" are by gcra; use the same algorithms, and the same names for several limits
{"a": {"limit": "5/s by sliding-log", "tiers": {"t": "6/s burst 7"}}}
    "a.tiers.t": invalid quota "6/s burst 7": sliding-log has no burst of its own; leave the burst out
{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": "6/s"}}}
    "a.tiers.t": invalid limit "t": the policy has no limit of this name; rename it or add its algorithm
{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s", "d": "6/h"}}}}
    "a.tiers.t.d": invalid limit "d": the policy has no limit of this name; rename it or add its algorithm
{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s"}}}}
    "a.tiers.t": invalid policy "t": it limits by gcra, and the states of "a" are by gcra ("b") and gcra ("c"); use the same algorithms, and the same names for several limits
{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s", "d": "6/h by gcra"}}}}
    "a.tiers.t": invalid policy "t": it limits by gcra ("b") and gcra ("d"), and the states of "a" are by gcra ("b") and gcra ("c"); use the same algorithms, and the same names for several limits
{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s", "c": "6/s horizon 1.5h"}}}}
    "a.tiers.t.c": invalid limit "6/s horizon 1.5h": "1.5h" is not a time; use a whole number and one of ms, s, min, h or d, as in 90s or 500ms
{"a": "5/s", "a": "5/s"}
    "a" is given twice; remove one
{"größe": "5/s"}
    "größe": invalid policy name "größe": use printable ASCII only
{"": "5/s"}
    "": invalid policy name "": use at least one character
{"5": "5/s", "6": {"limit": "x"}}
    "6.limit": invalid limit "x": it has no "/"; write permits per time, as in 100/min
"#;
