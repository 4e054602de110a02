//! What a configuration file says is what the limiters do, or the error tells what is wrong where.

use limiter_core::{
    Cost, Kind, Policies, Policy, Quota,
    algorithm::{Slots, Start},
};
use serde_json::json;

const FILE: &str = r#"
search = "100/min burst 20"

[login]
limit = "5/min by sliding-log"
[login.tiers]
staff = "50/min by sliding-log"
trusted = "20/min"

[api.limits]
burst = "10/s"
hourly = "1000/h by sliding-log"
[api.tiers.premium]
burst = "100/s"
hourly = "10000/h by sliding-log"
[api.tiers.trial]
burst = "1/s"
hourly = "10/h"
"#;

#[test]
fn a_file_gives_the_policies_that_it_says() {
    let named = |name, text| Policy::parse(name, text).unwrap();
    let limits = |name, burst, hourly| {
        Policy::several(name, [named("burst", burst), named("hourly", hourly)]).unwrap()
    };
    let login = named("login", "5/min by sliding-log")
        .with_tier(named("staff", "50/min by sliding-log"))
        .and_then(|policy| policy.with_tier(named("trusted", "20/min by sliding-log")));
    let api = limits("api", "10/s", "1000/h by sliding-log")
        .with_tier(limits("premium", "100/s", "10000/h by sliding-log"))
        .and_then(|policy| policy.with_tier(limits("trial", "1/s", "10/h by sliding-log")));
    let search = named("search", "100/min burst 20");
    let expected = Policies::new([search, login.unwrap(), api.unwrap()]).unwrap();

    let policies: Policies = toml::from_str(FILE).unwrap();
    assert_eq!(policies, expected);
    assert_eq!((policies.len(), policies.is_empty()), (3, false));
    let names: Vec<_> = policies.iter().map(Policy::name).collect();
    assert_eq!(names, ["api", "login", "search"]);
    assert_eq!(policies.get("search").unwrap().limits()[0].quota().burst(), 20);
    assert_eq!(policies.get("nothing"), None);

    let json: serde_json::Value = toml::from_str(FILE).unwrap();
    assert_eq!(serde_json::from_value::<Policies>(json.clone()).unwrap(), expected);
    assert_eq!(serde_json::from_str::<Policies>(&json.to_string()).unwrap(), expected);
}

#[test]
fn tiers_may_come_before_the_limit() {
    let text = r#"{"login": {"tiers": {"staff": "50/min"}, "limit": "5/min by sliding-log"}}"#;
    let policies: Policies = serde_json::from_str(text).unwrap();
    let login = policies.get("login").unwrap();
    assert_eq!(login.tiers()[0].limits()[0].kind(), Kind::SlidingLog);
}

#[test]
fn an_empty_file_has_no_policies() {
    assert_eq!(toml::from_str::<Policies>("").unwrap(), Policies::default());
    assert_eq!(toml::to_string(&Policies::default()).unwrap(), "");
}

#[test]
fn policies_are_written_in_the_shortest_form() {
    let policies: Policies = toml::from_str(FILE).unwrap();
    let written = serde_json::to_value(&policies).unwrap();
    let shortest = json!({
        "search": "100/min burst 20",
        "login": {
            "limit": "5/min by sliding-log",
            "tiers": {"staff": "50/min", "trusted": "20/min"},
        },
        "api": {
            "limits": {"burst": "10/s", "hourly": "1000/h by sliding-log"},
            "tiers": {
                "premium": {"burst": "100/s", "hourly": "10000/h"},
                "trial": {"burst": "1/s", "hourly": "10/h"},
            },
        },
    });
    assert_eq!(written, shortest);
    let toml = toml::to_string(&policies).unwrap();
    assert_eq!(toml::from_str::<Policies>(&toml).unwrap(), policies, "{toml}");
}

/// Policies that are not built as a file would say them: limits and tiers under other names.
#[test]
fn every_policy_reads_back() {
    let parse = |name, text| Policy::parse(name, text).unwrap();
    let several = |name, limits: &[Policy]| Policy::several(name, limits.to_vec()).unwrap();
    let (a, b) = (parse("a", "1/s"), parse("b", "60/h by leaky-queue depth 5"));
    let (twice_a, more_b) = (parse("a", "2/s"), parse("b", "80/h by leaky-queue depth 6"));
    let policies = [
        parse("p", "1/s"),
        parse("p", "1/s by token-bucket"),
        parse("quoted \" and \\", "1/s"),
        several("p", std::slice::from_ref(&a)),
        parse("p", "1/s").with_tier(several("t", &[parse("x", "2/s")])).unwrap(),
        several("p", std::slice::from_ref(&a)).with_tier(parse("t", "2/s")).unwrap(),
        parse("p", "1/s by leaky-queue depth 1")
            .with_tier(parse("t", "2/s by leaky-queue depth 2"))
            .unwrap(),
        parse("p", "6/s by sub-windows 6 slots")
            .with_tier(parse("t", "6/s by sub-windows 6 slots loose"))
            .unwrap(),
        several("p", &[a.clone(), b.clone()])
            .with_tier(several("t", &[twice_a, b]))
            .and_then(|policy| policy.with_tier(several("u", &[a, more_b])))
            .unwrap(),
    ];
    for policy in policies {
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy, "{json}");
        let toml = toml::to_string(&policy).unwrap();
        assert_eq!(toml::from_str::<Policy>(&toml).unwrap(), policy, "{toml}");
        let all = Policies::new([policy]).unwrap();
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Policies>(&json).unwrap(), all, "{json}");
        let toml = toml::to_string(&all).unwrap();
        assert_eq!(toml::from_str::<Policies>(&toml).unwrap(), all, "{toml}");
    }
}

#[test]
fn a_policy_alone_has_its_name_in_a_field() {
    let policy = Policy::parse("search", "100/min").unwrap();
    let json = json!({"name": "search", "limit": "100/min"});
    assert_eq!(serde_json::to_value(&policy).unwrap(), json);
    assert_eq!(serde_json::from_value::<Policy>(json).unwrap(), policy);
    for (json, message) in [
        (
            json!("100/min"),
            "invalid type: string \"100/min\", expected a table with the fields name, and limit or limits",
        ),
        (json!({"limit": "100/min"}), "a policy has no name; add the field name"),
        (
            json!({"name": "search"}),
            "the policy \"search\": there is no limit; add limit or limits",
        ),
        (
            json!({"limit": "100/min", "rate": 1}),
            "the policy: \"rate\" is no field; use name, limit or limits, and tiers",
        ),
    ] {
        assert_eq!(serde_json::from_value::<Policy>(json).unwrap_err().to_string(), message);
    }
}

#[test]
fn quotas_and_kinds_are_texts_and_costs_are_numbers() {
    let quota = Quota::per_minute(100).and_then(|quota| quota.with_burst(20)).unwrap();
    assert_eq!(serde_json::to_value(quota).unwrap(), json!("100/min burst 20"));
    assert_eq!(serde_json::from_value::<Quota>(json!("100/min burst 20")).unwrap(), quota);

    let kinds = [
        (Kind::FixedWindow(Start::Aligned), "fixed-window aligned"),
        (Kind::SubWindows(Slots::loose(6).unwrap()), "sub-windows 6 slots loose"),
    ];
    for (kind, text) in kinds {
        assert_eq!(serde_json::to_value(kind).unwrap(), json!(text));
        assert_eq!(serde_json::from_value::<Kind>(json!(text)).unwrap(), kind);
    }

    let cost = Cost::new(u64::MAX).unwrap();
    assert_eq!(serde_json::to_value(cost).unwrap(), json!(u64::MAX));
    assert_eq!(serde_json::from_value::<Cost>(json!(u64::MAX)).unwrap(), cost);
    let one: std::collections::HashMap<String, Cost> = toml::from_str("upload = 10").unwrap();
    assert_eq!(one["upload"].get(), 10);

    let errors = [
        serde_json::from_value::<Quota>(json!(5)).unwrap_err(),
        serde_json::from_value::<Quota>(json!("5")).unwrap_err(),
        serde_json::from_value::<Kind>(json!(null)).unwrap_err(),
        serde_json::from_value::<Kind>(json!("leaky-queue")).unwrap_err(),
        serde_json::from_value::<Cost>(json!(0)).unwrap_err(),
        serde_json::from_value::<Cost>(json!(-1)).unwrap_err(),
        serde_json::from_value::<Cost>(json!("1")).unwrap_err(),
    ];
    assert_eq!(
        errors.map(|error| error.to_string()),
        [
            "invalid type: integer `5`, expected a quota, as in \"100/min burst 20\"",
            "a quota \"5\": there is no \"/\"; write permits per time, as in 100/min",
            "invalid type: null, expected an algorithm, as in \"sliding-log\"",
            "an algorithm \"leaky-queue\": write leaky-queue depth N",
            "a cost of 0 permits: use at least 1",
            "invalid value: integer `-1`, expected a number of permits, at least 1",
            "invalid type: string \"1\", expected a number of permits, at least 1",
        ]
    );
}

#[test]
fn a_wrong_file_is_refused_with_the_line_and_the_value() {
    let error = toml::from_str::<Policies>("search = \"100/min\"\nlogin = \"5/fortnight\"\n");
    let message = r#"TOML parse error at line 2, column 9
  |
2 | login = "5/fortnight"
  |         ^^^^^^^^^^^^^
the policy "login": a quota "5/fortnight": "fortnight" is no unit of time; use ms, s, min, h or d
"#;
    assert_eq!(error.unwrap_err().to_string(), message);

    let rows = [
        ("search = 5", (1, 10)),
        ("[login]\nlimit = \"5/min\"\nlimt = \"6/min\"", (3, 1)),
        ("[login]\nlimit = \"5/min\"\nlimits.a = \"6/min\"", (3, 1)),
        ("[login]\nlimit = \"5/min\"\n[login.tiers]\nstaff = \"6/min by log\"", (4, 9)),
        ("[api.limits]\nburst = \"5/s\"\nhourly = 100", (3, 10)),
        // What needs the whole policy is told at its beginning.
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
fn what_makes_no_policy_is_refused_in_words_that_quote_it() {
    for (text, message) in REFUSED {
        let error = serde_json::from_str::<Policies>(text).unwrap_err().to_string();
        let error = error.split(" at line ").next().unwrap();
        assert_eq!(error, *message, "{text}");
    }
}

const REFUSED: &[(&str, &str)] = &[
    ("[]", "invalid type: sequence, expected a table of policies by name"),
    (
        r#"{"a": "5/fortnight"}"#,
        r#"the policy "a": a quota "5/fortnight": "fortnight" is no unit of time; use ms, s, min, h or d"#,
    ),
    (
        r#"{"a": 5}"#,
        r#"invalid type: integer `5`, expected a limit as in "100/min burst 20", or a table with the field limit or limits, for the policy "a""#,
    ),
    (
        r#"{"a": null}"#,
        r#"invalid type: null, expected a limit as in "100/min burst 20", or a table with the field limit or limits, for the policy "a""#,
    ),
    (r#"{"a": {}}"#, r#"the policy "a": there is no limit; add limit or limits"#),
    (
        r#"{"a": {"limit": 5}}"#,
        r#"invalid type: integer `5`, expected a limit as in "100/min burst 20" for the policy "a""#,
    ),
    (
        r#"{"a": {"limit": {"b": "5/s"}}}"#,
        r#"invalid type: map, expected a limit as in "100/min burst 20" for the policy "a""#,
    ),
    (
        r#"{"a": {"limits": "5/s"}}"#,
        r#"invalid type: string "5/s", expected a table of limits by name for the policy "a""#,
    ),
    (r#"{"a": {"limits": {}}}"#, r#"the policy "a" of 0 limits: use 1 to 8"#),
    (
        r#"{"a": {"limits": {"b": 5}}}"#,
        r#"invalid type: integer `5`, expected a limit as in "100/min burst 20" for the limit "b" of the policy "a""#,
    ),
    (
        r#"{"a": {"limits": {"b": "5"}}}"#,
        r#"the limit "b" of the policy "a": a quota "5": there is no "/"; write permits per time, as in 100/min"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s burst 6 by sliding-log"}}}"#,
        r#"the limit "b" of the policy "a": a quota of 5/s burst 6 in a window: the permits of a window are its burst; leave the burst out"#,
    ),
    (
        r#"{"a": {"limits": {"": "5/s"}}}"#,
        r#"the limit "" of the policy "a": the policy name "": it is empty"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "5/min"}}}"#,
        r#"the policy "a" limits to 5/s ("b") and to 5/min ("c"): a shorter window needs fewer permits than a longer one, else one of the two never refuses"#,
    ),
    (r#"{"a": {"limits": {"b": "5/s", "b": "60/min"}}}"#, r#"the policy "a" has two limits "b""#),
    (
        r#"{"a": {"limit": "5/s", "limits": {"b": "5/s"}}}"#,
        r#"the policy "a": "limits" comes second; use either limit or limits"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "limit": "5/s"}}"#,
        r#"the policy "a": "limit" comes second; use either limit or limits"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "limt": "5/s"}}"#,
        r#"the policy "a": "limt" is no field; use limit or limits, and tiers"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "name": "a"}}"#,
        r#"the policy "a": "name" is no field; use limit or limits, and tiers"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": "6/s"}}"#,
        r#"invalid type: string "6/s", expected a table of tiers by name for the policy "a""#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"a": "6/s"}}}"#,
        r#"the policy "a" has the tier "a" already"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"t": "6/s", "t": "7/s"}}}"#,
        r#"the policy "a" has the tier "t" already"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {}, "tiers": {}}}"#,
        r#"the policy "a": "tiers" comes twice; use it once"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"t": 6}}}"#,
        r#"invalid type: integer `6`, expected a limit as in "100/min burst 20", or a table of limits by name, for the tier "t" of the policy "a""#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"t": "6/x"}}}"#,
        r#"the tier "t" of the policy "a": a quota "6/x": "x" is no unit of time; use ms, s, min, h or d"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"t": "6/s by sliding-log"}}}"#,
        r#"the tier "t" of the policy "a": "a" limits by gcra, and "t" by sliding-log: a key's state can't serve both"#,
    ),
    (
        r#"{"a": {"limit": "5/s by sliding-log", "tiers": {"t": "6/s burst 7"}}}"#,
        r#"the tier "t" of the policy "a": a quota of 6/s burst 7 in a window: the permits of a window are its burst; leave the burst out"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": "6/s"}}}"#,
        r#"the tier "t" of the policy "a": the policy has several limits; give the tier's by their names, "b", "c""#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s", "d": "6/h"}}}}"#,
        r#"the limit "d" of the tier "t" of the policy "a": the policy has several limits; give the tier's by their names, "b", "c""#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s"}}}}"#,
        r#"the tier "t" of the policy "a": "a" limits by gcra ("b") and gcra ("c"), and "t" by gcra ("b"): a key's state can't serve both"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s", "c": "4/h"}}}}"#,
        r#"the tier "t" of the policy "a": the policy "t" limits to 5/s ("b") and to 4/h ("c"): a shorter window needs fewer permits than a longer one, else one of the two never refuses"#,
    ),
    (r#"{"a": "5/s", "a": "5/s"}"#, r#"there are two policies "a""#),
    (
        r#"{"größe": "5/s"}"#,
        r#"the policy name "größe": only printable ASCII can stand in a header field"#,
    ),
    (r#"{"": "5/s"}"#, r#"the policy name "": it is empty"#),
    (
        r#"{"5": "5/s", "6": {"limit": "x"}}"#,
        r#"the policy "6": a quota "x": there is no "/"; write permits per time, as in 100/min"#,
    ),
];
